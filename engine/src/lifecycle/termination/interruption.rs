//! Interrupted terminations: the node agent restarts (L-TERM-16), or the grace period is shortened (L-TERM-17).

use std::collections::BTreeMap;

use berth_proto::Time;
use berth_proto::berth_v1::{
    PreStopStarts, RestartDuringTerminationRequest, RestartDuringTerminationResponse,
    ShortenDuringTerminationRequest, ShortenDuringTerminationResponse,
};

use super::plan::{Period, Stop, Stopping, plan};
use super::steps::{on_node, period, stopping};
use crate::lifecycle::reading::{required, time};
use crate::model::ModelError;

/// End of a container whose node agent restarted meanwhile. Times are in seconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartedStop {
    /// Times at which the container's hook is started; empty without a hook.
    pub pre_stop_starts: Vec<i64>,
    /// Time of SIGKILL; `None` if the process ends before.
    pub killed_at: Option<i64>,
}

/// Ends of `containers` if the node agent restarts at `restarted_at`: termination begins again for containers that
/// still run, with the full period and their hooks, so that every process gets at least its period (L-TERM-16).
///
/// Steps that were due up to and including that time have happened. A process that got its signal before ends when it
/// would have ended without the restart.
#[must_use]
pub fn restarted(
    first: Period,
    restarted_at: i64,
    containers: &[Stopping<'_>],
) -> Vec<RestartedStop> {
    let stops = plan(first, containers);
    let full = first.ends_at.saturating_sub(first.started_at);
    let second = Period {
        started_at: restarted_at,
        ends_at: restarted_at.saturating_add(full),
        shortened_at: None,
    };
    let runs = |stop: &Stop| stop.exited_at > restarted_at;
    let running: Vec<Stopping<'_>> = containers
        .iter()
        .zip(&stops)
        .filter(|(_, stop)| runs(stop))
        .map(|(container, stop)| {
            let seconds = container.exit_after_signal.filter(|_| stop.signal_at <= restarted_at);
            Stopping { ends_at: seconds.map(|s| stop.signal_at.saturating_add(s)), ..*container }
        })
        .collect();
    let mut again = plan(second, &running).into_iter();
    let of_both = |(container, stop): (&Stopping<'_>, &Stop)| {
        let last = if runs(stop) { again.next() } else { None };
        let starts = [Some(first.started_at), last.map(|_| restarted_at)];
        let has_hook = container.pre_stop.is_some();
        RestartedStop {
            pre_stop_starts: starts.into_iter().flatten().filter(|_| has_hook).collect(),
            killed_at: killed_at(last.as_ref().unwrap_or(stop)),
        }
    };
    containers.iter().zip(&stops).map(of_both).collect()
}

/// Ends of `containers` if at `changed_at` the period is cut to end at `ends_at`. An end that is not earlier changes
/// nothing.
///
/// Hooks and waiting sidecars are cut short with the period. A process that has got its signal has the last window from
/// the change on: SIGKILL comes at max(start + new period, change + 2 s) (L-TERM-17), but never later than without the
/// change. Otherwise a change within the last window would lengthen the period (L-TERM-10).
#[must_use]
pub fn shortened(
    first: Period,
    ends_at: i64,
    changed_at: i64,
    containers: &[Stopping<'_>],
) -> Vec<Stop> {
    let stops = plan(first, containers);
    let ends_at = ends_at.max(changed_at);
    if ends_at >= first.ends_at {
        return stops;
    }
    let second = Period { ends_at, shortened_at: Some(changed_at), ..first };
    let capped: Vec<Stopping<'_>> = containers
        .iter()
        .zip(&stops)
        .map(|(container, stop)| Stopping { kill_by: Some(stop.kill_at), ..*container })
        .collect();
    plan(second, &capped)
}

fn killed_at(stop: &Stop) -> Option<i64> {
    stop.killed.then_some(stop.kill_at)
}

/// `RestartDuringTermination`: [`restarted`] for the wire.
///
/// # Errors
/// Errors of `TerminationPlan`, and for a restart that is missing or before the start.
pub fn restart_during_termination(
    request: &RestartDuringTerminationRequest,
) -> Result<RestartDuringTerminationResponse, ModelError> {
    let first = period(request.grace_seconds, request.termination_started_at.as_ref())?;
    let at = after(first, request.agent_restarted_at.as_ref(), "agentRestartedAt")?;
    let containers = stopping(&request.containers)?;
    let mut response = RestartDuringTerminationResponse::default();
    for (container, stop) in containers.iter().zip(restarted(first, at, &containers)) {
        if let Some(killed_at) = stop.killed_at {
            response.kill_at.insert(container.name.into(), time(killed_at));
        }
        if !stop.pre_stop_starts.is_empty() {
            let items = stop.pre_stop_starts.into_iter().map(time).collect();
            response.pre_stop_starts_at.insert(container.name.into(), PreStopStarts { items });
        }
    }
    Ok(response)
}

/// `ShortenDuringTermination`: [`shortened`] for the wire.
///
/// # Errors
/// Errors of `TerminationPlan`, and for a new period that is missing, or a change that is missing or before the start.
pub fn shorten_during_termination(
    request: &ShortenDuringTerminationRequest,
) -> Result<ShortenDuringTerminationResponse, ModelError> {
    let first = period(request.grace_seconds, request.termination_started_at.as_ref())?;
    let new_grace =
        request.new_grace_seconds.ok_or_else(|| ModelError::new("newGraceSeconds", "required"))?;
    let at = after(first, request.changed_at.as_ref(), "changedAt")?;
    let containers = stopping(&request.containers)?;
    let ends_at = first.started_at.saturating_add(on_node(new_grace));
    let stops = shortened(first, ends_at, at, &containers);
    let killed = containers.iter().zip(&stops).filter_map(|(container, stop)| {
        killed_at(stop).map(|moment| (container.name.to_owned(), time(moment)))
    });
    Ok(ShortenDuringTerminationResponse { kill_at: killed.collect::<BTreeMap<String, Time>>() })
}

/// Reads a time during a termination, which must not be before its start.
fn after(period: Period, moment: Option<&Time>, field: &str) -> Result<i64, ModelError> {
    let moment = required(moment, field)?;
    if moment < period.started_at {
        return Err(ModelError::new(field, "is before `terminationStartedAt`"));
    }
    Ok(moment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::vocabulary::ContainerKind;

    const FIRST: Period = Period { started_at: 0, ends_at: 30, shortened_at: None };

    fn container(exit: Option<i64>, pre_stop: Option<i64>) -> Stopping<'static> {
        Stopping {
            name: "",
            kind: ContainerKind::Regular,
            exit_after_signal: exit,
            pre_stop,
            stop_signal: None,
            ends_at: None,
            kill_by: None,
        }
    }

    #[test]
    fn a_restart_changes_nothing_for_ended_processes() {
        // L-TERM-16
        let check = |at, container, expected: (&[i64], Option<i64>)| {
            let stops = restarted(FIRST, at, &[container]);
            let stop = &stops[0];
            assert_eq!((stop.pre_stop_starts.as_slice(), stop.killed_at), expected, "at {at}");
        };
        check(30, container(None, Some(1)), (&[0], Some(30)));
        check(29, container(None, Some(1)), (&[0, 29], Some(59)));
        // A signal at 1 ends the process at 21, also after the restart; a second signal at 6 does not delay that to 26.
        check(5, container(Some(20), Some(1)), (&[0, 5], None));
        // The hook runs at the restart: it runs again, and no signal has been sent.
        check(5, container(Some(50), Some(10)), (&[0, 5], Some(35)));
    }

    #[test]
    fn a_restart_keeps_the_order_of_the_remaining_containers() {
        let main = container(Some(10), None);
        let sidecar = Stopping { kind: ContainerKind::Sidecar, ..container(None, None) };
        // The main container ended at 10: the sidecar is signalled at once, with a full period.
        let stops = restarted(FIRST, 12, &[main, sidecar]);
        assert_eq!(stops[1].killed_at, Some(42));
        assert_eq!(restarted(FIRST, 12, &[main])[0].killed_at, None);
    }

    #[test]
    fn shortening_never_lengthens() {
        let killed = |new_grace, at, container: Stopping<'_>| {
            killed_at(&shortened(FIRST, new_grace, at, &[container])[0])
        };
        // L-TERM-17, within the last window and after it.
        assert_eq!(killed(10, 29, container(None, None)), Some(30));
        assert_eq!(killed(10, 31, container(None, None)), Some(30));
        assert_eq!(killed(40, 4, container(None, None)), Some(30));
        // The hook is cut off at the end of the new period, and the process has its last window after that.
        assert_eq!(killed(10, 4, container(None, Some(20))), Some(12));
        assert_eq!(killed(10, 15, container(None, Some(20))), Some(17));
        assert_eq!(killed(10, 4, container(Some(9), None)), None);
        assert_eq!(killed(1, 0, container(None, None)), Some(2));
    }

    #[test]
    fn bad_input_is_named() {
        let start = Some(Time::from_unix_seconds(100));
        let mut request = ShortenDuringTerminationRequest {
            grace_seconds: Some(30),
            termination_started_at: start,
            ..Default::default()
        };
        let error = |request: &_| shorten_during_termination(request).unwrap_err().to_string();
        assert_eq!(error(&request), "`newGraceSeconds`: required");
        request.new_grace_seconds = Some(i64::MIN);
        assert_eq!(error(&request), "`changedAt`: required");
        request.changed_at = Some(Time::from_unix_seconds(99));
        assert_eq!(error(&request), "`changedAt`: is before `terminationStartedAt`");
        let request = RestartDuringTerminationRequest {
            grace_seconds: Some(30),
            termination_started_at: start,
            ..Default::default()
        };
        let error = restart_during_termination(&request).unwrap_err();
        assert_eq!(error.to_string(), "`agentRestartedAt`: required");
    }
}
