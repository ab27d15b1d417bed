//! The timeline of a pod: its stage, past events, and the events to come if nothing intervenes.

use berth_proto::berth_v1::{LifecycleEvent, PodDeleteOptions};
use berth_proto::core_v1::{Pod, PodCondition};

use super::next::{self, Threat};
use super::subject::Subject;
use crate::lifecycle::container_state::Member;
use crate::lifecycle::evaluation::result::{Action, Evaluation};
use crate::lifecycle::partition::TERMINATING;
use crate::lifecycle::phase::PhaseDecision;
use crate::lifecycle::reading::{self, Seconds, State};
use crate::lifecycle::restart::{BackOffLimits, FORGOTTEN_AFTER, held_back};
use crate::lifecycle::termination;
use crate::lifecycle::vocabulary::{ConditionStatus, ContainerKind};
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Stage of a pod's life, in order; no stage is entered twice (L-PHASE-15).
    enum Stage {
        /// The pod waits for its scheduling gates.
        Creation = "Creation",
        /// The pod waits for a node.
        Scheduling = "Scheduling",
        /// The pod is bound: init containers run, then app containers.
        Execution = "Execution",
        /// The pod terminates or has ended.
        Termination = "Termination",
        /// The pod has ended and is marked: only the object is left.
        Deletion = "Deletion",
    }
}

/// The stage of the pod.
pub(super) fn stage(subject: &Subject<'_>, phase: &PhaseDecision<'_>) -> Stage {
    let pod = subject.pod;
    let is_marked = reading::is_marked(pod);
    let is_ended =
        phase.published.is_terminal() && !subject.phase_facts.could_have_running_containers;
    if is_marked && (is_ended || reading::node_name(pod).is_none()) {
        Stage::Deletion
    } else if is_marked || phase.phase.is_terminal() {
        Stage::Termination
    } else if reading::node_name(pod).is_some() {
        Stage::Execution
    } else if reading::spec(pod).scheduling_gates.is_empty() {
        Stage::Scheduling
    } else {
        Stage::Creation
    }
}

/// One sentence about the pod's state and the reason.
pub(super) fn summary(subject: &Subject<'_>, evaluation: &Evaluation<'_>) -> String {
    let Evaluation { phase, partition, next, .. } = evaluation;
    let mut said = match partition.display_status {
        TERMINATING => TERMINATING.to_owned(),
        _ => phase.effective.word().to_owned(),
    };
    if !phase.reason.is_empty() {
        said = format!("{said} ({})", phase.reason);
    }
    if let Some(node) = reading::node_name(subject.pod) {
        said = format!("{said} on node {node}");
    }
    if next.names.is_empty() {
        format!("{said}: {}", next.why)
    } else {
        format!("{said}: {} ({})", next.why, next.names.join(", "))
    }
}

/// Past events, oldest first, and then the events to come.
///
/// # Errors
/// [`ModelError`] relative to the request.
pub(super) fn events(
    subject: &Subject<'_>,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<LifecycleEvent>, ModelError> {
    let mut past = past(subject).map_err(|error| error.under("pod"))?;
    past.sort_by_key(|event| event.at);
    let mut upcoming = upcoming(subject, evaluation)?;
    // Overdue events are due now.
    for event in &mut upcoming {
        event.at = event.at.map(|at| at.max(subject.now));
    }
    // Events without a known time come last.
    upcoming.sort_by_key(|event| (event.at.is_none(), event.at));
    let upcoming = upcoming.into_iter().map(|event| event.to_wire(true));
    Ok(past.into_iter().map(|event| event.to_wire(false)).chain(upcoming).collect())
}

/// An event; `at` is `None` if its time is unknown.
struct Event {
    at: Option<Seconds>,
    what: String,
    why: String,
    rules: &'static [&'static str],
}

impl Event {
    fn new(
        at: Option<Seconds>,
        what: impl Into<String>,
        why: impl Into<String>,
        rules: &'static [&'static str],
    ) -> Event {
        Event { at, what: what.into(), why: why.into(), rules }
    }

    fn to_wire(&self, upcoming: bool) -> LifecycleEvent {
        LifecycleEvent {
            at: self.at.map(reading::time),
            upcoming,
            what: self.what.clone(),
            why: self.why.clone(),
            rules: self.rules.iter().map(|&rule| rule.to_owned()).collect(),
        }
    }
}

/// Past events that the object records with a time.
fn past(subject: &Subject<'_>) -> Result<Vec<Event>, ModelError> {
    let pod = subject.pod;
    let (meta, status) = (reading::meta(pod), reading::status(pod));
    let mut events = Vec::new();
    let created = reading::optional(meta.creation_timestamp.as_ref());
    events.push(Event::new(created, "created", "", &["L-PHASE-15"]));
    let accepted = reading::optional(status.start_time.as_ref());
    events.push(Event::new(accepted, "accepted by the node agent", "", &["L-PHASE-16"]));
    events.extend(status.conditions.iter().filter_map(|condition| change_of(pod, condition)));
    for member in subject.roster.all() {
        ran(member, &mut events)?;
    }
    if let Some(mark) = termination::mark(pod) {
        let requested = Some(mark.deletion_timestamp.saturating_sub(mark.period_seconds));
        let why = format!("grace period {} s", mark.period_seconds);
        events.push(Event::new(requested, "deletion requested", why, &["L-TERM-4"]));
    }
    events.retain(|event| event.at.is_some());
    Ok(events)
}

