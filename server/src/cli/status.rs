//! `berth status`: the size and the freshness of the cluster, and its pending pods by cause.

use std::process::ExitCode;

use berth_proto::berth_v1::{
    GetClusterResponse, ListPendingRequest, ListPendingResponse, PendingGroup, PendingWorkload,
};
use serde::Serialize;

use super::CliError;
use super::backend::{Backend, BackendArgs};
use super::input::InputArgs;
use super::lifecycle::moment;
use super::output::{self, Format};
use super::pods;
use super::what_if::{SupposedPods, WhatIfArgs};
use crate::escape::printable;

/// Number of workloads that are named for a cause.
const N_WORKLOADS: usize = 2;

/// Shows how many nodes and pods the cluster has, how fresh that is, and what keeps pending pods waiting
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when the cluster was read; 1 when it was not, or a server has none yet; 2 for a wrong command line."
)]
pub struct StatusArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Only pods of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Output for programs: the responses of `GetCluster` and `ListPending`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusOutput<'a> {
    cluster: &'a GetClusterResponse,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<&'a ListPendingResponse>,
}

/// Runs the command.
///
/// # Errors
/// A cluster that cannot be read, a server that cannot be reached.
pub async fn run(args: StatusArgs) -> Result<ExitCode, CliError> {
    let (what_if, input) = (WhatIfArgs::default(), InputArgs::default());
    let (namespace, output) = (args.namespace.as_deref(), args.output);
    let question = async |backend: &mut Backend| show(backend, namespace, output).await;
    let supposed = SupposedPods::Pending;
    args.backend.ask(&what_if, &input, supposed, pods::is_pending, question).await
}

