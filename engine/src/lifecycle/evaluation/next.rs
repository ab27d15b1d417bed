//! The next action for a pod, with its actor and its times.

use std::borrow::Cow;

use berth_proto::core_v1::Pod;

use super::containers;
use super::result::{Action, Actor, Next};
use super::subject::Subject;
use crate::lifecycle::condition;
use crate::lifecycle::fence;
use crate::lifecycle::node_failure::{Eviction, eviction_since};
use crate::lifecycle::phase::PhaseDecision;
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::termination::kill_deadline;
use crate::model::ModelError;

/// The next step for a pod of this phase.
///
/// # Errors
/// [`ModelError`] relative to the request.
pub(crate) fn next<'a>(
    subject: &Subject<'a>,
    phase: &PhaseDecision<'_>,
) -> Result<Next<'a>, ModelError> {
    let is_final = subject.recorded.is_terminal();
    Ok(if reading::node_name(subject.pod).is_none() && !is_final {
        unbound(subject)
    } else if reading::is_marked(subject.pod) {
        terminating(subject, phase)
    } else if subject.is_out_of_contact() && !is_final {
        lost(subject, phase)?
    } else if phase.phase.is_terminal() {
        ending(subject, phase)
    } else {
        executing(subject, phase)?
    })
}

/// The next action for a pod that is not bound yet (L-GATE-1, L-GC-4).
fn unbound<'a>(subject: &Subject<'a>) -> Next<'a> {
    let pod = subject.pod;
    if reading::is_marked(pod) {
        let why = "it was never bound, so no process can be left";
        return held_by_finalizers(subject).unwrap_or_else(|| {
            Next::new(Action::RemovePod, Actor::PodGc, why, &["L-GC-4", "L-DEL-6"])
        });
    }
    let gates = &reading::spec(pod).scheduling_gates;
    if !gates.is_empty() {
        let why = "a pod with scheduling gates is not offered to the scheduler";
        let names = gates.iter().map(|gate| gate.name.as_str()).collect();
        return Next::new(Action::AwaitGates, Actor::Unnamed, why, &["L-GATE-1"]).of(names);
    }
    let why = match last_attempt(pod) {
        Some((what, "")) => Cow::Borrowed(what),
        Some((what, message)) => Cow::Owned(format!("{what}: {message}")),
        None => Cow::Borrowed("no scheduling attempt yet"),
    };
    Next::new(Action::Schedule, Actor::Scheduler, why, &["L-GATE-1", "L-COND-4"])
}

/// The result of the last scheduling attempt by the recorded `PodScheduled`, and its message (L-COND-4).
fn last_attempt(pod: &Pod) -> Option<(&'static str, &str)> {
    let recorded = reading::condition(pod, "PodScheduled")?;
    let what = match recorded.reason.as_str() {
        "Unschedulable" => "the last attempt found no node",
        "SchedulerError" => "the last attempt failed",
        _ => return None,
    };
    Some((what, &recorded.message))
}

/// The next action for a marked pod: first its processes end, then its phase is written, then the object is removed
/// (L-TERM-9, L-TERM-18, L-TERM-19).
fn terminating<'a>(subject: &Subject<'a>, phase: &PhaseDecision<'_>) -> Next<'a> {
    let is_bound = reading::node_name(subject.pod).is_some();
    if is_out_of_service(subject) {
        let why = "its node has been declared out of service";
        return held_by_finalizers(subject).unwrap_or_else(|| {
            Next::new(Action::RemovePod, Actor::PodGc, why, &["L-GC-5", "L-DEL-6"])
        });
    }
    if subject.is_out_of_contact() {
        return await_node("its deletion is requested, and its node cannot be reached");
    }
    // `finalize` is set for a marked pod exactly if its processes are known to have ended (L-GEN-4).
    if is_bound && !subject.phase_facts.finalize {
        return stopping(subject);
    }
    if !subject.recorded.is_terminal() && phase.published.is_terminal() {
        let why = "its containers have ended; the terminal phase is written before the removal";
        let rules = &["L-TERM-18", "L-PHASE-12"];
        return Next::new(Action::PublishPhase, Actor::NodeAgent, why, rules);
    }
    let actor = if is_bound { Actor::NodeAgent } else { Actor::PodGc };
    let why = "its processes have ended, and its deletion has been requested";
    held_by_finalizers(subject)
        .unwrap_or_else(|| Next::new(Action::RemovePod, actor, why, &["L-TERM-19", "L-DEL-2"]))
}

