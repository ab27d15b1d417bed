//! `berth headroom`: shows how many more copies of a pod fit, where, and what runs out first.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::HeadroomRequest;
use berth_proto::core_v1::Pod;

use super::backend::{self, Backend, BackendArgs};
use super::given::{Names, One};
use super::input::InputArgs;
use super::output::{self, Answered, Format};
use super::what_if::{SupposedPods, WhatIfArgs};
use super::{CliError, admission, manifest};
use crate::feed::handed::check_copies;
use crate::service::autoscaler::headroom::{DEFAULT_LIMIT, MAX_LIMIT};

const EXIT_STATUS: &str = "\
    Exit status: 0 when at least one more fits; 1 when none does, or nothing could be decided; 2 for a wrong command line.";

/// Places copies of a pod one after another until one fits nowhere, and shows how many there are, where, and what ran
/// out
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct HeadroomArgs {
    /// A file with one pod or workload (a folder, or `-` for standard input), or a pod of the cluster: `namespace/name`,
    /// or `pod/name` with `-n`; a running one stays where it is
    #[arg(value_name = "POD", required_unless_present = "filename")]
    pod: Option<String>,
    /// File with one pod or workload, as for kubectl: copies are made of the first pod of a Deployment, Job and the
    /// like
    #[arg(short, long, value_name = "FILE", conflicts_with = "pod")]
    filename: Option<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Maximum number of copies to place
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LIMIT)))]
    limit: u32,
    /// Only this node may take copies; repeatable [default: all]
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// Maximum number of nodes to list, those that take most copies first; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    max_nodes: u32,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// An unreadable file, not exactly one pod, a refused pod, an unknown node, an impossible supposition, a server that
/// cannot be reached.
pub async fn run(args: HeadroomArgs) -> Result<ExitCode, CliError> {
    let names = Names::of(args.pod.as_slice(), args.filename.as_slice(), &args.input);
    let is_asked_for = |pod: &Pod| names.is_named(pod);
    let supposed = SupposedPods::Placed;
    let question = async |backend: &mut Backend| answer(&args, &names, backend).await;
    args.backend.ask(&args.what_if, &args.input, supposed, is_asked_for, question).await
}

async fn answer(
    args: &HeadroomArgs,
    names: &Names<'_>,
    backend: &mut Backend,
) -> Result<ExitCode, CliError> {
    let (pod, of_pod) = find(names, backend).await?;
    let name = manifest::name_of(&pod);
    let mut notes = backend.notes();
    notes.extend(of_pod);
    let what_if = backend.what_if();
    let request = HeadroomRequest {
        pod: Some(pod),
        node_names: args.node.clone(),
        limit: args.limit,
        max_nodes: args.max_nodes,
        admit: true,
        ..HeadroomRequest::default()
    };
    let headroom = backend.headroom(request).await?;
    let admission = || headroom.admission.iter().map(|it| (&*name, it));
    notes.extend(admission::notes(admission()));
    let answer = Answered { answer: &headroom, what_if, notes: &notes };
    output::answer(args.output, &answer, || {
        let sections = text::sections(&name, args.limit, &headroom).into_iter();
        output::sections(what_if, sections.chain(admission::filled_in(admission())))
    })?;
    backend.tell(&notes);
    Ok(if headroom.n_fit > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The pod to copy, and remarks. A pod of the dump stays on its node: the copies are added to it.
async fn find(names: &Names<'_>, backend: &mut Backend) -> Result<(Pod, Vec<String>), CliError> {
    if let Some(pod) = names.one_as_it_is(backend).await? {
        return Ok((pod, Vec::new()));
    }
    let One { pod, workload, notes } = names.find_one(None, backend).await?;
    let how = ["berth place", "berth place --replicas N"];
    check_copies(workload.as_ref(), &pod, how).map_err(CliError::Request)?;
    Ok((pod, notes))
}
