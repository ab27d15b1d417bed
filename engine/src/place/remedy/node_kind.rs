//! Kinds of nodes: copies of existing nodes to add, and which are worth trying.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::change::RemedyChange;
use super::obstacle::is_condition;
use super::way::Way;
use crate::domain::DomainId;
use crate::filter::node_resources_fit::checked;
use crate::hash::hash_name;
use crate::model::Node;
use crate::model::intern::{Interner, Symbol};
use crate::model::node::NodeFacts;
use crate::model::taint::{Effect, Taint};
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::RowSet;
use crate::snapshot::Snapshot;
use crate::snapshot::shard::Shard;

/// The largest number of kinds that are tried.
const MAX_KINDS: usize = 8;

/// Ways to add a node that could take the pod, the plainest and smallest nodes first.
///
/// Nodes are of one kind if they are in the same domains of all topology keys of the pod's spread and affinity. The
/// smallest node of a kind represents it. Whether the pod fits is found out by a trial.
pub(super) fn ways(plan: &Filtering<'_, '_>) -> Vec<Way> {
    if plan.narrowing().is_some() || plan.pod().node_name().is_some() {
        return Vec::new();
    }
    let keys = topology_keys(plan);
    let mut kinds: BTreeMap<SmallVec<[DomainId; 2]>, (Cost, Arc<str>)> = BTreeMap::new();
    for shard in &plan.snapshot().shards {
        for row in could_take(plan, shard).iter() {
            let Some(node) = shard.nodes.node(row) else {
                continue;
            };
            let kind = keys.iter().map(|key| shard.nodes.domain_of(row, *key)).collect();
            let entry = (cost(plan, node.facts()), node.facts().name.clone());
            let known = kinds.entry(kind).or_insert_with(|| entry.clone());
            if entry < *known {
                *known = entry;
            }
        }
    }
    let mut kinds: Vec<(Cost, Arc<str>)> = kinds.into_values().collect();
    kinds.sort_unstable();
    let Some(name) = free_name(plan.snapshot()) else {
        return Vec::new();
    };
    let way = |(_, like): (Cost, Arc<str>)| {
        let text = format!("add a node like `{like}`");
        Way::new(RemedyChange::AddNode { like, name: name.clone() }, text)
    };
    kinds.into_iter().take(MAX_KINDS).map(way).collect()
}

/// A healthy copy of the node.
pub(super) fn another(node: &Node, name: &Arc<str>, names: &Interner) -> Node {
    let symbol = names.intern(name);
    node.changed(|facts| {
        facts.name = name.clone();
        facts.symbol = symbol;
        facts.name_hash = hash_name(name);
        facts.unschedulable = false;
        facts.taints = kept_taints(facts, names).into_vec().into();
        for (_, value) in facts.labels.iter_mut().filter(|(key, _)| *key == Symbol::HOSTNAME) {
            *value = symbol;
        }
    })
}

/// Number of extended resources that the pod does not request, then sizes.
type Cost = (usize, i64, i64, i64);

fn cost(plan: &Filtering<'_, '_>, node: &NodeFacts) -> Cost {
    let (room, request) = (&node.allocatable, plan.shape().request());
    let scalars = room.scalars.iter();
    let n_unasked = scalars.filter(|(name, n)| *n > 0 && request.scalar(*name) == 0).count();
    (n_unasked, room.milli_cpu, room.memory, room.ephemeral_storage)
}

/// Labels by which the filters count other pods; hostname is left out, since each node has its own.
fn topology_keys(plan: &Filtering<'_, '_>) -> Vec<Symbol> {
    let demand = plan.demand();
    let near = demand.affinity.sums.iter().chain(&demand.anti_affinity).chain(&demand.blockers);
    let sums = demand.hard.iter().map(|constraint| &constraint.sum).chain(near);
    let mut keys: Vec<Symbol> = sums.map(|sum| demand.sums[*sum].key).collect();
    keys.retain(|key| *key != Symbol::HOSTNAME);
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The rows whose node could take the pod if it were healthy and empty, judged by the node's own properties.
fn could_take(plan: &Filtering<'_, '_>, shard: &Shard) -> RowSet {
    let mut rows = shard.nodes.rows;
    for filter in plan.filters() {
        match filter.plugin {
            Plugin::NodeAffinity
            | Plugin::NodeDeclaredFeatures
            | Plugin::VolumeBinding
            | Plugin::VolumeZone => (filter.run)(plan, shard, &mut rows),
            Plugin::TaintToleration => retain(shard, &mut rows, |node| is_tolerated(plan, node)),
            Plugin::NodeResourcesFit => retain(shard, &mut rows, |node| has_room(plan, node)),
            // Does not hold for another node, or for one without pods.
            Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::NodePorts
            | Plugin::VolumeRestrictions
            | Plugin::NodeVolumeLimits
            | Plugin::PodTopologySpread
            | Plugin::InterPodAffinity => {}
            // Plugins without a filter.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::DynamicResources
            | Plugin::DefaultPreemption
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder => {}
        }
    }
    rows
}

fn retain(shard: &Shard, rows: &mut RowSet, is_kept: impl Fn(&NodeFacts) -> bool) {
    for row in rows.clone().iter() {
        if !shard.nodes.node(row).is_some_and(|node| is_kept(node.facts())) {
            rows.remove(row);
        }
    }
}

fn is_tolerated(plan: &Filtering<'_, '_>, node: &NodeFacts) -> bool {
    kept_taints(node, plan.names()).iter().all(|taint| {
        taint.effect == Effect::PreferNoSchedule || plan.shape().tolerations.tolerates(taint)
    })
}

fn has_room(plan: &Filtering<'_, '_>, node: &NodeFacts) -> bool {
    let requests = checked(plan);
    node.allowed_pods > 0 && requests.iter().all(|(r, amount)| node.allocatable.get(*r) >= *amount)
}

fn kept_taints(node: &NodeFacts, names: &Interner) -> SmallVec<[Taint; 2]> {
    node.taints.iter().copied().filter(|taint| !is_condition(&names.name(taint.key))).collect()
}

/// A name that no node has. Only a few such names are ever used, because interned names are kept forever.
fn free_name(snapshot: &Snapshot) -> Option<Arc<str>> {
    let names = snapshot.model.names();
    let is_taken = |name: &str| {
        let symbol = names.get(name);
        symbol.is_some_and(|s| {
            snapshot.shards.iter().any(|shard| shard.nodes.row_of_name.contains_key(&s))
        })
    };
    let numbered = (2..=snapshot.n_nodes() + 2).map(|i| format!("{NEW}-{i}"));
    let name = std::iter::once(NEW.to_owned()).chain(numbered).find(|name| !is_taken(name))?;
    (names.get(&name).is_some() || names.has_room()).then(|| name.into())
}

const NEW: &str = "new-node";
