//! `berth place`: shows where pods would be placed.

mod rows;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::{Admission, Gang, GangOutcome, PlaceResult, place_result};
use berth_proto::core_v1::Pod;
use serde::Serialize;

use super::backend::{self, Backend, BackendArgs};
use super::given::{Names, Scope, Wanted};
use super::input::InputArgs;
use super::outcome::{self, PENDING};
use super::output::{self, Format};
use super::what_if::WhatIfArgs;
use super::{CliError, admission, manifest, preempt};
use crate::feed::handed::{self, Group, Member, held_back, name_generated, ordered};

/// Decides pods by priority and then in order, each seeing those decided before it as placed, and prints their nodes
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct PlaceArgs {
    /// Files with pods and workloads (several documents and Lists too, folders, `-` for standard input), or pods of the
    /// cluster: `namespace/name`, or `pod/name` with `-n`
    #[arg(value_name = "POD", required_unless_present_any = ["pending", "filename"])]
    pods: Vec<String>,
    /// File with pods and workloads, as for kubectl (a folder, or `-` for standard input); repeatable
    ///
    /// A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController or PodTemplate stands for
    /// the pods that its controller creates. Other objects of the file are supposed to exist.
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// All pending pods of the cluster, in the scheduler's queue order
    #[arg(long, conflicts_with_all = ["pods", "filename"])]
    pending: bool,
    /// Number of replicas of each pod, named NAME-0, NAME-1, …, and of each workload instead of its own
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicas: Option<u32>,
    /// Place the pods entirely or not at all: all of them are one gang
    #[arg(long)]
    gang: bool,
    /// How many pods of the gang need a node [default: all of them]
    #[arg(long, value_name = "N", requires = "gang", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    min: Option<u32>,
    /// Evict pods of lower priority for members of the gang that fit nowhere; the evictions are only listed
    #[arg(long, requires = "gang")]
    preempt: bool,
    /// End with status 3 if a pod is pending
    #[arg(long)]
    fail_pending: bool,
    /// Make the server keep the placements
    #[arg(long, conflicts_with_all = ["cluster_files", "kube", "what_if", "without"])]
    assume: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

const EXIT_STATUS: &str = "\
    Exit status: 0 when every pod was decided, pending ones too; 1 when a pod was refused or nothing could be decided; \
    2 for a wrong command line; 3 with --fail-pending when a pod is pending. Refused objects of the cluster are \
    warnings.";

/// Output for programs: the response of `PlaceBatch`, with the suppositions and notes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlaceOutput<'a> {
    results: &'a [PlaceResult],
    #[serde(skip_serializing_if = "Option::is_none")]
    gang: Option<&'a GangOutcome>,
    /// What admission filled in, by entry; entries for which it did nothing are left out.
    #[serde(skip_serializing_if = "<[Admission]>::is_empty")]
    admissions: &'a [Admission],
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<&'a str>,
    /// The workloads that were expanded, in the order of their pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    workloads: Vec<WorkloadOutput>,
    /// Pending pods of schedulers that are not configured here (S-Q-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_considered: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    n_refused_cluster_objects: usize,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// A workload in the output for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadOutput {
    kind: &'static str,
    namespace: String,
    name: String,
    /// Number of pods.
    n_pods: usize,
}

impl WorkloadOutput {
    fn of(group: &Group) -> Option<WorkloadOutput> {
        let workload = group.workload.as_ref()?;
        Some(WorkloadOutput {
            kind: workload.kind.name(),
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
            n_pods: group.pods.len(),
        })
    }
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
    let scope = match args.pending {
        true => Scope::Pending,
        false => Scope::Named(Names::of(&args.pods, &args.filename, &args.input)),
    };
    let (supposed, is_asked_for) = (scope.supposed(), |pod: &Pod| scope.has(pod));
    let question = async |backend: &mut Backend| answer(&args, &scope, backend).await;
    args.backend.ask(&args.what_if, &args.input, supposed, is_asked_for, question).await
}

