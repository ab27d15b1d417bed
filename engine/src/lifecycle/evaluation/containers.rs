//! Next action for the containers of a living pod: the plan of the restart group, with the times of its back-off.

use std::borrow::Cow;

use super::subject::Subject;
use crate::lifecycle::container_state::{Member, Observed, Roster};
use crate::lifecycle::evaluation::result::{Action, Actor, Next};
use crate::lifecycle::reading::Seconds;
use crate::lifecycle::restart::{self, BackOffLimits, held_back};
use crate::lifecycle::vocabulary::{ContainerKind, PodPhase};
use crate::model::ModelError;

/// The next action for the containers (L-RESTART-8 to L-RESTART-15).
///
/// # Errors
/// [`ModelError`] relative to the pod.
pub(super) fn next<'a>(subject: &Subject<'a>) -> Result<Next<'a>, ModelError> {
    let roster = &subject.roster;
    let plan = restart::plan_of(subject.pod, roster).map_err(|error| error.under("spec"))?;
    if !plan.to_remove.is_empty() {
        let why = "a container ended with a code that restarts every container in place";
        let next = Next::new(Action::RestartContainers, Actor::NodeAgent, why, &["L-RESTART-11"]);
        return Ok(next.of(plan.to_remove));
    }
    if plan.kill_pod {
        return Ok(over(subject));
    }
    let unknown = roster.app().iter().filter(|member| member.has_no_state());
    let unknown: Vec<&str> = unknown.map(Member::name).collect();
    if subject.recorded == PodPhase::Running && !unknown.is_empty() {
        let why = "the state of some containers of a running pod is unknown";
        return Ok(
            Next::new(Action::AwaitContainers, Actor::NodeAgent, why, &["L-GEN-4"]).of(unknown)
        );
    }
    let names = || plan.init_to_start.iter().chain(&plan.to_start);
    let planned = |member: &&Member<'a>| names().any(|name| *name == member.name());
    let planned: Vec<&Member<'a>> = roster.all().iter().filter(planned).collect();
    let restarts = restarts(&planned)?;
    let afterwards = restarts.iter().filter_map(|(_, at)| *at).filter(|at| *at > subject.now).min();
    let new: Vec<&Member<'a>> =
        planned.iter().copied().filter(|member| !has_ended(member)).collect();
    let next = match new.first() {
        Some(first) => start(first).of(new.iter().map(|member| member.name()).collect()),
        None => restart(&restarts, subject.now).unwrap_or_else(|| coming_up(roster)),
    };
    Ok(Next { afterwards, ..next })
}

/// Stops the running containers after no app container runs or will run again, or an init container failed for good
/// (L-RESTART-8, L-RESTART-14).
fn over<'a>(subject: &Subject<'a>) -> Next<'a> {
    let running = subject.running();
    if running.is_empty() {
        let why = "an init container failed and is not started again";
        let rules = &["L-RESTART-8", "L-RESTART-22"];
        return Next::new(Action::FailPod, Actor::NodeAgent, why, rules);
    }
    let why = "no app container runs or will be started again, so what still runs is stopped";
    Next::new(Action::StopContainers, Actor::NodeAgent, why, &["L-RESTART-14"]).of(running)
}

fn has_ended(member: &Member<'_>) -> bool {
    matches!(member.observed, Some(Observed::Ended { .. }))
}

/// The planned containers that have ended, each with the earliest time of its restart (L-RESTART-15); `None` if the
/// time of the end is unknown.
fn restarts<'m, 'a>(
    planned: &[&'m Member<'a>],
) -> Result<Vec<(&'m Member<'a>, Option<Seconds>)>, ModelError> {
    let mut restarts = Vec::new();
    for member in planned.iter().copied().filter(|member| has_ended(member)) {
        let Some(status) = member.pair.status() else { continue };
        let hold = held_back(status, BackOffLimits::default())?;
        restarts.push((member, hold.map(|hold| hold.not_before)));
    }
    Ok(restarts)
}

/// All restarts that may happen now, else all with the earliest time.
fn restart<'a>(restarts: &[(&Member<'a>, Option<Seconds>)], now: Seconds) -> Option<Next<'a>> {
    let moment = |at: Option<Seconds>| at.unwrap_or(now);
    let (first, not_before) = restarts.iter().min_by_key(|(_, at)| moment(*at))?;
    let until = moment(*not_before).max(now);
    let together = restarts.iter().filter(|(_, at)| moment(*at) <= until);
    let why = "it ended and is due to be started again, after its back-off";
    let next = Next::new(Action::RestartContainers, Actor::NodeAgent, why, rules_of(first));
    let next = next.of(together.map(|(member, _)| member.name()).collect());
    Some(Next { not_before: *not_before, ..next })
}

/// The rules by which a container is started again.
fn rules_of(member: &Member<'_>) -> &'static [&'static str] {
    match member.kind {
        ContainerKind::Sidecar => &["L-RESTART-9", "L-RESTART-15"],
        ContainerKind::Init => &["L-RESTART-8", "L-RESTART-15"],
        _ if member.pair.container.restart_policy.is_some() => {
            &["L-RESTART-5", "L-RESTART-6", "L-RESTART-15"]
        }
        _ => &["L-RESTART-4", "L-RESTART-15"],
    }
}

/// The first start of a container, with the reason from its status why it has not happened yet.
fn start<'a>(member: &Member<'a>) -> Next<'a> {
    let state = member.pair.status().and_then(|status| status.state.as_ref());
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let why = match waiting.map(|waiting| waiting.reason.as_str()) {
        None | Some("") => Cow::Borrowed("it has not been started yet"),
        Some(reason) => Cow::Owned(format!("it has not been started yet: {reason}")),
    };
    let rules = &["L-RESTART-12", "L-PHASE-16"];
    Next::new(Action::StartContainers, Actor::NodeAgent, why, rules)
}

/// Nothing is to be started: containers have to start up or to end first, or everything runs as it should
/// (L-RESTART-12).
fn coming_up<'a>(roster: &Roster<'a>) -> Next<'a> {
    let is_awaited = |member: &&Member<'a>| {
        member.is_running()
            && match member.kind {
                ContainerKind::Init => true,
                ContainerKind::Sidecar => {
                    member.pair.container.startup_probe.is_some() && !member.is_started()
                }
                ContainerKind::Regular | ContainerKind::Ephemeral => false,
            }
    };
    let awaited: Vec<&str> = roster.init().iter().filter(is_awaited).map(Member::name).collect();
    if awaited.is_empty() {
        let why = "everything that should run runs";
        return Next::new(Action::None, Actor::Unnamed, why, &["L-RESTART-12"]);
    }
    let why = "init containers run one at a time, and sidecars have to come up";
    Next::new(Action::AwaitContainers, Actor::NodeAgent, why, &["L-RESTART-12"]).of(awaited)
}
