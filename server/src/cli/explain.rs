//! `berth explain`: explains why a pod is placed where it is, or nowhere.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::StatusCode;
use berth_proto::berth_v1::{
    ExplainResponse, NodeVerdict, PostFilter, PreemptOptions, Remedy, decision::Outcome,
};
use berth_proto::core_v1::Pod;
use serde::Serialize;

use super::backend::{self, Backend, BackendArgs};
use super::given::{Names, One};
use super::input::InputArgs;
use super::output::{self, Format};
use super::what_if::{SupposedPods, WhatIfArgs};
use super::{CliError, admission, manifest, outcome, preempt};
use crate::escape::printable_lines;

/// Number of node names that are listed for a group.
const N_EXAMPLES: usize = 3;
/// Number of best nodes in a table by default.
const N_BEST: usize = 10;

const EXIT_STATUS: &str = "\
    Exit status: 0 when the pod was decided, wherever it goes and whatever keeps it pending; 1 when it was refused or \
    nothing could be decided; 2 for a wrong command line.";

/// Output for programs: the response of `Explain`, with PostFilter's result and notes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainOutput<'a> {
    #[serde(flatten)]
    account: &'a ExplainResponse,
    /// Result of PostFilter if no node is feasible, as in the response of `Preempt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    post_filter: Option<&'a PostFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// Explains the decision for one pod: rejections, scores, the nearest remedies, and whom it could displace
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct ExplainArgs {
    /// A file with one pod or workload (a folder, or `-` for standard input), or a pod of the cluster: `namespace/name`,
    /// or `pod/name` with `-n`
    #[arg(value_name = "POD", required_unless_present = "filename")]
    pod: Option<String>,
    /// File with one pod or workload, as for kubectl: a Deployment, StatefulSet, DaemonSet, Job, CronJob and the like
    /// stands for its first pod
    #[arg(short, long, value_name = "FILE", conflicts_with = "pod")]
    filename: Option<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Only this node, with everything known about it; repeatable
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// How many of the best nodes to list [default: 10 in a table, else all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top: Option<usize>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// An unreadable file, not exactly one pod, a refused pod, an unknown node, an impossible supposition, a server that
/// cannot be reached.
pub async fn run(args: ExplainArgs) -> Result<ExitCode, CliError> {
    let names = Names::of(args.pod.as_slice(), args.filename.as_slice(), &args.input);
    let is_asked_for = |pod: &Pod| names.is_named(pod);
    let supposed = SupposedPods::Placed;
    let mut backend = args.backend.open(&args.what_if, &args.input, supposed, is_asked_for).await?;
    let answered = answer(&args, &names, &mut backend).await;
    backend.close().await;
    answered
}

async fn answer(
    args: &ExplainArgs,
    names: &Names<'_>,
    backend: &mut Backend,
) -> Result<ExitCode, CliError> {
    let node = if let [node] = &args.nodes[..] { Some(node.as_str()) } else { None };
    let One { pod, notes: of_pod, .. } = names.find_one(node, backend).await?;
    let name = manifest::name_of(&pod);
    let mut notes = backend.notes();
    notes.extend(of_pod);
    let mut account = backend.explain(pod.clone(), args.nodes.clone()).await?;
    notes.extend(admission::notes(account.admission.iter().map(|it| (&*name, it))));
    if let Some(unknown) = unknown_node(&args.nodes, &account) {
        return Err(CliError::Request(format!("the cluster has no node `{unknown}`")));
    }
    let outcome = account.decision.as_ref().and_then(|decision| decision.outcome.as_ref());
    let post_filter = match outcome {
        Some(Outcome::Unschedulable(_)) => {
            backend.preempt(pod, PreemptOptions::default()).await?.post_filter
        }
        Some(Outcome::Placement(_) | Outcome::Gated(_)) | None => None,
    };
    if args.output != Format::Table
        && let Some(top) = args.top
    {
        keep_best(&mut account.nodes, top);
    }
    let answer = ExplainOutput {
        account: &account,
        post_filter: post_filter.as_ref(),
        what_if: backend.what_if(),
        notes: &notes,
    };
    match output::structured(args.output, &answer)? {
        Some(text) => output::print(&text)?,
        None => output::print(&printable_lines(&text(&name, &answer, args)))?,
    }
    backend.tell(&notes);
    Ok(ExitCode::SUCCESS)
}

/// Keeps the `top` best of the feasible nodes, best first, and after them all rejected ones.
fn keep_best(nodes: &mut Vec<NodeVerdict>, top: usize) {
    nodes.sort_by(|a, b| b.feasible.cmp(&a.feasible).then_with(|| best_first(a, b)));
    let mut n_feasible = 0;
    nodes.retain(|node| {
        n_feasible += usize::from(node.feasible);
        !node.feasible || n_feasible <= top
    });
}

/// Order of the output: highest total, then by name.
fn best_first(a: &NodeVerdict, b: &NodeVerdict) -> Ordering {
    b.total_score.cmp(&a.total_score).then_with(|| a.node_name.cmp(&b.node_name))
}

/// A requested node that the explanation should contain but does not.
fn unknown_node<'a>(requested: &'a [String], account: &ExplainResponse) -> Option<&'a String> {
    let nodes_were_filtered =
        match account.decision.as_ref().and_then(|decision| decision.outcome.as_ref()) {
            Some(Outcome::Placement(_)) => true,
            Some(Outcome::Unschedulable(unschedulable)) => {
                unschedulable.pre_filter_plugin.is_empty()
            }
            Some(Outcome::Gated(_)) | None => false,
        };
    requested.iter().find(|name| {
        nodes_were_filtered && !account.nodes.iter().any(|node| node.node_name == **name)
    })
}

