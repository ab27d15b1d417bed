//! Trial: applies changes to a copy of the pod or to a fork of the snapshot, and runs the filters again.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::change::RemedyChange;
use super::{change_node, change_pod};
use crate::model::Node;
use crate::model::resources::is_extended_name;
use crate::place::promised::kept_promise;
use crate::place::ranking::Feasible;
use crate::place::{Evaluation, before_filtering};
use crate::plan::Plan;
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::snapshot::draft::Draft;

/// The largest number of nodes to name for each remedy.
const MAX_EXAMPLES: usize = 5;

/// The nodes that become feasible by changes.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) n_nodes: u32,
    /// Number of these nodes that have an extended resource which the pod does not request, such as GPUs.
    pub(super) n_special: u32,
    /// The first few nodes, by name.
    pub(super) examples: Vec<Arc<str>>,
}

/// Applies the changes and filters; `None` where the pod would still not be placed, or where an object to change does
/// not exist.
///
/// Cost: that of one attempt without a remembered evaluation, and of copying the changed shards.
pub(super) fn attempt(
    plan: &Plan<'_>,
    changes: &[RemedyChange],
    versions: &Arc<AtomicU64>,
) -> Option<Opened> {
    let mut facts = plan.shape().clone();
    let mut draft = None;
    // Positions in a list refer to its original state, so changes are applied from the last to the first.
    for change in changes.iter().rev() {
        if !change_pod::apply(change, &mut facts, plan.names())? {
            let fork = || Draft::fork(plan.snapshot(), versions.clone());
            change_node::apply(change, draft.get_or_insert_with(fork))?;
        }
    }
    let pod = plan.pod().changed(facts, &plan.snapshot().model);
    let pod = change_pod::with_volumes(changes, pod);
    let snapshot = draft.as_ref().map_or(plan.snapshot(), |draft| &draft.snapshot);
    let request = PlaceRequest {
        pod: &pod,
        policy: plan.policy(),
        tie_break: TieBreak::Lexicographic,
        now: None,
    };
    filter(&mut Plan::new(snapshot, &request, plan.kernels))
}

fn filter(plan: &mut Plan<'_>) -> Option<Opened> {
    if !matches!(before_filtering(plan), Ok(None)) {
        return None;
    }
    let mut evaluation = Evaluation::default();
    evaluation.filter(plan);
    plan.filtering(&mut evaluation, |plan, evaluation| {
        let feasible = match kept_promise(plan) {
            Some(row) => Feasible::only(row, plan.snapshot().shards.len()),
            None => evaluation.feasible(plan).ok()??,
        };
        // Several feasible nodes are scored, which fails for a preference that does not parse.
        if feasible.len() > 1 && plan.check_scoring().is_err() {
            return None;
        }
        Some(opened(plan, &feasible))
    })
}

fn opened(plan: &Plan<'_>, feasible: &Feasible) -> Opened {
    let shards = &plan.snapshot().shards;
    let by_shard = feasible.by_shard().iter().zip(shards);
    let nodes =
        by_shard.flat_map(|(rows, shard)| rows.iter().filter_map(|row| shard.nodes.node(row)));
    let (mut examples, mut n_special): (Vec<Arc<str>>, u32) = (Vec::new(), 0);
    for node in nodes {
        n_special += u32::from(is_special(plan, node));
        examples.push(node.facts().name.clone());
    }
    examples.sort_unstable();
    examples.truncate(MAX_EXAMPLES);
    Opened { n_nodes: feasible.len(), n_special, examples }
}

/// Whether a node has an extended resource that the pod does not request.
fn is_special(plan: &Plan<'_>, node: &Node) -> bool {
    let request = plan.shape().request();
    node.facts().allocatable.scalars.iter().any(|(name, amount)| {
        *amount > 0 && request.scalar(*name) == 0 && is_extended_name(&plan.names().name(*name))
    })
}
