//! `berth explain`: explains why a pod is placed where it is, or nowhere.

mod best;
mod node;
mod refusals;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::{
    ExplainResponse, PostFilter, PreemptOptions, Remedy, decision::Outcome,
};
use berth_proto::core_v1::Pod;
use serde::Serialize;

use super::backend::{self, Backend, BackendArgs};
use super::given::{Names, One};
use super::input::InputArgs;
use super::outcome::PENDING;
use super::output::{self, Answered, Format};
use super::what_if::{SupposedPods, WhatIfArgs};
use super::{CliError, admission, manifest, outcome, preempt};

/// Number of best nodes in a table by default.
const N_BEST: usize = 10;

const EXIT_STATUS: &str = "\
    Exit status: 0 when the pod was decided, wherever it goes and whatever keeps it pending; 1 when it was refused or \
    nothing could be decided; 2 for a wrong command line; 3 with --fail-pending when the pod is pending.";

/// Output for programs: the response of `Explain`, with PostFilter's result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainOutput<'a> {
    #[serde(flatten)]
    account: &'a ExplainResponse,
    /// Result of PostFilter if no node is feasible, as in the response of `Preempt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    post_filter: Option<&'a PostFilter>,
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
    /// End with status 3 if the pod is pending
    #[arg(long)]
    fail_pending: bool,
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
    let question = async |backend: &mut Backend| answer(&args, &names, backend).await;
    args.backend.ask(&args.what_if, &args.input, supposed, is_asked_for, question).await
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
        best::keep_best(&mut account.nodes, top);
    }
    let answer = Answered {
        answer: ExplainOutput { account: &account, post_filter: post_filter.as_ref() },
        what_if: backend.what_if(),
        notes: &notes,
    };
    output::answer(args.output, &answer, || {
        output::sections(answer.what_if, sections(&name, &answer.answer, args))
    })?;
    backend.tell(&notes);
    let is_pending = account.decision.as_ref().is_some_and(outcome::is_pending);
    Ok(if args.fail_pending && is_pending { ExitCode::from(PENDING) } else { ExitCode::SUCCESS })
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

/// The decision in a sentence, its `top` best nodes, and what refused the others.
pub(super) fn in_short(name: &str, account: &ExplainResponse, top: usize) -> String {
    let summary = outcome::summary(name, account.decision.as_ref());
    let tables = best::table(account, top, true).into_iter().chain(refusals::table(&account.nodes));
    std::iter::once(summary).chain(tables).collect::<Vec<_>>().join("\n\n")
}

fn sections(name: &str, answer: &ExplainOutput<'_>, args: &ExplainArgs) -> Vec<String> {
    let account = answer.account;
    let mut sections = vec![outcome::summary(name, account.decision.as_ref())];
    if args.nodes.is_empty() {
        let best = best::table(account, args.top.unwrap_or(N_BEST), args.top.is_some());
        sections.extend(best);
        sections.extend(refusals::table(&account.nodes));
        sections.extend(remedies(&account.remedies));
        sections.extend(answer.post_filter.map(preempt::in_short));
    } else {
        sections.extend(account.nodes.iter().map(node::account));
    }
    sections.extend(admission::filled_in(account.admission.iter().map(|it| (name, it))));
    sections
}

/// Table of the remedies, in the order in which they were ranked.
fn remedies(remedies: &[Remedy]) -> Option<String> {
    if remedies.is_empty() {
        return None;
    }
    let mut table =
        output::Table::new(&["WOULD HELP, TRIED ON A COPY", "NODES THEN", "FOR EXAMPLE"])
            .wrapping(0)
            .dropping([2]);
    for Remedy { change, n_nodes, example_node_names, .. } in remedies {
        let examples = example_node_names.iter().take(refusals::N_EXAMPLES).cloned();
        let examples = examples.collect::<Vec<_>>().join(", ");
        table.add_row([change.clone(), output::grouped(*n_nodes), examples]);
    }
    Some(table.text())
}
