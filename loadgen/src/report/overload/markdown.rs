//! The report of an overload as Markdown: a page of tables, which `docs/` contains unchanged.

use std::fmt::Write as _;

use super::{OverloadReport, PhaseReport};
use crate::overload::work::WorkKind;
use crate::report::Latency;
use crate::report::number::{grouped, rounded};
use crate::report::table::time;

/// The report under a second-level heading. `picture` is the link from the page to the picture.
pub fn markdown(report: &OverloadReport, picture: Option<&str>) -> String {
    let mut page = String::new();
    // Writing to a `String` cannot fail.
    writeln!(page, "## {}\n\n{}", heading(report), conditions(report)).ok();
    if let Some(picture) = picture {
        writeln!(page, "\n![Offered, accepted and refused calls, the latency of accepted ones and the server's memory over the run]({picture})").ok();
    }
    writeln!(page, "\n{}", verdicts(report)).ok();
    writeln!(page, "{}", loads(report)).ok();
    writeln!(page, "{}", latencies(report)).ok();
    writeln!(page, "{}", generator(report)).ok();
    writeln!(page, "{}", highest(report)).ok();
    page.push_str(&counted(report));
    page
}

fn heading(report: &OverloadReport) -> String {
    let early = if report.interrupted { ", interrupted" } else { "" };
    format!("{} × the highest rate of {}{early}", report.factor, method(report))
}

fn method(report: &OverloadReport) -> String {
    match report.kind {
        WorkKind::Place => "`Place`".to_owned(),
        WorkKind::Batch => {
            format!("`PlaceBatch` of {} replicas", grouped(report.pods_per_call.into()))
        }
        WorkKind::Explain => "`Explain`".to_owned(),
    }
}

fn conditions(report: &OverloadReport) -> String {
    let work = match report.kind {
        WorkKind::Place => {
            "A call asks for one pod: deciding costs little more than refusing, so that what a server saves by refusing is small."
        }
        WorkKind::Batch => {
            "A call asks for many replicas of one pod: deciding costs milliseconds, refusing what any call costs. That is the work of which a generator beside the server can offer many times too much."
        }
        WorkKind::Explain => {
            "A call asks for a pod's verdict on every node and is answered with one: deciding costs milliseconds, refusing what any call costs."
        }
    };
    let retry = if report.retry {
        "refused calls are tried again when the server says"
    } else {
        "refused calls are not tried again"
    };
    format!(
        "{work}\n\nGenerator and server share {} cores; {} connections, at most {} calls under way, a deadline of {} s, {retry}. Latencies count from when a call was due unless said.",
        report.n_cores,
        report.n_connections,
        grouped(report.max_in_flight as u64),
        report.timeout_seconds
    )
}

fn verdicts(report: &OverloadReport) -> String {
    let mut text = table_head(&["asked", "measured", "met"]);
    for verdict in report.verdicts() {
        let met = if verdict.is_met { "yes" } else { "**no**" };
        row(&mut text, &[verdict.what.to_owned(), verdict.figure, met.to_owned()]);
    }
    text
}

fn loads(report: &OverloadReport) -> String {
    let mut text = table_head(&[
        "load",
        "seconds",
        "aimed at, calls/s",
        "offered, calls/s",
        "accepted",
        "refused",
        "other codes",
        "not sent",
        "accepted, calls/s",
    ]);
    for phase in &report.phases {
        row(
            &mut text,
            &[
                phase.name.to_owned(),
                format!("{:.1}", phase.elapsed_seconds),
                rounded(phase.rate),
                rounded(phase.offered_rate()),
                grouped(phase.n_accepted),
                grouped(phase.n_refused),
                grouped(phase.n_failed + phase.n_unanswered),
                grouped(phase.n_not_sent),
                rounded(phase.per_second(phase.n_accepted)),
            ],
        );
    }
    text
}

fn latencies(report: &OverloadReport) -> String {
    let mut text = table_head(&["load", "calls", "from", "p50", "p90", "p99", "p99.9", "max"]);
    for phase in &report.phases {
        for (calls, from, latency) in [
            ("accepted", "when due", &phase.accepted),
            ("accepted", "the sending", &phase.accepted_from_sending),
            ("refused", "when due", &phase.refused),
            ("refused", "the sending", &phase.refused_from_sending),
        ] {
            if latency.n > 0 {
                row(&mut text, &latency_row(phase, calls, from, latency));
            }
        }
    }
    text
}

fn latency_row(phase: &PhaseReport, calls: &str, from: &str, latency: &Latency) -> Vec<String> {
    let times = [latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us];
    let names = [phase.name, calls, from].map(str::to_owned);
    names.into_iter().chain(times.map(time)).collect()
}

/// A table of the generator's own delay and of the retry delays that refusals named.
fn generator(report: &OverloadReport) -> String {
    let mut text = table_head(&[
        "load",
        "generator's delay, p50",
        "p99",
        "max",
        "refusals with a time to try again",
        "that time, least",
        "p50",
        "greatest",
        "further attempts",
    ]);
    for phase in &report.phases {
        let (lag, after) = (&phase.lag, &phase.retry_after);
        let of_after = |us| if after.n > 0 { time(us) } else { String::new() };
        row(
            &mut text,
            &[
                phase.name.to_owned(),
                time(lag.p50_us),
                time(lag.p99_us),
                time(lag.max_us),
                grouped(after.n),
                of_after(after.min_us),
                of_after(after.p50_us),
                of_after(after.max_us),
                grouped(phase.n_retries),
            ],
        );
    }
    text
}

fn highest(report: &OverloadReport) -> String {
    let highest = &report.highest;
    let Some(closed_loop) = highest.closed_loop_rate else {
        return format!("The highest rate was given: {} calls/s.\n", rounded(highest.rate));
    };
    let tried: Vec<String> = highest
        .trials
        .iter()
        .map(|trial| {
            let outcome = if trial.passed { "taken" } else { "not taken" };
            let accepted = trial.accepted * 100.0;
            format!(
                "{} {outcome} ({accepted:.1} % carried out, {} under way at the end)",
                rounded(trial.rate),
                grouped(trial.n_in_flight as u64)
            )
        })
        .collect();
    let none = if highest.trials.iter().any(|trial| trial.passed) {
        ""
    } else {
        " (the lowest that was considered: none that was tried was taken)"
    };
    format!(
        "The highest rate is {} calls/s{none}: a closed loop got through {} calls/s; of rates offered in an open loop, {}.\n",
        rounded(highest.rate),
        rounded(closed_loop),
        tried.join(", ")
    )
}

fn counted(report: &OverloadReport) -> String {
    let Some(calls) = &report.server_calls else { return String::new() };
    let calls: Vec<String> =
        calls.iter().map(|(code, n)| format!("{} {code}", grouped(*n))).collect();
    format!("The server's own count of these calls over the three loads: {}.\n", calls.join(", "))
}

fn table_head(names: &[&str]) -> String {
    format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len()))
}

fn row(text: &mut String, cells: &[String]) {
    // Cells contain texts of the server, in which a bar would start another cell.
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    writeln!(text, "| {} |", cells.join(" | ")).ok();
}
