//! `berth lifecycle gc`: shows which pods the next run of pod garbage collection would remove.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::ModelError;
use berth_engine::lifecycle::pod_gc;
use berth_proto::Time;
use berth_proto::berth_v1::{NodeAbsence, PodGcRequest, PodGcResponse};
use berth_proto::core_v1::{Node, Pod};

use super::files::FileArgs;
use super::moment::{self, NowArgs};
use super::objects::{self, Objects};
use crate::cli::output::{self, Format};
use crate::cli::{CliError, manifest};
use crate::feed::file::UnknownFields;
use crate::feed::object_name;

/// Shows which pods a run of pod garbage collection removes, in its order
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_STATUS)]
pub(super) struct GcArgs {
    /// Files with all pods and all nodes, as kubectl writes them; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    input: FileArgs,
    /// How many ended pods may stay; 0 lets all of them [default: 12500]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threshold: Option<i64>,
    /// Time since when nodes that pods are bound to, and no file has, are known to be gone, confirmed by a read past
    /// all caches [default: not confirmed, which keeps their pods]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    absent_since: Option<Time>,
    #[command(flatten)]
    now: NowArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, files without a pod, a pod or node that contradicts itself.
pub(super) fn run(args: &GcArgs, unknown_fields: UnknownFields) -> Result<ExitCode, CliError> {
    let mut objects = args.input.read(&args.files, unknown_fields)?;
    if objects.pods.is_empty() && objects.n_refused == 0 {
        return Err(objects.hold_no("Pod"));
    }
    let pods: Vec<Pod> = objects.pods.iter().map(|pod| pod.value.clone()).collect();
    let nodes: Vec<Node> = objects.nodes.iter().map(|node| node.value.clone()).collect();
    let absent = absent(&pods, &nodes);
    if args.absent_since.is_none() && !absent.is_empty() {
        let list = absent.iter().copied().collect::<Vec<_>>().join(", ");
        output::note(&format!("note: no file has node {list}; see --absent-since"));
    }
    let absent_nodes: BTreeMap<String, NodeAbsence> = args
        .absent_since
        .iter()
        .flat_map(|since| absent.iter().map(move |name| ((*name).to_owned(), *since)))
        .map(|(name, since)| (name, NodeAbsence { since: Some(since), confirmed_live: true }))
        .collect();
    let mut request = PodGcRequest {
        pods,
        nodes,
        terminated_pod_threshold: args.threshold,
        absent_nodes,
        now: Some(args.now.get()),
    };
    let answer = loop {
        match pod_gc::pod_gc(&request) {
            Ok(answer) => break answer,
            Err(error) => {
                let place = objects.refuse_one(error, Some);
                request.pods.remove(place.map_err(|error| of_node(&objects, &error))?);
            }
        }
    };
    output::answer(args.output, &answer, || table(&answer, request.pods.len()))?;
    Ok(objects.status())
}

/// Error for a refused node. Nothing is shown then, since its pods would look orphaned.
fn of_node(objects: &Objects, error: &ModelError) -> CliError {
    let of_node = objects::indexed(&error.field, "nodes")
        .and_then(|(index, field)| Some((objects.nodes.get(index)?, field)));
    CliError::Request(match of_node {
        Some((node, field)) => {
            let object = object_name("Node", node.value.metadata.as_ref());
            format!("{}: {object}: `{field}`: {}", node.location, error.reason)
        }
        None => error.to_string(),
    })
}

/// Nodes that pods are bound to and that no file has.
fn absent<'a>(pods: &'a [Pod], nodes: &[Node]) -> BTreeSet<&'a str> {
    let known: BTreeSet<&str> = nodes.iter().map(manifest::node_name).collect();
    pods.iter()
        .filter_map(|pod| pod.spec.as_ref().map(|spec| spec.node_name.as_str()))
        .filter(|name| !name.is_empty() && !known.contains(name))
        .collect()
}

fn table(answer: &PodGcResponse, n_pods: usize) -> String {
    let summary = format!(
        "{}: {} removed, next run at {}",
        output::count(n_pods, "pod"),
        output::grouped(answer.actions.len()),
        moment::absolute(answer.next_run_at.as_ref())
    );
    if answer.actions.is_empty() {
        return summary;
    }
    let mut table =
        output::Table::new(&["POD", "CAUSE", "SET PHASE", "DISRUPTION REASON", "BECAUSE"]);
    for action in &answer.actions {
        let pod = format!("{}/{}", action.namespace, action.pod);
        let cells = [
            &pod,
            &action.cause,
            &action.set_phase,
            &action.disruption_reason,
            &action.entitlement,
        ];
        table.add_row(cells.map(|cell| if cell.is_empty() { "-" } else { cell.as_str() }));
    }
    format!("{}\n\n{summary}", table.text())
}
