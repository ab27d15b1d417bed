//! The section `expander`: the strategies that choose among node groups for cluster-autoscaler.

use std::collections::BTreeMap;
use std::path::Path;

use crate::document::decode::{self, Cursor, Fields};
use crate::document::{ConfigError, Value};
use crate::expander::ExpanderConfig;
use crate::expander::price::{NodePrice, Prices};
use crate::expander::priorities::{PrioritySource, pattern, priorities};
use crate::expander::strategy::{self, Strategy};

/// The section as written in a file: absent fields are left to the flags and the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpanderSection {
    strategies: Option<Vec<Strategy>>,
    priorities: Option<PrioritySource>,
    prices: Option<Prices>,
}

/// Resolves the chain: the flag's, else the file's, else the default, with the file's tables.
///
/// # Errors
/// [`ConfigError::Setting`] for a chain that names a strategy twice or one whose table is missing.
pub(super) fn resolve(
    flag: &[Strategy],
    section: Option<&ExpanderSection>,
) -> Result<ExpanderConfig, ConfigError> {
    let ExpanderSection { strategies, priorities, prices } = section.cloned().unwrap_or_default();
    let in_file = strategies.unwrap_or_else(|| ExpanderConfig::default().strategies);
    let strategies = if flag.is_empty() { in_file } else { flag.to_vec() };
    let refuse =
        |reason: String| Err(ConfigError::Setting { name: "--expander".to_owned(), reason });
    if let Some(strategy) = strategy::repeated(&strategies) {
        return refuse(format!("`{strategy}` is named twice"));
    }
    let needs = |strategy, table| {
        refuse(format!(
            "`{strategy}` needs {table} in the section `expander` of the configuration file"
        ))
    };
    if strategies.contains(&Strategy::Priority) && priorities.is_none() {
        return needs(Strategy::Priority, "`priorities` or `prioritiesFile`");
    }
    if strategies.contains(&Strategy::Price) && prices.is_none() {
        return needs(Strategy::Price, "`prices`");
    }
    Ok(ExpanderConfig { strategies, priorities, prices })
}

/// Decodes the section; `directory` is where relative paths start.
pub(super) fn section(value: Cursor<'_>, directory: &Path) -> Option<ExpanderSection> {
    value.object(|fields| {
        let inline = fields.take("priorities", priorities);
        let file = fields
            .take("prioritiesFile", |value| decode::text(value).map(|text| directory.join(text)));
        let priorities = match (inline, file) {
            (Some(_), Some(_)) => {
                let reason = "`priorities` and `prioritiesFile` exclude each other";
                fields.object().report(reason);
                None
            }
            (Some(inline), None) => Some(PrioritySource::Inline(inline)),
            (None, Some(path)) => Some(PrioritySource::File(path)),
            (None, None) => None,
        };
        ExpanderSection {
            strategies: fields.take("strategies", strategies),
            priorities,
            prices: fields.take("prices", prices),
        }
    })
}

fn strategies(value: Cursor<'_>) -> Option<Vec<Strategy>> {
    let mut chain = Vec::new();
    value.list(|item| {
        let name = decode::text(item)?;
        match strategy::parse(&name) {
            Ok(strategy) if chain.contains(&strategy) => {
                item.report(format!("`{strategy}` is named twice"));
            }
            Ok(strategy) => chain.push(strategy),
            Err(reason) => item.report(reason),
        }
        Some(())
    })?;
    if chain.is_empty() {
        value.report("names no strategy");
        return None;
    }
    Some(chain)
}

fn prices(value: Cursor<'_>) -> Option<Prices> {
    value.object(|fields| Prices {
        per_cpu_hour: unit_price(fields, "perCpuHour"),
        per_gib_hour: unit_price(fields, "perGibHour"),
        per_gpu_hour: fields.take_or_default("perGpuHour", price),
        preferred_cpus: fields.take("preferredCpus", |value| {
            let cpus: u32 = decode::integer(value)?;
            if cpus == 0 {
                value.report("must be greater than 0");
            }
            Some(cpus)
        }),
        nodes: fields.take_or_default("nodes", |list| list.list(node_price)),
    })
}

/// Decodes a price per unit, which all pods are priced by: it must be present and not zero.
fn unit_price(fields: &mut Fields<'_>, name: &str) -> f64 {
    let mut found = false;
    let per_hour = fields.take(name, |value| {
        found = true;
        let per_hour = price(value)?;
        if per_hour == 0.0 {
            value.report("must be greater than 0");
        }
        Some(per_hour)
    });
    if !found {
        fields.object().report(format!("`{name}` is missing"));
    }
    per_hour.unwrap_or_default()
}

fn node_price(value: Cursor<'_>) -> Option<NodePrice> {
    value.object(|fields| {
        let (node_group, instance_type) =
            (fields.take("nodeGroup", pattern), fields.take("instanceType", decode::text));
        let labels = fields.take("labels", |value| {
            let labels = value.entries(|key, value| Some((key.to_owned(), decode::text(value)?)));
            Some(labels?.into_iter().collect::<BTreeMap<_, _>>())
        });
        let per_hour = fields.take("perHour", |value| {
            // Already reported if it is invalid.
            Some(price(value).unwrap_or_default())
        });
        if per_hour.is_none() {
            fields.object().report("`perHour` is missing");
        }
        let (labels, per_hour) = (labels.unwrap_or_default(), per_hour.unwrap_or_default());
        NodePrice { node_group, instance_type, labels, per_hour }
    })
}

#[expect(clippy::cast_precision_loss, reason = "prices are doubles")]
fn price(value: Cursor<'_>) -> Option<f64> {
    let price = match value.value() {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        other => {
            value.report(format!("expected a number, got {}", other.kind()));
            return None;
        }
    };
    if !price.is_finite() || price < 0.0 {
        value.report("must be a price of 0 or more");
        return None;
    }
    Some(price)
}

#[cfg(test)]
mod tests;
