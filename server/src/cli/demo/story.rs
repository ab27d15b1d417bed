//! The texts that the demo prints at its end: counts, reasons, times, and commands to try next.

use std::net::SocketAddr;
use std::time::Duration;

use berth_client::outcome::Outcomes;
use berth_engine::Plugin;
use berth_proto::berth_v1::{ExplainResponse, GetClusterResponse};

use super::connections::N_CONNECTIONS;
use super::load::{Method, Run};
use crate::cli::explain;
use crate::cli::output::{self, Table};

/// Number of listed reasons of pending pods.
const N_REASONS: usize = 6;
/// Number of nodes of the account.
const N_BEST: usize = 3;
/// Number of messages shown in full.
const N_MESSAGES: usize = 3;
/// Requests that a percentile needs; of fewer requests it would be an extreme value.
const MIN_FOR_P50: usize = 10;
const MIN_FOR_P99: usize = 100;

/// Summary of all runs together and of each.
pub(super) fn outcome(runs: &[Run], cluster: &GetClusterResponse) -> String {
    let mut all = Outcomes::default();
    runs.iter().for_each(|run| all.merge(run.outcomes.clone()));
    let n_gated = all.n_gated;
    let gated = match n_gated {
        0 => String::new(),
        n => format!(", {} held back by scheduling gates", output::grouped(n)),
    };
    let mut sections = vec![format!(
        "placed {} of {}, {} pending{gated}",
        output::grouped(all.n_placed),
        output::count(all.n_pods, "pod"),
        output::grouped(all.n_unschedulable)
    )];
    sections.extend(reasons(&all));
    sections.extend(examples(&all));
    sections.extend(errors(&all));
    sections.push(times(runs));
    sections.push(holdings(cluster));
    format!("\n{}", sections.join("\n\n"))
}

/// One of the pods, and why its node was chosen.
pub(super) fn account(name: &str, account: &ExplainResponse) -> String {
    format!("\nfor example:\n{}", explain::in_short(name, account, N_BEST))
}

/// Commands to try against the demo's server.
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

/// The reasons of pending pods, the most frequent first. A pod counts under each reason that at least one node gave.
fn reasons(all: &Outcomes) -> Option<String> {
    let mut by_reason: Vec<(&str, u64)> = all
        .pending_by_reason
        .iter()
        .map(|(reason, n_pods)| (reason.as_str(), *n_pods))
        // No node gives this reason: gated pods are counted apart.
        .filter(|(reason, _)| *reason != Plugin::SchedulingGates.name())
        .collect();
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

/// Messages of some of the pods without a node.
fn examples(all: &Outcomes) -> Option<String> {
    if all.pending_examples.is_empty() {
        return None;
    }
    let mut table = Table::new(&["PODS", "FOR EXAMPLE", "MESSAGE"]).wrapping(2);
    let mut n_shown = 0;
    for pending in all.pending_examples.iter().take(N_MESSAGES) {
        n_shown += pending.n_pods;
        table.add_row([
            output::grouped(pending.n_pods),
            pending.example.clone(),
            pending.message.clone(),
        ]);
    }
    let n_all = all.n_unschedulable + all.n_gated;
    Some(format!("{}{}", table.text(), more(n_all.saturating_sub(n_shown), "pod")))
}

/// The last line of a table that does not show all entries.
fn more(n: impl TryInto<u64>, noun: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        0 => String::new(),
        n => format!("\n… and {} more", output::count(n, noun)),
    }
}

fn errors(all: &Outcomes) -> Option<String> {
    let lines: Vec<String> = all
        .errors
        .iter()
        .map(|(code, count)| {
            format!("{} failed with {code}: {}", output::count(count.n_pods, "pod"), count.example)
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn times(runs: &[Run]) -> String {
    let mut table = Table::new(&["HOW", "PODS", "DECISIONS/S", "REQUESTS", "P50", "P99", "MAX"]);
    for run in runs {
        let how = match run.method {
            Method::Unary => {
                format!("one call a pod, {} callers", run.method.n_callers(N_CONNECTIONS))
            }
            Method::Stream => format!("streams, {} pods a message", run.method.batch_size()),
        };
        let percentile = |percent, min_requests| {
            if run.latencies.len() < min_requests {
                "-".to_owned()
            } else {
                time(run.latency(percent))
            }
        };
        table.add_row([
            how,
            output::grouped(run.outcomes.n_pods),
            decisions_per_second(run),
            output::grouped(run.outcomes.n_requests),
            percentile(50, MIN_FOR_P50),
            percentile(99, MIN_FOR_P99),
            time(run.latency(100)),
        ]);
    }
    table.text()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and its fraction is not shown"
)]
fn decisions_per_second(run: &Run) -> String {
    output::grouped(run.decisions_per_second() as u64)
}

/// A time in the unit that reads best.
pub(super) fn time(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
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

/// Resident memory of this process; `None` where `/proc` does not show it.
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
        assert_eq!(time(Duration::from_nanos(12_400)), "12 µs");
        assert_eq!(time(Duration::from_micros(12_345)), "12.3 ms");
    }

    #[test]
    fn entries_that_are_not_shown_are_counted() {
        assert_eq!(more(0_u64, "pod"), "");
        assert_eq!(more(8_u64, "pod"), "\n… and 8 pods more");
    }

    #[test]
    fn resident_memory_is_plausible() {
        assert!(resident_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
