//! Emptying one node: a ruling on each of its pods, and another node for each that moves. Rules: S-SD-3 to S-SD-6.

use std::cmp::Reverse;

use super::budget::{Budgets, Covering};
use super::outcome::{PodDrain, PodVerdict};
use super::rule::{Context, Ruling, ruling};
use crate::error::EngineError;
use crate::filter::reason::Reason;
use crate::model::intern::Symbol;
use crate::model::node::TO_BE_DELETED;
use crate::model::taint::{Effect, Taint};
use crate::model::{Node, Pod};
use crate::place::decision::Unschedulable;
use crate::place::message;
use crate::rows::NodeRow;
use crate::simulate::rows::Rows;
use crate::simulate::scene::Scene;

/// A pod on a node that is to be emptied.
pub(crate) struct Occupant {
    pub(crate) pod: Pod,
    pub(crate) ruling: Ruling,
    pub(crate) covering: Covering,
}

/// The new node of a pod that may move, or why it has none.
pub(crate) type NewNode = Result<NodeRow, NoPlace>;

/// Why a pod has no new node.
pub(crate) enum NoPlace {
    /// No eligible node takes the pod.
    NoRoom,
    /// The search ended in an error.
    Failed(EngineError),
}

/// The pods of a node in node order, each with its ruling.
pub(crate) fn occupants(
    scene: &mut Scene<'_>,
    row: NodeRow,
    context: &Context<'_>,
    budgets: &mut Budgets<'_>,
) -> Vec<Occupant> {
    let snapshot = scene.snapshot();
    let Some(shard) = snapshot.shards.get(row.shard()) else { return Vec::new() };
    let pods = shard.pods.of(row.row()).iter().map(|placed| placed.pod.clone());
    pods.map(|pod| {
        let covering = budgets.covering(&pod);
        let ruling = ruling(&pod, context, budgets, &covering);
        Occupant { pod, ruling, covering }
    })
    .collect()
}

impl Occupant {
    pub(crate) fn moves(&self) -> bool {
        self.ruling == Ruling::Move
    }

    /// The verdict on a pod by its ruling alone; for a pod that moves it is a placeholder that is replaced later.
    pub(crate) fn initial_verdict(&self) -> PodVerdict {
        match &self.ruling {
            Ruling::Move => PodVerdict::NoRoom { message: String::new(), reasons: Vec::new() },
            Ruling::Daemon => PodVerdict::Daemon,
            Ruling::Mirror => PodVerdict::Mirror,
            Ruling::LongTerminating => PodVerdict::LongTerminating,
            Ruling::Wait => PodVerdict::OnCompletion,
            Ruling::Block(reason, message) => {
                PodVerdict::Blocked { reason: *reason, message: message.clone() }
            }
        }
    }

    /// The pod's entry in the result.
    pub(crate) fn pod_drain(&self, verdict: PodVerdict, budgets: &Budgets<'_>) -> PodDrain {
        PodDrain {
            pod: self.pod.key().clone(),
            uid: self.pod.facts().uid.clone(),
            priority: self.pod.priority(),
            verdict,
            budgets: budgets.names_of(&self.covering),
        }
    }
}

/// Positions of the occupants that move, by descending priority; equal ones in node order.
pub(crate) fn moving(occupants: &[Occupant]) -> Vec<usize> {
    let mut moving: Vec<usize> = (0..occupants.len()).filter(|at| occupants[*at].moves()).collect();
    moving.sort_by_key(|at| Reverse(occupants[*at].pod.priority()));
    moving
}

/// Takes every pod off a node and taints it as being removed: no pod can move to it, and its domains still count
/// (S-SD-6).
pub(crate) fn clear(scene: &mut Scene<'_>, row: NodeRow, occupants: &[Occupant]) {
    for occupant in occupants {
        scene.take(row, occupant.pod.key());
    }
    let Some(node) = scene.node(row).cloned() else { return };
    let key = scene.snapshot().model.names().intern(TO_BE_DELETED);
    scene.add_node(&tainted(&node, key));
}

fn tainted(node: &Node, key: Symbol) -> Node {
    let taint = Taint { key, value: Symbol::EMPTY, effect: Effect::NoSchedule };
    node.changed(|facts| {
        let mut taints = std::mem::take(&mut facts.taints).into_vec();
        taints.push(taint);
        facts.taints = taints.into();
    })
}

/// Finds a node for an occupant by `choose`, and puts the pod there.
///
/// # Errors
/// [`EngineError::Cancelled`] only: any other error of `choose` is returned as [`NoPlace::Failed`].
pub(crate) fn rehouse(
    scene: &mut Scene<'_>,
    occupant: &Occupant,
    choose: impl FnOnce(&mut Scene<'_>, &Pod) -> Result<Option<NodeRow>, EngineError>,
) -> Result<NewNode, EngineError> {
    let pod = occupant.pod.anew(&scene.snapshot().model);
    match choose(scene, &pod) {
        Ok(Some(row)) => {
            scene.put(&pod, row);
            Ok(Ok(row))
        }
        Ok(None) => Ok(Err(NoPlace::NoRoom)),
        Err(EngineError::Cancelled) => Err(EngineError::Cancelled),
        Err(error) => Ok(Err(NoPlace::Failed(error))),
    }
}

/// Why none of these nodes takes a pod, as kube-scheduler's message counted over these nodes only.
pub(crate) fn no_room(
    scene: &mut Scene<'_>,
    occupant: &Occupant,
    among: &Rows,
) -> Result<PodVerdict, EngineError> {
    let pod = occupant.pod.anew(&scene.snapshot().model);
    let n_nodes = among.len();
    if let Some(misfit) = scene.why_nowhere(&pod)? {
        let refusal = (misfit.plugin, misfit.code, misfit.reasons.to_vec());
        let Unschedulable { message, reasons, .. } =
            message::refused_by_pre_filter(n_nodes, refusal);
        return Ok(PodVerdict::NoRoom { message, reasons });
    }
    let (mut counts, n_open) = scene.refusals(&pod, among);
    // All filters pass on these nodes, so the pod is kept off by room reserved for nominated pods.
    counts.add(Reason::NominatedPods, n_open);
    let names = scene.snapshot().model.names();
    let Unschedulable { mut message, reasons, .. } = message::tally(names, n_nodes, &counts);
    if reasons.is_empty() {
        "no other node may take it".clone_into(&mut message);
    }
    Ok(PodVerdict::NoRoom { message, reasons })
}
