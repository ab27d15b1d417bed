//! Probes over random ticks, compared with the rules applied to the whole history at every tick
//! (L-PROBE-8 to L-PROBE-15).

use berth_engine::lifecycle::probe::probe_timeline;
use berth_proto::Time;
use berth_proto::berth_v1::{ProbeTick, ProbeTimelineRequest};
use berth_proto::core_v1::Probe;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Story {
    probe_type: &'static str,
    delay: i32,
    /// Thresholds of successes and failures.
    thresholds: [i32; 2],
    started_at_tick: Option<i32>,
    /// Seconds after the container's start.
    deleted_at: Option<i64>,
    /// Seconds after the container's start, and result.
    ticks: Vec<(i64, &'static str)>,
}

const START: i64 = 1_768_046_400;

fn story() -> impl Strategy<Value = Story> {
    let outcome = prop_oneof![3 => Just("Success"), 4 => Just("Failure"), 1 => Just("Error")];
    // Runs of equal results, so that thresholds are reached.
    let row = (outcome, prop::collection::vec(0..=15i64, 1..=5));
    let ticks = prop::collection::vec(row, 0..=8).prop_map(|rows| {
        let gaps = rows.into_iter();
        let gaps = gaps.flat_map(|(outcome, gaps)| gaps.into_iter().map(move |gap| (gap, outcome)));
        let mut at = 0;
        gaps.map(|(gap, outcome)| {
            at += gap;
            (at, outcome)
        })
        .collect::<Vec<_>>()
    });
    (
        prop::sample::select(vec!["liveness", "readiness", "startup"]),
        0..=40i32,
        [1..=3i32, 1..=4i32],
        prop::option::weighted(0.7, 0..=6i32),
        prop::option::weighted(0.3, 0..=200i64),
        ticks,
    )
        .prop_map(|(probe_type, delay, thresholds, started_at_tick, deleted_at, ticks)| {
            let [successes, failures] = thresholds;
            // A probe that kills has a success threshold of one (L-PROBE-18).
            let successes = if probe_type == "readiness" { successes } else { 1 };
            let thresholds = [successes, failures];
            Story { probe_type, delay, thresholds, started_at_tick, deleted_at, ticks }
        })
}

/// Whether each probe ran, the value after each tick, and when the container was killed.
type Timeline = (Vec<bool>, Vec<String>, Option<i64>);

fn tell(story: &Story) -> Timeline {
    let time = |seconds: i64| Some(Time::from_unix_seconds(START + seconds));
    let tick =
        |(at, outcome): &(i64, &str)| ProbeTick { at: time(*at), outcome: (*outcome).to_owned() };
    let probe = Probe {
        initial_delay_seconds: story.delay,
        success_threshold: story.thresholds[0],
        failure_threshold: story.thresholds[1],
        ..Probe::default()
    };
    let request = ProbeTimelineRequest {
        probe_type: story.probe_type.to_owned(),
        probe: Some(probe),
        container_started_at: time(0),
        started_at_tick: story.started_at_tick,
        ticks: story.ticks.iter().map(tick).collect(),
        deletion_requested_at: story.deleted_at.and_then(time),
    };
    let answer = probe_timeline(&request).unwrap();
    let kill_at = answer.kill_at.map(|at| at.unix_seconds().unwrap() - START);
    (answer.ran, answer.values, kill_at)
}

/// Computes the timeline as the specification words it: only the runs are carried from tick to tick.
fn expected(story: &Story) -> Timeline {
    let kills = story.probe_type != "readiness";
    let (mut ran, mut values, mut kill_at): Timeline = (Vec::new(), Vec::new(), None);
    for (index, (at, _)) in story.ticks.iter().enumerate() {
        let is_deleted = kills && story.deleted_at.is_some_and(|deleted| *at >= deleted);
        let has_come_up =
            story.probe_type == "startup" && in_force(story, &ran).is_some_and(|v| v == "Success");
        let is_started = has_come_up
            || story.started_at_tick.is_some_and(|first| index >= usize::try_from(first).unwrap());
        let waits = if story.probe_type == "startup" { is_started } else { !is_started };
        let runs = kill_at.is_none() && !is_deleted && *at >= i64::from(story.delay) && !waits;
        ran.push(runs);
        let value = match in_force(story, &ran) {
            Some("Failure") if kills => "Failure",
            _ if is_deleted => "Success",
            Some(value) => value,
            None => match story.probe_type {
                "liveness" => "Success",
                "readiness" => "Failure",
                _ => "Unknown",
            },
        };
        if runs && kills && value == "Failure" {
            kill_at = Some(*at);
        }
        values.push(value.to_owned());
    }
    (ran, values, kill_at)
}

/// Returns the latest result that was repeated as often as its threshold; errors do not count.
fn in_force(story: &Story, ran: &[bool]) -> Option<&'static str> {
    let ticks = story.ticks.iter().zip(ran);
    let results = ticks.filter(|((_, outcome), ran)| **ran && *outcome != "Error");
    let results: Vec<&'static str> = results.map(|((_, outcome), _)| *outcome).collect();
    let is_in_row = |end: &usize| {
        let threshold = story.thresholds[usize::from(results[*end] == "Failure")];
        let n = usize::try_from(threshold).unwrap();
        *end + 1 >= n && results[*end + 1 - n..=*end].iter().all(|r| *r == results[*end])
    };
    (0..results.len()).rev().find(is_in_row).map(|end| results[end])
}

proptest! {
    #![proptest_config(super::config(1024, 21))]

    /// The effective value changes only after a threshold of equal results in a row (L-PROBE-9), and the other rules
    /// hold.
    #[test]
    fn timelines_follow_the_specification(story in story()) {
        prop_assert_eq!(tell(&story), expected(&story));
    }

    /// L-PROBE-8.
    #[test]
    fn nothing_runs_within_the_delay(story in story()) {
        let (ran, ..) = tell(&story);
        for ((at, _), ran) in story.ticks.iter().zip(ran) {
            prop_assert!(!ran || *at >= i64::from(story.delay));
        }
    }

    /// L-PROBE-12, L-PROBE-13: an instance is killed at most once, no probe runs after that, and readiness never kills.
    #[test]
    fn an_instance_is_killed_once(story in story()) {
        let (ran, values, kill_at) = tell(&story);
        let Some(kill_at) = kill_at else { return Ok(()) };
        prop_assert_ne!(story.probe_type, "readiness");
        let last = ran.iter().rposition(|ran| *ran).unwrap();
        prop_assert_eq!(story.ticks[last].0, kill_at);
        prop_assert!(values[..last].iter().all(|value| value != "Failure"));
        prop_assert!(values[last..].iter().all(|value| value == "Failure"));
    }
}
