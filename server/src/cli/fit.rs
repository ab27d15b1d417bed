//! `berth fit`: which pods fit where, by filters alone, in the order that the caller wants.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::{BatchEntry, FitPod, FitRequest};
use berth_proto::core_v1::Pod;

use super::backend::{self, Backend, BackendArgs};
use super::given::{Listed, Scope};
use super::input::InputArgs;
use super::output::{self, Answered, Format};
use super::what_if::WhatIfArgs;
use super::{CliError, admission};
use crate::service::autoscaler::fit::MAX_REJECTIONS;

const EXIT_STATUS: &str = "\
    Exit status: 0 when every pod fits; 1 when one does not or was refused, or nothing could be decided; 2 for a wrong \
    command line.";

/// Tries pods on nodes one after another: each goes to the first node that takes it, by cluster-autoscaler's rules,
/// without scores
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct FitArgs {
    /// Files with pods and workloads, or pods of the cluster by name [default: all pending pods]
    #[arg(value_name = "POD")]
    pods: Vec<String>,
    /// File with pods and workloads, as for kubectl; repeatable
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Node to try, in the order of the command line; repeatable [default: all, by name]
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// Try pods by descending priority instead of in their order
    #[arg(long)]
    by_priority: bool,
    /// Begin after the node that took the previous pod, instead of with the first
    #[arg(long)]
    round_robin: bool,
    /// Skip pods of a controller once a similar one of it fits nowhere
    #[arg(long)]
    skip_similar: bool,
    /// Maximum number of nodes for which to say why they refuse a pod
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_REJECTIONS)))]
    max_rejections: u32,
    /// Number of replicas of each pod and workload
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicas: Option<u32>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// An unreadable file, an unknown pod or node, an impossible supposition, a server that cannot be reached.
pub async fn run(args: FitArgs) -> Result<ExitCode, CliError> {
    let scope = Scope::named_or_pending(&args.pods, &args.filename, &args.input);
    let (supposed, is_asked_for) = (scope.supposed(), |pod: &Pod| scope.has(pod));
    let question = async |backend: &mut Backend| answer(&args, &scope, backend).await;
    args.backend.ask(&args.what_if, &args.input, supposed, is_asked_for, question).await
}

async fn answer(
    args: &FitArgs,
    scope: &Scope<'_>,
    backend: &mut Backend,
) -> Result<ExitCode, CliError> {
    let Listed { entries, entry_names, members, n_refused, mut notes } =
        scope.list(args.replicas, backend).await?;
    let fit = backend.fit(request(args, entries)).await?;
    let admissions = || admission::named(&fit.admissions, &entry_names);
    notes.extend(admission::notes(admissions()));
    let what_if = backend.what_if();
    let answer = Answered { answer: &fit, what_if, notes: &notes };
    output::answer(args.output, &answer, || {
        let sections = text::sections(&fit, &members).into_iter();
        output::sections(what_if, sections.chain(admission::filled_in(admissions())))
    })?;
    backend.tell(&notes);
    let fits = usize::try_from(fit.n_fit).is_ok_and(|n_fit| n_fit == members.len());
    Ok(if fits && n_refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn request(args: &FitArgs, entries: Vec<BatchEntry>) -> FitRequest {
    let pod = |BatchEntry { pod, replicas }: BatchEntry| FitPod {
        // This process encoded the pod, so it can be decoded.
        pod: pod.and_then(|pod| pod.to_pod().ok()),
        replicas,
        hint_node_name: String::new(),
    };
    FitRequest {
        session_id: String::new(),
        pods: entries.into_iter().map(pod).collect(),
        node_names: args.node.clone(),
        by_priority: args.by_priority,
        round_robin: args.round_robin,
        skip_similar: args.skip_similar,
        max_rejections: args.max_rejections,
        admit: true,
    }
}
