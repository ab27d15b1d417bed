//! What the demo tells at its end: counts, reasons, times, and what to try next.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use berth_loadgen::client::Mode;
use berth_loadgen::report::LoadReport;
use berth_proto::berth_v1::GetClusterResponse;

use crate::cli::output;

/// How many reasons of pending pods are listed.
const N_REASONS: usize = 6;
/// How many whole messages are shown.
const N_MESSAGES: usize = 3;

/// The account of all runs together and of each.
pub(super) fn outcome(reports: &[&LoadReport], cluster: &GetClusterResponse) -> String {
    let sum =
        |count: fn(&LoadReport) -> u64| reports.iter().map(|report| count(report)).sum::<u64>();
    let n_pending = sum(|report| report.n_unschedulable) + sum(|report| report.n_gated);
    let mut sections = vec![format!(
        "placed {} of {}, {} pending",
        output::grouped(sum(|report| report.n_placed)),
        pods(sum(|report| report.n_pods)),
        output::grouped(n_pending)
    )];
    sections.extend(pending(reports));
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

/// `1 pod`, `25,000 pods`.
pub(super) fn pods(n: u64) -> String {
    output::count(n, "pod")
}

fn pending(reports: &[&LoadReport]) -> Option<String> {
    let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, n_pods) in reports.iter().flat_map(|report| &report.pending_by_reason) {
        *by_reason.entry(reason).or_default() += n_pods;
    }
    let mut by_reason: Vec<(&str, u64)> = by_reason.into_iter().collect();
    by_reason.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    if by_reason.is_empty() {
        return None;
    }
    let mut table = output::table(&["PENDING PODS", "REASON, ON SOME NODE AT LEAST"]);
    for (reason, n_pods) in by_reason.iter().take(N_REASONS) {
        table.add_row([output::grouped(*n_pods), (*reason).to_owned()]);
    }
    let mut messages = output::table(&["PENDING PODS", "FOR EXAMPLE", "MESSAGE"]);
    let examples = reports.iter().flat_map(|report| &report.pending_examples);
    for pending in examples.take(N_MESSAGES) {
        messages.add_row([
            output::grouped(pending.n_pods),
            pending.example.clone(),
            pending.message.clone(),
        ]);
    }
    Some(format!("{}\n\n{}", output::table_text(&table), output::table_text(&messages)))
}

fn errors(reports: &[&LoadReport]) -> Option<String> {
    let lines: Vec<String> = reports
        .iter()
        .flat_map(|report| &report.errors)
        .map(|(code, count)| {
            format!("{} failed with {code}: {}", pods(count.n_pods), count.example)
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn times(reports: &[&LoadReport]) -> String {
    let mut table = output::table(&["HOW", "PODS", "DECISIONS/S", "REQUESTS", "P50", "P99", "MAX"]);
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
            format!("{:.0}", report.decisions_per_second),
            output::grouped(report.n_requests),
            time(latency.p50_us),
            time(latency.p99_us),
            time(latency.max_us),
        ]);
    }
    output::table_text(&table)
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
        pods(cluster.n_pods.into()),
        output::count(cluster.n_nodes.into(), "node"),
        output::grouped(cluster.n_assumed_pods.into())
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
    fn resident_memory_is_plausible() {
        assert!(resident_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
