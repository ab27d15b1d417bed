//! `berth lifecycle conditions`: shows the conditions of pods.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::core_v1::PodCondition;
use serde::Serialize;

use super::moment::{self, NowArgs};
use super::named::NamedArgs;
use super::phase;
use crate::cli::CliError;
use crate::cli::output::{self, Format};
use crate::feed::file::UnknownFields;

/// Derives the conditions of each pod from its object and its node, and keeps those that others set
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_STATUS)]
pub(super) struct ConditionsArgs {
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

/// Conditions of one pod in the output for programs.
#[derive(Serialize)]
struct Conditions<'a> {
    pod: &'a str,
    conditions: BTreeMap<&'a str, &'a PodCondition>,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, files without a pod.
pub(super) fn run(
    args: &ConditionsArgs,
    unknown_fields: UnknownFields,
) -> Result<ExitCode, CliError> {
    let now = args.now.get();
    let mut objects = args.named.read(&args.files, unknown_fields)?;
    let nodes = objects.take_nodes();
    let answers = objects.ask(|pod| phase::evaluate(pod, nodes.of(pod), now))?;
    let pods: Vec<Conditions<'_>> = answers
        .iter()
        .map(|(pod, answer)| {
            let by_type = answer.conditions.iter().map(|(r#type, one)| (r#type.as_str(), one));
            Conditions { pod, conditions: by_type.collect() }
        })
        .collect();
    if let Some(text) = output::structured(args.output, &serde_json::json!({ "pods": pods }))? {
        output::print(&text)?;
        return Ok(objects.status());
    }
    let mut table = table(&["POD"]);
    for Conditions { pod, conditions } in &pods {
        for (r#type, condition) in conditions {
            table.add_row([(*pod).to_owned()].into_iter().chain(row(r#type, condition, now)));
        }
    }
    output::show(&table.text())?;
    Ok(objects.status())
}

/// A table of conditions with the columns `first` before them.
pub(super) fn table(first: &[&str]) -> output::Table {
    let own = ["CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"];
    let headings: Vec<&str> = first.iter().copied().chain(own).collect();
    let message = headings.len() - 1;
    output::Table::new(&headings).wrapping(message)
}

/// The cells of one condition.
pub(super) fn row(r#type: &str, condition: &PodCondition, now: berth_proto::Time) -> [String; 5] {
    let since = moment::relative(condition.last_transition_time.as_ref(), now);
    let [status, reason, message] = [&condition.status, &condition.reason, &condition.message]
        .map(|cell| if cell.is_empty() { "-".to_owned() } else { cell.clone() });
    [r#type.to_owned(), status, since, reason, message]
}
