//! Grace periods on the node: for pods that terminate, for containers that are killed alone, and for evictions
//! (L-TERM-8, L-TERM-22, L-TERM-23).

use berth_proto::berth_v1::{
    ContainerKillGraceRequest, ContainerKillGraceResponse, EffectiveNodeGraceRequest,
    EffectiveNodeGraceResponse,
};

use super::delete::{DEFAULT_PERIOD, at_least_one_if_negative, own_period};
use crate::lifecycle::word::words;
use crate::model::ModelError;

/// Least grace period of a pod on a node, in seconds (L-TERM-8).
const MIN_ON_NODE: i64 = 1;

/// Grace period of a hard eviction, in seconds (L-TERM-22).
const HARD_EVICTION: i64 = 1;

words! {
    /// Reason why one container of a pod is killed.
    enum KillReason {
        /// The container's liveness probe failed.
        LivenessProbe = "LivenessProbe",
        /// The container's startup probe failed.
        StartupProbe = "StartupProbe",
        /// The container's postStart hook failed.
        FailedPostStartHook = "FailedPostStartHook",
        /// All containers of the pod are restarted in place.
        RestartAllContainers = "RestartAllContainers",
        /// Any other reason.
        Unknown = "Unknown",
    }
}

/// The grace period that counts on the node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NodeGrace {
    /// The period in seconds, at least 1.
    pub seconds: i64,
    /// Whether a period in force has become shorter.
    pub shortened: bool,
}

/// Kind of the eviction threshold that was met.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EvictionThreshold {
    /// Hard: the pod is evicted at once.
    Hard,
    /// Soft: the pod's period counts, up to the configured maximum in seconds.
    Soft(i64),
}

/// The grace period on the node (L-TERM-8). All periods are in seconds; a `current` of 0 means that none has been
/// applied yet.
///
/// The API server's period and then the override of an eviction apply if they are the first or shorter. The pod's own
/// period applies only without either. An API period of 0 counts as applied: after a force delete the period stays 1 s,
/// where v1.36.2 lets a later override lengthen it.
#[must_use]
pub fn node_grace(
    current: i64,
    deletion: Option<i64>,
    eviction: Option<i64>,
    own: Option<i64>,
) -> NodeGrace {
    let in_force = Some(current).filter(|seconds| *seconds != 0);
    let applied = [in_force, deletion, eviction].into_iter().flatten().min();
    let seconds = applied.or(own).unwrap_or(DEFAULT_PERIOD).max(MIN_ON_NODE);
    NodeGrace { seconds, shortened: in_force.is_some_and(|current| current != seconds) }
}

/// The grace period of an eviction under node pressure, in seconds and at least 1, given the pod's own period
/// (L-TERM-22). As an override it can only shorten.
#[must_use]
pub fn eviction_override(threshold: EvictionThreshold, own: Option<i64>) -> i64 {
    match threshold {
        EvictionThreshold::Hard => HARD_EVICTION,
        EvictionThreshold::Soft(maximum) => maximum.min(own_period(own)).max(MIN_ON_NODE),
    }
}

/// The grace period of one container that is killed (L-TERM-23), in seconds, before its last window (L-TERM-10).
///
/// `deletion` is the period of a pod that is being deleted and goes before the others. `probe` is the failed probe's
/// own period and may exceed the pod's. An in-place restart of all containers has a period of 0, so no preStop hook
/// runs (L-TERM-26).
#[must_use]
pub fn kill_grace(
    reason: KillReason,
    deletion: Option<i64>,
    probe: Option<i64>,
    own: Option<i64>,
) -> i64 {
    let own = own.unwrap_or(DEFAULT_PERIOD);
    let seconds = match (deletion, reason) {
        (Some(deletion), _) => deletion,
        (None, KillReason::LivenessProbe | KillReason::StartupProbe) => probe.unwrap_or(own),
        (None, KillReason::RestartAllContainers) => 0,
        (None, KillReason::FailedPostStartHook | KillReason::Unknown) => own,
    };
    at_least_one_if_negative(seconds)
}

