//! Changes of nodes and of the pods on them, applied to a draft.

use std::sync::Arc;

use super::change::RemedyChange;
use super::node_kind;
use crate::model::intern::Symbol;
use crate::model::node::NodeFacts;
use crate::model::object::ObjectFacts;
use crate::model::storage::csi_node::CsiNode;
use crate::model::{ObjectKey, ObjectKind, PodKey};
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;
use crate::snapshot::draft::Draft;

/// Applies a change of the cluster. `None` where the object to change does not exist.
pub(super) fn apply(change: &RemedyChange, draft: &mut Draft) -> Option<()> {
    match change {
        RemedyChange::Uncordon { nodes } => each(draft, nodes, |node| {
            node.unschedulable = false;
            without_taint(node, Symbol::UNSCHEDULABLE_TAINT);
        }),
        RemedyChange::LiftFence { nodes } => {
            nodes.iter().all(|node| draft.set_fenced(node, false)).then_some(())
        }
        RemedyChange::ClearTaint { key, nodes } => {
            let key = draft.snapshot.model.names().get(key)?;
            each(draft, nodes, |node| without_taint(node, key))
        }
        RemedyChange::AllowPod { nodes } => each(draft, nodes, |node| node.allowed_pods += 1),
        RemedyChange::RemovePod { pod, node } => remove_pod(draft, pod, node),
        RemedyChange::AddNode { like, name } => add_node(draft, like, name),
        RemedyChange::Tolerate { .. }
        | RemedyChange::DropNodeSelector { .. }
        | RemedyChange::DropNodeRequirement { .. }
        | RemedyChange::DropNodeConstraints { .. }
        | RemedyChange::RaiseMaxSkew { .. }
        | RemedyChange::LowerMinDomains { .. }
        | RemedyChange::SoftenSpread { .. }
        | RemedyChange::RequestLess { .. }
        | RemedyChange::DropPodAffinity { .. }
        | RemedyChange::DropPodAntiAffinity { .. }
        | RemedyChange::DropHostPort { .. }
        | RemedyChange::ProvideVolume { .. } => None,
    }
}

fn each(
    draft: &mut Draft,
    nodes: &[Arc<str>],
    mut change: impl FnMut(&mut NodeFacts),
) -> Option<()> {
    for name in nodes {
        let row = row_of(&draft.snapshot, name)?;
        let changed = draft.snapshot.node(row)?.changed(&mut change);
        draft.replace_node(row, changed);
    }
    Some(())
}

fn without_taint(node: &mut NodeFacts, key: Symbol) {
    node.taints = node.taints.iter().copied().filter(|taint| taint.key != key).collect();
}

fn remove_pod(draft: &mut Draft, key: &PodKey, node: &str) -> Option<()> {
    let row = row_of(&draft.snapshot, node)?;
    let pods = draft.snapshot.shards[row.shard()].pods.of(row.row());
    let pod = pods.iter().find(|placed| placed.pod.key() == key)?.pod.clone();
    draft.release_bindings(key);
    draft.remove_pod(row, &pod);
    draft.snapshot.counts.n_pods -= 1;
    Some(())
}

fn add_node(draft: &mut Draft, like: &str, name: &Arc<str>) -> Option<()> {
    let row = row_of(&draft.snapshot, like)?;
    let node = draft.snapshot.node(row)?;
    let node = node_kind::another(node, name, draft.snapshot.model.names());
    let symbol = node.facts().symbol;
    draft.insert_node(node);
    draft.snapshot.counts.n_nodes += 1;
    // The number of volumes that a node can attach is in an object of the node's name.
    let key = |name: &str| ObjectKey::new(ObjectKind::CsiNode, "", name);
    let limits = draft.snapshot.objects.get(&key(like)).cloned();
    if let Some(limits) = &limits
        && let ObjectFacts::CsiNode(of_like) = limits.facts()
    {
        let facts = Arc::new(CsiNode { node: symbol, ..(**of_like).clone() });
        draft.upsert_object(&limits.copied(key(name), ObjectFacts::CsiNode(facts)));
    }
    Some(())
}

/// The row of the node of this name.
fn row_of(snapshot: &Snapshot, name: &str) -> Option<NodeRow> {
    let symbol = snapshot.model.names().get(name)?;
    snapshot.shards.iter().find_map(|shard| {
        let row = shard.nodes.row_of_name.get(&symbol)?;
        Some(NodeRow::new(shard.index, *row))
    })
}
