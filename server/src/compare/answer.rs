//! Answer: what a cluster says about one pod, as far as a trial acts on it.

use std::sync::Arc;

use berth_engine::{
    Cluster, Decision, EngineError, Nomination, Outcome, PlaceRequest, PodKey, PreemptOptions,
    PreemptRequest,
};

/// A nomination and its victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evicts {
    pub(crate) node: Arc<str>,
    pub(crate) victims: Vec<PodKey>,
}

/// The node that a decision has, if it has one.
pub(super) fn node_of(decided: &Result<Decision, EngineError>) -> Option<Arc<str>> {
    match &decided.as_ref().ok()?.outcome {
        Outcome::Placed(placement) => Some(placement.node.clone()),
        Outcome::Unschedulable(_) | Outcome::Gated { .. } => None,
    }
}

/// The node that a pod is nominated to, and its victims there.
pub(super) fn evictions(cluster: &Cluster, request: &PlaceRequest<'_>) -> Option<Evicts> {
    let PlaceRequest { pod, policy, tie_break, now } = *request;
    let (options, cancelled) = (PreemptOptions::default(), &|| false);
    let preempted =
        cluster.preempt(&PreemptRequest { pod, policy, tie_break, options, cancelled, now });
    let post_filter = preempted.ok()?.post_filter?;
    let Nomination::Node(node) = post_filter.nomination else { return None };
    let victims = post_filter.chosen?.victims;
    Some(Evicts { node, victims: victims.into_iter().map(|victim| victim.pod).collect() })
}
