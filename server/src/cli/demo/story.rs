//! What the demo tells at its end: counts, reasons, times, and what to try next.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use berth_engine::Plugin;
use berth_loadgen::client::Mode;
use berth_loadgen::report::LoadReport;
use berth_proto::berth_v1::GetClusterResponse;

use crate::cli::output::{self, Table};

/// How many reasons of pending pods are listed.
const N_REASONS: usize = 6;
/// How many whole messages are shown.
const N_MESSAGES: usize = 3;
/// A percentile of fewer requests would be one of its extremes.
const MIN_FOR_P50: u64 = 10;
const MIN_FOR_P99: u64 = 100;

/// The account of all runs together and of each.
pub(super) fn outcome(reports: &[&LoadReport], cluster: &GetClusterResponse) -> String {
    let sum =
        |count: fn(&LoadReport) -> u64| reports.iter().map(|report| count(report)).sum::<u64>();
    let n_gated = sum(|report| report.n_gated);
    let gated = match n_gated {
        0 => String::new(),
        n => format!(", {} held back by scheduling gates", output::grouped(n)),
    };
    let mut sections = vec![format!(
        "placed {} of {}, {} pending{gated}",
        output::grouped(sum(|report| report.n_placed)),
        output::count(sum(|report| report.n_pods), "pod"),
        output::grouped(sum(|report| report.n_unschedulable))
    )];
    sections.extend(reasons(reports));
    sections.extend(examples(reports));
    sections.extend(errors(reports));
    sections.push(times(reports));
    sections.push(holdings(cluster));
    format!("\n{}", sections.join("\n\n"))
}

/// Commands that work against this very server.
pub(super) fn hints(url: &str, http: SocketAddr) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "berth".to_owned());
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"try-me"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2","memory":"4Gi"}}}]}}"#;
    format!(
        "\nserving until Ctrl-C; in another terminal, for example:\n  \
         echo '{pod}' > try-me.json\n  \
         {program} place --server {url} try-me.json --replicas 3\n  \
         {program} explain --server {url} try-me.json\n  \
         curl http://{http}/metrics"
    )
}

/// Why pods are pending, the most frequent reasons first. A pod counts for every reason that some node gave.
fn reasons(reports: &[&LoadReport]) -> Option<String> {
    let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, n_pods) in reports.iter().flat_map(|report| &report.pending_by_reason) {
        // No node gave it: gated pods are counted apart.
        if reason != Plugin::SchedulingGates.name() {
            *by_reason.entry(reason).or_default() += n_pods;
        }
    }
    let mut by_reason: Vec<(&str, u64)> = by_reason.into_iter().collect();
    by_reason.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    if by_reason.is_empty() {
        return None;
    }
    let mut table = Table::new(&["PENDING PODS", "REJECTED BY SOME NODE BECAUSE"]);
    for (reason, n_pods) in by_reason.iter().take(N_REASONS) {
        table.add_row([output::grouped(*n_pods), (*reason).to_owned()]);
    }
    let more = more(by_reason.len().saturating_sub(N_REASONS), "reason");
    Some(format!("{}{more}", table.text()))
}

/// Whole messages of some of the pods without a node.
fn examples(reports: &[&LoadReport]) -> Option<String> {
    let examples: Vec<_> = reports.iter().flat_map(|report| &report.pending_examples).collect();
    if examples.is_empty() {
        return None;
    }
    let mut table = Table::new(&["PODS", "FOR EXAMPLE", "MESSAGE"]).wrapping(2);
    let mut n_shown = 0;
    for pending in examples.iter().take(N_MESSAGES) {
        n_shown += pending.n_pods;
        table.add_row([
            output::grouped(pending.n_pods),
            pending.example.clone(),
            pending.message.clone(),
        ]);
    }
    let without_node = |report: &&LoadReport| report.n_unschedulable + report.n_gated;
    let n_all: u64 = reports.iter().map(without_node).sum();
    Some(format!("{}{}", table.text(), more(n_all.saturating_sub(n_shown), "pod")))
}

/// The line that ends a table which does not show everything.
fn more(n: impl TryInto<u64>, noun: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        0 => String::new(),
        n => format!("\n… and {} more", output::count(n, noun)),
    }
}

fn errors(reports: &[&LoadReport]) -> Option<String> {
    let lines: Vec<String> = reports
        .iter()
        .flat_map(|report| &report.errors)
        .map(|(code, count)| {
            format!("{} failed with {code}: {}", output::count(count.n_pods, "pod"), count.example)
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn times(reports: &[&LoadReport]) -> String {
    let mut table = Table::new(&["HOW", "PODS", "DECISIONS/S", "REQUESTS", "P50", "P99", "MAX"]);
    for report in reports {
        let how = match report.mode {
            Mode::Unary => format!("one call a pod, {} callers", report.concurrency),
            Mode::Batch => format!("batches of {}", report.batch_size),
            Mode::Stream => format!("streams, {} pods a message", report.batch_size),
        };
        let latency = &report.latency;
        table.add_row([
            how,
            output::grouped(report.n_pods),
            decisions_per_second(report),
            output::grouped(report.n_requests),
            if latency.n < MIN_FOR_P50 { "-".to_owned() } else { time(latency.p50_us) },
            if latency.n < MIN_FOR_P99 { "-".to_owned() } else { time(latency.p99_us) },
            time(latency.max_us),
        ]);
    }
    table.text()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and its fraction says nothing"
)]
fn decisions_per_second(report: &LoadReport) -> String {
    output::grouped(report.decisions_per_second as u64)
}

fn time(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1_000.0) }
}

fn holdings(cluster: &GetClusterResponse) -> String {
    let memory = match resident_bytes() {
        Some(bytes) => {
            format!("; {} MiB resident, server and load generator together", bytes >> 20)
        }
        None => String::new(),
    };
    format!(
        "the cluster now holds {} on {}, {} of them placed by Berth{memory}",
        output::count(cluster.n_pods, "pod"),
        output::count(cluster.n_nodes, "node"),
        output::grouped(cluster.n_assumed_pods)
    )
}

/// Resident memory of this process, where the system tells it as Linux does.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_reads_best() {
        assert_eq!(time(12.4), "12 µs");
        assert_eq!(time(12_345.0), "12.3 ms");
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        assert_eq!(more(0_u64, "pod"), "");
        assert_eq!(more(8_u64, "pod"), "\n… and 8 pods more");
    }

    #[test]
    fn resident_memory_is_plausible() {
        assert!(resident_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
