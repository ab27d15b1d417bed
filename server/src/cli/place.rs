//! `berth place`: where would these pods go?

use std::process::ExitCode;

use berth_proto::berth_v1::{BatchEntry, Decision, PlaceResult, decision::Outcome, place_result};
use berth_proto::core_v1::Pod;
use serde::Serialize;

use super::backend::{self, Backend, BackendArgs};
use super::output::{self, Format};
use super::{CliError, pods};

/// Decides pods one after another, each seeing those before it placed, and prints where they go
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct PlaceArgs {
    /// Files with pods (several documents and Lists too, `-` for standard input), or, with --cluster, `namespace/name` of
    /// pods of the dump
    #[arg(value_name = "POD", required_unless_present = "pending")]
    pods: Vec<String>,
    #[command(flatten)]
    backend: BackendArgs,
    /// All pending pods of the dump, in the scheduler's queue order
    #[arg(long, conflicts_with_all = ["pods", "server"])]
    pending: bool,
    /// This many replicas of each pod, named NAME-0, NAME-1, …
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicas: u32,
    /// Make the server keep the placements
    #[arg(long, conflicts_with = "cluster_files")]
    assume: bool,
    /// Form of the answer
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

const EXIT_STATUS: &str = "\
    Exit status: 0 when every pod was decided, pending ones too; 1 when a pod was refused or nothing could be decided; \
    2 for a wrong command line. Refused objects of the cluster are warnings.";

/// What programs read: as `PlaceBatch` answers, and what a reader should know of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    results: &'a [PlaceResult],
    /// Pending pods of schedulers that are not configured here (S-Q-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_considered: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    n_refused_cluster_objects: usize,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Runs the command. Pods that fit nowhere are answers: the status is 1 only when a pod was refused.
///
/// # Errors
/// What keeps every pod from an answer: an unreadable file, a server that is not there.
pub async fn run(args: PlaceArgs) -> Result<ExitCode, CliError> {
    let is_asked_for = |pod: &Pod| {
        if args.pending { pods::is_pending(pod) } else { pods::is_named(pod, &args.pods) }
    };
    let backend = args.backend.open(is_asked_for).await?;
    let ((pods, others), n_refused) = match &backend {
        Backend::Local(local) if args.pending => (pods::pending(local), 0),
        Backend::Local(_) | Backend::Server { .. } => {
            let (pods, n_refused) = pods::find(&args.pods, &backend)?;
            ((pods, Vec::new()), n_refused)
        }
    };
    let names: Vec<String> = pods.iter().flat_map(|pod| names(pod, args.replicas)).collect();
    let entries = pods
        .into_iter()
        .map(|pod| BatchEntry { pod: Some(pod), replicas: args.replicas })
        .collect();
    // Before the pods are placed: they are not of the cluster as it was given.
    let notes = backend.notes();
    let results = backend.place(entries, args.assume).await?;
    let refused =
        |result: &&PlaceResult| !matches!(result.result, Some(place_result::Result::Decision(_)));
    let n_errors = n_refused + results.iter().filter(refused).count();
    let answer = Answer {
        results: &results,
        not_considered: others.iter().map(pods::name_of).collect(),
        n_refused_cluster_objects: backend.n_refused(),
        notes: &notes,
    };
    match output::structured(args.output, &answer)? {
        Some(text) => output::print(&text)?,
        None => output::print(&text(&names, &others, &answer))?,
    }
    backend.tell(&notes);
    Ok(if n_errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The names of the pods that an entry becomes.
fn names(pod: &Pod, replicas: u32) -> Vec<String> {
    let name = pods::name_of(pod);
    if replicas > 1 {
        (0..replicas).map(|index| format!("{name}-{index}")).collect()
    } else {
        vec![name]
    }
}

fn text(names: &[String], others: &[Pod], answer: &Answer<'_>) -> String {
    let results = answer.results;
    if results.is_empty() && others.is_empty() {
        return format!("no pods to place{}", refused_objects(answer.n_refused_cluster_objects));
    }
    let mut table =
        output::Table::new(&["POD", "NODE", "SCORE", "FEASIBLE", "BEST", "MESSAGE"]).wrapping(5);
    let (mut n_placed, mut n_pending, mut n_gated, mut n_refused) = (0_u64, 0_u64, 0_u64, 0_u64);
    for (name, result) in names.iter().zip(results) {
        let dash = || "-".to_owned();
        let row = match outcome(result) {
            Ok(Outcome::Placement(placement)) => {
                n_placed += 1;
                let score = placement.total_score.map_or_else(dash, |total| total.to_string());
                let (feasible, best) =
                    (placement.n_feasible_nodes.to_string(), placement.n_best_nodes.to_string());
                let volumes = placement.volumes.as_ref().map(output::volumes).unwrap_or_default();
                [name.clone(), placement.node_name.clone(), score, feasible, best, volumes]
            }
            Ok(Outcome::Unschedulable(unschedulable)) => {
                n_pending += 1;
                [
                    name.clone(),
                    dash(),
                    dash(),
                    "0".to_owned(),
                    dash(),
                    unschedulable.message.clone(),
                ]
            }
            Ok(Outcome::Gated(gated)) => {
                n_gated += 1;
                [name.clone(), dash(), dash(), dash(), dash(), gated.reasons.join(", ")]
            }
            Err(reason) => {
                n_refused += 1;
                [name.clone(), dash(), dash(), dash(), dash(), format!("refused: {reason}")]
            }
        };
        table.add_row(row);
    }
    for pod in others {
        let scheduler = pod.spec.as_ref().map_or("", |spec| spec.scheduler_name.as_str());
        let message = format!("not considered: asks for scheduler `{scheduler}`");
        table.add_row([pods::name_of(pod).as_str(), "-", "-", "-", "-", &message]);
    }
    let told = |n: u64, what: &str| format!("{} {what}", output::grouped(n));
    let n_others = u64::try_from(others.len()).unwrap_or(u64::MAX);
    let mut summary = vec![told(n_placed, "placed"), told(n_pending, "pending")];
    summary.extend((n_gated > 0).then(|| told(n_gated, "gated")));
    summary.extend((n_refused > 0).then(|| told(n_refused, "refused")));
    summary.extend((n_others > 0).then(|| told(n_others, "not considered")));
    format!(
        "{}\n\n{}: {}{}",
        table.text(),
        output::count(results.len() + others.len(), "pod"),
        summary.join(", "),
        refused_objects(answer.n_refused_cluster_objects)
    )
}

/// The end of the closing line.
fn refused_objects(n: usize) -> String {
    match n {
        0 => String::new(),
        1 => "; 1 object of the cluster was refused".to_owned(),
        n => format!("; {} of the cluster were refused", output::count(n, "object")),
    }
}

fn outcome(result: &PlaceResult) -> Result<&Outcome, String> {
    match &result.result {
        Some(place_result::Result::Decision(Decision { outcome: Some(outcome), .. })) => {
            Ok(outcome)
        }
        Some(place_result::Result::Error(error)) => Err(error.message.clone()),
        Some(place_result::Result::Decision(_)) | None => {
            Err("the answer holds no decision".to_owned())
        }
    }
}