/// Prints the cluster of `backend`, and its pending pods of a namespace or of all.
pub(super) async fn show(
    backend: &Backend,
    namespace: Option<&str>,
    format: Format,
) -> Result<ExitCode, CliError> {
    let cluster = backend.cluster().await?;
    let request = ListPendingRequest {
        namespace: namespace.unwrap_or_default().to_owned(),
        ..ListPendingRequest::default()
    };
    let pending = if cluster.decidable { Some(backend.list_pending(request).await?) } else { None };
    let answer = StatusOutput { cluster: &cluster, pending: pending.as_ref() };
    output::answer(format, &answer, || {
        let mut sections = vec![sizes(&cluster)];
        sections.extend(pending.as_ref().map(by_cause));
        sections.join("\n\n")
    })?;
    backend.tell(&backend.notes());
    Ok(if cluster.decidable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sizes(cluster: &GetClusterResponse) -> String {
    let freshness = match (cluster.decidable, cluster.staleness_ms) {
        (false, _) => "no feed has delivered a cluster yet".to_owned(),
        (true, Some(staleness)) => {
            format!("last heard of {} ago", moment::span(staleness / 1_000))
        }
        (true, None) => "read for this answer".to_owned(),
    };
    let mut lines = vec![format!(
        "{}, {} on them, {} pending, {} assumed, {} on unknown nodes",
        output::count(cluster.n_nodes, "node"),
        output::count(cluster.n_pods, "pod"),
        output::grouped(cluster.n_pending_pods),
        output::grouped(cluster.n_assumed_pods),
        output::grouped(cluster.n_orphaned_pods),
    )];
    lines.push(format!("generation {}, {freshness}", output::grouped(cluster.generation)));
    lines.push(format!("profiles: {}", cluster.scheduler_names.join(", ")));
    if cluster.n_contradictions > 0 {
        lines.push(format!(
            "the feed has contradicted itself: {}",
            output::count(cluster.n_contradictions, "time")
        ));
    }
    lines.join("\n")
}

/// Pending pods by cause, with what would help the first pod of each.
pub(super) fn by_cause(pending: &ListPendingResponse) -> String {
    if pending.n_pods == 0 {
        return "no pod is pending".to_owned();
    }
    let heading = format!(
        "{} pending, {}",
        output::count(pending.n_pods, "pod"),
        output::count(pending.n_groups, "cause")
    );
    let mut table = output::Table::new(&["PODS", "NODES", "CAUSE", "WORKLOADS", "WOULD HELP"])
        .wrapping(2)
        .wrapping(4)
        .dropping([3, 1]);
    for group in &pending.groups {
        table.add_row([
            output::grouped(group.n_pods),
            nodes(group),
            group.cause.clone(),
            workloads(group),
            would_help(group),
        ]);
    }
    let mut text = format!("{heading}\n{}", table.text());
    let n_left_out = usize::try_from(pending.n_groups).unwrap_or(usize::MAX);
    let n_left_out = n_left_out.saturating_sub(pending.groups.len());
    if n_left_out > 0 {
        text += &format!("\nand {} more", output::count(n_left_out, "cause"));
    }
    if pending.n_not_decided > 0 {
        text += &format!("\n{} not decided", output::count(pending.n_not_decided, "pod"));
    }
    text
}

/// The nodes that the plugin of the cause refuses, of all.
fn nodes(group: &PendingGroup) -> String {
    match group.reasons.iter().map(|reason| reason.n_nodes).max() {
        Some(n) => format!("{} of {}", output::grouped(n), output::grouped(group.n_nodes)),
        None => "-".to_owned(),
    }
}

fn workloads(group: &PendingGroup) -> String {
    let name = |workload: &PendingWorkload| {
        let PendingWorkload { namespace, name, n_pods, .. } = workload;
        let name = printable(name);
        match n_pods {
            1 => format!("{namespace}/{name}"),
            n => format!("{namespace}/{name} {}", output::grouped(*n)),
        }
    };
    let named: Vec<String> = group.workloads.iter().take(N_WORKLOADS).map(name).collect();
    let more = if group.workloads.len() > N_WORKLOADS { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

fn would_help(group: &PendingGroup) -> String {
    group.would_help.first().map_or_else(|| "-".to_owned(), |remedy| remedy.change.clone())
}

#[cfg(test)]
mod tests {
    use berth_proto::berth_v1::{ReasonCount, Remedy};

    use super::*;

    #[test]
    fn causes_are_listed_with_their_workloads() {
        let workload = |name: &str, n_pods| PendingWorkload {
            namespace: "ml".to_owned(),
            kind: "Job".to_owned(),
            name: name.to_owned(),
            n_pods,
        };
        let group = PendingGroup {
            cause: "Insufficient nvidia.com/gpu".to_owned(),
            reasons: vec![ReasonCount { reason: "r".to_owned(), n_nodes: 29 }],
            n_nodes: 300,
            n_pods: 9,
            workloads: vec![workload("train", 7), workload("eval", 1), workload("x", 1)],
            would_help: vec![Remedy { change: "ask for less".to_owned(), ..Remedy::default() }],
            ..PendingGroup::default()
        };
        let answer = ListPendingResponse {
            groups: vec![group, PendingGroup { n_pods: 1, ..PendingGroup::default() }],
            n_pods: 12,
            n_groups: 3,
            n_not_decided: 2,
            generation: 1,
        };
        let text = by_cause(&answer);
        assert!(text.starts_with("12 pods pending, 3 causes\nPODS"), "{text}");
        for part in ["29 of 300", "ml/train 7, ml/eval, …", "ask for less", "and 1 cause more"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.ends_with("2 pods not decided"), "{text}");
        assert_eq!(by_cause(&ListPendingResponse::default()), "no pod is pending");
    }

    #[test]
    fn a_server_without_a_cluster_says_so() {
        let text = sizes(&GetClusterResponse::default());
        assert!(text.contains("no feed has delivered a cluster yet"), "{text}");
        let fed = GetClusterResponse { decidable: true, ..GetClusterResponse::default() };
        assert!(sizes(&fed).contains("read for this answer"));
        let text = sizes(&GetClusterResponse { staleness_ms: Some(61_000), ..fed });
        assert!(text.contains("last heard of 1m1s ago"), "{text}");
    }
}