async fn answer(
    args: &PlaceArgs,
    scope: &Scope<'_>,
    backend: &mut Backend,
) -> Result<ExitCode, CliError> {
    let wanted = Wanted { replicas: args.replicas, assume: args.assume };
    let given = scope.find(wanted, backend).await?;
    let others = given.of_others;
    let n_refused = given.n_refused;
    if args.gang && n_refused > 0 {
        let reason =
            format!("{} refused: a gang is placed entirely", output::count(n_refused, "pod"));
        return Err(CliError::Request(reason));
    }
    let replicas = args.replicas.unwrap_or(1);
    let workloads: Vec<WorkloadOutput> =
        given.groups.iter().filter_map(WorkloadOutput::of).collect();
    let ordered = ordered(&given.groups);
    let (entries, mut members) = handed::members(given.groups, replicas);
    let of_entries = admission::names(&entries);
    check_min(args.min, members.len())?;
    let gang = args.gang.then(|| Gang {
        min_count: args.min.unwrap_or(0),
        preempt: args.preempt,
        preempt_options: None,
    });
    // Before the pods are placed, since they are not part of the given cluster.
    let mut notes = backend.notes();
    notes.extend(given.notes);
    let answered = backend.place(entries, args.assume, gang).await?;
    let results = answered.results;
    name_generated(&mut members, &results);
    let admissions = || admission::named(&answered.admissions, &of_entries);
    notes.extend(admission::notes(admissions()));
    notes.extend(held_back(&ordered, &members, &results));
    let refused =
        |result: &&PlaceResult| !matches!(result.result, Some(place_result::Result::Decision(_)));
    let n_errors = n_refused + results.iter().filter(refused).count();
    let answer = PlaceOutput {
        results: &results,
        gang: answered.gang.as_ref(),
        admissions: &answered.admissions,
        what_if: backend.what_if(),
        workloads,
        not_considered: others.iter().map(manifest::name_of).collect(),
        n_refused_cluster_objects: backend.n_refused(),
        notes: &notes,
    };
    output::answer(args.output, &answer, || {
        let mut text = text(&members, &others, &answer);
        if let Some(filled_in) = admission::filled_in(admissions()) {
            text = format!("{text}\n\n{filled_in}");
        }
        text
    })?;
    backend.tell(&notes);
    Ok(status(n_errors, args.fail_pending && results.iter().any(is_pending)))
}

/// The exit status; `is_pending` if a pod is, and the caller wants to know.
fn status(n_errors: usize, is_pending: bool) -> ExitCode {
    match (n_errors, is_pending) {
        (0, false) => ExitCode::SUCCESS,
        (0, true) => ExitCode::from(PENDING),
        _ => ExitCode::FAILURE,
    }
}

/// Whether a pod was decided and has no node.
fn is_pending(result: &PlaceResult) -> bool {
    match &result.result {
        Some(place_result::Result::Decision(decision)) => outcome::is_pending(decision),
        Some(place_result::Result::Error(_)) | None => false,
    }
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

fn text(members: &[Member], others: &[Pod], answer: &PlaceOutput<'_>) -> String {
    let results = answer.results;
    let what_if = answer.what_if.map(|what_if| format!("{what_if}\n\n")).unwrap_or_default();
    if results.is_empty() && others.is_empty() {
        return format!("no pods to place{}", refused_objects(answer.n_refused_cluster_objects));
    }
    let (table, tally) = rows::table(members, results, others);
    let placed = if answer.gang.is_none_or(|gang| gang.placed) { "placed" } else { "would fit" };
    let gang = answer.gang.map(|gang| gang_outcome(gang, members)).unwrap_or_default();
    format!(
        "{what_if}{table}\n\n{gang}{}: {}{}",
        output::count(results.len() + others.len(), "pod"),
        tally.text(placed),
        refused_objects(answer.n_refused_cluster_objects)
    )
}

/// The outcome of the gang as a whole: the pods to evict for each member, and a line for the outcome.
fn gang_outcome(gang: &GangOutcome, members: &[Member]) -> String {
    let mut sections = Vec::new();
    if !gang.preemptions.is_empty() {
        let mut table = output::Table::new(&["MEMBER", "NODE", "EVICTED"]);
        for preemption in &gang.preemptions {
            let member =
                usize::try_from(preemption.index).ok().and_then(|index| members.get(index));
            let chosen = preemption.post_filter.as_ref().and_then(|ran| ran.chosen.as_ref());
            let Some(chosen) = chosen else { continue };
            table.add_row([
                member.map_or("-", |member| &*member.name),
                &chosen.node_name,
                &preempt::victims_of(chosen),
            ]);
        }
        sections.push(table.text());
    }
    let members = output::count(members.len(), "member");
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
