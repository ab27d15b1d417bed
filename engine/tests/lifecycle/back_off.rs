//! Back-off over random sequences of exits (L-RESTART-15, L-RESTART-16, L-RESTART-18, L-RESTART-19).

use berth_engine::lifecycle::restart::backoff_schedule;
use berth_proto::Time;
use berth_proto::berth_v1::{BackoffScheduleRequest, ContainerRun, ScheduledRestart};
use proptest::prelude::*;

/// Generates for each run its duration in seconds, and the seconds from the end of the previous run to its start. Many
/// are near the two limits.
fn runs() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let length = prop_oneof![0..=30i64, 590..=610i64, 600..=601i64, 0..=100_000i64];
    let gap = prop_oneof![0..=30i64, 290..=310i64, 590..=610i64];
    prop::collection::vec((length, gap), 0..=24)
}

fn schedule(base: Option<i64>, cap: Option<i64>, exits: &[(i64, i64)]) -> Vec<ScheduledRestart> {
    let time = |seconds| Some(Time::from_unix_seconds(seconds));
    let run = |(started, finished): &(i64, i64)| ContainerRun {
        started_at: time(*started),
        finished_at: time(*finished),
    };
    let exits = exits.iter().map(run).collect();
    let request = BackoffScheduleRequest { base_seconds: base, max_seconds: cap, exits };
    backoff_schedule(&request).unwrap().restarts
}

/// Returns start and finish of each run.
fn exits(first: i64, runs: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut finished = first;
    let mut exits = Vec::new();
    for (length, gap) in runs {
        let started = finished + gap;
        finished = started + length;
        exits.push((started, finished));
    }
    exits
}

/// Returns the delays as the specification defines them: 0 for the first exit and for each one that drops the history,
/// then the base, then twice the previous delay.
fn expected(base: i64, cap: i64, exits: &[(i64, i64)]) -> Vec<i64> {
    let delay = |exit: usize| {
        let is_anew = |exit: &usize| *exit == 0 || exits[*exit].1 - exits[*exit].0 > 600;
        let anew = (0..=exit).rev().find(is_anew).unwrap();
        match exit - anew {
            0 => 0,
            n => (base.min(cap) << (n - 1)).min(cap),
        }
    };
    (0..exits.len()).map(delay).collect()
}

proptest! {
    #![proptest_config(super::config(256, 20))]

    /// For any base and any cap of 1 to 300 the delays are 0, base, and doubled up to the cap; a run of more than 600 s
    /// resets them.
    #[test]
    fn delays_follow_the_specification(
        base in prop::option::of(1..=400i64),
        cap in prop::option::of(1..=300i64),
        first in -1_000_000..=2_000_000_000i64,
        runs in runs(),
    ) {
        let exits = exits(first, &runs);
        let restarts = schedule(base, cap, &exits);
        let delays: Vec<i64> = restarts.iter().map(|restart| restart.backoff_seconds).collect();
        prop_assert_eq!(&delays, &expected(base.unwrap_or(10), cap.unwrap_or(300), &exits));
    }

    /// No restart comes before the finish of the run, from which the delay counts; a container that waits is reported
    /// as waiting.
    #[test]
    fn restarts_wait_from_the_finish(cap in 1..=300i64, runs in runs()) {
        let exits = exits(0, &runs);
        for (restart, (_, finished)) in schedule(None, Some(cap), &exits).iter().zip(&exits) {
            let not_before = restart.not_before.unwrap().unix_seconds().unwrap();
            prop_assert_eq!(not_before - finished, restart.backoff_seconds);
            prop_assert!((0..=cap).contains(&restart.backoff_seconds));
            let reason = if restart.backoff_seconds > 0 { "CrashLoopBackOff" } else { "" };
            prop_assert_eq!(&restart.reason, reason);
        }
    }

    /// A decision after an exit does not depend on later exits.
    #[test]
    fn a_schedule_is_never_revised(runs in runs(), n in 0usize..24) {
        let exits = exits(0, &runs);
        let n = n.min(exits.len());
        prop_assert_eq!(schedule(None, None, &exits[..n]), schedule(None, None, &exits)[..n].to_vec());
    }

    /// Extreme times lead to a response or an error, and never wrap around.
    #[test]
    fn any_times(times in prop::collection::vec(any::<i64>(), 0..=12)) {
        let mut times = times;
        times.sort_unstable();
        let exits: Vec<(i64, i64)> = times.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let time = |seconds| Some(Time::from_unix_seconds(seconds));
        let run = |(started, finished): &(i64, i64)| ContainerRun { started_at: time(*started), finished_at: time(*finished) };
        let request = BackoffScheduleRequest { exits: exits.iter().map(run).collect(), ..Default::default() };
        if let Ok(answer) = backoff_schedule(&request) {
            for (restart, (_, finished)) in answer.restarts.iter().zip(&exits) {
                prop_assert!(restart.not_before.unwrap().unix_seconds().is_none_or(|at| at >= *finished));
            }
        }
    }
}