/// The next action while containers terminate: hooks, stop signals, the rest of the period, and the kill (L-TERM-9).
fn stopping<'a>(subject: &Subject<'a>) -> Next<'a> {
    let deadline = kill_deadline(subject.pod, &subject.roster);
    let next = if deadline.is_some_and(|deadline| deadline <= subject.now) {
        let why = "the grace period is over";
        Next::new(Action::KillContainers, Actor::NodeAgent, why, &["L-TERM-9", "L-TERM-10"])
    } else {
        let why = "its deletion is requested: hooks, stop signals, and the rest of the period";
        Next::new(Action::StopContainers, Actor::NodeAgent, why, &["L-TERM-9", "L-TERM-4"])
    };
    Next { deadline, ..next.of(subject.running()) }
}

/// The next action for a pod in a terminal phase without a requested deletion (L-PHASE-8, L-PHASE-11, L-GC-10).
fn ending<'a>(subject: &Subject<'a>, phase: &PhaseDecision<'_>) -> Next<'a> {
    if subject.phase_facts.could_have_running_containers && !subject.is_out_of_contact() {
        let why = "the pod has ended, but a process of it may still run";
        let rules = &["L-PHASE-11"];
        return Next::new(Action::StopContainers, Actor::NodeAgent, why, rules)
            .of(subject.running());
    }
    if subject.recorded.is_terminal() {
        let why = "the phase is final; the object stays until it is deleted";
        return Next::new(Action::None, Actor::Unnamed, why, &["L-PHASE-8", "L-GC-10"]);
    }
    let why = format!("no process is left: the pod has {}", phase.phase.word().to_lowercase());
    Next::new(Action::PublishPhase, Actor::NodeAgent, why, &["L-PHASE-5"])
}

/// The next action for a pod on an unreachable node: controllers may evict it, its agent can do nothing (L-NODE-18).
fn lost<'a>(subject: &Subject<'a>, phase: &PhaseDecision<'_>) -> Result<Next<'a>, ModelError> {
    let of_the_agent = |threat: Threat| threat != Threat::Eviction;
    Ok(due_threat(subject, phase, of_the_agent)?
        .unwrap_or_else(|| await_node("its node cannot be reached, so its statuses are stale")))
}

/// The next action for a bound pod that lives and is not marked.
fn executing<'a>(subject: &Subject<'a>, phase: &PhaseDecision<'_>) -> Result<Next<'a>, ModelError> {
    match due_threat(subject, phase, |_| false)? {
        Some(next) => Ok(next),
        None => containers::next(subject).map_err(|error| error.under("pod")),
    }
}

/// The first threat whose time has come and that has an actor, except for those passed over.
fn due_threat<'a>(
    subject: &Subject<'a>,
    phase: &PhaseDecision<'_>,
    is_passed_over: impl Fn(Threat) -> bool,
) -> Result<Option<Next<'a>>, ModelError> {
    for (at, threat) in threats(subject, phase)? {
        if at <= subject.now
            && !is_passed_over(threat)
            && let Some(next) = carried_out(threat)
        {
            // A time counted from now is not a deadline in the past.
            let deadline = Some(at).filter(|at| *at < subject.now);
            return Ok(Some(Next { deadline, ..next }));
        }
    }
    Ok(None)
}

/// A change that time alone brings to a living pod.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Threat {
    /// The pod has been active for too long (L-PHASE-10).
    ActiveDeadline,
    /// The pod no longer tolerates its node's taints (L-NODE-12).
    Eviction,
    /// The pod's disruption mark is stale (L-COND-14).
    StaleMark,
}

