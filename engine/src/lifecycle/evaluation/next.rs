//! What has to happen next to a pod, whose turn it is, and when.

use std::borrow::Cow;

use super::subject::Subject;
use crate::lifecycle::container_state::{Member, Observed, Roster};
use crate::lifecycle::node_failure::{Eviction, eviction_since};
use crate::lifecycle::phase::PhaseDecision;
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::restart::{BackOffLimits, RestartAction, held_back, restart_due};
use crate::lifecycle::termination::kill_deadline;
use crate::lifecycle::vocabulary::{ConditionStatus, ContainerKind, RestartPolicy};
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// What has to happen next.
    enum Action {
        /// Nothing, unless something changes.
        None = "None",
        /// Somebody removes the scheduling gates (L-GATE-1).
        AwaitGates = "AwaitGates",
        /// The scheduler finds a node (L-GATE-5).
        Schedule = "Schedule",
        /// Containers are started for the first time (L-RESTART-12).
        StartContainers = "StartContainers",
        /// Containers that ended are started again (L-RESTART-15).
        RestartContainers = "RestartContainers",
        /// Containers have to come up, or to end, by themselves (L-RESTART-12).
        AwaitContainers = "AwaitContainers",
        /// Containers are stopped in good order (L-TERM-9).
        StopContainers = "StopContainers",
        /// Their time is up (L-TERM-9).
        KillContainers = "KillContainers",
        /// The pod has been active for too long (L-PHASE-10).
        FailPod = "FailPod",
        /// The pod does not tolerate its node any longer (L-NODE-16).
        EvictPod = "EvictPod",
        /// The terminal phase is written (L-TERM-18).
        PublishPhase = "PublishPhase",
        /// The object is removed (L-TERM-19, L-GC-4, L-GC-5).
        RemovePod = "RemovePod",
        /// Somebody removes the finalizers (L-TERM-6).
        AwaitFinalizers = "AwaitFinalizers",
        /// The node comes back, is fenced, or is declared lost (L-NODE-18).
        AwaitNode = "AwaitNode",
    }

    /// Whose turn it is.
    enum Actor {
        /// Nobody's, or somebody's whom no rule names.
        Nobody = "",
        /// The scheduler.
        Scheduler = "scheduler",
        /// The agent of the pod's node.
        NodeAgent = "nodeAgent",
        /// The controller that evicts from tainted nodes.
        TaintEvictionController = "taintEvictionController",
        /// The pod garbage collector.
        PodGc = "podGC",
    }
}

/// The next thing, and the times that would change it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Next<'a> {
    pub(crate) action: Action,
    pub(crate) actor: Actor,
    pub(crate) not_before: Option<Seconds>,
    pub(crate) deadline: Option<Seconds>,
    pub(crate) names: Vec<&'a str>,
    pub(crate) why: Cow<'static, str>,
    pub(crate) rules: &'static [&'static str],
}

impl<'a> Next<'a> {
    fn new(
        action: Action,
        actor: Actor,
        why: impl Into<Cow<'static, str>>,
        rules: &'static [&'static str],
    ) -> Next<'a> {
        let (names, why) = (Vec::new(), why.into());
        Next { action, actor, not_before: None, deadline: None, names, why, rules }
    }

    fn of(self, names: Vec<&'a str>) -> Next<'a> {
        Next { names, ..self }
    }
}

/// What has to happen next to a pod of this phase.
///
/// # Errors
/// [`ModelError`] relative to the pod, or under `node`.
pub(crate) fn next<'a>(
    subject: &Subject<'a>,
    phase: &PhaseDecision<'_>,
) -> Result<Next<'a>, ModelError> {
    let recorded = reading::phase(subject.pod)?;
    Ok(if recorded.is_terminal() {
        finished(subject)
    } else if reading::node_name(subject.pod).is_none() {
        unbound(subject)
    } else if reading::is_marked(subject.pod) {
        terminating(subject)
    } else if phase.phase.is_terminal() {
        ending(subject, phase)
    } else {
        executing(subject)?
    })
}

