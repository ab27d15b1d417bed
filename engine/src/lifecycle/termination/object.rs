//! Termination of a pod as its object shows it: the containers that are stopped, and the time of the last kill
//! (L-TERM-27).

use berth_proto::core_v1::{ContainerStatus, Pod};

use super::delete::mark;
use super::grace::node_grace;
use super::plan::{Period, Stopping, plan};
use crate::lifecycle::container_state::{Member, Roster};
use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::{ContainerKind, PodPhase};
use crate::model::ModelError;

/// Assumptions about what the object of a pod does not show, in seconds. An absent one means the longest time possible.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    /// Time from the stop signal to the end of each process. Absent: no process ends before it is killed.
    pub exit_after: Option<i64>,
    /// Duration of each preStop hook that does more than sleep. Absent: the whole grace period.
    pub pre_stop: Option<i64>,
}

/// The containers that run by the pod's statuses: app containers, then sidecars and init containers, each list in the
/// order of the spec, then ephemeral containers. Their durations are those that the object shows or that are assumed.
/// `grace` is the period on the node, in seconds. A container without a status has not been started.
///
/// # Errors
/// [`ModelError`] relative to the pod, for containers and statuses that contradict each other.
pub fn stopping_of(
    pod: &Pod,
    grace: i64,
    assumed: Assumed,
) -> Result<Vec<Stopping<'_>>, ModelError> {
    Ok(running(pod, &Roster::of(pod)?, grace, assumed))
}

/// The time, in seconds since the epoch, by which a working node agent has ended every process of a marked pod: the
/// last kill of the termination plan if no process ends before and no hook says how long it takes (L-TERM-27). `None`
/// if the pod is not marked.
///
/// This is the deletion timestamp for a pod without hooks and sidecars. A hook that uses up the period, a sidecar that
/// waits for its turn, and a force delete each take the last window beyond it (L-TERM-10, L-TERM-14). The object does
/// not show a period that was cut within the last window (L-TERM-17), or an agent that restarts and begins anew
/// (L-TERM-16).
pub(crate) fn kill_deadline<'a>(pod: &'a Pod, roster: &Roster<'a>) -> Option<i64> {
    let mark = mark(pod)?;
    let grace = node_grace(0, Some(mark.period_seconds), None, None).seconds;
    let started_at = mark.deletion_timestamp.saturating_sub(mark.period_seconds);
    let ends_at = started_at.saturating_add(grace);
    let period = Period { started_at, ends_at, shortened_at: None };
    let assumed = Assumed::default();
    let mut stopping = running(pod, roster, grace, assumed);
    let is_unknown = reading::phase(pod) == Ok(PodPhase::Running)
        && roster.app().iter().any(Member::has_no_state);
    if stopping.is_empty() || is_unknown {
        // Any container may run, or may be about to be started (L-GEN-4).
        let may_run = in_order(roster).filter(|member| member.kind != ContainerKind::Init);
        stopping = may_run.map(|member| stopping_member(member, grace, assumed)).collect();
    }
    if stopping.is_empty() {
        stopping.push(WITHOUT_HOOK);
    }
    plan(period, &stopping).iter().map(|stop| stop.kill_at).max()
}

/// A container without hooks of which nothing is known.
const WITHOUT_HOOK: Stopping<'static> = Stopping {
    name: "",
    kind: ContainerKind::Regular,
    exit_after_signal: None,
    pre_stop: None,
    stop_signal: None,
    ends_at: None,
    kill_by: None,
};

/// The containers that run by their statuses, as [`stopping_of`] lists them.
fn running<'a>(
    pod: &'a Pod,
    roster: &Roster<'a>,
    grace: i64,
    assumed: Assumed,
) -> Vec<Stopping<'a>> {
    in_order(roster)
        .filter(|member| member.is_running())
        .map(|member| stopping_member(member, grace, assumed))
        .chain(ephemeral(pod, assumed))
        .collect()
}

/// App containers before sidecars and init containers.
fn in_order<'r, 'a>(roster: &'r Roster<'a>) -> impl Iterator<Item = &'r Member<'a>> {
    roster.app().iter().chain(roster.init())
}

