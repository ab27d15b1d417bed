//! `berth scale-up`: which node groups would take the pods that fit nowhere now, and how many nodes each would need.

mod group;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::{
    BatchEntry, NodeGroup, ScaleUpLimits, SimulateScaleUpRequest, SimulateScaleUpResponse,
};
use berth_proto::core_v1::Pod;
use serde::Serialize;

use super::backend::{self, Backend, BackendArgs};
use super::given::{Listed, Scope};
use super::input::InputArgs;
use super::output::{self, Answered, Format};
use super::what_if::WhatIfArgs;
use super::{CliError, admission};
use group::GroupFile;

const EXIT_STATUS: &str = "\
    Exit status: 0 when some group takes each pod that waits, or none waits; 1 when a pod is left over or was refused, \
    or nothing could be decided; 2 for a wrong command line.";

/// Adds nodes of each group to a copy of the cluster for as long as they help the pods that fit nowhere, by
/// cluster-autoscaler's rules
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = backend::after_help(EXIT_STATUS),
    override_usage = "berth scale-up [OPTIONS] --group <NAME=FILE> [POD]..."
)]
pub struct ScaleUpArgs {
    /// Files with pods and workloads, or pods of the cluster by name [default: all pending pods]
    #[arg(value_name = "POD")]
    pods: Vec<String>,
    /// File with pods and workloads, as for kubectl; repeatable
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Node group: its name and a file with one of its nodes; repeatable
    ///
    /// The file is such as `kubectl get node NAME -o yaml` prints. Pods in it are those that run on each node of the
    /// group, as those of DaemonSets do; ResourceSlices in it are the node's devices.
    #[arg(long, value_name = "NAME=FILE", required = true, value_parser = GroupFile::parse)]
    group: Vec<GroupFile>,
    /// Maximum number of nodes to add to a group
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_nodes: Option<u32>,
    /// Maximum number of nodes of the cluster, new ones included
    #[arg(long, value_name = "N")]
    max_total_nodes: Option<u32>,
    /// Split the nodes of a group over those that are like it
    #[arg(long)]
    balance: bool,
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

/// Output for programs: the response of `SimulateScaleUp`, with the names of its pods.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScaleUpOutput<'a> {
    #[serde(flatten)]
    simulated: &'a SimulateScaleUpResponse,
    /// `namespace/name` of each pod, by its position in the response.
    pods: Vec<&'a str>,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read or is no node group, an unknown pod, an impossible supposition, a server that cannot be
/// reached.
pub async fn run(args: ScaleUpArgs) -> Result<ExitCode, CliError> {
    let scope = Scope::named_or_pending(&args.pods, &args.filename, &args.input);
    let (supposed, is_asked_for) = (scope.supposed(), |pod: &Pod| scope.has(pod));
    let question = async |backend: &mut Backend| answer(&args, &scope, backend).await;
    args.backend.ask(&args.what_if, &args.input, supposed, is_asked_for, question).await
}

async fn answer(
    args: &ScaleUpArgs,
    scope: &Scope<'_>,
    backend: &mut Backend,
) -> Result<ExitCode, CliError> {
    let groups = args.group.iter().map(|group| group.read(&args.input, backend.unknown_fields()));
    let groups = groups.collect::<Result<Vec<NodeGroup>, CliError>>()?;
    let Listed { entries, entry_names, members, n_refused, mut notes } =
        scope.list(args.replicas, backend).await?;
    let simulated = backend.simulate_scale_up(request(args, entries, groups)).await?;
    let admissions = || admission::named(&simulated.admissions, &entry_names);
    notes.extend(admission::notes(admissions()));
    let what_if = backend.what_if();
    let pods = members.iter().map(|member| &*member.name).collect();
    let answer = ScaleUpOutput { simulated: &simulated, pods };
    let answer = Answered { answer, what_if, notes: &notes };
    output::answer(args.output, &answer, || {
        let sections = text::sections(&simulated, &members).into_iter();
        output::sections(what_if, sections.chain(admission::filled_in(admissions())))
    })?;
    backend.tell(&notes);
    let is_helped = simulated.unhelped.is_empty() && simulated.refused.is_empty();
    let is_whole = n_refused == 0 && simulated.errors.is_empty();
    Ok(if is_helped && is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn request(
    args: &ScaleUpArgs,
    entries: Vec<BatchEntry>,
    node_groups: Vec<NodeGroup>,
) -> SimulateScaleUpRequest {
    SimulateScaleUpRequest {
        entries,
        node_groups,
        limits: Some(ScaleUpLimits {
            nodes: args.max_nodes,
            total_nodes: args.max_total_nodes,
            ..ScaleUpLimits::default()
        }),
        balance_similar_groups: args.balance,
        admit: true,
        ..SimulateScaleUpRequest::default()
    }
}
