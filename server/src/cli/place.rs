//! `berth place`: where would these pods go?

use std::process::ExitCode;

use berth_proto::berth_v1::{BatchEntry, Decision, PlaceResult, decision::Outcome, place_result};
use serde::Serialize;

use super::backend::{Backend, BackendArgs};
use super::output::{self, Format};
use super::{CliError, pods};

/// Decides pods one after another, each seeing those before it placed, and prints where they go
#[derive(Clone, Debug, clap::Args)]
pub struct PlaceArgs {
    /// Files with pods (several documents and Lists too, `-` for standard input), or `namespace/name` of pods of the dump
    #[arg(value_name = "POD", required_unless_present = "pending")]
    pods: Vec<String>,
    #[command(flatten)]
    backend: BackendArgs,
    /// All pending pods of the dump, in the scheduler's queue order
    #[arg(long, conflicts_with_all = ["pods", "server"])]
    pending: bool,
    /// This many replicas of each pod, named NAME-0, NAME-1, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicas: u32,
    /// Make the server keep the placements
    #[arg(long, conflicts_with = "cluster_files")]
    assume: bool,
    /// Form of the answer
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// What programs read: as `PlaceBatch` answers.
#[derive(Serialize)]
struct Answer<'a> {
    results: &'a [PlaceResult],
}

/// Runs the command. Pods that fit nowhere are answers: the status is 1 only when a pod was refused.
///
/// # Errors
/// What keeps every pod from an answer: an unreadable file, a server that is not there.
pub async fn run(args: PlaceArgs) -> Result<ExitCode, CliError> {
    let backend = args.backend.open().await?;
    let (pods, n_refused) = match &backend {
        Backend::Local(local) if args.pending => (pods::pending(&local.pods), 0),
        Backend::Local(_) | Backend::Server { .. } => pods::find(&args.pods, &backend)?,
    };
    let names: Vec<String> = pods.iter().flat_map(|pod| names(pod, args.replicas)).collect();
    let entries = pods
        .into_iter()
        .map(|pod| BatchEntry { pod: Some(pod), replicas: args.replicas })
        .collect();
    let results = backend.place(entries, args.assume).await?;
    let refused =
        |result: &&PlaceResult| !matches!(result.result, Some(place_result::Result::Decision(_)));
    let n_errors = n_refused + results.iter().filter(refused).count();
    match output::structured(args.output, &Answer { results: &results })? {
        Some(text) => output::print(&text)?,
        None => output::print(&text(&names, &results))?,
    }
    Ok(if n_errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The names of the pods that an entry becomes.
fn names(pod: &berth_proto::core_v1::Pod, replicas: u32) -> Vec<String> {
    let metadata = pod.metadata.clone().unwrap_or_default();
    let name = format!("{}/{}", metadata.namespace, metadata.name);
    if replicas > 1 {
        (0..replicas).map(|index| format!("{name}-{index}")).collect()
    } else {
        vec![name]
    }
}

fn text(names: &[String], results: &[PlaceResult]) -> String {
    if results.is_empty() {
        return "no pods to place".to_owned();
    }
    let mut table = output::table(&["POD", "NODE", "SCORE", "FEASIBLE", "BEST", "MESSAGE"]);
    let (mut n_placed, mut n_pending, mut n_gated, mut n_refused) = (0, 0, 0, 0);
    for (name, result) in names.iter().zip(results) {
        let dash = || "-".to_owned();
        let row = match outcome(result) {
            Ok(Outcome::Placement(placement)) => {
                n_placed += 1;
                let score = placement.total_score.map_or_else(dash, |total| total.to_string());
                let (feasible, best) =
                    (placement.n_feasible_nodes.to_string(), placement.n_best_nodes.to_string());
                [name.clone(), placement.node_name.clone(), score, feasible, best, String::new()]
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
    let mut summary = vec![format!("{n_placed} placed"), format!("{n_pending} pending")];
    summary.extend((n_gated > 0).then(|| format!("{n_gated} gated")));
    summary.extend((n_refused > 0).then(|| format!("{n_refused} refused")));
    let n_pods = output::count(u64::try_from(results.len()).unwrap_or(u64::MAX), "pod");
    format!("{}\n\n{n_pods}: {}", output::table_text(&table), summary.join(", "))
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
