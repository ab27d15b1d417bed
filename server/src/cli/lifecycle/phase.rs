//! `berth lifecycle phase`: shows the phase of pods.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::ModelError;
use berth_engine::lifecycle::evaluation;
use berth_proto::Time;
use berth_proto::berth_v1::{EvaluatePodsRequest, EvaluatePodsResponse, PodError};
use berth_proto::core_v1::{Node, Pod};
use serde::Serialize;

use super::moment::NowArgs;
use super::named::NamedArgs;
use crate::cli::CliError;
use crate::cli::output::{self, Format};
use crate::feed::file::UnknownFields;

/// Derives the phase of each pod from its object, and from its node if the files have it
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_STATUS)]
pub(super) struct PhaseArgs {
    /// Files with pods and their nodes, as kubectl writes them (`-` for standard input; a node that is in none is ready), or
    /// pods of the cluster: `namespace/name`, or `pod/name` with `-n`
    #[arg(value_name = "POD", required_unless_present = "filename")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    named: NamedArgs,
    #[command(flatten)]
    now: NowArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Phase of one pod in the output for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Phase<'a> {
    pod: &'a str,
    phase: &'a str,
    published_phase: &'a str,
    effective_phase: &'a str,
    display_status: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    status_reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, files without a pod.
pub(super) fn run(args: &PhaseArgs, unknown_fields: UnknownFields) -> Result<ExitCode, CliError> {
    let now = args.now.get();
    let mut objects = args.named.read(&args.files, unknown_fields)?;
    let nodes = objects.take_nodes();
    let answers = objects.ask(|pod| evaluate(pod, nodes.of(pod), now))?;
    let phases: Vec<Phase<'_>> = answers
        .iter()
        .map(|(pod, answer)| Phase {
            pod,
            phase: &answer.phase,
            published_phase: &answer.published_phase,
            effective_phase: &answer.effective_phase,
            display_status: &answer.display_status,
            status_reason: &answer.status_reason,
            reason: &answer.reason,
            message: &answer.message,
        })
        .collect();
    output::answer(args.output, &serde_json::json!({ "pods": phases }), || table(&phases))?;
    Ok(objects.status())
}

/// Evaluates a pod from its object and its node.
///
/// # Errors
/// The pod or its node is refused.
pub(super) fn evaluate(
    pod: &Pod,
    node: Option<&Node>,
    now: Time,
) -> Result<EvaluatePodsResponse, ModelError> {
    let (pod, now, node) = (Some(pod.clone()), Some(now), node.cloned());
    let request = EvaluatePodsRequest { pod, now, node, ..EvaluatePodsRequest::default() };
    let mut answer = evaluation::evaluate_pod(&request);
    match answer.error.take() {
        Some(PodError { field, reason }) => Err(ModelError::new(field, reason)),
        None => Ok(answer),
    }
}

fn table(phases: &[Phase<'_>]) -> String {
    let headings = ["POD", "PHASE", "PUBLISHED", "SHOWN", "STATUS", "REASON", "MESSAGE"];
    let mut table = output::Table::new(&headings).wrapping(6).dropping([2, 3]);
    for phase in phases {
        let reason = if phase.reason.is_empty() { phase.status_reason } else { phase.reason };
        let cells = [
            phase.pod,
            phase.phase,
            phase.published_phase,
            phase.effective_phase,
            phase.display_status,
            reason,
            phase.message,
        ];
        table.add_row(cells.map(|cell| if cell.is_empty() { "-" } else { cell }));
    }
    table.text()
}
