//! How long the node gives a process: pods that end, containers that are killed alone, evictions (L-TERM-8, L-TERM-22,
//! L-TERM-23).

use berth_proto::berth_v1::{
    ContainerKillGraceRequest, ContainerKillGraceResponse, EffectiveNodeGraceRequest,
    EffectiveNodeGraceResponse,
};

use super::delete::{DEFAULT_PERIOD, at_least_one_if_negative, own_period};
use crate::lifecycle::word::words;
use crate::model::ModelError;

/// No pod that ends on a node has less, in seconds (L-TERM-8).
const MIN_ON_NODE: i64 = 1;

/// What a hard eviction gives, in seconds (L-TERM-22).
const HARD_EVICTION: i64 = 1;

words! {
    /// Why one container of a pod is killed.
    enum KillReason {
        /// Its liveness probe failed.
        LivenessProbe = "LivenessProbe",
        /// Its startup probe failed.
        StartupProbe = "StartupProbe",
        /// Its postStart hook failed.
        FailedPostStartHook = "FailedPostStartHook",
        /// The pod starts over in place.
        RestartAllContainers = "RestartAllContainers",
        /// Anything else.
        Unknown = "Unknown",
    }
}

/// The grace period that counts on the node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NodeGrace {
    /// At least 1.
    pub seconds: i64,
    /// Whether a period that was in force has become shorter.
    pub shortened: bool,
}

/// The threshold under which a node evicts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EvictionThreshold {
    /// At once.
    Hard,
    /// Within the configured maximum, in seconds.
    Soft(i64),
}

/// The grace period on the node (L-TERM-8). All in seconds; `current` 0: none has been applied yet.
///
/// The API server's period and then the override of an eviction are each taken if they are the first or shorter; the pod's own
/// only if there is neither. An API period of 0 counts as applied: a force delete leaves 1 s whatever follows, where v1.36.2
/// lets a later override lengthen it.
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

/// What an eviction under node pressure asks for, in seconds and at least 1, given the pod's own period (L-TERM-22). As an
/// override it can only shorten.
#[must_use]
pub fn eviction_override(threshold: EvictionThreshold, own: Option<i64>) -> i64 {
    match threshold {
        EvictionThreshold::Hard => HARD_EVICTION,
        EvictionThreshold::Soft(maximum) => maximum.min(own_period(own)).max(MIN_ON_NODE),
    }
}

/// The grace period of one container that is killed (L-TERM-23), in seconds, before its last window (L-TERM-10).
///
/// `deletion` is the period of a pod that is being deleted, which goes before everything. `probe` is the failed probe's own
/// and may exceed the pod's. An in-place restart of all containers gives none, so no preStop hook is run (L-TERM-26).
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

/// `EffectiveNodeGrace`.
///
/// # Errors
/// [`ModelError`] when `current` is negative: no period in force ever is.
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

/// `ContainerKillGrace`.
///
/// # Errors
/// [`ModelError`] for an unknown reason, and for a probe's period below 1, which no probe can have.
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
    fn the_shortest_that_was_ever_applied_counts() {
        let seconds = |current, deletion, eviction, own| {
            let grace = node_grace(current, deletion, eviction, own);
            (grace.seconds, grace.shortened)
        };
        // L-TERM-8: both shorten, in either order; the pod's own never does.
        assert_eq!(seconds(30, Some(20), Some(7), Some(3)), (7, true));
        assert_eq!(seconds(30, Some(5), Some(7), Some(3)), (5, true));
        assert_eq!(seconds(30, None, None, Some(3)), (30, false));
        // 1 cannot shrink, and hostile values end there too.
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
        // L-TERM-8: a soft threshold leaves no less than a hard one.
        assert_eq!(eviction_override(EvictionThreshold::Soft(0), None), 1);
        assert_eq!(eviction_override(EvictionThreshold::Soft(90), Some(0)), 1);
    }

    #[test]
    fn a_container_killed_alone() {
        // L-TERM-23: a probe's period is of no interest to other reasons.
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
