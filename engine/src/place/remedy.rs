//! Remedy: the smallest single change that would make nodes feasible for a pod that fits nowhere.
//!
//! A node counts for a change if that change alone opens it: every filter but one passes, and that one names what is
//! missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Plan;
use super::decision::Remedy;
use crate::filter::node_resources_fit::{allocatable, checked, requested};
use crate::model::resources::Resource;
use crate::model::taint::{Effect, Taint};
use crate::plugin::Plugin;
use crate::snapshot::shard::Shard;

/// Changes to report at most.
const MAX_REMEDIES: usize = 5;
/// Nodes to name for each.
const MAX_EXAMPLES: usize = 5;

/// Single changes, those that open most nodes first.
pub(crate) fn remedies(plan: &Plan<'_>) -> Vec<Remedy> {
    let mut by_change: BTreeMap<String, Opened> = BTreeMap::new();
    for shard in &plan.prepared.snapshot().shards {
        for row in plan.candidates(shard).iter() {
            let Some((key, missing)) = only_obstacle(plan, shard, row) else {
                continue;
            };
            let Some(node) = shard.nodes.node(row) else {
                continue;
            };
            let opened = by_change.entry(key).or_default();
            opened.nodes.push(node.facts().name.clone());
            opened.least_missing = opened.least_missing.min(missing);
        }
    }
    let mut remedies: Vec<Remedy> =
        by_change.into_iter().map(|(key, opened)| opened.remedy(&key)).collect();
    remedies.sort_by_key(|remedy| std::cmp::Reverse(remedy.n_nodes));
    remedies.truncate(MAX_REMEDIES);
    remedies
}

struct Opened {
    nodes: Vec<Arc<str>>,
    /// For a resource: the smallest amount that is short on one of the nodes.
    least_missing: i64,
}

impl Default for Opened {
    fn default() -> Opened {
        Opened { nodes: Vec::new(), least_missing: i64::MAX }
    }
}

impl Opened {
    fn remedy(mut self, key: &str) -> Remedy {
        self.nodes.sort_unstable();
        let change = match key.strip_prefix(SHORT) {
            Some(resource) => {
                format!("at least {} short", amount_text(resource, self.least_missing))
            }
            None => key.to_owned(),
        };
        let n_nodes = self.nodes.len() as u32;
        self.nodes.truncate(MAX_EXAMPLES);
        Remedy { change, n_nodes, examples: self.nodes }
    }
}

/// An amount of a resource for people: `500m cpu`, `1.5Gi memory`, `2 nvidia.com/gpu`.
fn amount_text(resource: &str, amount: i64) -> String {
    if resource == "cpu" {
        return format!("{amount}m cpu");
    }
    if !matches!(resource, "memory" | "ephemeral-storage") && !resource.starts_with("hugepages-") {
        return format!("{amount} {resource}");
    }
    for (bits, suffix) in [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")] {
        if amount >= 1 << bits {
            // Rounded up, so that what is asked for suffices.
            let unit = 1_i128 << bits;
            let tenths = (i128::from(amount) * 10 + unit - 1) / unit;
            return format!("{}.{}{suffix} {resource}", tenths / 10, tenths % 10);
        }
    }
    format!("{amount} bytes of {resource}")
}

/// Marks a change that is an amount of a resource.
const SHORT: &str = "short:";

/// The one thing that keeps the pod off a node, with the missing amount where it is one; `None` if there are several.
fn only_obstacle(plan: &Plan<'_>, shard: &Shard, row: usize) -> Option<(String, i64)> {
    let mut failing = plan.filters().iter().filter(|filter| {
        let mut rows = [row].into_iter().collect();
        (filter.run)(&plan.prepared, shard, &mut rows);
        rows.is_empty()
    });
    let filter = failing.next()?;
    if failing.next().is_some() {
        return None;
    }
    match filter.plugin {
        Plugin::NodeResourcesFit => missing_resource(plan, shard, row),
        Plugin::TaintToleration => untolerated_taint(plan, shard, row).map(|change| (change, 0)),
        Plugin::NodeUnschedulable => Some(("uncordon the node".into(), 0)),
        Plugin::NodeAffinity => {
            Some(("drop the node selector and required node affinity".into(), 0))
        }
        Plugin::NodePorts => Some(("free the host port".into(), 0)),
        Plugin::NodeDeclaredFeatures => Some(("enable the required feature on the node".into(), 0)),
        _ => None,
    }
}

fn missing_resource(plan: &Plan<'_>, shard: &Shard, row: usize) -> Option<(String, i64)> {
    let is_full = shard.usage.pods[row] >= shard.nodes.allocatable.pods[row];
    let mut short = checked(&plan.prepared).into_iter().filter_map(|(resource, request)| {
        let free =
            allocatable(shard, row, resource).saturating_sub(requested(shard, row, resource));
        (request > free).then(|| (resource, request.saturating_sub(free)))
    });
    match (is_full, short.next(), short.next()) {
        (true, None, _) => Some(("one more pod allowed on the node".into(), 0)),
        (false, Some((resource, missing)), None) => {
            Some((format!("{SHORT}{}", name(plan, resource)), missing))
        }
        _ => None,
    }
}

fn name(plan: &Plan<'_>, resource: Resource) -> Arc<str> {
    match resource {
        Resource::Cpu => "cpu".into(),
        Resource::Memory => "memory".into(),
        Resource::EphemeralStorage => "ephemeral-storage".into(),
        Resource::Scalar(name) => plan.prepared.names().name(name),
    }
}

fn untolerated_taint(plan: &Plan<'_>, shard: &Shard, row: usize) -> Option<String> {
    let is_untolerated = |taint: &&Taint| {
        taint.effect != Effect::PreferNoSchedule
            && !plan.prepared.shape().tolerations.tolerates(taint)
    };
    let mut taints = shard.nodes.node(row)?.facts().taints.iter().filter(is_untolerated);
    let taint = taints.next()?;
    match taints.next() {
        None => Some(format!("tolerate `{}`", taint.text(plan.prepared.names()))),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::amount_text;

    #[test]
    fn amounts_for_people() {
        for (resource, amount, expected) in [
            ("cpu", 1700, "1700m cpu"),
            ("memory", 370_041_911_296, "344.7Gi memory"),
            ("memory", 1 << 30, "1.0Gi memory"),
            ("ephemeral-storage", 1023, "1023 bytes of ephemeral-storage"),
            ("nvidia.com/gpu", 2, "2 nvidia.com/gpu"),
        ] {
            assert_eq!(amount_text(resource, amount), expected);
        }
    }
}
