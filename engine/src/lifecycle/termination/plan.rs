//! Termination plan: when each container of a terminating pod is signalled, killed and gone (L-TERM-9 to L-TERM-15).

use crate::lifecycle::vocabulary::ContainerKind;

/// Least time of a process between its stop signal and SIGKILL, in seconds; the only extension ever given (L-TERM-10).
pub(super) const LAST_WINDOW: i64 = 2;

/// The grace period of a terminating pod. Times are in seconds since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// Start of the termination.
    pub started_at: i64,
    /// End of the grace period.
    pub ends_at: i64,
    /// Time at which the period was shortened to that end, if it was: a process that got its signal before has the last
    /// window from here on (L-TERM-17).
    pub shortened_at: Option<i64>,
}

/// A running container of a terminating pod. Durations are in seconds and not negative.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stopping<'a> {
    /// Name of the container.
    pub name: &'a str,
    /// Kind of the container.
    pub kind: ContainerKind,
    /// Time from the signal to the end of the process; `None` if it ignores the signal.
    pub exit_after_signal: Option<i64>,
    /// Duration of the preStop hook; `None` without a hook.
    pub pre_stop: Option<i64>,
    /// Stop signal of the image, if it has one (L-TERM-11).
    pub stop_signal: Option<&'a str>,
    /// End of the process by a signal that was sent before this plan was made, if there was one.
    pub ends_at: Option<i64>,
    /// Time of SIGKILL by an earlier plan, if there was one; this plan never delays it.
    pub kill_by: Option<i64>,
}

/// End of one container. Times are in seconds since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The preStop hook, which starts with the pod's termination, also for a sidecar (L-TERM-13).
    pub pre_stop: Option<PreStop>,
    /// Time of the stop signal, which is sent unless the process has ended by then.
    pub signal_at: i64,
    /// Time of SIGKILL, which is sent unless the process has ended by then.
    pub kill_at: i64,
    /// Whether SIGKILL is sent.
    pub killed: bool,
    /// Time at which the process is gone.
    pub exited_at: i64,
}

/// End of a preStop hook. A failed hook ends like any other; reporting the failure is up to the node agent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PreStop {
    /// Time until which the termination waits for the hook.
    pub ended_at: i64,
    /// Whether the hook was still running then.
    pub abandoned: bool,
}