/// The recorded phase is terminal: what is left is the object (L-TERM-6, L-TERM-19, L-GC-10).
fn finished<'a>(subject: &Subject<'a>) -> Next<'a> {
    if !reading::is_marked(subject.pod) {
        let why = "the phase is final; the object stays until somebody deletes it";
        return Next::new(Action::None, Actor::Nobody, why, &["L-PHASE-8", "L-GC-10"]);
    }
    if let Some(held) = held_by_finalizers(subject) {
        return held;
    }
    let actor = match reading::node_name(subject.pod) {
        Some(_) => Actor::NodeAgent,
        None => Actor::PodGc,
    };
    let why = "its processes have ended, and its deletion has been requested";
    Next::new(Action::RemovePod, actor, why, &["L-TERM-19", "L-DEL-2"])
}

/// Not bound to a node yet (L-GATE-1, L-GC-4).
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
        return Next::new(Action::AwaitGates, Actor::Nobody, why, &["L-GATE-1"]).of(names);
    }
    let attempt = reading::condition(pod, "PodScheduled")
        .filter(|condition| condition.status == ConditionStatus::False.word());
    let why = match attempt {
        Some(condition) if !condition.message.is_empty() => {
            Cow::Owned(format!("the last attempt found no node: {}", condition.message))
        }
        Some(_) => Cow::Borrowed("the last attempt found no node"),
        None => Cow::Borrowed("no node has been found yet"),
    };
    Next::new(Action::Schedule, Actor::Scheduler, why, &["L-GATE-1", "L-COND-4"])
}

/// Marked for deletion and bound, its processes not known to have ended (L-TERM-9, L-TERM-18, L-NODE-18).
fn terminating<'a>(subject: &Subject<'a>) -> Next<'a> {
    if let Some(node) = subject.node
        && !reading::is_node_ready(node)
        && reading::has_taint(node, reading::OUT_OF_SERVICE)
    {
        let why = "its node has been declared out of service";
        let rules = &["L-GC-5", "L-DEL-6"];
        return Next::new(Action::RemovePod, Actor::PodGc, why, rules);
    }
    if is_node_lost(subject) {
        return await_node("its deletion is requested, and its node cannot be reached");
    }
    let running = running(subject);
    if running.is_empty() && !subject.phase_facts.could_have_running_containers {
        let why = "its containers have ended; the terminal phase is written before the removal";
        let rules = &["L-TERM-18", "L-PHASE-12"];
        return Next::new(Action::PublishPhase, Actor::NodeAgent, why, rules);
    }
    let deadline = kill_deadline(subject.pod);
    let is_over = deadline.is_some_and(|deadline| deadline <= subject.now);
    let next = if is_over {
        let why = "the grace period is over";
        Next::new(Action::KillContainers, Actor::NodeAgent, why, &["L-TERM-9", "L-TERM-10"])
    } else {
        let why = "its deletion is requested: hooks, stop signals, and the rest of the period";
        Next::new(Action::StopContainers, Actor::NodeAgent, why, &["L-TERM-9", "L-TERM-4"])
    };
    Next { deadline, ..next.of(running) }
}

/// The phase has turned terminal and is not recorded yet (L-PHASE-11).
fn ending<'a>(subject: &Subject<'a>, phase: &PhaseDecision<'_>) -> Next<'a> {
    if phase.published.is_terminal() {
        let why = format!("no process is left: the pod has {}", phase.phase.word().to_lowercase());
        return Next::new(Action::PublishPhase, Actor::NodeAgent, why, &["L-PHASE-5"]);
    }
    let why = "the pod has ended; a terminal phase waits until no process can be running";
    let rules = &["L-PHASE-11"];
    Next::new(Action::StopContainers, Actor::NodeAgent, why, rules).of(running(subject))
}

