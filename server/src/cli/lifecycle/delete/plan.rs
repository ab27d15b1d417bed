//! Termination plan of a pod from its object: which containers run, and what is assumed about them.

use std::collections::BTreeMap;

use berth_engine::ModelError;
use berth_engine::lifecycle::termination::{self, Assumed, Stopping};
use berth_proto::Time;
use berth_proto::berth_v1::{
    ApplyDeleteResponse, EffectiveNodeGraceRequest, ShortenDuringTerminationRequest,
    StoppingContainer, TerminationEvent, TerminationPlanRequest,
};
use berth_proto::core_v1::Pod;
use serde::Serialize;

/// Outcome of a delete that does not wait for the node.
pub(super) const REMOVED_AT_ONCE: &str = "RemoveNow";

/// Assumptions about what a pod's object does not show.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Assumptions {
    /// Assume that every container ends this long after its stop signal [default: none ends before it is killed]
    #[arg(long, value_name = "SECONDS")]
    exit_after: Option<u32>,
    /// Assume that every preStop hook that does not just sleep takes this long [default: the whole grace period]
    #[arg(long, value_name = "SECONDS")]
    pre_stop: Option<u32>,
}

impl Assumptions {
    /// Whether it is assumed how long containers take to end.
    pub(super) fn is_about_exits(&self) -> bool {
        self.exit_after.is_some()
    }
}

/// The node's actions for a pod that was deleted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    /// Time when termination starts, or has started.
    pub(super) starts_at: Time,
    /// The grace period that the node applies, in seconds.
    pub(super) node_grace_seconds: i64,
    /// Events in the order of time; empty if the request shortens a termination under way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<TerminationEvent>,
    /// If the request shortens a termination under way: when each container that does not end before is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kill_at: Option<BTreeMap<String, Time>>,
}

/// The plan of a deleted pod, whether its object stays or not, with its running containers; `None` if none runs.
///
/// # Errors
/// The pod is refused, or its times cannot be computed with.
pub(super) fn of(
    pod: &Pod,
    delete: &ApplyDeleteResponse,
    at: Time,
    assumptions: &Assumptions,
) -> Result<Option<Plan>, ModelError> {
    let pod_grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    // A request that changes nothing, such as one whose precondition fails, starts no termination of an unmarked pod.
    let Some(grace) = delete.deletion_grace_period_seconds else { return Ok(None) };
    let node_grace = |seconds| {
        termination::effective_node_grace(&EffectiveNodeGraceRequest {
            deletion_grace_period_seconds: Some(seconds),
            pod_grace_period_seconds: pod_grace,
            ..EffectiveNodeGraceRequest::default()
        })
    };
    let new_grace = node_grace(grace)?.seconds;
    let (starts_at, first_grace) = match started(pod) {
        Some((start, grace)) => (start, node_grace(grace)?.seconds),
        None => (at, new_grace),
    };
    let containers = running(pod, first_grace, assumptions)?;
    if containers.is_empty() {
        return Ok(None);
    }
    let (mut events, mut kill_at) = (Vec::new(), None);
    if new_grace < first_grace {
        let shortened =
            termination::shorten_during_termination(&ShortenDuringTerminationRequest {
                grace_seconds: Some(first_grace),
                termination_started_at: Some(starts_at),
                new_grace_seconds: Some(new_grace),
                changed_at: Some(at),
                containers,
            })?;
        kill_at = Some(shortened.kill_at);
    } else {
        events = termination::termination_plan(&TerminationPlanRequest {
            grace_seconds: Some(first_grace),
            termination_started_at: Some(starts_at),
            containers,
        })?
        .events;
    }
    if delete.outcome == REMOVED_AT_ONCE {
        // The object is gone, so it gets no phase, and is not removed later.
        events.retain(|event| !event.container.is_empty());
    }
    Ok(Some(Plan { starts_at, node_grace_seconds: new_grace, events, kill_at }))
}

/// Whether an earlier delete was requested.
pub(super) fn is_stopping(pod: &Pod) -> bool {
    started(pod).is_some()
}

/// When the termination of a marked pod began, and with which grace period (L-TERM-4).
fn started(pod: &Pod) -> Option<(Time, i64)> {
    let metadata = pod.metadata.as_ref()?;
    let ends_at = metadata.deletion_timestamp?.unix_seconds()?;
    let grace = metadata.deletion_grace_period_seconds.unwrap_or(0).max(0);
    Some((Time::from_unix_seconds(ends_at.saturating_sub(grace)), grace))
}

/// The running containers by the pod's status: one without a status counts as not started.
fn running(
    pod: &Pod,
    grace: i64,
    assumptions: &Assumptions,
) -> Result<Vec<StoppingContainer>, ModelError> {
    let assumed = Assumed {
        // A container that was signalled before and still runs does not show how long it will take.
        exit_after: assumptions.exit_after.filter(|_| !is_stopping(pod)).map(i64::from),
        pre_stop: assumptions.pre_stop.map(i64::from),
    };
    let stopping = |container: Stopping<'_>| StoppingContainer {
        name: container.name.to_owned(),
        kind: container.kind.word().to_owned(),
        exit_after_signal_seconds: container.exit_after_signal,
        pre_stop_seconds: container.pre_stop,
        stop_signal: container.stop_signal.unwrap_or_default().to_owned(),
    };
    let containers = termination::stopping_of(pod, grace, assumed)?;
    Ok(containers.into_iter().map(stopping).collect())
}
