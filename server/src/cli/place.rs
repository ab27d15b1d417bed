//! `berth place`: shows where pods would be placed.

use std::process::ExitCode;

use berth_proto::berth_v1::{
    BatchEntry, Decision, Gang, GangOutcome, PlaceResult, decision::Outcome, place_result,
};
use berth_proto::core_v1::Pod;
use serde::Serialize;

use super::backend::{self, Backend, BackendArgs};
use super::output::{self, Format};
use super::what_if::WhatIfArgs;
use super::{CliError, manifest, pods, preempt};
use crate::escape::printable_lines;

/// Decides pods by priority and then in order, each seeing those decided before it as placed, and prints their nodes
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct PlaceArgs {
    /// Files with pods (several documents and Lists too, `-` for standard input), or, with --cluster, `namespace/name`
    /// of pods of the dump
    #[arg(value_name = "POD", required_unless_present = "pending")]
    pods: Vec<String>,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// All pending pods of the dump, in the scheduler's queue order
    #[arg(long, conflicts_with_all = ["pods", "server"])]
    pending: bool,
    /// Number of replicas of each pod, named NAME-0, NAME-1, …
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicas: u32,
    /// Place the pods entirely or not at all: all of them are one gang
    #[arg(long)]
    gang: bool,
    /// How many pods of the gang need a node [default: all of them]
    #[arg(long, value_name = "N", requires = "gang", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    min: Option<u32>,
    /// Evict pods of lower priority for members of the gang that fit nowhere; the evictions are only listed
    #[arg(long, requires = "gang")]
    preempt: bool,
    /// Make the server keep the placements
    #[arg(long, conflicts_with_all = ["cluster_files", "what_if", "without"])]
    assume: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

const EXIT_STATUS: &str = "\
    Exit status: 0 when every pod was decided, pending ones too; 1 when a pod was refused or nothing could be decided; \
    2 for a wrong command line. Refused objects of the cluster are warnings.";

/// Output for programs: the response of `PlaceBatch`, with the suppositions and notes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlaceOutput<'a> {
    results: &'a [PlaceResult],
    #[serde(skip_serializing_if = "Option::is_none")]
    gang: Option<&'a GangOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<&'a str>,
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

/// Runs the command. Pods that fit nowhere are answers: the status is 1 only if a pod was refused.
///
/// # Errors
/// A failure for all pods: an unreadable file, an impossible supposition, a server that cannot be reached.
pub async fn run(args: PlaceArgs) -> Result<ExitCode, CliError> {
    let is_asked_for = |pod: &Pod| {
        if args.pending { pods::is_pending(pod) } else { pods::is_named(pod, &args.pods) }
    };
    let backend = args.backend.open(&args.what_if, is_asked_for).await?;
    let answered = answer(&args, &backend).await;
    backend.close().await;
    answered
}

async fn answer(args: &PlaceArgs, backend: &Backend) -> Result<ExitCode, CliError> {
    let ((pods, others), n_refused) = match backend {
        Backend::Local(local) if args.pending => (pods::pending(local), 0),
        Backend::Local(_) | Backend::Server(_) => {
            let (pods, n_refused) = pods::find(&args.pods, backend)?;
            ((pods, Vec::new()), n_refused)
        }
    };
    if args.gang && n_refused > 0 {
        let reason =
            format!("{} refused: a gang is placed entirely", output::count(n_refused, "pod"));
        return Err(CliError::Request(reason));
    }
    let names: Vec<String> = pods.iter().flat_map(|pod| names(pod, args.replicas)).collect();
    check_min(args.min, names.len())?;
    let entries = pods
        .into_iter()
        .map(|pod| BatchEntry { pod: Some(pod), replicas: args.replicas })
        .collect();
    let gang = args.gang.then(|| Gang {
        min_count: args.min.unwrap_or(0),
        preempt: args.preempt,
        preempt_options: None,
    });
    // Before the pods are placed, since they are not part of the given cluster.
    let notes = backend.notes();
    let answered = backend.place(entries, args.assume, gang).await?;
    let results = answered.results;
    let refused =
        |result: &&PlaceResult| !matches!(result.result, Some(place_result::Result::Decision(_)));
    let n_errors = n_refused + results.iter().filter(refused).count();
    let answer = PlaceOutput {
        results: &results,
        gang: answered.gang.as_ref(),
        what_if: backend.what_if(),
        not_considered: others.iter().map(manifest::name_of).collect(),
        n_refused_cluster_objects: backend.n_refused(),
        notes: &notes,
    };
    match output::structured(args.output, &answer)? {
        Some(text) => output::print(&text)?,
        None => output::print(&printable_lines(&text(&names, &others, &answer)))?,
    }
    backend.tell(&notes);
    Ok(if n_errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks `min`: a gang with fewer pods could never be placed.
fn check_min(min: Option<u32>, n_pods: usize) -> Result<(), CliError> {
    match min {
        Some(min) if usize::try_from(min).is_ok_and(|min| min > n_pods) => {
            let reason = format!("`--min`: asks for {min} of {}", output::count(n_pods, "pod"));
            Err(CliError::Request(reason))
        }
        Some(_) | None => Ok(()),
    }
}

/// The names of the pods that an entry expands to.
fn names(pod: &Pod, replicas: u32) -> Vec<String> {
    let name = manifest::name_of(pod);
    if replicas > 1 {
        (0..replicas).map(|index| format!("{name}-{index}")).collect()
    } else {
        vec![name]
    }
}

fn text(names: &[String], others: &[Pod], answer: &PlaceOutput<'_>) -> String {
    let results = answer.results;
    let what_if = answer.what_if.map(|what_if| format!("{what_if}\n\n")).unwrap_or_default();
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
        table.add_row([manifest::name_of(pod).as_str(), "-", "-", "-", "-", &message]);
    }
    let part = |n: u64, what: &str| format!("{} {what}", output::grouped(n));
    let n_others = u64::try_from(others.len()).unwrap_or(u64::MAX);
    let placed = if answer.gang.is_none_or(|gang| gang.placed) { "placed" } else { "would fit" };
    let mut summary = vec![part(n_placed, placed), part(n_pending, "pending")];
    summary.extend((n_gated > 0).then(|| part(n_gated, "gated")));
    summary.extend((n_refused > 0).then(|| part(n_refused, "refused")));
    summary.extend((n_others > 0).then(|| part(n_others, "not considered")));
    let gang = answer.gang.map(|gang| gang_outcome(gang, names)).unwrap_or_default();
    format!(
        "{what_if}{}\n\n{gang}{}: {}{}",
        table.text(),
        output::count(results.len() + others.len(), "pod"),
        summary.join(", "),
        refused_objects(answer.n_refused_cluster_objects)
    )
}

/// The outcome of the gang as a whole: the pods to evict for each member, and a line for the outcome.
fn gang_outcome(gang: &GangOutcome, names: &[String]) -> String {
    let mut sections = Vec::new();
    if !gang.preemptions.is_empty() {
        let mut table = output::Table::new(&["MEMBER", "NODE", "EVICTED"]);
        for preemption in &gang.preemptions {
            let name = usize::try_from(preemption.index).ok().and_then(|index| names.get(index));
            let chosen = preemption.post_filter.as_ref().and_then(|ran| ran.chosen.as_ref());
            let Some(chosen) = chosen else { continue };
            table.add_row([
                name.map_or("-", String::as_str),
                &chosen.node_name,
                &preempt::victims_of(chosen),
            ]);
        }
        sections.push(table.text());
    }
    let members = output::count(names.len(), "member");
    let n_placed = output::grouped(gang.n_placed);
    sections.push(if gang.placed {
        format!("gang placed: {n_placed} of {members} got a node")
    } else {
        format!("gang not placed: {n_placed} of {members} would get a node, which is too few; none is held")
    });
    format!("{}\n", sections.join("\n\n"))
}

/// The end of the last line.
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