/// Bound, alive and wanted.
fn executing<'a>(subject: &Subject<'a>) -> Result<Next<'a>, ModelError> {
    if let Some(deadline) = active_deadline(subject)
        && deadline <= subject.now
    {
        let why = "it has been active for `activeDeadlineSeconds`";
        let next = Next::new(Action::FailPod, Actor::NodeAgent, why, &["L-PHASE-10"]);
        return Ok(Next { deadline: Some(deadline), ..next });
    }
    if let Some(at) = eviction(subject)?
        && at <= subject.now
    {
        let why = "it does not tolerate a NoExecute taint of its node, or not any longer";
        let rules = &["L-NODE-12", "L-NODE-16"];
        let next = Next::new(Action::EvictPod, Actor::TaintEvictionController, why, rules);
        return Ok(Next { deadline: Some(at), ..next });
    }
    if is_node_lost(subject) {
        return Ok(await_node("its node cannot be reached, so its statuses are stale"));
    }
    let policy =
        reading::restart_policy(reading::spec(subject.pod)).map_err(|error| error.under("spec"))?;
    match initialising(&subject.roster, policy)? {
        Some(next) => Ok(next),
        None => working(&subject.roster, policy),
    }
}

/// The first init container that is not done decides (L-RESTART-12); `None` when all are.
fn initialising<'a>(
    roster: &Roster<'a>,
    policy: RestartPolicy,
) -> Result<Option<Next<'a>>, ModelError> {
    for member in roster.init() {
        let next = match member.observed {
            Some(Observed::Running) if member.kind == ContainerKind::Sidecar => {
                if member.is_started() {
                    continue;
                }
                await_containers("the sidecar has not come up yet")
            }
            Some(Observed::Running) => await_containers("init containers run one at a time"),
            Some(Observed::Ended { exit_code: 0, .. }) if member.kind == ContainerKind::Init => {
                continue;
            }
            Some(Observed::Ended { .. }) => match restart_of(member, policy)? {
                Some(due) => restart_at(due.not_before),
                None => await_containers("an init container failed for good"),
            },
            None | Some(Observed::Nothing | Observed::Waiting) => start(waits_for(member)),
        };
        return Ok(Some(next.of(vec![member.name()])));
    }
    Ok(None)
}

/// Initialised: what the app containers and the sidecars need (L-RESTART-12, L-RESTART-14, L-RESTART-15).
fn working<'a>(roster: &Roster<'a>, policy: RestartPolicy) -> Result<Next<'a>, ModelError> {
    let is_new = |member: &&Member<'a>| {
        matches!(member.observed, None | Some(Observed::Nothing | Observed::Waiting))
    };
    if let Some(first) = roster.app().iter().find(is_new) {
        let new = roster.app().iter().filter(is_new);
        return Ok(start(waits_for(first)).of(new.map(Member::name).collect()));
    }
    let mut earliest: Option<(Option<Seconds>, &'a str)> = None;
    for member in roster.all().iter().filter(|member| member.kind != ContainerKind::Init) {
        let Some(due) = restart_of(member, policy)? else { continue };
        if due.action == RestartAction::RestartAllContainers {
            return Ok(restart_all(roster));
        }
        if earliest.is_none_or(|(not_before, _)| due.not_before < not_before) {
            earliest = Some((due.not_before, member.name()));
        }
    }
    Ok(match earliest {
        Some((not_before, name)) => restart_at(not_before).of(vec![name]),
        None => {
            let why = "everything that should run runs";
            Next::new(Action::None, Actor::Nobody, why, &["L-PHASE-5"])
        }
    })
}

/// Why a container waits, if its status says so.
fn waits_for<'a>(member: &Member<'a>) -> &'a str {
    let state = member.pair.status().and_then(|status| status.state.as_ref());
    state.and_then(|state| state.waiting.as_ref()).map_or("", |waiting| &waiting.reason)
}

/// A restart that is due, and when.
struct Due {
    action: RestartAction,
    not_before: Option<Seconds>,
}

