//! The report as text for a terminal.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{Latency, LoadReport};

/// Lists at most this many reasons of pending pods.
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
    for pending in &report.pending_examples {
        writeln!(
            text,
            "{} pending, such as {}: {}",
            pending.n_pods, pending.example, pending.message
        )
        .ok();
    }
    for (code, count) in &report.errors {
        writeln!(text, "error {code} for {} pods, first: {}", count.n_pods, count.example).ok();
    }
    text
}

fn heading(report: &LoadReport) -> String {
    let arrival = match report.rate_pods_per_second {
        Some(rate) => format!("open loop at {rate} pods/s"),
        None => "closed loop".to_owned(),
    };
    let mode = match report.mode {
        crate::client::Mode::Unary => "unary".to_owned(),
        crate::client::Mode::Batch => format!("batch of {}", report.batch_size),
        crate::client::Mode::Stream => format!("stream of {}", report.batch_size),
    };
    let effect = if report.assume { "assume" } else { "dry run" };
    format!(
        "{mode}, {arrival}, {effect}, {} connections, {} in flight, {:.2} s",
        report.n_connections, report.concurrency, report.elapsed_seconds
    )
}

fn counts(report: &LoadReport) -> Table {
    let mut table =
        table(&["pods", "placed", "pending", "gated", "errors", "released", "decisions/s"], 0);
    table.add_row([
        report.n_pods.to_string(),
        report.n_placed.to_string(),
        report.n_unschedulable.to_string(),
        report.n_gated.to_string(),
        report.n_errors.to_string(),
        report.n_released.to_string(),
        format!("{:.0}", report.decisions_per_second),
    ]);
    table
}

fn latencies(report: &LoadReport) -> Table {
    let mut table = table(&["per request", "n", "mean", "p50", "p90", "p99", "p99.9", "max"], 1);
    let mut row = |name: &str, latency: &Latency| {
        table.add_row([
            name.to_owned(),
            latency.n.to_string(),
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
    let mut table = table(&["reason of pending pods", "pods"], 1);
    let mut reasons: Vec<(&String, &u64)> = report.pending_by_reason.iter().collect();
    // Most frequent first; the map's order by name breaks ties.
    reasons.sort_by_key(|(_, n_pods)| std::cmp::Reverse(**n_pods));
    for (reason, n_pods) in reasons.iter().take(MAX_REASONS) {
        table.add_row([reason.to_string(), n_pods.to_string()]);
    }
    if let Some(n_more) = reasons.len().checked_sub(MAX_REASONS).filter(|n_more| *n_more > 0) {
        table.add_row([format!("… and {n_more} more"), String::new()]);
    }
    table
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

/// Microseconds in the unit that keeps three digits readable.
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
            "1000 990 7 1 2 990 499",
            "per request n mean p50 p90 p99 p99.9 max",
            "from intended start 1000 500.5 µs 500.2 µs 900.1 µs 990.2 µs 999.4 µs 1.00 ms",
            "from sending 1000 500.5 µs 500.2 µs 900.1 µs 990.2 µs 999.4 µs 1.00 ms",
            "reason of pending pods pods",
            "Insufficient cpu 7",
            "SchedulingGates 1",
            "7 pending, such as ns/big: 0/5 nodes are available: 5 Insufficient cpu.",
            "error Unavailable for 2 pods, first: the <server> is gone",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn times_change_unit_at_a_thousand() {
        assert_eq!(
            [time(0.5), time(999.9), time(1_000.0), time(2_500_000.0)],
            ["0.5 µs", "999.9 µs", "1.00 ms", "2.50 s"]
        );
    }
}
