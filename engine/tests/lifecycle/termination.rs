//! The end of processes: each gets its last window (L-TERM-10), sidecars end in order (L-TERM-12 to L-TERM-14), and a
//! shortened period gives no container more time (L-TERM-17).

use std::collections::BTreeMap;

use berth_engine::lifecycle::termination::{
    restart_during_termination, shorten_during_termination, termination_plan,
};
use berth_proto::Time;
use berth_proto::berth_v1::{
    RestartDuringTerminationRequest, ShortenDuringTerminationRequest, StoppingContainer,
    TerminationEvent, TerminationPlanRequest,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::config;

const START: i64 = 1_000_000;

fn seconds(time: Option<&Time>) -> i64 {
    time.unwrap().unix_seconds().unwrap()
}

fn containers() -> impl Strategy<Value = Vec<StoppingContainer>> {
    let kind = prop_oneof![
        5 => Just("regular"), 5 => Just("sidecar"), 1 => Just("init"), 1 => Just("ephemeral"),
    ];
    let duration = || prop_oneof![10 => 0_i64..45, 1 => Just(i64::MAX)];
    let container = (kind, option::of(duration()), option::of(duration()));
    vec(container, 0..7).prop_map(|containers| {
        let named = |(index, (kind, exit, pre_stop)): (usize, (&str, _, _))| StoppingContainer {
            name: format!("c{index}"),
            kind: kind.into(),
            exit_after_signal_seconds: exit,
            pre_stop_seconds: pre_stop,
            stop_signal: String::new(),
        };
        containers.into_iter().enumerate().map(named).collect()
    })
}

/// The events of one container.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    hook: Option<i64>,
    hook_ended: Option<i64>,
    signal: Option<i64>,
    kill: Option<i64>,
    exited: Option<i64>,
}

fn plan(grace: i64, containers: &[StoppingContainer]) -> Vec<TerminationEvent> {
    let request = TerminationPlanRequest {
        grace_seconds: Some(grace),
        termination_started_at: Some(Time::from_unix_seconds(START)),
        containers: containers.to_vec(),
    };
    termination_plan(&request).unwrap().events
}

/// Returns each container's events, none of which occurs twice.
fn courses(events: &[TerminationEvent]) -> BTreeMap<String, Course> {
    let mut courses: BTreeMap<String, Course> = BTreeMap::new();
    for event in events.iter().filter(|event| !event.container.is_empty()) {
        let course = courses.entry(event.container.clone()).or_default();
        let place = match &*event.action {
            "PreStop" => &mut course.hook,
            "PreStopDone" | "PreStopAbandoned" => &mut course.hook_ended,
            "Signal" => &mut course.signal,
            "Kill" => &mut course.kill,
            "Exited" => &mut course.exited,
            other => panic!("`{other}` of a container"),
        };
        assert_eq!(place.replace(seconds(event.at.as_ref())), None, "twice: {event:?}");
    }
    courses
}

/// Returns when each container has ended, killed or not.
fn exits(grace: i64, containers: &[StoppingContainer]) -> BTreeMap<String, i64> {
    let courses = courses(&plan(grace, containers));
    courses.into_iter().map(|(name, course)| (name, course.exited.unwrap())).collect()
}

fn moments(times: &BTreeMap<String, Time>) -> BTreeMap<String, i64> {
    times.iter().map(|(name, time)| (name.clone(), seconds(Some(time)))).collect()
}

