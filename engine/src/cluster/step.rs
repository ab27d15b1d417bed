//! Step: what a session or a gang comes to, one pod at a time: plain data that leaves nothing to choose.

use std::sync::Arc;

use crate::model::volume::VolumeBindings;
use crate::model::{Pod, PodKey};
use crate::place::basis::Basis;
use crate::place::decision::Outcome;
use crate::place::{Chosen, Decided};
use crate::preempt::outcome::{Nomination, PostFilter};
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;

/// One change that a decision asks for.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The pod takes its room on a node (S-CCH-2).
    Assume { pod: Pod, node: Arc<str>, row: NodeRow, volumes: VolumeBindings, basis: Basis },
    /// The pod is promised a node (S-PRE-21).
    Nominate { pod: Pod, node: Arc<str>, basis: Basis },
    /// The pod is no longer promised a node: nothing helps it (S-PRE-17), or another pod is promised the same (S-PRE-24).
    Clear { pod: PodKey, node: Arc<str>, basis: Basis, by: PodKey },
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
        let clear = |cleared: &PodKey, basis| {
            let node = snapshot.nominations.of(cleared)?;
            let node = snapshot.model.names().name(node);
            Some(Step::Clear { pod: cleared.clone(), node, basis, by: pod.key().clone() })
        };
        match &post_filter.nomination {
            Nomination::Unchanged => Vec::new(),
            Nomination::Cleared => clear(pod.key(), Basis::WHOLE).into_iter().collect(),
            Nomination::Node(node) => {
                let promise = Step::nominate(pod, node, snapshot);
                let cleared = post_filter.cleared_nominations.iter();
                let cleared = cleared.filter_map(|key| clear(key, promise.basis()));
                cleared.chain([promise.clone()]).collect()
            }
        }
    }

    /// Promises a node to a pod.
    pub(crate) fn nominate(pod: &Pod, node: &Arc<str>, snapshot: &Snapshot) -> Step {
        let basis = Basis::of_nomination(pod, snapshot.row_named(node));
        Step::Nominate { pod: pod.clone(), node: node.clone(), basis }
    }

    /// The same where pods are evicted for it.
    pub(crate) fn evicting(mut self) -> Step {
        if let Step::Assume { basis, .. } | Step::Nominate { basis, .. } = &mut self {
            *basis = basis.evicting();
        }
        self
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
            Step::Assume { basis, .. }
            | Step::Nominate { basis, .. }
            | Step::Clear { basis, .. } => *basis,
        }
    }

    /// The pod that is to be put onto a node or promised one, so that it must not be on one.
    pub(crate) fn placed(&self) -> Option<&Pod> {
        match self {
            Step::Assume { pod, .. } | Step::Nominate { pod, .. } => Some(pod),
            Step::Clear { .. } => None,
        }
    }
}
