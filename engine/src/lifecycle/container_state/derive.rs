//! `DeriveContainerState`: the published state of one container.

mod reason;
mod start_error;

use berth_proto::berth_v1::{
    ContainerRuntimeRecord, DeriveContainerStateRequest, DeriveContainerStateResponse,
};
use berth_proto::core_v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus,
};

pub use self::reason::StartErrorReason;
use super::{COMPLETED, ContainerOfPod, lost};
use crate::lifecycle::reading::{self, State};
use crate::lifecycle::restart::{Exit, exit_code};
use crate::lifecycle::vocabulary::{ContainerKind, RuntimeState};
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Progress of the postStart hook.
    enum PostStart {
        /// The hook has ended, or there is none.
        Done = "Done",
        /// The hook has not ended.
        Pending = "Pending",
    }
}

/// The published status of a container.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shown {
    state: ContainerState,
    last_state: ContainerState,
    restart_count: i32,
}

/// The facts about a container, read and checked for consistency.
struct Facts<'a> {
    request: &'a DeriveContainerStateRequest,
    subject: ContainerOfPod<'a>,
    /// The runtime's record, if there is one.
    runtime: Option<(&'a ContainerRuntimeRecord, RuntimeState)>,
    /// The recorded status, if there is one, and its state.
    old: Option<(&'a ContainerStatus, Option<State<'a>>)>,
    post_start: PostStart,
}

/// `DeriveContainerState`: state, last state and restart count of one container (L-CSTATE-1 to L-CSTATE-12).
///
/// # Errors
/// [`ModelError`] for a missing container, an unknown word, a recorded status that contradicts itself or belongs to
/// another container, a negative restart count, and a runtime's record with an exit without a code, an end without an
/// exit, or an end before the start.
pub fn derive_container_state(
    request: &DeriveContainerStateRequest,
) -> Result<DeriveContainerStateResponse, ModelError> {
    let facts = Facts::read(request)?;
    let mut shown = match facts.runtime {
        Some((record, state)) => facts.seen(record, state),
        None => facts.unseen(),
    };
    facts.show_start_error(&mut shown)?;
    let old_count = facts.old.map_or(0, |(old, _)| old.restart_count);
    let is_empty = shown.last_state == ContainerState::default();
    Ok(DeriveContainerStateResponse {
        state: Some(shown.state),
        last_state: Some(shown.last_state).filter(|_| !is_empty),
        restart_count: shown.restart_count.max(old_count), // never falls (L-CSTATE-12)
    })
}