/// Event of a condition's latest change, for the conditions that readers need.
fn change_of(pod: &Pod, condition: &PodCondition) -> Option<Event> {
    let at = reading::optional(condition.last_transition_time.as_ref());
    let is_true = condition.status == ConditionStatus::True.word();
    let why = match (condition.reason.as_str(), condition.message.as_str()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    let (what, rules): (String, &'static [&'static str]) = match condition.r#type.as_str() {
        "PodScheduled" if is_true => {
            (format!("bound to node {}", reading::spec(pod).node_name), &["L-COND-4"])
        }
        "PodScheduled" => ("not scheduled".to_owned(), &["L-COND-4"]),
        "Initialized" if is_true => ("initialized".to_owned(), &["L-COND-7"]),
        "Ready" if is_true => ("ready".to_owned(), &["L-COND-9"]),
        "Ready" => ("not ready".to_owned(), &["L-COND-8", "L-COND-9"]),
        "DisruptionTarget" if is_true => ("marked for disruption".to_owned(), &["L-COND-12"]),
        "berth.io/NodePartitioned" if is_true => ("node cut off".to_owned(), &["L-FENCE-2"]),
        _ => return None,
    };
    Some(Event::new(at, what, why, rules))
}

/// Adds the starts and ends of a container, including the previous run.
fn ran(member: &Member<'_>, events: &mut Vec<Event>) -> Result<(), ModelError> {
    let Some(status) = member.pair.status() else { return Ok(()) };
    let part = match member.kind {
        ContainerKind::Init => "init container",
        ContainerKind::Sidecar => "sidecar",
        ContainerKind::Regular | ContainerKind::Ephemeral => "container",
    };
    let name = format!("{part} {}", status.name);
    for (state, field) in [(&status.last_state, "lastState"), (&status.state, "state")] {
        match reading::state(state.as_ref(), field)? {
            Some(State::Running(running)) => {
                let at = reading::optional(running.started_at.as_ref());
                let why = match status.restart_count {
                    0 => String::new(),
                    n => format!("restart {n}"),
                };
                events.push(Event::new(at, format!("{name} started"), why, &["L-CSTATE-4"]));
            }
            Some(State::Terminated(ended)) => {
                let at = reading::optional(ended.started_at.as_ref());
                events.push(Event::new(at, format!("{name} started"), "", &["L-CSTATE-4"]));
                let at = reading::optional(ended.finished_at.as_ref());
                let why = match ended.reason.as_str() {
                    "" => format!("exit code {}", ended.exit_code),
                    reason => format!("exit code {}, {reason}", ended.exit_code),
                };
                events.push(Event::new(at, format!("{name} ended"), why, &["L-CSTATE-5"]));
            }
            Some(State::Waiting(_)) | None => {}
        }
    }
    Ok(())
}

/// The events to come if nothing intervenes.
fn upcoming(subject: &Subject<'_>, evaluation: &Evaluation<'_>) -> Result<Vec<Event>, ModelError> {
    let next = &evaluation.next;
    let mut events = Vec::new();
    let names = next.names.join(", ");
    let with = |what: &str| {
        if names.is_empty() { what.to_owned() } else { format!("{what}: {names}") }
    };
    let at = next.not_before.or(Some(subject.now));
    let why = next.why.as_ref();
    match next.action {
        Action::None => {}
        Action::AwaitGates => events.push(Event::new(None, with("gates removed"), why, next.rules)),
        Action::Schedule => events.push(Event::new(None, "bound to a node", why, next.rules)),
        Action::AwaitNode => {
            let what = "the node returns, is fenced, or is declared lost";
            events.push(Event::new(None, what, why, next.rules));
        }
        Action::AwaitContainers => {
            events.push(Event::new(None, with("containers come up"), why, next.rules));
        }
        Action::AwaitFinalizers => {
            events.extend(failed_first(subject, Some(subject.now)));
            events.push(Event::new(None, with("finalizers removed"), why, next.rules));
            events.push(Event::new(None, "object removed", "", &["L-TERM-6"]));
        }
        // After a failed attempt, the time of the first start is unknown.
        Action::StartContainers => {
            events.push(Event::new(None, with("containers started"), why, next.rules));
        }
        Action::RestartContainers => {
            let what = with("containers started again");
            events.push(Event::new(next.not_before, what, why, next.rules));
            let names = if next.not_before.is_some() { &next.names[..] } else { &[] };
            events.extend(after_another_crash(subject, names)?);
        }
        Action::StopContainers | Action::KillContainers => {
            events.extend(stopping(subject, next.deadline, &with("containers stopped"), why));
        }
        Action::FailPod => {
            events.push(Event::new(at, "the pod fails: DeadlineExceeded", why, next.rules));
        }
        Action::EvictPod => events.extend(evicted(subject, subject.now, why)?),
        Action::PublishPhase => {
            events.push(Event::new(at, "terminal phase published", why, next.rules));
            if reading::is_marked(subject.pod) {
                events.push(Event::new(None, "object removed", "", &["L-TERM-19"]));
            }
        }
        Action::RemovePod => {
            events.extend(failed_first(subject, at));
            events.push(Event::new(at, "object removed", why, next.rules));
        }
    }
    events.extend(threatening(subject, evaluation)?);
    Ok(events)
}