/// Whether and when a container that has ended is started again.
fn restart_of(member: &Member<'_>, policy: RestartPolicy) -> Result<Option<Due>, ModelError> {
    let Some(Observed::Ended { exit_code, reason, .. }) = member.observed else { return Ok(None) };
    let Member { pair, kind, .. } = member;
    let due = restart_due(policy, pair.container, *kind, exit_code, reason, false);
    let action = pair.of_container(due)?;
    if action == RestartAction::None {
        return Ok(None);
    }
    let Some(status) = pair.status() else { return Ok(None) };
    let hold = held_back(status, BackOffLimits::default())?;
    Ok(Some(Due { action, not_before: hold.map(|hold| hold.not_before) }))
}

/// A container ended with a code that restarts every one, in place and without back-off (L-RESTART-11).
fn restart_all<'a>(roster: &Roster<'a>) -> Next<'a> {
    let why = "a container ended with a code that restarts every container in place";
    let next = Next::new(Action::RestartContainers, Actor::NodeAgent, why, &["L-RESTART-11"]);
    next.of(roster.all().iter().map(Member::name).collect())
}

fn restart_at<'a>(not_before: Option<Seconds>) -> Next<'a> {
    let why = "it ended and is due to be started again, after its back-off";
    let rules = &["L-RESTART-4", "L-RESTART-15"];
    let next = Next::new(Action::RestartContainers, Actor::NodeAgent, why, rules);
    Next { not_before, ..next }
}

fn start<'a>(reason: &str) -> Next<'a> {
    let why = if reason.is_empty() {
        Cow::Borrowed("it has not been started yet")
    } else {
        Cow::Owned(format!("it has not been started yet: {reason}"))
    };
    let rules = &["L-RESTART-12", "L-PHASE-16"];
    Next::new(Action::StartContainers, Actor::NodeAgent, why, rules)
}

fn await_containers<'a>(why: &'static str) -> Next<'a> {
    Next::new(Action::AwaitContainers, Actor::NodeAgent, why, &["L-RESTART-12"])
}

fn await_node<'a>(why: &'static str) -> Next<'a> {
    Next::new(Action::AwaitNode, Actor::Nobody, why, &["L-NODE-18", "L-PHASE-13"])
}

fn held_by_finalizers<'a>(subject: &Subject<'a>) -> Option<Next<'a>> {
    let finalizers = &reading::meta(subject.pod).finalizers;
    if finalizers.is_empty() {
        return None;
    }
    let why = "finalizers keep the marked object";
    let names = finalizers.iter().map(String::as_str).collect();
    Some(Next::new(Action::AwaitFinalizers, Actor::Nobody, why, &["L-TERM-6"]).of(names))
}

fn is_node_lost(subject: &Subject<'_>) -> bool {
    subject.phase_facts.node_ready == ConditionStatus::Unknown
}

/// The names of the containers that run.
fn running<'a>(subject: &Subject<'a>) -> Vec<&'a str> {
    let running = subject.roster.all().iter().filter(|member| member.is_running());
    running.map(Member::name).collect()
}

/// When the pod will have been active for too long (L-PHASE-10).
pub(crate) fn active_deadline(subject: &Subject<'_>) -> Option<Seconds> {
    let started = reading::optional(reading::status(subject.pod).start_time.as_ref())?;
    let seconds = reading::spec(subject.pod).active_deadline_seconds?;
    Some(started.saturating_add(seconds))
}

/// When the NoExecute taints of the node evict the pod, each counted from the time at which it was added, or from now where
/// that is not told (L-NODE-12, L-NODE-14).
///
/// # Errors
/// [`ModelError`] relative to the pod or to the node.
pub(crate) fn eviction(subject: &Subject<'_>) -> Result<Option<Seconds>, ModelError> {
    let Some(node) = subject.node else { return Ok(None) };
    let taints = node.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
    let tolerations = &reading::spec(subject.pod).tolerations;
    Ok(match eviction_since(tolerations, taints, subject.now)? {
        Eviction::Never => None,
        Eviction::At(at) => Some(at),
    })
}
