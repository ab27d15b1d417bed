use tokio::time::Instant;

use super::*;
use crate::overload::search::Trial;
use crate::overload::stats::{Times, add_seconds};

fn stats(origin: Instant, second: u64, accepted_ms: u64, n_refused: u64) -> CallStats {
    let mut stats = CallStats::new(origin);
    let times = |ms: u64| {
        let intended = origin + Duration::from_millis(second * 1_000 + 10);
        let answered = intended + Duration::from_millis(ms);
        Times { intended, sent: intended, last_sent: intended, answered }
    };
    for _ in 0..10 {
        stats.answered(times(accepted_ms), Code::Ok, "");
    }
    for _ in 0..n_refused {
        stats.answered(times(1), Code::ResourceExhausted, "full");
        stats.retry_after(Duration::from_millis(50));
    }
    stats
}

/// A run of three seconds, one second a phase.
fn example(overload_ms: u64) -> OverloadReport {
    let origin = Instant::now();
    let all_stats = [(0, 4, 0), (1, overload_ms, 90), (2, 4, 0)]
        .map(|(second, ms, n_refused)| stats(origin, second, ms, n_refused));
    let names = ["half", "overload", "half again"];
    let phases = names.into_iter().zip(&all_stats).enumerate().map(|(n, (name, stats))| {
        let begun = Duration::from_secs(n as u64);
        PhaseReport::new(name, 10.0, begun, Duration::from_secs(1), stats, 0)
    });
    let seconds = all_stats.iter().fold(Vec::new(), |all, stats| add_seconds(all, stats.seconds()));
    let memory = (0..9).map(|n| MemorySample {
        at_seconds: 0.1 + f64::from(n) / 3.0,
        resident: Some(200 << 20),
        reported: None,
    });
    OverloadReport {
        kind: WorkKind::Batch,
        pods_per_call: 1_000,
        n_connections: 8,
        factor: 10.0,
        max_in_flight: 20_000,
        timeout_seconds: 10.0,
        retry: false,
        n_cores: 2,
        interrupted: false,
        highest: Highest {
            closed_loop_rate: Some(22.0),
            rate: 20.0,
            trials: vec![Trial { rate: 20.0, accepted: 1.0, n_in_flight: 1, passed: true }],
        },
        phases: phases.collect(),
        seconds: seconds.iter().map(SecondReport::new).collect(),
        memory: memory.collect(),
        server_calls: Some(Calls::from([("OK".to_owned(), 30)])),
        balance: Balance { n_granted: 5, n_held: 5, ..Balance::default() },
    }
}

fn met(report: &OverloadReport) -> Vec<bool> {
    report.verdicts().iter().map(|verdict| verdict.is_met).collect()
}

#[test]
fn each_requirement_is_judged_alone() {
    assert_eq!(met(&example(6)), [true; 7]);
    // More than twice the latency at half load: both percentiles fail.
    assert_eq!(met(&example(9)), [false, false, true, true, true, true, true]);
    let mut report = example(6);
    report.balance.n_lost = 1;
    assert_eq!(met(&report), [true, true, true, true, true, true, false]);
    assert!(!report.is_sound());
    let mut report = example(6);
    report.memory[5].resident = Some(300 << 20);
    assert_eq!(met(&report), [true, true, true, true, false, true, true]);
    let mut report = example(6);
    report.phases[1].by_code.insert("UNAVAILABLE", 2);
    report.phases[1].n_failed = 2;
    assert_eq!(met(&report), [true, true, true, false, true, true, true]);
    assert!(report.verdicts()[3].figure == "2 UNAVAILABLE" && !report.is_sound());
    let mut report = example(6);
    report.phases[1].refused_from_sending.p99_us = 7_000.0;
    assert_eq!(met(&report), [true, true, false, true, true, true, true]);
}

#[test]
fn the_page_lists_requirements_and_measurements() {
    let page = markdown(&example(6), Some("overload.svg"));
    for text in [
        "## 10 × the highest rate of `PlaceBatch` of 1,000 replicas\n",
        "](overload.svg)",
        "| overload | 1.0 | 10 | 100 | 10 | 90 | 0 | 0 | 10 |",
        "| nothing accepted is lost, nothing refused took room | 5 pods granted, 5 held;",
        "| overload | refused | the sending | 1.00 ms |",
        "a closed loop got through 22 calls/s; of rates offered in an open loop, 20 taken (100.0 % carried out, 1 under way at the end)",
        "count of these calls over the three loads: 30 OK.",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    assert!(!markdown(&example(6), None).contains("!["));
}

#[test]
fn the_picture_has_a_chart_for_each_quantity() {
    let svg = picture(&example(6));
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<svg").count(), 4);
    let mut unwatched = example(6);
    unwatched.memory.clear();
    assert_eq!(picture(&unwatched).matches("<svg").count(), 3);
    // A phase without accepted calls is drawn too.
    unwatched.seconds.iter_mut().for_each(|second| (second.p50_us, second.p99_us) = (None, None));
    assert!(!picture(&unwatched).contains("NaN"));
}
