//! The end of a container, as the status of its pod shows it, and what follows from it.

use berth_proto::core_v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod,
};

use super::signal::Signal;
use crate::lifecycle::container_state::{Member, Pair, Roster};
use crate::lifecycle::reading::{self, State};
use crate::lifecycle::restart::{
    BackOffLimits, Candidate, DecidedBy, Exit, Hold, RESTARTING_ALL_CONTAINERS, RestartAction,
    held_back,
};
use crate::lifecycle::termination;
use crate::lifecycle::vocabulary::ContainerKind;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

words! {
    /// Reason of an event about a container that has ended (L-CSTATE-16).
    enum EventReason {
        /// The process ended with exit code 0.
        Completed = "Completed",
        /// The process ended with another exit code, or was killed.
        Failed = "Failed",
        /// The process was killed for lack of memory.
        OomKilled = "OOMKilled",
        /// The process ended by the signal of a stop that was requested.
        Stopped = "Stopped",
        /// The restart waits (L-CSTATE-18).
        BackOff = "BackOff",
    }
}

/// The end of a container, with what follows from it.
#[derive(Debug)]
pub(super) struct End<'a> {
    pub(super) name: &'a str,
    pub(super) kind: ContainerKind,
    /// The container; `None` for an ephemeral one.
    pub(super) container: Option<&'a Container>,
    pub(super) terminated: &'a ContainerStateTerminated,
    pub(super) signal: Option<Signal>,
    pub(super) action: RestartAction,
    pub(super) decided_by: DecidedBy,
    /// The earliest restart; `None` without a restart, and if the time of the end is unknown.
    pub(super) hold: Option<Hold>,
    pub(super) n_restarts: i32,
}

/// A container of a pod with its status.
pub(super) struct Found<'a> {
    name: &'a str,
    kind: ContainerKind,
    /// The container in the spec; `None` for an ephemeral one.
    pair: Option<Pair<'a>>,
    status: Option<&'a ContainerStatus>,
    /// Path of the status, for errors.
    pub(super) path: String,
}

/// The container of this name: one of the roster, or an ephemeral one.
pub(super) fn find<'a>(
    pod: &'a Pod,
    roster: &Roster<'a>,
    name: &'a str,
) -> Result<Found<'a>, ModelError> {
    if let Some(member) = roster.all().iter().find(|member| member.name() == name) {
        let Member { pair, kind, .. } = *member;
        let path = "pod.status".to_owned();
        return Ok(Found { name, kind, pair: Some(pair), status: pair.status(), path });
    }
    let statuses = &reading::status(pod).ephemeral_container_statuses;
    let place = statuses.iter().position(|status| status.name == name);
    let mut ephemeral = reading::spec(pod).ephemeral_containers.iter();
    let is_listed = ephemeral.any(|container| {
        container.ephemeral_container_common.as_ref().is_some_and(|common| common.name == name)
    });
    if place.is_none() && !is_listed {
        let reason = format!("the pod has no container `{}`", clip(name));
        return Err(ModelError::new("container", reason));
    }
    let path = format!("pod.status.ephemeralContainerStatuses[{}]", place.unwrap_or_default());
    let status = place.map(|place| &statuses[place]);
    Ok(Found { name, kind: ContainerKind::Ephemeral, pair: None, status, path })
}

/// The status of the container with its end as the state: the given end, else the recorded one. The message of a
/// container that waits stays, since it may say how long (L-RESTART-15).
///
/// # Errors
/// [`ModelError`] relative to the status, for a state that contradicts itself.
pub(super) fn ended_status(
    found: &Found<'_>,
    given: Option<&ContainerStateTerminated>,
) -> Result<ContainerStatus, ModelError> {
    let mut status = found.status.cloned().unwrap_or_default();
    if let Some(given) = given {
        status.state =
            Some(ContainerState { terminated: Some(given.clone()), ..ContainerState::default() });
        return Ok(status);
    }
    let state = reading::state(status.state.as_ref(), "state")?;
    let last = reading::state(status.last_state.as_ref(), "lastState")?;
    if let (Some(State::Waiting(waiting)), Some(State::Terminated(ended))) = (state, last) {
        status.state = Some(ContainerState {
            waiting: Some(waiting.clone()),
            terminated: Some(ended.clone()),
            ..ContainerState::default()
        });
    }
    Ok(status)
}

impl<'a> End<'a> {
    /// # Errors
    /// [`ModelError`] relative to the request, for an unknown policy or rule.
    pub(super) fn new(
        pod: &Pod,
        found: &Found<'a>,
        status: &'a ContainerStatus,
        terminated: &'a ContainerStateTerminated,
    ) -> Result<End<'a>, ModelError> {
        let Found { name, kind, pair, .. } = *found;
        let policy = reading::restart_policy(reading::spec(pod));
        let pod_policy = policy.map_err(|error| error.under("pod.spec"))?;
        let without_rules = Container::default();
        let container = pair.map(|pair| pair.container);
        let candidate = Candidate {
            pod_policy,
            pod_deleting: reading::is_marked(pod),
            kind,
            container: container.unwrap_or(&without_rules),
        };
        let exit = Exit { code: terminated.exit_code, reason: &terminated.reason };
        let verdict = candidate.after_exit(exit);
        let verdict = match pair {
            Some(pair) => pair.of_container(verdict).map_err(|error| error.under("pod"))?,
            None => verdict?,
        };
        let hold = match verdict.action {
            RestartAction::None => None,
            // An in-place restart of all containers has no back-off (L-RESTART-11).
            RestartAction::RestartAllContainers => {
                let finished = reading::optional(terminated.finished_at.as_ref());
                finished.map(|not_before| Hold { not_before, delay: 0 })
            }
            RestartAction::Restart => hold_of(status, terminated)?,
        };
        Ok(End {
            name,
            kind,
            container,
            terminated,
            signal: Signal::of(terminated),
            action: verdict.action,
            decided_by: verdict.decided_by,
            hold,
            n_restarts: status.restart_count,
        })
    }
}

/// The earliest restart after this end. The delay that the node agent names in the message of a waiting container
/// counts, else the longest that the restart count allows.
fn hold_of(
    status: &ContainerStatus,
    terminated: &ContainerStateTerminated,
) -> Result<Option<Hold>, ModelError> {
    let ended =
        ContainerState { terminated: Some(terminated.clone()), ..ContainerState::default() };
    let waiting = status.state.as_ref().and_then(|state| state.waiting.clone());
    let (state, last_state) = match waiting {
        Some(waiting) => {
            (ContainerState { waiting: Some(waiting), ..ContainerState::default() }, Some(ended))
        }
        None => (ended, None),
    };
    let status = ContainerStatus {
        state: Some(state),
        last_state,
        restart_count: status.restart_count,
        ..ContainerStatus::default()
    };
    held_back(&status, BackOffLimits::default())
}

/// Whether the process ended by the signal of a stop that was requested: its pod restarts all containers in place, or
/// was marked for deletion before the end (L-CSTATE-16).
pub(super) fn is_stopped(pod: &Pod, end: &End<'_>) -> bool {
    if end.terminated.reason == RESTARTING_ALL_CONTAINERS {
        return true;
    }
    let Some(mark) = termination::mark(pod) else { return false };
    let requested_at = mark.deletion_timestamp.saturating_sub(mark.period_seconds);
    let finished = reading::optional(end.terminated.finished_at.as_ref());
    let is_after = finished.is_none_or(|finished| finished >= requested_at);
    is_after && end.signal.is_some_and(Signal::stops)
}
