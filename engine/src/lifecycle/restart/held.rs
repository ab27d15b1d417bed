//! Back-off of a container as far as its status shows it.

use berth_proto::core_v1::{ContainerStateTerminated, ContainerStatus};

use super::back_off::{BackOffLimits, CRASH_LOOP_BACK_OFF, Hold, is_forgotten};
use crate::lifecycle::reading::{self, Seconds, State};
use crate::model::ModelError;

/// Delay before the next restart of a container that has ended, and the earliest time of that restart.
///
/// A status says when the latest run finished and how often the container was restarted, but not whether the history
/// was dropped in between. If the node agent names a delay in the message of the waiting container
/// (`back-off 40s restarting failed …`), that delay counts. Otherwise it is the delay after that many restarts without
/// a drop, the longest possible (L-RESTART-15, L-RESTART-16). `None` if no run has ended, or the time of its end is
/// unknown.
///
/// # Errors
/// [`ModelError`] at `state` or `lastState` for a state that contradicts itself (L-CSTATE-1).
pub(crate) fn held_back(
    status: &ContainerStatus,
    limits: BackOffLimits,
) -> Result<Option<Hold>, ModelError> {
    let state = reading::state(status.state.as_ref(), "state")?;
    let last = reading::state(status.last_state.as_ref(), "lastState")?;
    let (ended, named_delay) = match (state, last) {
        (Some(State::Terminated(ended)), _) => (ended, None),
        (Some(State::Waiting(waiting)), Some(State::Terminated(ended))) => {
            let is_held = waiting.reason == CRASH_LOOP_BACK_OFF;
            (ended, if is_held { delay_in_message(&waiting.message) } else { None })
        }
        _ => return Ok(None),
    };
    let Some(finished) = reading::optional(ended.finished_at.as_ref()) else { return Ok(None) };
    let delay = match named_delay {
        Some(delay) => delay.min(limits.cap()),
        None if was_long(ended, finished) => 0,
        // A negative count reads as zero.
        None => limits.of_restart(u32::try_from(status.restart_count).unwrap_or_default()),
    };
    Ok(Some(Hold { not_before: finished.saturating_add(delay), delay }))
}

/// Whether the latest run alone drops the history (L-RESTART-16).
fn was_long(ended: &ContainerStateTerminated, finished: Seconds) -> bool {
    reading::optional(ended.started_at.as_ref())
        .is_some_and(|started| is_forgotten(started, finished))
}

/// The delay in the node agent's message `back-off DURATION restarting failed container=…`, with a duration in hours,
/// minutes and seconds such as `10s`, `2m40s` and `5m0s`.
fn delay_in_message(message: &str) -> Option<Seconds> {
    let (mut duration, _) = message.strip_prefix("back-off ")?.split_once(" restarting failed ")?;
    let mut seconds = 0i64;
    while !duration.is_empty() {
        let (number, rest) = duration.split_at(duration.find(|c: char| !c.is_ascii_digit())?);
        let unit = match rest.as_bytes().first()? {
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        let part = number.parse::<Seconds>().ok()?.checked_mul(unit)?;
        seconds = seconds.checked_add(part)?;
        duration = &rest[1..];
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &str, expected: Option<(i64, i64)>) {
        let status: ContainerStatus = serde_json::from_str(status).unwrap();
        let hold = held_back(&status, BackOffLimits::default()).unwrap();
        assert_eq!(hold.map(|hold| (hold.not_before, hold.delay)), expected, "{status:?}");
    }

    const SHORT: &str = r#"{"terminated": {"startedAt": "1970-01-01T00:00:00Z", "finishedAt": "1970-01-01T00:00:05Z"}}"#;
    const LONG: &str = r#"{"terminated": {"startedAt": "1970-01-01T00:00:00Z", "finishedAt": "1970-01-01T00:10:01Z"}}"#;

    /// L-RESTART-15: without a message, the number of restarts decides.
    #[test]
    fn by_restarts() {
        for (count, delay) in [
            (-1, 0),
            (0, 0),
            (1, 10),
            (2, 20),
            (5, 160),
            (6, 300),
            (31, 300),
            (66, 300),
            (i32::MAX, 300),
        ] {
            check(
                &format!(r#"{{"restartCount": {count}, "state": {SHORT}}}"#),
                Some((5 + delay, delay)),
            );
        }
    }

    /// L-RESTART-16.
    #[test]
    fn a_long_run_is_followed_at_once() {
        check(&format!(r#"{{"restartCount": 9, "state": {LONG}}}"#), Some((601, 0)));
    }

    #[test]
    fn the_message_of_the_node_agent_counts() {
        for (message, delay) in [
            ("back-off 40s restarting failed container=a pod=p_default(u)", 40),
            ("back-off 2m40s restarting failed container=a pod=p_default(u)", 160),
            ("back-off 5m0s restarting failed container=a pod=p_default(u)", 300),
            ("back-off 1h0m0s restarting failed container=a", 300),
            ("back-off 99999999999999999999s restarting failed container=a", 20),
            ("back-off 1.5s restarting failed container=a", 20),
            ("back-off 5 restarting failed container=a", 20),
            ("crashed", 20),
            ("", 20),
        ] {
            let waiting = format!(
                r#"{{"waiting": {{"reason": "CrashLoopBackOff", "message": "{message}"}}}}"#
            );
            check(
                &format!(r#"{{"restartCount": 2, "state": {waiting}, "lastState": {SHORT}}}"#),
                Some((5 + delay, delay)),
            );
        }
    }

    #[test]
    fn no_end_or_no_time_of_it() {
        check("{}", None);
        check(&format!(r#"{{"state": {{"running": {{}}}}, "lastState": {SHORT}}}"#), None);
        check(r#"{"state": {"terminated": {"exitCode": 1}}}"#, None);
        let both: ContainerStatus =
            serde_json::from_str(r#"{"state": {"running": {}, "terminated": {}}}"#).unwrap();
        let error = held_back(&both, BackOffLimits::default()).unwrap_err();
        assert_eq!(error.field, "state");
    }
}
