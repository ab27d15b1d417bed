//! `berth lifecycle delete`: shows what a delete of a pod would do, and what follows when.

mod plan;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::ModelError;
use berth_engine::lifecycle::{deletion, termination};
use berth_proto::Time;
use berth_proto::berth_v1::{
    ApplyDeleteRequest, ApplyDeleteResponse, AuthorizeRemovalRequest, PodDeleteOptions,
    RemovalActor, RemovalTerms, TerminationEvent,
};
use berth_proto::core_v1::Pod;
use serde::Serialize;

use super::named::NamedArgs;
use super::{moment, objects, phase};
use crate::cli::output::{self, Format};
use crate::cli::{CliError, manifest};
use crate::clock;
use crate::feed::file::UnknownFields;
use plan::{Assumptions, Plan};

/// Shows what a delete of one pod does, and when each of its containers is signalled and killed
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Nothing is deleted. How long containers take to end cannot be known; without --exit-after none ends before it is \
                  killed, so that every time is the latest.\n\nExit status: 0 when the delete was answered, whatever it does; 1 when \
                  the pod was refused or cannot be read; 2 for a wrong command line."
)]
pub(super) struct DeleteArgs {
    /// A file with one pod, as kubectl writes it (`-` for standard input), or a pod of the cluster: `namespace/name`, or
    /// `pod/name` with `-n`
    #[arg(value_name = "POD", required_unless_present = "filename")]
    file: Option<PathBuf>,
    #[command(flatten)]
    named: NamedArgs,
    /// Grace period of the request, in seconds; 0 deletes by force [default: the pod's own]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    grace_period: Option<i64>,
    /// Time of the request, in RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<Time>,
    #[command(flatten)]
    assumptions: Assumptions,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Status of a pod whose node cannot be reached.
const NODE_DOWN: &str = "NodeDown";

/// UID for a pod that has none yet.
const NO_UID: &str = "none";

/// Output for programs: the answers of `ApplyDelete` and `TerminationPlan`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOutput<'a> {
    pod: &'a str,
    delete: &'a ApplyDeleteResponse,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a Plan>,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, not exactly one pod, a refused pod.
pub(super) fn run(args: &DeleteArgs, unknown_fields: UnknownFields) -> Result<ExitCode, CliError> {
    let at = args.at.unwrap_or_else(|| Time::from_unix_seconds(clock::unix_seconds()));
    let (pod, mut objects) = args.named.read_pod(args.file.as_ref(), unknown_fields)?;
    let nodes = objects.take_nodes();
    let name = manifest::name_of(&pod.value);
    if plan::is_stopping(&pod.value) && args.assumptions.is_about_exits() {
        output::note(
            "note: the pod's containers are being stopped already; `--exit-after` says nothing of them",
        );
    }
    if let Some(node) = nodes.of(&pod.value) {
        let evaluation = phase::evaluate(&pod.value, Some(node), at)
            .map_err(|error| CliError::Request(objects::refused(&pod, error).to_string()))?;
        if evaluation.display_status == NODE_DOWN {
            output::note(&format!(
                "warning: node {} cannot be reached: its agent stops nothing before the node returns",
                manifest::node_name(node)
            ));
        }
    }
    let (delete, plan) = decide(args, &pod.value, at)
        .map_err(|error| CliError::Request(objects::refused(&pod, error).to_string()))?;
    if let Some(risk) = risk(args, &pod.value, at)
        .map_err(|error| CliError::Request(objects::refused(&pod, error).to_string()))?
    {
        output::note(&format!("warning: the API server deletes by force: {risk}"));
    }
    let answer = DeleteOutput { pod: &name, delete: &delete, plan: plan.as_ref() };
    output::answer(args.output, &answer, || text(&answer, at))?;
    Ok(ExitCode::SUCCESS)
}

fn decide(
    args: &DeleteArgs,
    pod: &Pod,
    at: Time,
) -> Result<(ApplyDeleteResponse, Option<Plan>), ModelError> {
    let options =
        PodDeleteOptions { grace_period_seconds: args.grace_period, ..PodDeleteOptions::default() };
    let request = ApplyDeleteRequest {
        pod: Some(pod.clone()),
        options: Some(options),
        now: Some(at),
        key: None,
    };
    let delete = termination::apply_delete(&request)?;
    let plan = plan::of(pod, &delete, at, &args.assumptions)?;
    Ok((delete, plan))
}

/// The risk that the delete has to be acknowledged for, if there is one (L-DEL-3).
fn risk(args: &DeleteArgs, pod: &Pod, at: Time) -> Result<Option<String>, ModelError> {
    let uid = pod.metadata.as_ref().map_or("", |metadata| &metadata.uid);
    let terms = RemovalTerms {
        grace_period_seconds: args.grace_period,
        // A pod without a UID is the one that the request means, too.
        uid: if uid.is_empty() { NO_UID } else { uid }.to_owned(),
        ..RemovalTerms::default()
    };
    let mut pod = pod.clone();
    pod.metadata.get_or_insert_default().uid.clone_from(&terms.uid);
    let answer = deletion::authorize_removal(&AuthorizeRemovalRequest {
        actor: Some(RemovalActor { kind: "user".to_owned(), ..RemovalActor::default() }),
        pod: Some(pod),
        request: Some(terms),
        now: Some(at),
        ..AuthorizeRemovalRequest::default()
    })?;
    Ok(Some(answer.message).filter(|message| !message.is_empty()))
}

fn text(answer: &DeleteOutput<'_>, at: Time) -> String {
    let DeleteOutput { pod, delete, plan } = answer;
    let mut table = output::Table::new(&["POD", "OUTCOME", "DELETION TIMESTAMP", "GRACE PERIOD"]);
    let grace = delete.deletion_grace_period_seconds;
    table.add_row([
        (*pod).to_owned(),
        delete.outcome.clone(),
        moment::absolute(delete.deletion_timestamp.as_ref()),
        grace.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")),
    ]);
    let mut sections = vec![table.text()];
    if delete.outcome == plan::REMOVED_AT_ONCE && plan.is_some() {
        sections.push("the object is gone at once; the node ends what still runs".to_owned());
    }
    if let Some(plan) = plan {
        sections.push(format!(
            "the node applies a grace period of {} s, from {} on",
            plan.node_grace_seconds,
            moment::absolute(Some(&plan.starts_at))
        ));
        sections.push(match &plan.kill_at {
            Some(kill_at) => kills(kill_at, at),
            None => steps(&plan.events, at),
        });
    }
    sections.join("\n\n")
}

/// When each container that does not end before is killed.
fn kills(kill_at: &BTreeMap<String, Time>, at: Time) -> String {
    if kill_at.is_empty() {
        return "every container ends before it would be killed".to_owned();
    }
    let mut table = output::Table::new(&["CONTAINER", "KILLED AT", "AFTER THE REQUEST"]);
    for (container, when) in kill_at {
        table.add_row([container.as_str(), &moment::absolute(Some(when)), &after(when, at)]);
    }
    table.text()
}

/// Time since the request.
fn after(when: &Time, at: Time) -> String {
    let relative = moment::relative(Some(when), at);
    relative.strip_prefix("in ").map_or(relative.clone(), str::to_owned)
}

fn steps(events: &[TerminationEvent], at: Time) -> String {
    let mut table =
        output::Table::new(&["TIME", "AFTER THE REQUEST", "WHAT", "CONTAINER", "SIGNAL"])
            .dropping([1]);
    for event in events {
        let when = event.at.as_ref();
        let after = when.map_or_else(|| "-".to_owned(), |when| after(when, at));
        let [container, signal] = [&event.container, &event.signal]
            .map(|cell| if cell.is_empty() { "-" } else { cell.as_str() });
        table.add_row([&moment::absolute(when), &after, &event.action, container, signal]);
    }
    table.text()
}
