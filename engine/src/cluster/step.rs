//! Step: what a session or a gang comes to, one pod at a time: plain data that leaves nothing to choose.

use std::sync::Arc;

use crate::model::volume::VolumeBindings;
use crate::model::{Pod, PodKey};
use crate::place::basis::Basis;
use crate::place::decision::Outcome;
use crate::place::{Chosen, Decided};
use crate::preempt::outcome::{Nomination, PostFilter};
use crate::snapshot::{NodeRow, Snapshot};

/// One change that a decision asks for.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The pod takes its room on a node (S-CCH-2).
    Assume { pod: Pod, node: Arc<str>, row: NodeRow, volumes: VolumeBindings, basis: Basis },
    /// The pod is promised a node (S-PRE-21).
    Nominate { pod: Pod, node: Arc<str>, basis: Basis },
    /// The pod is no longer promised a node (S-PRE-17, S-PRE-24).
    Clear { pod: PodKey, node: Arc<str> },
}

impl Step {
    /// Takes the room that a pod was decided to get; `None` where it got none.
    pub(crate) fn of(pod: &Pod, decided: &Decided) -> Option<Step> {
        let Outcome::Placed(placement) = &decided.decision.outcome else { return None };
        let Chosen { row, basis } = decided.chosen?;
        let (node, volumes) = (placement.node.clone(), placement.volumes.clone());
        Some(Step::Assume { pod: pod.clone(), node, row, volumes, basis })
    }

    /// What an attempt says of nominations: first those that are taken back, so that the new one comes last.
    pub(crate) fn of_post_filter(
        pod: &Pod,
        post_filter: &PostFilter,
        snapshot: &Snapshot,
    ) -> Vec<Step> {
        let clear = |pod: &PodKey| {
            let node = snapshot.nominations.of(pod)?;
            Some(Step::Clear { pod: pod.clone(), node: snapshot.model.names().name(node) })
        };
        let mut steps: Vec<Step> =
            post_filter.cleared_nominations.iter().filter_map(clear).collect();
        match &post_filter.nomination {
            Nomination::Unchanged => {}
            Nomination::Cleared => steps.extend(clear(pod.key())),
            Nomination::Node(node) => steps.push(Step::nominate(pod, node, snapshot)),
        }
        steps
    }

    /// Promises a node to a pod.
    pub(crate) fn nominate(pod: &Pod, node: &Arc<str>, snapshot: &Snapshot) -> Step {
        let basis = Basis::of_nomination(pod, snapshot.row_named(node));
        Step::Nominate { pod: pod.clone(), node: node.clone(), basis }
    }

    /// The pod that it is about.
    pub(crate) fn pod(&self) -> &PodKey {
        match self {
            Step::Assume { pod, .. } | Step::Nominate { pod, .. } => pod.key(),
            Step::Clear { pod, .. } => pod,
        }
    }

    /// Where the pod is to go, or was to.
    pub(crate) fn node(&self) -> &Arc<str> {
        match self {
            Step::Assume { node, .. } | Step::Nominate { node, .. } | Step::Clear { node, .. } => {
                node
            }
        }
    }

    /// What it rests on.
    pub(crate) fn basis(&self) -> Basis {
        match self {
            Step::Assume { basis, .. } | Step::Nominate { basis, .. } => *basis,
            Step::Clear { .. } => Basis::NOMINATIONS,
        }
    }

    /// Whether the pod is to be put onto a node or promised one, so that it must not be on one.
    pub(crate) fn needs_no_node(&self) -> bool {
        !matches!(self, Step::Clear { .. })
    }
}
