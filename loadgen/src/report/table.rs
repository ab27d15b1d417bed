//! The report of a load run as text for a terminal.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::number::{counted, grouped, rounded};
use super::{Latency, LoadReport};
use berth_client::outcome::ErrorCount;

/// Limit of the listed reasons of pending pods.
const MAX_REASONS: usize = 10;

/// The whole report, ending in a line break.
pub fn render(report: &LoadReport) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    writeln!(text, "{}", heading(report)).ok();
    writeln!(text, "\n{}", counts(report)).ok();
    writeln!(text, "\n{}", latencies(report)).ok();
    if !report.pending_by_reason.is_empty() {
        writeln!(text, "\n{}", reasons(report)).ok();
    }
    for (state, pods) in [("pending", &report.pending_examples), ("gated", &report.gated_examples)]
    {
        for pods in pods {
            let (n_pods, example) = (grouped(pods.n_pods), &pods.example);
            writeln!(text, "{n_pods} {state}, such as {example}: {}", pods.message).ok();
        }
    }
    for (code, count) in &report.errors {
        writeln!(text, "{}", error(code, count)).ok();
    }
    if let Some(failure) = &report.release_failure {
        writeln!(text, "assumed pods were not released: {failure}").ok();
    }
    text
}

fn heading(report: &LoadReport) -> String {
    let arrival = match report.rate_pods_per_second {
        Some(rate) => format!("open loop at {} pods/s", pods_per_second(rate)),
        None => "closed loop".to_owned(),
    };
    let mode = match report.mode {
        berth_client::Mode::Unary => "unary".to_owned(),
        berth_client::Mode::Batch => format!("batch of {}", grouped(report.batch_size as u64)),
        berth_client::Mode::Stream => format!("stream of {}", grouped(report.batch_size as u64)),
    };
    let effect = if report.assume { "assume" } else { "dry run" };
    let connections = counted(report.n_connections as u64, "connection");
    let early = if report.interrupted { ", interrupted" } else { "" };
    format!(
        "{mode}, {arrival}, {effect}, {connections}, {} in flight, {:.2} s{early}",
        grouped(report.concurrency as u64),
        report.elapsed_seconds
    )
}

/// A line about one code: requests that failed as a whole, or pods that were refused individually.
fn error(code: &str, count: &ErrorCount) -> String {
    let pods = counted(count.n_pods, "pod");
    let requests = match count.n_requests {
        0 => String::new(),
        n_requests => format!(" in {}", counted(n_requests, "failed request")),
    };
    format!("error {code}: {pods}{requests}, first: {}", count.example)
}

fn counts(report: &LoadReport) -> Table {
    let mut table =
        table(&["pods", "placed", "pending", "gated", "errors", "released", "decisions/s"], 0);
    table.add_row([
        grouped(report.n_pods),
        grouped(report.n_placed),
        grouped(report.n_unschedulable),
        grouped(report.n_gated),
        grouped(report.n_errors),
        grouped(report.n_released as u64),
        rounded(report.decisions_per_second),
    ]);
    table
}

fn latencies(report: &LoadReport) -> Table {
    let mut table = table(&["per request", "n", "mean", "p50", "p90", "p99", "p99.9", "max"], 1);
    let mut row = |name: &str, latency: &Latency| {
        table.add_row([
            name.to_owned(),
            grouped(latency.n),
            time(latency.mean_us),
            time(latency.p50_us),
            time(latency.p90_us),
            time(latency.p99_us),
            time(latency.p999_us),
            time(latency.max_us),
        ]);
    };
    if report.rate_pods_per_second.is_some() {
        row("from intended start", &report.latency);
        row("from sending", &report.service_time);
    } else {
        row("latency", &report.latency);
    }
    table
}

fn reasons(report: &LoadReport) -> Table {
    let mut table = table(&["why pods are pending, on some node at least", "pods"], 1);
    let reasons = most_frequent_first(report);
    for (reason, n_pods) in reasons.iter().take(MAX_REASONS) {
        table.add_row([(*reason).to_owned(), grouped(*n_pods)]);
    }
    if let Some(n_more) = reasons.len().checked_sub(MAX_REASONS).filter(|n_more| *n_more > 0) {
        table.add_row([format!("… and {n_more} more"), String::new()]);
    }
    table
}

/// The reasons of pending pods, the most frequent first, ties by name.
pub fn most_frequent_first(report: &LoadReport) -> Vec<(&str, u64)> {
    let reasons = report.pending_by_reason.iter();
    let mut reasons: Vec<(&str, u64)> =
        reasons.map(|(reason, n_pods)| (reason.as_str(), *n_pods)).collect();
    reasons.sort_by_key(|(_, n_pods)| std::cmp::Reverse(*n_pods));
    reasons
}

/// A borderless table whose columns from `n_text_columns` on are numbers.
pub fn table(header: &[&str], n_text_columns: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(n_text_columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The rate; a whole number with its digits in groups of three.
pub fn pods_per_second(rate: f64) -> String {
    if rate.fract() == 0.0 { rounded(rate) } else { rate.to_string() }
}

/// A time in microseconds, shown in the unit that suits its size.
pub fn time(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.1} µs"),
        us if us < 1_000_000.0 => format!("{:.2} ms", us / 1_000.0),
        us => format!("{:.2} s", us / 1_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{render, time};
    use crate::report::tests::example;

    #[test]
    fn a_report_reads_like_this() {
        let text: Vec<String> = render(&example())
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|line| !line.is_empty())
            .collect();
        let expected = [
            "unary, open loop at 500 pods/s, assume, 2 connections, 16 in flight, 2.00 s",
            "pods placed pending gated errors released decisions/s",
            "998 990 7 1 2 990 499",
            "per request n mean p50 p90 p99 p99.9 max",
            "from intended start 1,000 500.5 µs 500.2 µs 900.1 µs 990.2 µs 999.4 µs 1.00 ms",
            "from sending 1,000 500.5 µs 500.2 µs 900.1 µs 990.2 µs 999.4 µs 1.00 ms",
            "why pods are pending, on some node at least pods",
            "Insufficient cpu 7",
            "7 pending, such as ns/big: 0/5 nodes are available: 5 Insufficient cpu.",
            "1 gated, such as ns/later: SchedulingGates: waiting for scheduling gates: [quota]",
            "error UNAVAILABLE: 2 pods in 2 failed requests, first: the <server> is gone",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn one_is_singular_and_errors_are_listed() {
        let mut report = example();
        (report.n_connections, report.interrupted) = (1, true);
        report.release_failure = Some("the server is gone".to_owned());
        let refused = report.errors.entry("INVALID_ARGUMENT".to_owned()).or_default();
        (refused.n_pods, refused.example) = (1, "no name".to_owned());
        let text = render(&report);
        let heading = text.lines().next().unwrap();
        assert!(heading.contains(", 1 connection, "), "{heading}");
        assert!(heading.ends_with(", interrupted"), "{heading}");
        assert!(text.contains("\nerror INVALID_ARGUMENT: 1 pod, first: no name\n"), "{text}");
        assert!(text.ends_with("assumed pods were not released: the server is gone\n"), "{text}");
    }

    #[test]
    fn times_change_unit_at_a_thousand() {
        assert_eq!(
            [time(0.5), time(999.9), time(1_000.0), time(2_500_000.0)],
            ["0.5 µs", "999.9 µs", "1.00 ms", "2.50 s"]
        );
    }
}