fn text(name: &str, answer: &ExplainOutput<'_>, args: &ExplainArgs) -> String {
    let account = answer.account;
    let mut sections: Vec<String> = answer.what_if.map(str::to_owned).into_iter().collect();
    sections.push(outcome::summary(name, account.decision.as_ref()));
    if args.nodes.is_empty() {
        sections.extend(best_nodes(&account.nodes, args.top.unwrap_or(N_BEST)));
        sections.extend(rejections(&account.nodes));
        sections.extend(remedies(&account.remedies));
        sections.extend(answer.post_filter.map(preempt::in_short));
    } else {
        sections.extend(account.nodes.iter().map(one_node));
    }
    sections.extend(admission::filled_in(account.admission.iter().map(|it| (name, it))));
    sections.join("\n\n")
}

/// Table of the nodes with the highest totals, with each plugin's weighted score.
fn best_nodes(nodes: &[NodeVerdict], top: usize) -> Option<String> {
    let mut feasible: Vec<&NodeVerdict> = nodes.iter().filter(|node| node.feasible).collect();
    feasible.sort_by(|a, b| best_first(a, b));
    let first = feasible.first()?;
    let plugins: Vec<&str> = first.scores.iter().map(|score| score.plugin.as_str()).collect();
    let headings: Vec<&str> =
        ["NODE", "SCORE"].into_iter().chain(plugins.iter().copied()).collect();
    let mut table = output::Table::new(&headings);
    for node in feasible.iter().take(top) {
        let score_of = |plugin: &&str| {
            let score = node.scores.iter().find(|score| score.plugin == *plugin);
            score.map_or_else(|| "-".to_owned(), |score| score.weighted.to_string())
        };
        let cells = [node.node_name.clone(), node.total_score.to_string()];
        table.add_row(cells.into_iter().chain(plugins.iter().map(score_of)));
    }
    let more = match feasible.len().saturating_sub(top) {
        0 => String::new(),
        n => format!("\nand {} more", output::count(n, "feasible node")),
    };
    Some(format!("{}{more}", table.text()))
}

/// Table of rejected nodes by plugin and reason, most nodes first.
fn rejections(nodes: &[NodeVerdict]) -> Option<String> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let Some(rejection) = &node.rejection else {
            continue;
        };
        let plugin =
            if rejection.plugin.is_empty() { "(left out by PreFilter)" } else { &rejection.plugin };
        for reason in &rejection.reasons {
            groups.entry((plugin, reason, &rejection.code)).or_default().push(&node.node_name);
        }
    }
    if groups.is_empty() {
        return None;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let mut table =
        output::Table::new(&["REJECTED BY", "REASON", "NODES", "EVICTION MAY HELP", "FOR EXAMPLE"])
            .wrapping(1);
    for ((plugin, reason, code), nodes) in groups {
        let helps = if code == StatusCode::Unschedulable.as_str() { "yes" } else { "no" };
        let examples = nodes.iter().take(N_EXAMPLES).copied().collect::<Vec<_>>().join(", ");
        table.add_row([plugin, reason, &output::grouped(nodes.len()), helps, &examples]);
    }
    Some(table.text())
}

fn remedies(remedies: &[Remedy]) -> Option<String> {
    if remedies.is_empty() {
        return None;
    }
    let mut table = output::Table::new(&["NEAREST REMEDY", "NODES", "FOR EXAMPLE"]).wrapping(0);
    for remedy in remedies {
        let examples = remedy
            .example_node_names
            .iter()
            .take(N_EXAMPLES)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        table.add_row([remedy.change.clone(), output::grouped(remedy.n_nodes), examples]);
    }
    Some(table.text())
}

fn one_node(node: &NodeVerdict) -> String {
    let name = &node.node_name;
    if let Some(rejection) = &node.rejection {
        let by = match rejection.plugin.as_str() {
            "" => "left out by a PreFilter result".to_owned(),
            plugin => format!("rejected by {plugin}"),
        };
        return format!("node {name}: {by} ({}): {}", rejection.code, rejection.reasons.join(", "));
    }
    let mut table = output::Table::new(&["PLUGIN", "RAW", "WEIGHTED"]);
    for score in &node.scores {
        table.add_row([score.plugin.clone(), score.raw.to_string(), score.weighted.to_string()]);
    }
    format!("node {name}: feasible, score {}\n{}", node.total_score, table.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_nodes_are_kept_and_every_rejected_one() {
        let node = |name: &str, feasible, total_score| NodeVerdict {
            node_name: name.to_owned(),
            feasible,
            total_score,
            ..NodeVerdict::default()
        };
        let mut nodes = vec![
            node("rejected", false, 0),
            node("c", true, 7),
            node("b", true, 9),
            node("a", true, 7),
        ];
        keep_best(&mut nodes, 2);
        let names: Vec<&str> = nodes.iter().map(|node| node.node_name.as_str()).collect();
        assert_eq!(names, ["b", "a", "rejected"]);
    }
}
