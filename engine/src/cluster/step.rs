//! Step: one change that a session or a gang decided for a pod: plain data that leaves no choice.

use std::sync::Arc;

use crate::devices::claims::has_same_claims;
use crate::model::{Pod, PodKey};
use crate::place::basis::{Basis, Ground};
use crate::place::decision::Outcome;
use crate::place::{Chosen, Decided};
use crate::preempt::outcome::{Nomination, PostFilter};
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;
use crate::snapshot::bindings::Bindings;

/// One change that a decision makes.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The pod is assumed on a node (S-CCH-2).
    Assume { pod: Pod, node: Arc<str>, row: NodeRow, bindings: Bindings, basis: Basis },
    /// The pod is nominated to a node (S-PRE-21).
    Nominate { pod: Pod, node: Arc<str>, basis: Basis },
    /// The pod's nomination is cleared: no eviction helps it (S-PRE-17), or another pod is nominated to the node
    /// (S-PRE-24).
    Clear { pod: PodKey, node: Arc<str>, basis: Basis, by: PodKey },
}

impl Step {
    /// The step that assumes a pod on its decided node; `None` where it got none.
    pub(crate) fn of(pod: &Pod, decided: &Decided) -> Option<Step> {
        let Outcome::Placed(placement) = &decided.decision.outcome else { return None };
        let Chosen { row, basis } = decided.chosen?;
        let (node, bindings) = (placement.node.clone(), placement.bindings());
        Some(Step::Assume { pod: pod.clone(), node, row, bindings, basis })
    }

    /// The steps for an attempt's nominations: cleared ones first, so that the new one comes last.
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

    /// The step that nominates a pod to a node.
    pub(crate) fn nominate(pod: &Pod, node: &Arc<str>, snapshot: &Snapshot) -> Step {
        let basis = Basis::of_nomination(pod, snapshot.row_named(node));
        Step::Nominate { pod: pod.clone(), node: node.clone(), basis }
    }

    /// The step with the basis of one for which pods are evicted.
    pub(crate) fn evicting(mut self) -> Step {
        if let Step::Assume { basis, .. } | Step::Nominate { basis, .. } = &mut self {
            *basis = basis.evicting();
        }
        self
    }

    /// The pod of the step.
    pub(crate) fn pod(&self) -> &PodKey {
        match self {
            Step::Assume { pod, .. } | Step::Nominate { pod, .. } => pod.key(),
            Step::Clear { pod, .. } => pod,
        }
    }

    /// The node on which the pod is placed, or of its nomination.
    pub(crate) fn node(&self) -> &Arc<str> {
        match self {
            Step::Assume { node, .. } | Step::Nominate { node, .. } | Step::Clear { node, .. } => {
                node
            }
        }
    }

    /// The basis of the step.
    pub(crate) fn basis(&self) -> Basis {
        match self {
            Step::Assume { basis, .. }
            | Step::Nominate { basis, .. }
            | Step::Clear { basis, .. } => *basis,
        }
    }

    /// The part of what the step rests on that changed between two points of one history, if any.
    pub(crate) fn changed(&self, then: &Snapshot, now: &Snapshot) -> Option<Ground> {
        let are_claims_changed =
            || self.placed().is_some_and(|pod| !has_same_claims(pod, &then.devices, &now.devices));
        let changed = self.basis().changed(then, now);
        changed.or_else(|| are_claims_changed().then_some(Ground::Devices))
    }

    /// The pod that is placed or nominated, which must not be on a node already.
    pub(crate) fn placed(&self) -> Option<&Pod> {
        match self {
            Step::Assume { pod, .. } | Step::Nominate { pod, .. } => Some(pod),
            Step::Clear { .. } => None,
        }
    }
}