/// `EffectiveNodeGrace`: [`node_grace`] for the wire.
///
/// # Errors
/// [`ModelError`] if `current` is negative.
pub fn effective_node_grace(
    request: &EffectiveNodeGraceRequest,
) -> Result<EffectiveNodeGraceResponse, ModelError> {
    let &EffectiveNodeGraceRequest {
        current,
        deletion_grace_period_seconds,
        pod_grace_period_seconds,
        override_seconds,
    } = request;
    if current < 0 {
        return Err(ModelError::new("current", format!("is {current}, below 0")));
    }
    let NodeGrace { seconds, shortened } = node_grace(
        current,
        deletion_grace_period_seconds,
        override_seconds,
        pod_grace_period_seconds,
    );
    Ok(EffectiveNodeGraceResponse { seconds, shortened })
}

/// `ContainerKillGrace`: [`kill_grace`] for the wire.
///
/// # Errors
/// [`ModelError`] for an unknown reason, and for a probe's period below 1.
pub fn container_kill_grace(
    request: &ContainerKillGraceRequest,
) -> Result<ContainerKillGraceResponse, ModelError> {
    let reason = KillReason::parse_or(&request.kill_reason, KillReason::Unknown, "killReason")?;
    if let Some(seconds) = request.probe_grace_period_seconds.filter(|seconds| *seconds < 1) {
        return Err(ModelError::new("probeGracePeriodSeconds", format!("is {seconds}, below 1")));
    }
    let seconds = kill_grace(
        reason,
        request.deletion_grace_period_seconds,
        request.probe_grace_period_seconds,
        request.pod_grace_period_seconds,
    );
    Ok(ContainerKillGraceResponse { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_applied_period_counts() {
        let seconds = |current, deletion, eviction, own| {
            let grace = node_grace(current, deletion, eviction, own);
            (grace.seconds, grace.shortened)
        };
        // L-TERM-8: API period and override shorten, in either order; the pod's own period never does.
        assert_eq!(seconds(30, Some(20), Some(7), Some(3)), (7, true));
        assert_eq!(seconds(30, Some(5), Some(7), Some(3)), (5, true));
        assert_eq!(seconds(30, None, None, Some(3)), (30, false));
        // A period of 1 cannot shrink, not even by hostile values.
        assert_eq!(seconds(1, Some(0), Some(i64::MIN), None), (1, false));
        assert_eq!(seconds(0, None, None, Some(i64::MIN)), (1, false));
        assert_eq!(seconds(0, None, None, None), (30, false));
        assert_eq!(seconds(0, None, Some(0), Some(60)), (1, false));
    }

    #[test]
    fn evictions_shorten() {
        // L-TERM-22
        assert_eq!(eviction_override(EvictionThreshold::Hard, Some(600)), 1);
        assert_eq!(eviction_override(EvictionThreshold::Soft(90), Some(600)), 90);
        assert_eq!(eviction_override(EvictionThreshold::Soft(90), None), 30);
        assert_eq!(eviction_override(EvictionThreshold::Soft(-1), Some(-9)), 1);
        // L-TERM-8: a soft threshold leaves at least as much as a hard one.
        assert_eq!(eviction_override(EvictionThreshold::Soft(0), None), 1);
        assert_eq!(eviction_override(EvictionThreshold::Soft(90), Some(0)), 1);
    }

    #[test]
    fn a_container_killed_alone() {
        // L-TERM-23: for other reasons a probe's period does not count.
        assert_eq!(kill_grace(KillReason::FailedPostStartHook, None, Some(90), Some(20)), 20);
        assert_eq!(kill_grace(KillReason::Unknown, None, None, None), 30);
        assert_eq!(kill_grace(KillReason::StartupProbe, Some(0), Some(90), Some(20)), 0);
        // L-TERM-26
        assert_eq!(kill_grace(KillReason::RestartAllContainers, None, None, Some(20)), 0);
    }

    #[test]
    fn bad_input_is_named() {
        let request = EffectiveNodeGraceRequest { current: -2, ..Default::default() };
        let error = effective_node_grace(&request).unwrap_err();
        assert_eq!(error.to_string(), "`current`: is -2, below 0");
        let mut request = ContainerKillGraceRequest {
            kill_reason: "livenessProbe".into(),
            probe_grace_period_seconds: Some(0),
            ..Default::default()
        };
        let error = container_kill_grace(&request).unwrap_err();
        assert!(error.to_string().starts_with("`killReason`: unknown value `livenessProbe`"));
        request.kill_reason = String::new();
        let error = container_kill_grace(&request).unwrap_err();
        assert_eq!(error.to_string(), "`probeGracePeriodSeconds`: is 0, below 1");
    }
}
