//! Replicas: the pods of a workload that are on nodes.

use berth_proto::meta_v1;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::label::clip;
use crate::model::label_selector::LabelSelector;
use crate::model::population::PopulationFacts;
use crate::model::{ModelError, Pod, PodKey};
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;

/// Selection of the pods of a workload. Only pods on nodes count.
#[derive(Copy, Clone, Debug)]
pub enum Replicas<'a> {
    /// Pods of a namespace that a selector matches.
    Selected {
        /// The namespace of the pods.
        namespace: &'a str,
        /// A selector with at least one requirement.
        selector: &'a meta_v1::LabelSelector,
    },
    /// Listed pods, each once and all of one namespace.
    Listed(&'a [PodKey]),
}

/// A pod of the workload.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) pod: Pod,
    pub(super) row: NodeRow,
}

impl Replica {
    /// The name of the replica's node.
    pub(super) fn node(&self, snapshot: &Snapshot) -> Arc<str> {
        snapshot.node(self.row).map_or_else(|| "".into(), |node| node.facts().name.clone())
    }
}

/// The replicas by name, and how many more are being deleted.
pub(super) fn find(
    snapshot: &Snapshot,
    replicas: Replicas<'_>,
) -> Result<(Vec<Replica>, usize), ModelError> {
    let mut found = match replicas {
        Replicas::Selected { namespace, selector } => {
            let selector = LabelSelector::compile(selector, snapshot.model.names())
                .map_err(|error| error.under("selector"))?;
            if selector.is_empty() {
                let reason = "must have at least one requirement: an empty one selects every pod of the namespace";
                return Err(ModelError::new("selector", reason));
            }
            selected(snapshot, namespace, &selector)
        }
        Replicas::Listed(keys) => listed(snapshot, keys)?,
    };
    let n_found = found.len();
    found.retain(|replica| !replica.pod.is_terminating());
    found.sort_unstable_by(|a, b| a.pod.key().cmp(b.pod.key()));
    let n_terminating = n_found - found.len();
    Ok((found, n_terminating))
}

fn selected(snapshot: &Snapshot, namespace: &str, selector: &LabelSelector) -> Vec<Replica> {
    // A namespace whose name is unknown has no pods.
    let Some(namespace) = snapshot.model.names().get(namespace) else { return Vec::new() };
    let mut replicas = Vec::new();
    let is_one = |population: &PopulationFacts| selector.matches(&population.labels);
    for population in snapshot.populations.all(Some(namespace)).filter(|p| is_one(&p.facts)) {
        for (row, _) in snapshot.populations.rows_of(population.id) {
            let pods = snapshot.shards[row.shard()].pods.of(row.row()).iter();
            let pods = pods.filter(|placed| placed.population == population.id);
            replicas.extend(pods.map(|placed| Replica { pod: placed.pod.clone(), row }));
        }
    }
    replicas
}

fn listed(snapshot: &Snapshot, keys: &[PodKey]) -> Result<Vec<Replica>, ModelError> {
    let mut wanted: FxHashMap<&PodKey, (usize, Option<Replica>)> = FxHashMap::default();
    for (i, key) in keys.iter().enumerate() {
        if wanted.insert(key, (i, None)).is_some() {
            let reason = format!("`{}` stands in the list twice", clip(&key.to_string()));
            return Err(ModelError::new(format!("pods[{i}]"), reason));
        }
        if key.namespace != keys[0].namespace {
            let reason = format!(
                "is of namespace `{}` and the first of `{}`: the pods of a workload are of one",
                clip(&key.namespace),
                clip(&keys[0].namespace)
            );
            return Err(ModelError::new(format!("pods[{i}]"), reason));
        }
    }
    for shard in &snapshot.shards {
        for row in shard.nodes.rows.iter() {
            for placed in shard.pods.of(row) {
                if let Some((_, found)) = wanted.get_mut(placed.pod.key()) {
                    let row = NodeRow::new(shard.index, row);
                    *found = Some(Replica { pod: placed.pod.clone(), row });
                }
            }
        }
    }
    let missing = |i: usize| {
        let reason = format!("no pod `{}` is on a node", clip(&keys[i].to_string()));
        ModelError::new(format!("pods[{i}]"), reason)
    };
    let found = keys.iter().enumerate().map(|(i, key)| {
        let found = wanted.remove(key).and_then(|(_, found)| found);
        found.ok_or_else(|| missing(i))
    });
    found.collect()
}
