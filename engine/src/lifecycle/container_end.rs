//! `ContainerEndEvent`: the events to write about a container that has ended (L-CSTATE-16 to L-CSTATE-19).
//!
//! The node agent of v1.36.2 writes an event when it starts or stops a container and while a restart waits, and none
//! when a container ends by itself. The texts promise one for a completion, a failure and a kill for lack of memory.

mod end;
mod message;
mod signal;

use berth_proto::berth_v1::{ContainerEndEventRequest, ContainerEndEventResponse, ContainerEvent};

pub use self::end::EventReason;
use self::end::{End, ended_status, find, is_stopped};
use self::signal::Signal;
use super::container_state::Roster;
use super::reading::{self, Seconds, given, given_text};
use super::restart::OOM_KILLED;
use super::vocabulary::ContainerKind;
use super::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

words! {
    /// Type of an event.
    enum EventType {
        /// The event is part of an ordinary life.
        Normal = "Normal",
        /// A person may want to look.
        Warning = "Warning",
    }
}

/// `ContainerEndEvent`: the events to write about a container that has ended, and what follows from the end.
///
/// # Errors
/// [`ModelError`] for a missing pod, container or time, a container that the pod does not have or that has not ended,
/// an unknown policy, and statuses that contradict themselves.
pub fn container_end_event(
    request: &ContainerEndEventRequest,
) -> Result<ContainerEndEventResponse, ModelError> {
    let pod = given(request.pod.as_ref(), "pod")?;
    let name = given_text(&request.container, "container")?;
    let now = reading::required(request.now.as_ref(), "now")?;
    let roster = Roster::of(pod).map_err(|error| error.under("pod"))?;
    let found = find(pod, &roster, name)?;
    let status = ended_status(&found, request.terminated.as_ref())
        .map_err(|error| error.under(&found.path))?;
    let Some(terminated) = status.state.as_ref().and_then(|state| state.terminated.as_ref()) else {
        return Err(ModelError::new("container", format!("`{}` has not ended", clip(name))));
    };
    let end = End::new(pod, &found, &status, terminated)?;
    let mut events = vec![event(&end, is_stopped(pod, &end))];
    events.extend(back_off(&end, now));
    Ok(ContainerEndEventResponse {
        events,
        exit_code: terminated.exit_code,
        signal: end.signal.map(Signal::number),
        signal_name: end.signal.and_then(Signal::name).unwrap_or_default().to_owned(),
        action: end.action.word().to_owned(),
        restart_not_before: end.hold.map(|hold| reading::time(hold.not_before)),
        backoff_seconds: end.hold.map_or(0, |hold| hold.delay),
    })
}

/// The event of the end itself (L-CSTATE-16).
fn event(end: &End<'_>, is_stopped: bool) -> ContainerEvent {
    let (r#type, reason) = if end.terminated.reason == OOM_KILLED {
        (EventType::Warning, EventReason::OomKilled)
    } else if end.terminated.exit_code == 0 {
        (EventType::Normal, EventReason::Completed)
    } else if is_stopped {
        (EventType::Normal, EventReason::Stopped)
    } else {
        (EventType::Warning, EventReason::Failed)
    };
    let rules = &["L-CSTATE-16", "L-CSTATE-17", "L-PHASE-17"];
    written(end, r#type, reason, message::of_end(end, reason), rules)
}

/// The event of a restart that has to wait (L-CSTATE-18).
fn back_off(end: &End<'_>, now: Seconds) -> Option<ContainerEvent> {
    let hold = end.hold.filter(|hold| hold.delay > 0 && hold.not_before > now)?;
    let rules = &["L-CSTATE-18", "L-RESTART-15", "L-RESTART-19"];
    let message = message::of_back_off(end, hold);
    Some(written(end, EventType::Warning, EventReason::BackOff, message, rules))
}

fn written(
    end: &End<'_>,
    r#type: EventType,
    reason: EventReason,
    message: String,
    rules: &[&str],
) -> ContainerEvent {
    ContainerEvent {
        r#type: r#type.word().to_owned(),
        reason: reason.word().to_owned(),
        message,
        field_path: format!("spec.{}{{{}}}", list_of(end.kind), end.name),
        rules: rules.iter().map(|&rule| rule.to_owned()).collect(),
    }
}

/// The list of the pod's spec that has the containers of a kind (L-CSTATE-19).
const fn list_of(kind: ContainerKind) -> &'static str {
    match kind {
        ContainerKind::Regular => "containers",
        ContainerKind::Init | ContainerKind::Sidecar => "initContainers",
        ContainerKind::Ephemeral => "ephemeralContainers",
    }
}

#[cfg(test)]
mod tests;
