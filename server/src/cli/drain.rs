//! `berth drain`: shows whether nodes can be emptied, and where their pods would go.

pub(super) mod rules;
pub(super) mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::{DrainMode, SimulateDrainRequest};

use super::backend::{self, Backend, BackendArgs};
use super::input::InputArgs;
use super::lifecycle::moment::NowArgs;
use super::output::{self, Answered, Format};
use super::what_if::{SupposedPods, WhatIfArgs};
use super::{CliError, lenient, manifest};
use crate::feed::file::{Dump, UnknownFields};
use rules::{NodeArgs, PodArgs};

const EXIT_STATUS: &str = "\
    Exit status: 0 when every node can go; 1 when one cannot, or nothing could be decided; 2 for a wrong command line.";

/// Shows for each node whether it can be emptied, and for each of its pods where it would go or what keeps it
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct DrainArgs {
    /// Nodes to be emptied, in this order
    #[arg(value_name = "NODE", required_unless_present = "filename")]
    nodes: Vec<String>,
    /// File with Nodes to be emptied too, as for kubectl (a folder, or `-` for standard input); repeatable
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Empty all nodes at once: none takes pods of another, and all share what disruption budgets allow now [default:
    /// each node for itself]
    #[arg(long)]
    batch: bool,
    /// Empty the nodes one after another, each when all pods of the one before are ready elsewhere: none takes pods of
    /// another
    #[arg(long, conflicts_with = "batch")]
    in_turn: bool,
    /// Only this node may take pods; repeatable [default: all others]
    #[arg(long, value_name = "NODE")]
    to: Vec<String>,
    #[command(flatten)]
    nodes_kept: NodeArgs,
    #[command(flatten)]
    pods_kept: PodArgs,
    /// The profile that decides where pods go, whatever their own scheduler [default: default-scheduler]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    scheduler_name: String,
    #[command(flatten)]
    now: NowArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl DrainArgs {
    fn mode(&self) -> DrainMode {
        match (self.batch, self.in_turn) {
            (true, _) => DrainMode::Together,
            (false, true) => DrainMode::InTurn,
            (false, false) => DrainMode::OneByOne,
        }
    }

    /// The nodes to be emptied, in order.
    fn node_names(&self, unknown_fields: UnknownFields) -> Result<Vec<String>, CliError> {
        let mut names = self.nodes.clone();
        for path in &self.filename {
            for dump in self.input.read(path, unknown_fields)? {
                names.append(&mut nodes_of(&dump)?);
            }
        }
        Ok(names)
    }

    fn request(&self, node_names: Vec<String>) -> SimulateDrainRequest {
        SimulateDrainRequest {
            node_names,
            mode: self.mode().into(),
            destination_node_names: self.to.clone(),
            node_rules: Some(self.nodes_kept.to_wire()),
            rules: Some(self.pods_kept.to_wire()),
            now: Some(self.now.get()),
            scheduler_name: self.scheduler_name.clone(),
            ..SimulateDrainRequest::default()
        }
    }
}

/// Runs the command: the status is 1 if a node cannot be emptied.
///
/// # Errors
/// An unreadable file, an impossible supposition, a server that cannot be reached.
pub async fn run(args: DrainArgs) -> Result<ExitCode, CliError> {
    let node_names = args.node_names(args.backend.lenient.unknown_fields())?;
    let (what_if, supposed) = (&args.what_if, SupposedPods::Placed);
    let question = async |backend: &mut Backend| answer(&args, node_names, backend).await;
    args.backend.ask(what_if, &args.input, supposed, |_| false, question).await
}

/// The names of the nodes of a file, which holds nothing else.
fn nodes_of(dump: &Dump) -> Result<Vec<String>, CliError> {
    let others = dump.pods.iter().map(|pod| ("Pod", &pod.location));
    let workloads = dump.workloads.iter().map(|one| (one.value.kind().name(), &one.location));
    let objects = dump.objects.iter().map(|one| (one.value.as_wire().kind().name(), &one.location));
    if let Some((kind, location)) = others.chain(workloads).chain(objects).next() {
        return Err(CliError::Request(format!(
            "{location}: `-f` names Nodes to be emptied, not a {kind}; `--what-if` supposes that it is there"
        )));
    }
    if let Some(refused) = dump.refused.first().or(dump.misspelt_kinds.listed.first()) {
        return Err(CliError::Request(refused.to_string()));
    }
    lenient::warn(&dump.warnings);
    if let Some(kind) = dump.ignored_kinds.keys().next() {
        return Err(CliError::Request(format!("`-f` names Nodes to be emptied, not a {kind}")));
    }
    Ok(dump.nodes.iter().map(|node| manifest::node_name(&node.value).to_owned()).collect())
}

async fn answer(
    args: &DrainArgs,
    node_names: Vec<String>,
    backend: &Backend,
) -> Result<ExitCode, CliError> {
    let drained = backend.simulate_drain(args.request(node_names)).await?;
    let (what_if, notes) = (backend.what_if(), backend.notes());
    let answer = Answered { answer: &drained, what_if, notes: &notes };
    output::answer(args.output, &answer, || {
        output::sections(what_if, text::sections(&drained, args.mode()))
    })?;
    backend.tell(&notes);
    let all_go = drained.nodes.iter().all(|node| node.removable);
    Ok(if all_go { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