/// Ends of `containers`, in their order. Containers and sidecars are each in the order of the pod's spec.
///
/// Main containers are stopped at once (L-TERM-15). A sidecar is stopped once they and all sidecars after it have ended
/// (L-TERM-12), and at the latest at the end of the grace period: then all waiting sidecars are signalled together
/// (L-TERM-14). Init and ephemeral containers are not waited for. Cost: one pass.
#[must_use]
pub fn plan(period: Period, containers: &[Stopping<'_>]) -> Vec<Stop> {
    let is_sidecar = |container: &Stopping<'_>| container.kind == ContainerKind::Sidecar;
    let mut stops: Vec<Stop> =
        containers.iter().map(|container| stop(period, container, period.started_at)).collect();
    let mains = containers.iter().zip(&stops);
    let mains = mains.filter(|(container, _)| container.kind == ContainerKind::Regular);
    let mut stop_at = mains.map(|(_, stop)| stop.exited_at).max().unwrap_or(period.started_at);
    for (container, place) in containers.iter().zip(&mut stops).rev() {
        if is_sidecar(container) {
            *place = stop(period, container, stop_at);
            stop_at = stop_at.max(place.exited_at);
        }
    }
    stops
}

/// End of a container that is stopped at `stop_at` (L-TERM-9).
fn stop(period: Period, container: &Stopping<'_>, stop_at: i64) -> Stop {
    let pre_stop = container.pre_stop.map(|seconds| {
        let done_at = period.started_at.saturating_add(seconds);
        PreStop { ended_at: done_at.min(period.ends_at), abandoned: done_at > period.ends_at }
    });
    let hook_ended_at = pre_stop.map_or(period.started_at, |hook| hook.ended_at);
    let signal_at = hook_ended_at.max(stop_at.min(period.ends_at));
    let kill_at = kill_at(period, container, signal_at);
    let exits_at = container.exit_after_signal.map(|seconds| signal_at.saturating_add(seconds));
    let exits_at = [exits_at, container.ends_at].into_iter().flatten().min();
    match exits_at.filter(|exits_at| *exits_at <= kill_at) {
        Some(exited_at) => Stop { pre_stop, signal_at, kill_at, killed: false, exited_at },
        None => Stop { pre_stop, signal_at, kill_at, killed: true, exited_at: kill_at },
    }
}

/// Time of SIGKILL: the end of the grace period, but not within the last window (L-TERM-10).
fn kill_at(period: Period, container: &Stopping<'_>, signal_at: i64) -> i64 {
    let window_from = period.shortened_at.map_or(signal_at, |moment| moment.max(signal_at));
    let kill_at = period.ends_at.max(window_from.saturating_add(LAST_WINDOW));
    container.kill_by.map_or(kill_at, |moment| moment.min(kill_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(
        kind: ContainerKind,
        exit: Option<i64>,
        pre_stop: Option<i64>,
    ) -> Stopping<'static> {
        Stopping {
            name: "",
            kind,
            exit_after_signal: exit,
            pre_stop,
            stop_signal: None,
            ends_at: None,
            kill_by: None,
        }
    }

    /// Checks signal, end and kill of each container, with a grace period of `grace` from 0.
    fn check(grace: i64, containers: &[Stopping<'_>], expected: &[(i64, i64, bool)]) {
        let period = Period { started_at: 0, ends_at: grace, shortened_at: None };
        let stops = plan(period, containers);
        let got: Vec<_> =
            stops.iter().map(|stop| (stop.signal_at, stop.exited_at, stop.killed)).collect();
        assert_eq!(got, expected);
    }

    use ContainerKind::{Ephemeral, Init, Regular, Sidecar};

    #[test]
    fn the_last_window() {
        // L-TERM-9, L-TERM-10: a process that ends exactly at the deadline is not killed.
        check(30, &[container(Regular, Some(30), None)], &[(0, 30, false)]);
        check(30, &[container(Regular, Some(31), None)], &[(0, 30, true)]);
        check(1, &[container(Regular, Some(2), None)], &[(0, 2, false)]);
        check(30, &[container(Regular, None, Some(28))], &[(28, 30, true)]);
        check(30, &[container(Regular, None, Some(30))], &[(30, 32, true)]);
    }

    #[test]
    fn a_hook_that_ends_with_the_grace_is_done() {
        let period = Period { started_at: 0, ends_at: 30, shortened_at: None };
        let abandoned = |seconds| {
            plan(period, &[container(Regular, None, Some(seconds))])[0].pre_stop.unwrap().abandoned
        };
        assert!(!abandoned(30));
        assert!(abandoned(31));
    }

    #[test]
    fn sidecars_wait_for_mains_and_their_followers_only() {
        // L-TERM-12, L-TERM-13: the hook of the last sidecar still runs when its main container ends; the first sidecar
        // waits for the end of the last.
        let sidecar = |exit, hook| container(Sidecar, exit, hook);
        let mains = container(Regular, Some(3), None);
        check(
            30,
            &[sidecar(Some(1), None), mains, sidecar(Some(2), Some(9))],
            &[(11, 12, false), (0, 3, false), (9, 11, false)],
        );
        // L-TERM-14: the second is killed within its window, the first is signalled at the end of the grace period.
        check(10, &[sidecar(None, None), sidecar(None, Some(9))], &[(10, 12, true), (9, 11, true)]);
        // Other kinds are not waited for.
        check(
            10,
            &[
                sidecar(Some(0), None),
                container(Init, None, None),
                container(Ephemeral, None, None),
            ],
            &[(0, 0, false), (0, 10, true), (0, 10, true)],
        );
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let period = Period { started_at: i64::MAX - 1, ends_at: i64::MAX, shortened_at: None };
        let stops = plan(period, &[container(Regular, Some(i64::MAX), Some(i64::MAX))]);
        assert_eq!(stops[0].exited_at, i64::MAX);
        assert!(plan(period, &[]).is_empty());
    }
}