fn stopping_member<'a>(member: &Member<'a>, grace: i64, assumed: Assumed) -> Stopping<'a> {
    let container = member.pair.container;
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let pre_stop = hook.map(|hook| match &hook.sleep {
        Some(sleep) => sleep.seconds.max(0),
        None => assumed.pre_stop.unwrap_or(grace),
    });
    let stop_signal = member.pair.status().and_then(|status| status.stop_signal.as_deref());
    Stopping {
        name: member.name(),
        kind: member.kind,
        exit_after_signal: assumed.exit_after,
        pre_stop,
        stop_signal: stop_signal.filter(|signal| !signal.is_empty()),
        ends_at: None,
        kill_by: None,
    }
}

/// The ephemeral containers that run. They have no hooks.
fn ephemeral(pod: &Pod, assumed: Assumed) -> impl Iterator<Item = Stopping<'_>> {
    let statuses = reading::status(pod).ephemeral_container_statuses.iter();
    let is_running = |status: &&ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    statuses.filter(is_running).map(move |status| Stopping {
        name: &status.name,
        kind: ContainerKind::Ephemeral,
        exit_after_signal: assumed.exit_after,
        ..WITHOUT_HOOK
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod that is marked with a period of 30 s at 30 s after the epoch, with running containers.
    fn marked(containers: &Value, init: &Value, grace: i64) -> Pod {
        let statuses = |list: &Value| {
            let names = list.as_array().unwrap().iter().map(|container| container["name"].clone());
            names.map(|name| json!({"name": name, "state": {"running": {}}})).collect::<Vec<_>>()
        };
        let status = json!({"phase": "Running", "containerStatuses": statuses(containers),
            "initContainerStatuses": statuses(init)});
        serde_json::from_value(json!({
            "metadata": {"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": grace},
            "spec": {"nodeName": "n", "containers": containers, "initContainers": init},
            "status": status,
        }))
        .unwrap()
    }

    fn deadline(pod: &Pod) -> Option<i64> {
        kill_deadline(pod, &Roster::of(pod).unwrap())
    }

    /// L-TERM-27, L-TERM-10, L-TERM-14.
    #[test]
    fn only_hooks_and_sidecars_take_the_last_window() {
        let plain = json!([{"name": "a"}]);
        assert_eq!(deadline(&marked(&plain, &json!([]), 30)), Some(60));
        let sleeping = json!([{"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}]);
        assert_eq!(deadline(&marked(&sleeping, &json!([]), 30)), Some(60));
        let hook = json!([{"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}]);
        assert_eq!(deadline(&marked(&hook, &json!([]), 30)), Some(62));
        let sidecar = json!([{"name": "s", "restartPolicy": "Always"}]);
        assert_eq!(deadline(&marked(&plain, &sidecar, 30)), Some(62));
        // A force delete: the node gives 1 s, and the last window is 2 s.
        assert_eq!(deadline(&marked(&plain, &json!([]), 0)), Some(62));
        assert_eq!(deadline(&Pod::default()), None);
    }

    /// L-GEN-4: a container that may run counts like one that runs.
    #[test]
    fn what_may_run_counts() {
        let hook = json!([{"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}]);
        let mut pod = marked(&hook, &json!([]), 30);
        pod.status.as_mut().unwrap().container_statuses.clear();
        assert_eq!(deadline(&pod), Some(62));
        assert_eq!(stopping_of(&pod, 30, Assumed::default()).unwrap(), []);
        assert_eq!(deadline(&marked(&json!([]), &json!([]), 30)), Some(60));
    }

    /// L-TERM-11: the status says which signal stops the container.
    #[test]
    fn durations_and_signals() {
        let hook = json!([{"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}]);
        let mut pod = marked(&hook, &json!([]), 30);
        let status = pod.status.as_mut().unwrap();
        status.container_statuses[0].stop_signal = Some("SIGQUIT".to_owned());
        let debugger = r#"{"name": "d", "state": {"running": {}}}"#;
        status.ephemeral_container_statuses.push(serde_json::from_str(debugger).unwrap());
        let assumed = Assumed { exit_after: Some(3), pre_stop: Some(4) };
        let [app, debugger] = &stopping_of(&pod, 30, assumed).unwrap()[..] else {
            panic!("two run")
        };
        assert_eq!((app.pre_stop, app.exit_after_signal), (Some(4), Some(3)));
        assert_eq!(app.stop_signal, Some("SIGQUIT"));
        assert_eq!((debugger.name, debugger.kind), ("d", ContainerKind::Ephemeral));
    }
}
