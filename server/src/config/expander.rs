//! The section `expander`: how node groups are chosen for cluster-autoscaler.

use std::collections::BTreeMap;
use std::path::Path;

use super::decode::{self, Cursor, Fields, Reader};
use super::document::{Document, Value};
use super::{ConfigError, described_kind};
use crate::expander::pattern::Pattern;
use crate::expander::price::{NodePrice, Prices};
use crate::expander::priority::{Priorities, PrioritySource};
use crate::expander::strategy::{self, Strategy};

/// What an expander decides by.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpanderConfig {
    /// One after the other (`strategies`, default berth and then least-waste); at least one, each once.
    pub strategies: Vec<Strategy>,
    /// For `priority` (`priorities` or `prioritiesFile`); a relative path is relative to the file.
    pub priorities: Option<PrioritySource>,
    /// For `price` (`prices`).
    pub prices: Option<Prices>,
}

impl Default for ExpanderConfig {
    fn default() -> ExpanderConfig {
        let strategies = vec![Strategy::Berth, Strategy::LeastWaste];
        ExpanderConfig { strategies, priorities: None, prices: None }
    }
}

/// The section as it stands in a file: what is absent is left to the flags and the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpanderSection {
    strategies: Option<Vec<Strategy>>,
    priorities: Option<PrioritySource>,
    prices: Option<Prices>,
}

impl ExpanderConfig {
    /// The chain of the flag, else of the file, else the default, with the file's tables.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] for a chain that names a strategy twice or one whose table is missing.
    pub fn resolve(
        flag: &[Strategy],
        section: Option<&ExpanderSection>,
    ) -> Result<ExpanderConfig, ConfigError> {
        let ExpanderSection { strategies, priorities, prices } =
            section.cloned().unwrap_or_default();
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
}

/// Reads the section; `directory` is where relative paths start.
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

/// Numbers, and under each a list of patterns.
fn priorities(value: Cursor<'_>) -> Option<Priorities> {
    let levels = value.entries(|key, patterns| {
        let number = key.parse::<i64>();
        if number.is_err() {
            patterns.report(format!("`{key}` is not a whole number"));
        }
        let patterns = patterns.list(pattern)?;
        number.ok().map(|number| (number, patterns))
    })?;
    if levels.is_empty() {
        value.report("names no priority");
        return None;
    }
    Some(Priorities { levels })
}

fn pattern(value: Cursor<'_>) -> Option<Pattern> {
    let text = decode::text(value)?;
    Pattern::new(&text).map_err(|reason| value.report(reason)).ok()
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

/// What all pods are priced by: it cannot be left out, and of nothing no price follows.
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
            // Already reported where it is none.
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

/// The priorities in a file: the value of the ConfigMap's key `priorities`, or the ConfigMap around it.
///
/// # Errors
/// [`ConfigError`] with file and line.
pub(crate) fn read_priorities(path: &Path) -> Result<Priorities, ConfigError> {
    let (origin, text) = (path.display().to_string(), super::read(path)?);
    let document = super::parse(&origin, &text)?;
    if !is_object(&document) {
        return priorities_of(&origin, &document);
    }
    let reader = Reader::default();
    let inner = reader.root(&document).object(config_map).flatten();
    super::located(&origin, &document, reader.into_problems())?;
    // Lines in there are counted from its own beginning.
    let origin = format!("{origin} (data.priorities)");
    let text = inner.unwrap_or_default();
    priorities_of(&origin, &super::parse(&origin, &text)?)
}

/// Whether this is a Kubernetes object rather than the list itself, whose keys are numbers.
fn is_object(document: &Document) -> bool {
    let Value::Map(entries) = &document.value else { return false };
    entries.iter().any(|entry| ["apiVersion", "kind", "data"].contains(&entry.key.as_str()))
}

fn config_map(fields: &mut Fields<'_>) -> Option<String> {
    let api_version = fields.take_or_default("apiVersion", decode::text);
    let kind = fields.take_or_default("kind", decode::text);
    if (api_version.as_str(), kind.as_str()) != ("v1", "ConfigMap") {
        let got = described_kind(&kind, &api_version);
        fields.object().report(format!("expected `ConfigMap` of `v1`, got {got}"));
        fields.ignore_rest();
        return None;
    }
    fields.ignore(&["metadata", "immutable", "binaryData"]);
    let text = fields.take("data", |data| {
        data.object(|data| {
            let text = data.take("priorities", decode::text);
            data.ignore_rest();
            text
        })
    });
    let text = text.flatten();
    if text.is_none() {
        fields.object().report("has no `data.priorities`");
    }
    text
}

fn priorities_of(origin: &str, document: &Document) -> Result<Priorities, ConfigError> {
    let reader = Reader::default();
    let read = priorities(reader.root(document));
    super::located(origin, document, reader.into_problems())?;
    Ok(read.unwrap_or_default())
}

#[cfg(test)]
mod tests;