/// The threats to a pod, each with its time, which may have passed. A pod that has ended or is marked has none.
///
/// # Errors
/// [`ModelError`] relative to the request.
pub(crate) fn threats(
    subject: &Subject<'_>,
    phase: &PhaseDecision<'_>,
) -> Result<Vec<(Seconds, Threat)>, ModelError> {
    if phase.phase.is_terminal() || reading::is_marked(subject.pod) {
        return Ok(Vec::new());
    }
    let deadline = active_deadline(subject).map(|at| (at, Threat::ActiveDeadline));
    let eviction = eviction(subject)?.map(|at| (at, Threat::Eviction));
    let stale = condition::disruption_stale_at(subject.pod, subject.now);
    let stale = stale.map(|at| (at, Threat::StaleMark));
    Ok([deadline, eviction, stale].into_iter().flatten().collect())
}

/// The action that carries out a threat whose time has come. A stale mark needs none: the condition shows it.
fn carried_out<'a>(threat: Threat) -> Option<Next<'a>> {
    match threat {
        Threat::ActiveDeadline => {
            let why = "it has been active for `activeDeadlineSeconds`";
            Some(Next::new(Action::FailPod, Actor::NodeAgent, why, &["L-PHASE-10"]))
        }
        Threat::Eviction => {
            let why = "it does not tolerate a NoExecute taint of its node, or not any longer";
            let rules = &["L-NODE-12", "L-NODE-16"];
            Some(Next::new(Action::EvictPod, Actor::TaintEvictionController, why, rules))
        }
        Threat::StaleMark => None,
    }
}

/// Time at which the pod will have been active for too long (L-PHASE-10).
fn active_deadline(subject: &Subject<'_>) -> Option<Seconds> {
    let started = reading::optional(reading::status(subject.pod).start_time.as_ref())?;
    reading::after(started, reading::spec(subject.pod).active_deadline_seconds?)
}

/// Time at which the NoExecute taints of the node evict the pod, each counted from the time at which it was added, or
/// from now if that is unknown (L-NODE-12, L-NODE-14).
fn eviction(subject: &Subject<'_>) -> Result<Option<Seconds>, ModelError> {
    let Some(node) = subject.node else { return Ok(None) };
    let taints = node.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
    let tolerations = &reading::spec(subject.pod).tolerations;
    let eviction = eviction_since(tolerations, taints, subject.now).map_err(|error| {
        if error.field.starts_with("node.") { error } else { error.under("pod") }
    })?;
    Ok(match eviction {
        Eviction::Never => None,
        Eviction::At(at) => Some(at),
    })
}

/// Whether the garbage collector removes the marked pod, as no node agent will: the pod was never bound, or its node is
/// out of service (L-GC-4, L-GC-5).
pub(crate) fn is_collected(subject: &Subject<'_>) -> bool {
    reading::is_marked(subject.pod)
        && (reading::node_name(subject.pod).is_none() || is_out_of_service(subject))
}

/// Whether the pod's node is out of service (L-FENCE-11). A node that cannot be read is not.
pub(crate) fn is_out_of_service(subject: &Subject<'_>) -> bool {
    subject.node.is_some_and(|node| fence::is_out_of_service(node).unwrap_or(false))
}

fn await_node<'a>(why: &'static str) -> Next<'a> {
    Next::new(Action::AwaitNode, Actor::Unnamed, why, &["L-NODE-18", "L-PHASE-13"])
}

fn held_by_finalizers<'a>(subject: &Subject<'a>) -> Option<Next<'a>> {
    let finalizers = &reading::meta(subject.pod).finalizers;
    if finalizers.is_empty() {
        return None;
    }
    let why = "finalizers keep the marked object";
    let names = finalizers.iter().map(String::as_str).collect();
    Some(Next::new(Action::AwaitFinalizers, Actor::Unnamed, why, &["L-TERM-6"]).of(names))
}
