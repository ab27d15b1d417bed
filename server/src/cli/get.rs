//! `berth get`: lists nodes, pods, pending pods by cause, and assumed pods.

use std::process::ExitCode;

use berth_engine::{Rounding, amount_text};
use berth_proto::berth_v1::{ListPendingRequest, ListPodsRequest, NodeSummary, PodSummary};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;

use super::backend::{Backend, BackendArgs};
use super::input::InputArgs;
use super::output::{self, Format};
use super::what_if::{SupposedPods, WhatIfArgs};
use super::{CliError, pods, status};

/// Lists what the cluster has, as it is read for decisions
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when the list was read, also if it is empty; 1 when it was not; 2 for a wrong command line."
)]
pub struct GetArgs {
    /// What to list
    #[arg(value_name = "WHAT")]
    what: What,
    #[command(flatten)]
    backend: BackendArgs,
    /// Only pods of this namespace [default: all]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only pods on this node, or this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Only nodes with these labels, for example `topology.kubernetes.io/zone in (a,b),!gpu`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Only pods of this phase, for example `Running`
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Only pods with this reason, for example `Unschedulable`
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// Only pods of this controller: `ReplicaSet/web-5d4f`, or its name alone
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Only pods of this scheduler, the profile that decides about them
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// What can be listed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Nodes with their free resources.
    #[value(alias = "node", alias = "no")]
    Nodes,
    /// Pods, on nodes and pending.
    #[value(alias = "pod", alias = "po")]
    Pods,
    /// Pending pods by cause.
    Pending,
    /// Pods that a server placed and no feed has confirmed yet.
    Assumed,
}

/// Runs the command.
///
/// # Errors
/// A filter that the list does not have, a cluster that cannot be read, a server that cannot be reached.
pub async fn run(args: GetArgs) -> Result<ExitCode, CliError> {
    args.check()?;
    let (what_if, input) = (WhatIfArgs::default(), InputArgs::default());
    let question = async |backend: &mut Backend| answer(&args, backend).await;
    let supposed = SupposedPods::Pending;
    args.backend.ask(&what_if, &input, supposed, pods::is_pending, question).await
}

impl GetArgs {
    /// Checks that the list has each filter that is given.
    fn check(&self) -> Result<(), CliError> {
        let is_pods = matches!(self.what, What::Pods | What::Assumed);
        let given = [
            ("--selector", self.selector.is_some(), self.what == What::Nodes),
            ("--node", self.node.is_some(), is_pods || self.what == What::Nodes),
            ("--namespace", self.namespace.is_some(), self.what != What::Nodes),
            ("--phase", self.phase.is_some(), is_pods),
            ("--reason", self.reason.is_some(), is_pods),
            ("--owner", self.owner.is_some(), is_pods),
            ("--scheduler-name", self.scheduler_name.is_some(), is_pods),
        ];
        match given.into_iter().find(|(_, is_given, has_it)| *is_given && !has_it) {
            Some((flag, ..)) => {
                let what = self.what.to_possible_value();
                let what = what.map_or_else(String::new, |value| value.get_name().to_owned());
                Err(CliError::Request(format!("`{flag}` means nothing for `get {what}`")))
            }
            None => Ok(()),
        }
    }

    fn pods(&self) -> ListPodsRequest {
        let text = |given: &Option<String>| given.clone().unwrap_or_default();
        ListPodsRequest {
            namespace: text(&self.namespace),
            node_name: text(&self.node),
            phase: text(&self.phase),
            reason: text(&self.reason),
            owner: text(&self.owner),
            scheduler_name: text(&self.scheduler_name),
            include_off_nodes: true,
            ..ListPodsRequest::default()
        }
    }
}

async fn answer(args: &GetArgs, backend: &Backend) -> Result<ExitCode, CliError> {
    match args.what {
        What::Nodes => {
            let selector = args.selector.clone().unwrap_or_default();
            let mut nodes = backend.list_nodes(selector).await?;
            if let Some(name) = &args.node {
                nodes.retain(|node| node.name == *name);
            }
            show(args, &json!({ "nodes": nodes }), || of_nodes(&nodes))?;
        }
        What::Pods | What::Assumed => {
            let mut pods = backend.list_pods(args.pods()).await?;
            if args.what == What::Assumed {
                pods.retain(|pod| pod.assumed);
            }
            show(args, &json!({ "pods": pods }), || of_pods(&pods))?;
        }
        What::Pending => {
            let namespace = args.namespace.clone().unwrap_or_default();
            let request = ListPendingRequest { namespace, ..ListPendingRequest::default() };
            let pending = backend.list_pending(request).await?;
            show(args, &pending, || status::by_cause(&pending))?;
        }
    }
    backend.tell(&backend.notes());
    Ok(ExitCode::SUCCESS)
}

fn show(
    args: &GetArgs,
    answer: &impl Serialize,
    table: impl FnOnce() -> String,
) -> Result<(), CliError> {
    Ok(output::answer(args.output, answer, table)?)
}

fn of_nodes(nodes: &[NodeSummary]) -> String {
    let mut table =
        output::Table::new(&["NODE", "PODS", "CPU FREE", "OF", "MEMORY FREE", "OF", "STATE"])
            .dropping([5, 3]);
    for node in nodes {
        let [cpu, memory] = ["cpu", "memory"].map(|name| {
            let of = |amounts: &std::collections::BTreeMap<String, i64>| {
                amounts.get(name).copied().unwrap_or(0)
            };
            let allocatable = of(&node.allocatable);
            (allocatable.saturating_sub(of(&node.requested)), allocatable)
        });
        let state = if node.unschedulable { "cordoned" } else { "-" };
        table.add_row([
            node.name.clone(),
            format!("{} of {}", node.n_pods, node.allowed_pods),
            amount("cpu", cpu.0),
            amount("cpu", cpu.1),
            amount("memory", memory.0),
            amount("memory", memory.1),
            state.to_owned(),
        ]);
    }
    table.text()
}

fn of_pods(pods: &[PodSummary]) -> String {
    let mut table = output::Table::new(&["POD", "PHASE", "NODE", "REASON", "OWNER", "PRIORITY"])
        .dropping([5, 4]);
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    for pod in pods {
        let key = pod.key.clone().unwrap_or_default();
        let node = match (pod.node_name.as_str(), pod.nominated_node_name.as_str()) {
            ("", "") => "-".to_owned(),
            ("", nominated) => format!("({nominated})"),
            (node, _) if pod.assumed => format!("{node} (assumed)"),
            (node, _) => node.to_owned(),
        };
        table.add_row([
            format!("{}/{}", key.namespace, key.name),
            or_dash(&pod.phase),
            node,
            or_dash(&pod.reason),
            or_dash(&pod.owner),
            pod.priority.to_string(),
        ]);
    }
    table.text()
}

fn amount(resource: &str, amount: i64) -> String {
    amount_text(resource, amount, Rounding::Down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_listed_with_their_node() {
        let pod = |node: &str, nominated: &str, assumed| PodSummary {
            node_name: node.to_owned(),
            nominated_node_name: nominated.to_owned(),
            assumed,
            ..PodSummary::default()
        };
        let text = of_pods(&[pod("", "", false), pod("", "n1", false), pod("n2", "", true)]);
        for part in ["(n1)", "n2 (assumed)"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
