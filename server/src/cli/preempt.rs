//! `berth preempt`: shows which pods a pod would evict.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::{
    Admission, Decision, ListCandidatesResponse, PostFilter, PreemptOptions, PreemptResponse,
    VictimPlacement,
};
use berth_proto::core_v1::Pod;
use clap::ValueEnum;

use super::backend::{self, Backend, BackendArgs};
use super::given::{Names, One};
use super::input::InputArgs;
use super::output::{self, Answered, Format};
use super::what_if::{SupposedPods, WhatIfArgs};
use super::{CliError, admission, manifest};
use crate::config::file::parse_seed;

pub(super) use text::{in_short, victims_of};

const EXIT_STATUS: &str = "\
    Exit status: 0 when the pod was decided, whether or not anybody is to be evicted for it; 1 when it was refused or \
    nothing could be decided; 2 for a wrong command line.";

/// Makes a whole scheduling attempt for one pod, and if no node is feasible shows which pods to evict from which node
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct PreemptArgs {
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
    /// List every node on which evicting pods helps, and those on which it does not
    #[arg(long)]
    candidates: bool,
    #[command(flatten)]
    options: OptionArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Options for behaviour that differs from kube-scheduler's with every node considered.
#[derive(Clone, Debug, Default, clap::Args)]
struct OptionArgs {
    /// Try a sample of the nodes, as many as the profile's DefaultPreemptionArgs say, from an offset drawn from this
    /// seed [default: every node]
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, value_parser = parse_seed)]
    sample: Option<u64>,
    /// Skip nodes where evicting violates a PodDisruptionBudget, which kube-scheduler only prefers not to
    #[arg(long)]
    refuse_pdb_violations: bool,
    /// Show where the victims could go
    #[arg(long, value_name = "RULE")]
    victims: Option<VictimRule>,
}

/// Whether to find out where victims could go, and whether that influences the choice.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum VictimRule {
    /// Show where each could be placed now.
    Report,
    /// Show it, and prefer nodes that leave the fewest victims without a node; never over fewer violations of budgets.
    Prefer,
}

impl OptionArgs {
    fn to_wire(&self) -> PreemptOptions {
        let placement = match self.victims {
            None => VictimPlacement::Ignore,
            Some(VictimRule::Report) => VictimPlacement::Report,
            Some(VictimRule::Prefer) => VictimPlacement::Prefer,
        };
        PreemptOptions {
            sample_seed: self.sample,
            refuse_pdb_violations: self.refuse_pdb_violations,
            victim_placement: placement.into(),
        }
    }
}

/// One attempt, with or without every candidate.
enum Attempt {
    Chosen(PreemptResponse),
    Listed(ListCandidatesResponse),
}

impl Attempt {
    fn parts(&self) -> (Option<&Decision>, Option<&PostFilter>) {
        match self {
            Attempt::Chosen(attempt) => (attempt.decision.as_ref(), attempt.post_filter.as_ref()),
            Attempt::Listed(list) => (list.decision.as_ref(), list.post_filter.as_ref()),
        }
    }

    fn admission(&self) -> impl Iterator<Item = &Admission> {
        let admission = match self {
            Attempt::Chosen(attempt) => &attempt.admission,
            Attempt::Listed(list) => &list.admission,
        };
        admission.iter()
    }
}

/// Runs the command.
///
/// # Errors
/// An unreadable file, not exactly one pod, a refused pod, an impossible supposition, a server that cannot be
/// reached.
pub async fn run(args: PreemptArgs) -> Result<ExitCode, CliError> {
    let names = Names::of(args.pod.as_slice(), args.filename.as_slice(), &args.input);
    let is_asked_for = |pod: &Pod| names.is_named(pod);
    let supposed = SupposedPods::Placed;
    let question = async |backend: &mut Backend| answer(&args, &names, backend).await;
    args.backend.ask(&args.what_if, &args.input, supposed, is_asked_for, question).await
}

async fn answer(
    args: &PreemptArgs,
    names: &Names<'_>,
    backend: &mut Backend,
) -> Result<ExitCode, CliError> {
    let One { pod, notes: of_pod, .. } = names.find_one(None, backend).await?;
    let name = manifest::name_of(&pod);
    let mut notes = backend.notes();
    notes.extend(of_pod);
    let options = args.options.to_wire();
    let attempt = if args.candidates {
        Attempt::Listed(backend.list_candidates(pod, options).await?)
    } else {
        Attempt::Chosen(backend.preempt(pod, options).await?)
    };
    notes.extend(admission::notes(attempt.admission().map(|it| (&*name, it))));
    let what_if = backend.what_if();
    let notes_of = notes.as_slice();
    let text = || text(&name, &attempt, what_if);
    match &attempt {
        Attempt::Chosen(answer) => {
            output::answer(args.output, &Answered { answer, what_if, notes: notes_of }, text)?;
        }
        Attempt::Listed(answer) => {
            output::answer(args.output, &Answered { answer, what_if, notes: notes_of }, text)?;
        }
    }
    backend.tell(&notes);
    Ok(ExitCode::SUCCESS)
}

fn text(name: &str, attempt: &Attempt, what_if: Option<&str>) -> String {
    let (decision, post_filter) = attempt.parts();
    let mut sections = vec![text::summary(name, decision, post_filter)];
    sections.extend(post_filter.and_then(|ran| ran.chosen.as_ref()).map(text::victims));
    if let Attempt::Listed(list) = attempt {
        sections.extend(text::candidates(&list.candidates, &list.best_node_names));
        sections.extend(text::not_helped(&list.not_helped));
    }
    sections.extend(admission::filled_in(attempt.admission().map(|it| (name, it))));
    output::sections(what_if, sections)
}