/// Adds the events that time alone brings: the active deadline, an eviction, the end of a disruption mark.
fn threatening(
    subject: &Subject<'_>,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<Event>, ModelError> {
    let mut events = Vec::new();
    for (at, threat) in next::threats(subject, &evaluation.phase)? {
        if at <= subject.now {
            continue;
        }
        match threat {
            Threat::ActiveDeadline => {
                let why = "`activeDeadlineSeconds` after its start";
                let what = "the pod fails: DeadlineExceeded";
                events.push(Event::new(Some(at), what, why, &["L-PHASE-10"]));
            }
            Threat::Eviction => {
                let why = "its toleration of a NoExecute taint ends";
                events.extend(evicted(subject, at, why)?);
            }
            Threat::StaleMark => {
                let why = "no deletion followed";
                events.push(Event::new(Some(at), "disruption mark dropped", why, &["L-COND-14"]));
            }
        }
    }
    Ok(events)
}

/// Event for the phase that the garbage collector sets before it removes a pod that it collects and that has no
/// terminal phase yet (L-GC-6, L-PHASE-14).
fn failed_first(subject: &Subject<'_>, at: Option<Seconds>) -> Option<Event> {
    let is_due = next::is_collected(subject) && !subject.recorded.is_terminal();
    is_due.then(|| set_failed(at))
}

fn set_failed(at: Option<Seconds>) -> Event {
    let why = "the garbage collector sets the phase before it removes the object";
    Event::new(at, "phase set to Failed", why, &["L-GC-6", "L-PHASE-14"])
}

/// Events of an eviction: an ordinary delete with the pod's own period (L-NODE-16). On a node that is out of service
/// the garbage collector removes the pod at its next run (L-GC-5, L-NODE-21).
fn evicted(subject: &Subject<'_>, at: Seconds, why: &str) -> Result<Vec<Event>, ModelError> {
    let deletion = termination::delete(subject.pod, &PodDeleteOptions::default(), at)?;
    let ended = deletion.mark.map(|mark| mark.deletion_timestamp);
    let rules = &["L-NODE-12", "L-NODE-16"];
    let mut events = vec![Event::new(Some(at), "evicted: deletion requested", why, rules)];
    if next::is_out_of_service(subject) {
        let why = "the next run of the garbage collector: its node is out of service";
        events.push(set_failed(None));
        events.push(Event::new(None, "object removed", why, &["L-GC-5", "L-NODE-21"]));
    } else {
        let rules = &["L-TERM-1", "L-TERM-9"];
        events.push(Event::new(ended, "grace period over", "", rules));
    }
    Ok(events)
}

/// The remaining events of a termination.
fn stopping(subject: &Subject<'_>, deadline: Option<Seconds>, what: &str, why: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let ends_at = termination::mark(subject.pod).map(|mark| mark.deletion_timestamp);
    if ends_at.is_some_and(|at| at >= subject.now) && ends_at < deadline {
        // Two times have to be told apart: the end of the period, and the kill after the last window.
        let why = "a stop signal that still had to wait is sent now, and SIGKILL 2 s later";
        events.push(Event::new(ends_at, "grace period over", why, &["L-TERM-10", "L-TERM-14"]));
    }
    let rules = &["L-TERM-9", "L-TERM-10", "L-TERM-27"];
    events.push(Event::new(deadline, format!("{what} at the latest"), why, rules));
    let why = "Succeeded if every container exits with 0, else Failed";
    events.push(Event::new(None, "terminal phase published", why, &["L-TERM-18"]));
    if reading::is_marked(subject.pod) {
        events.push(Event::new(None, "object removed", "", &["L-TERM-19"]));
    }
    events
}

/// Event for the back-off of the restart after the one that is due.
fn after_another_crash(subject: &Subject<'_>, names: &[&str]) -> Result<Option<Event>, ModelError> {
    let is_due = |member: &&Member<'_>| names.first() == Some(&member.name());
    let Some(member) = subject.roster.all().iter().find(is_due) else { return Ok(None) };
    let Some(status) = member.pair.status() else { return Ok(None) };
    let limits = BackOffLimits::default();
    let Some(hold) = held_back(status, limits)? else { return Ok(None) };
    let what = format!("if {} ends again within {FORGOTTEN_AFTER} s", member.name());
    let why = format!("the restart after that waits {} s", limits.after(hold.delay));
    Ok(Some(Event::new(None, what, why, &["L-RESTART-15", "L-RESTART-16"])))
}