impl<'a> Facts<'a> {
    fn read(request: &'a DeriveContainerStateRequest) -> Result<Facts<'a>, ModelError> {
        let subject = ContainerOfPod::read(
            request.container.as_ref(),
            &request.kind,
            &request.pod_restart_policy,
        )?;
        let runtime = match &request.runtime {
            Some(record) => {
                Some((record, read_runtime(record).map_err(|error| error.under("runtime"))?))
            }
            None => None,
        };
        let old = match &request.old {
            Some(old) => Some((old, read_old(old, &subject.container.name)?)),
            None => None,
        };
        if let Some(error) = &request.start_error {
            StartErrorReason::parse(&error.reason, "startError.reason")?;
        }
        let post_start = PostStart::parse_or(&request.post_start, PostStart::Done, "postStart")?;
        Ok(Facts { request, subject, runtime, old, post_start })
    }

    /// Status of a container that the runtime knows (L-CSTATE-3 to L-CSTATE-6).
    fn seen(&self, record: &ContainerRuntimeRecord, state: RuntimeState) -> Shown {
        let was_running = matches!(self.old, Some((_, Some(State::Running(_)))));
        let mut shown = Shown {
            state: ContainerState::default(),
            last_state: self.carried(record, state),
            restart_count: record.restart_count,
        };
        match state {
            RuntimeState::Created => shown.state = waiting("", ""),
            RuntimeState::Running if self.post_start == PostStart::Pending => {
                return self.as_published(record);
            }
            RuntimeState::Running => {
                let running = Some(ContainerStateRunning { started_at: record.started_at });
                shown.state = ContainerState { running, ..ContainerState::default() };
            }
            RuntimeState::Exited => {
                shown.state = terminated(ContainerStateTerminated {
                    exit_code: record.exit_code.unwrap_or_default(),
                    reason: record.reason.clone(),
                    started_at: record.started_at,
                    finished_at: record.finished_at,
                    ..ContainerStateTerminated::default()
                });
            }
            RuntimeState::Unknown if was_running => {
                let old_count = self.old.map_or(0, |(old, _)| old.restart_count);
                shown.state = terminated(lost("the runtime lost track of the container"));
                shown.restart_count = old_count.saturating_add(1);
            }
            RuntimeState::Unknown => shown.state = waiting("", ""),
        }
        shown
    }

    /// The status published before, or the fallback: a container is not shown as running before its hook has ended
    /// (L-CSTATE-4).
    fn as_published(&self, record: &ContainerRuntimeRecord) -> Shown {
        match self.old {
            Some((old, state)) => Shown {
                state: match state {
                    Some(_) => old.state.clone().unwrap_or_default(),
                    None => self.fallback(),
                },
                last_state: old.last_state.clone().unwrap_or_default(),
                restart_count: old.restart_count,
            },
            None => Shown {
                state: self.fallback(),
                last_state: ContainerState::default(),
                restart_count: record.restart_count,
            },
        }
    }

    /// The last state of a container that the runtime knows: the recorded end if it belongs to an earlier instance,
    /// else the recorded last state. A later instance has a higher restart count; the recorded end belongs to the
    /// current instance only if that has exited.
    fn carried(&self, record: &ContainerRuntimeRecord, state: RuntimeState) -> ContainerState {
        match self.old {
            Some((old, Some(State::Terminated(end))))
                if state != RuntimeState::Exited || record.restart_count > old.restart_count =>
            {
                terminated(end.clone())
            }
            Some((old, _)) => old.last_state.clone().unwrap_or_default(),
            None => ContainerState::default(),
        }
    }

    /// Status of a container that the runtime does not know (L-CSTATE-7, L-CSTATE-8).
    fn unseen(&self) -> Shown {
        let mut shown = match self.old {
            Some((old, Some(State::Terminated(_)))) => {
                return Shown {
                    state: old.state.clone().unwrap_or_default(),
                    last_state: old.last_state.clone().unwrap_or_default(),
                    restart_count: old.restart_count,
                };
            }
            Some((old, state)) => {
                let mut shown = Shown {
                    state: self.fallback(),
                    last_state: old.last_state.clone().unwrap_or_default(),
                    restart_count: old.restart_count,
                };
                let has_last_state = shown.last_state.terminated.is_some();
                if matches!(state, Some(State::Running(_))) && !has_last_state {
                    // The container ended unobserved; without a last state the pod would look as if it had never run.
                    // If there is a last state already, v1.36.2 changes neither it nor the count.
                    shown.last_state = terminated(lost("the runtime does not know the container"));
                    let is_restart = i32::from(!self.request.pod_deleting);
                    shown.restart_count = shown.restart_count.saturating_add(is_restart);
                }
                shown
            }
            None => Shown { state: self.fallback(), ..Shown::default() },
        };
        if self.is_init_done() {
            shown.state = terminated(ContainerStateTerminated {
                reason: COMPLETED.to_owned(),
                message: "its record is gone, and an app container has been created since"
                    .to_owned(),
                ..ContainerStateTerminated::default()
            });
        }
        shown
    }

    /// Whether an ordinary init container must have completed although the runtime does not know it and no end is
    /// recorded: app containers are created only after it. Sidecars never count as completed (L-CSTATE-8).
    fn is_init_done(&self) -> bool {
        let has_recorded_end = matches!(self.old, Some((_, Some(State::Terminated(_)))));
        self.subject.kind == ContainerKind::Init
            && self.runtime.is_none()
            && self.request.any_regular_container_created
            && !has_recorded_end
    }

    /// Waiting, with the reason that applies when nothing else is known (L-CSTATE-1, L-CSTATE-2).
    fn fallback(&self) -> ContainerState {
        match self.request.pod_has_init_containers {
            true => waiting("PodInitializing", ""),
            false => waiting("ContainerCreating", ""),
        }
    }

    /// The exit of the container's last process, if it has ended: the runtime's record, or the recorded status if the
    /// runtime does not know the container.
    fn last_exit(&self) -> Option<Exit<'a>> {
        match (self.runtime, self.old) {
            (Some((record, RuntimeState::Exited)), _) => {
                Some(Exit { code: record.exit_code?, reason: &record.reason })
            }
            (None, Some((_, Some(State::Terminated(end))))) => {
                Some(Exit { code: end.exit_code, reason: &end.reason })
            }
            _ => None,
        }
    }
}

/// The state in the runtime's record. An exit needs a code, or no restart could be decided; other states have no end.
fn read_runtime(record: &ContainerRuntimeRecord) -> Result<RuntimeState, ModelError> {
    not_negative(record.restart_count, "restartCount")?;
    let state = RuntimeState::parse(&record.state, "state")?;
    exit_code(state.into(), record.exit_code)?;
    let started = reading::optional(record.started_at.as_ref());
    let Some(finished) = reading::optional(record.finished_at.as_ref()) else { return Ok(state) };
    let reason = match started {
        _ if state != RuntimeState::Exited => format!("is given in state `{}`", state.word()),
        Some(started) if finished < started => "is before `startedAt`".to_owned(),
        _ => return Ok(state),
    };
    Err(ModelError::new("finishedAt", reason))
}

/// The state of the recorded status.
fn read_old<'a>(old: &'a ContainerStatus, name: &str) -> Result<Option<State<'a>>, ModelError> {
    not_negative(old.restart_count, "old.restartCount")?;
    if !old.name.is_empty() && old.name != name {
        let reason = format!("`{}` is not the container `{name}`", old.name);
        return Err(ModelError::new("old.name", reason));
    }
    reading::state(old.last_state.as_ref(), "old.lastState")?;
    reading::state(old.state.as_ref(), "old.state")
}

fn not_negative(count: i32, field: &str) -> Result<(), ModelError> {
    match count < 0 {
        true => Err(ModelError::new(field, format!("`{count}` is negative"))),
        false => Ok(()),
    }
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    let waiting = Some(ContainerStateWaiting { reason, message });
    ContainerState { waiting, ..ContainerState::default() }
}

fn terminated(end: ContainerStateTerminated) -> ContainerState {
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

#[cfg(test)]
mod tests;