proptest! {
    #![proptest_config(config(3000, 6))]

    #[test]
    fn every_process_has_its_time(grace in -2_i64..50, containers in containers()) {
        let events = plan(grace, &containers);
        let (courses, end) = (courses(&events), START + grace.max(1));
        prop_assert_eq!(courses.len(), containers.len());
        for container in &containers {
            let course = courses[&container.name];
            let (signal, exited) = (course.signal.unwrap(), course.exited.unwrap());
            // Every container's hook begins with the pod's termination, and the signal waits for it, within the period.
            prop_assert_eq!(course.hook, container.pre_stop_seconds.map(|_| START));
            prop_assert_eq!(course.hook_ended.is_some(), course.hook.is_some());
            let hook_ended = course.hook_ended.unwrap_or(START);
            prop_assert!(START <= hook_ended && hook_ended <= signal && signal <= end);
            // SIGKILL never comes within 2 s after the signal, and is delayed for no other reason.
            let deadline = end.max(signal + 2);
            if let Some(kill) = course.kill {
                prop_assert!(kill - signal >= 2);
                prop_assert_eq!((kill, exited), (deadline, deadline));
            } else {
                let seconds = container.exit_after_signal_seconds.unwrap();
                prop_assert_eq!(exited, signal + seconds);
                prop_assert!(exited <= deadline);
            }
        }
    }

    #[test]
    fn sidecars_end_in_reverse_order(grace in -2_i64..50, containers in containers()) {
        let courses = courses(&plan(grace, &containers));
        let end = START + grace.max(1);
        for (index, container) in containers.iter().enumerate() {
            let course = courses[&container.name];
            let hook_ended = course.hook_ended.unwrap_or(START);
            // A sidecar waits for these containers to end, unless the period is over.
            let precedes = |(other, candidate): &(usize, &StoppingContainer)| {
                candidate.kind == "regular" || (candidate.kind == "sidecar" && *other > index)
            };
            let before = containers.iter().enumerate().filter(precedes);
            let gone = before.map(|(_, other)| courses[&other.name].exited.unwrap()).max();
            let earliest = match &*container.kind {
                "sidecar" => gone.unwrap_or(START).min(end),
                _ => START,
            };
            prop_assert_eq!(course.signal, Some(hook_ended.max(earliest)), "{}", container.name);
        }
    }

    #[test]
    fn events_are_in_order_and_the_pod_closes_them(grace in -2_i64..50, containers in containers()) {
        let events = plan(grace, &containers);
        let rank = |action: &str| match action {
            "PreStop" => 0,
            "PreStopDone" | "PreStopAbandoned" => 1,
            "Signal" => 2,
            "Kill" => 3,
            "Exited" => 4,
            _ => 5,
        };
        let (of_containers, of_pod) = events.split_at(events.len() - 2);
        let key = |event: &TerminationEvent| {
            (seconds(event.at.as_ref()), rank(&event.action), event.container.clone())
        };
        prop_assert!(of_containers.iter().map(key).is_sorted());
        // The phase is published before the object is removed, both after the last process has ended.
        let last = of_containers.iter().map(|event| seconds(event.at.as_ref())).max();
        let closing = |event: &TerminationEvent| {
            (event.action.clone(), seconds(event.at.as_ref()), event.grace_period_seconds)
        };
        let at = last.unwrap_or(START);
        let expected = [
            ("PodTerminalPhase".to_owned(), at, None),
            ("RemovePod".to_owned(), at, Some(0)),
        ];
        prop_assert_eq!(of_pod.iter().map(closing).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn shortening_gives_nobody_more_time(
        grace in -2_i64..50,
        new_grace in -2_i64..50,
        after in 0_i64..60,
        containers in containers(),
    ) {
        let response = shorten_during_termination(&ShortenDuringTerminationRequest {
            grace_seconds: Some(grace),
            termination_started_at: Some(Time::from_unix_seconds(START)),
            new_grace_seconds: Some(new_grace),
            changed_at: Some(Time::from_unix_seconds(START + after)),
            containers: containers.clone(),
        })
        .unwrap();
        let before = courses(&plan(grace, &containers));
        let killed = moments(&response.kill_at);
        if new_grace.max(1) >= grace.max(1) {
            let unchanged: BTreeMap<String, i64> = before
                .iter()
                .filter_map(|(name, course)| course.kill.map(|kill| (name.clone(), kill)))
                .collect();
            prop_assert_eq!(killed, unchanged);
            return Ok(());
        }
        let (changed, new_end) = (START + after, START + new_grace.max(1));
        for container in &containers {
            let (course, kill) = (before[&container.name], killed.get(&container.name).copied());
            let exited = course.exited.unwrap();
            if let Some(kill) = kill {
                prop_assert!(kill <= exited, "{} instead of {}", kill, exited);
                // A container that has less than the last window after the change had no more before it.
                prop_assert!(kill >= changed + 2 || course.kill == Some(kill));
                prop_assert!(kill >= new_end);
            } else {
                // A container that is not killed any more ends by itself, within the time that is left after the
                // change.
                let seconds = container.exit_after_signal_seconds;
                prop_assert!(seconds.is_some(), "{} is never killed", container.name);
                if course.signal.unwrap() > changed {
                    prop_assert!(seconds.unwrap() <= (new_end - changed).max(2));
                }
            }
            let is_plain = container.kind != "sidecar" && container.pre_stop_seconds.is_none();
            if is_plain && container.exit_after_signal_seconds.is_none() {
                let formula = new_end.max(changed + 2);
                prop_assert_eq!(kill, Some(formula.min(course.kill.unwrap())));
            }
        }
    }

    #[test]
    fn a_restarted_agent_gives_the_whole_period(
        grace in -2_i64..50,
        after in 0_i64..60,
        containers in containers(),
    ) {
        let response = restart_during_termination(&RestartDuringTerminationRequest {
            grace_seconds: Some(grace),
            termination_started_at: Some(Time::from_unix_seconds(START)),
            agent_restarted_at: Some(Time::from_unix_seconds(START + after)),
            containers: containers.clone(),
        })
        .unwrap();
        let (restarted, killed) = (START + after, moments(&response.kill_at));
        let exits = exits(grace, &containers);
        for container in &containers {
            let still_runs = exits[&container.name] > restarted;
            let kill = killed.get(&container.name).copied();
            if let Some(kill) = kill {
                let from = if still_runs { restarted } else { START };
                prop_assert!(kill >= from + grace.max(2));
                prop_assert!(kill <= from + grace.max(1) + 2);
            } else {
                prop_assert!(container.exit_after_signal_seconds.is_some());
            }
            let starts: Vec<i64> = response
                .pre_stop_starts_at
                .get(&container.name)
                .map_or_else(Vec::new, |starts| {
                    starts.items.iter().map(|time| seconds(Some(time))).collect()
                });
            let expected: &[i64] = match (container.pre_stop_seconds, still_runs) {
                (None, _) => &[],
                (Some(_), false) => &[START],
                (Some(_), true) => &[START, restarted],
            };
            prop_assert_eq!(starts, expected);
        }
    }

    /// Extreme times lead to a response or an error.
    #[test]
    fn no_moment_is_too_late(
        start in select(vec![i64::MIN, -1, 0, i64::MAX - 1, i64::MAX]),
        grace in select(vec![i64::MIN, 0, 30, i64::MAX]),
        containers in containers(),
    ) {
        let at = Some(Time::from_unix_seconds(start));
        let plan = termination_plan(&TerminationPlanRequest {
            grace_seconds: Some(grace),
            termination_started_at: at,
            containers: containers.clone(),
        });
        prop_assert!(plan.is_ok());
        let shortened = shorten_during_termination(&ShortenDuringTerminationRequest {
            grace_seconds: Some(grace),
            termination_started_at: at,
            new_grace_seconds: Some(grace),
            changed_at: at,
            containers: containers.clone(),
        });
        prop_assert!(shortened.is_ok());
        let restarted = restart_during_termination(&RestartDuringTerminationRequest {
            grace_seconds: Some(grace),
            termination_started_at: at,
            agent_restarted_at: at,
            containers,
        });
        prop_assert!(restarted.is_ok());
    }
}
