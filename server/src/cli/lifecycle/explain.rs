//! `berth lifecycle explain`: shows which stage of its life a pod is in, why, what happens next and when.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use berth_engine::lifecycle::evaluation;
use berth_proto::Time;
use berth_proto::berth_v1::{
    EvaluatePodsResponse, ExplainPodRequest, ExplainPodResponse, LifecycleEvent, NextAction,
    VolumeWarning,
};
use berth_proto::core_v1::{Node, Pod};

use super::files::FileArgs;
use super::moment::{self, NowArgs};
use super::named::NamedArgs;
use super::{conditions, objects};
use crate::cli::output::{self, Format};
use crate::cli::{CliError, manifest};
use crate::escape::printable;
use crate::feed::file::UnknownFields;

/// Explains one pod: its stage, its phase and conditions, what happened, what happens next and when
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "The last column names rules: `berth rule L-TERM-9` prints one, and docs/spec/lifecycle.md has all of them.\n\nExit status: 0 when the pod was explained; 1 when it was refused or cannot be read; 2 for a wrong command line."
)]
pub(super) struct ExplainArgs {
    /// A file with one pod, as kubectl writes it, and perhaps with its node and its claims (`-` for standard input), or a
    /// pod of the cluster: `namespace/name`, or `pod/name` with `-n`
    #[arg(value_name = "POD", required_unless_present = "filename")]
    file: Option<PathBuf>,
    #[command(flatten)]
    named: NamedArgs,
    /// A file with the pod's node, for what its heartbeat and taints mean to the pod [default: the node in the pod's
    /// file, else a ready node without taints]
    #[arg(long, value_name = "FILE")]
    node: Option<PathBuf>,
    #[command(flatten)]
    now: NowArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, not exactly one pod, a refused pod or node, a node that is not the pod's.
pub(super) fn run(args: &ExplainArgs, unknown_fields: UnknownFields) -> Result<ExitCode, CliError> {
    let now = args.now.get();
    let (pod, mut objects) = args.named.read_pod(args.file.as_ref(), unknown_fields)?;
    let node = match args.node.as_deref() {
        Some(file) => node_of(&pod.value, file, unknown_fields)?,
        None => objects.take_nodes().of(&pod.value).cloned(),
    };
    let request = ExplainPodRequest {
        claims: objects.claims_beside(&pod.value),
        pod: Some(pod.value.clone()),
        now: Some(now),
        node,
        ..ExplainPodRequest::default()
    };
    let story = evaluation::explain_pod(&request)
        .map_err(|error| CliError::Request(objects::refused(&pod, error).to_string()))?;
    output::answer(args.output, &story, || {
        let signs = if io::stdout().is_terminal() { DRAWN } else { PLAIN };
        text(&manifest::name_of(&pod.value), &story, now, signs)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The pod's node among those of a file.
fn node_of(
    pod: &Pod,
    file: &Path,
    unknown_fields: UnknownFields,
) -> Result<Option<Node>, CliError> {
    let objects = FileArgs::default().read(&[file.to_owned()], unknown_fields)?;
    let Some(bound_to) = objects::bound_to(pod) else {
        output::note("note: the pod is on no node yet; `--node` says nothing of it");
        return Ok(None);
    };
    let mut nodes = objects.nodes.into_iter().map(|node| node.value);
    let found = nodes.find(|node| manifest::node_name(node) == bound_to);
    found.map(Some).ok_or_else(|| {
        let file = file.display();
        CliError::Request(format!("`{file}` holds no Node `{bound_to}`, which the pod is bound to"))
    })
}

/// Signs before an event that is past, before now, and before an event to come.
#[derive(Copy, Clone)]
struct Signs {
    past: &'static str,
    now: &'static str,
    upcoming: &'static str,
}

const PLAIN: Signs = Signs { past: "*", now: ">", upcoming: "o" };
const DRAWN: Signs = Signs { past: "●", now: "▶", upcoming: "○" };

fn text(name: &str, story: &ExplainPodResponse, now: Time, signs: Signs) -> String {
    let unknown = EvaluatePodsResponse::default();
    let evaluation = story.evaluation.as_ref().unwrap_or(&unknown);
    let mut sections = vec![format!("{}: {}", printable(name), printable(&story.summary))];
    sections.push(facts(story, evaluation));
    if !evaluation.conditions.is_empty() {
        let mut table = conditions::table(&[]);
        let mut by_type: Vec<_> = evaluation.conditions.iter().collect();
        by_type.sort_by_key(|(r#type, _)| *r#type);
        for (r#type, condition) in by_type {
            table.add_row(conditions::row(r#type, condition, now));
        }
        sections.push(table.text());
    }
    sections.extend(volumes(&story.volume_warnings));
    sections.push(timeline(&story.events, now, signs));
    sections.extend(evaluation.next_action.as_ref().map(|next| next_step(next, evaluation, now)));
    let mut text = sections.join("\n\n");
    text.extend(a_rule(story, evaluation).map(|rule| {
        format!(
            "\nrules: `berth rule {}` prints one; docs/spec/lifecycle.md has all",
            printable(rule)
        )
    }));
    text
}

/// A rule of the answer to suggest: one of the next action if there is one.
fn a_rule<'a>(
    story: &'a ExplainPodResponse,
    evaluation: &'a EvaluatePodsResponse,
) -> Option<&'a str> {
    let of_next = evaluation.next_action.iter().flat_map(|next| &next.rules);
    let of_events = story.events.iter().flat_map(|event| &event.rules);
    of_next.chain(of_events).next().map(String::as_str)
}

fn facts(story: &ExplainPodResponse, evaluation: &EvaluatePodsResponse) -> String {
    let EvaluatePodsResponse { phase, published_phase, effective_phase, .. } = evaluation;
    let EvaluatePodsResponse { display_status, status_reason, message, .. } = evaluation;
    let reason = if evaluation.reason.is_empty() { status_reason } else { &evaluation.reason };
    let headings = ["STAGE", "PHASE", "PUBLISHED", "SHOWN", "STATUS", "REASON", "MESSAGE"];
    let mut table = output::Table::new(&headings).wrapping(6).dropping([2, 3]);
    let stage = &story.stage;
    let cells = [stage, phase, published_phase, effective_phase, display_status, reason, message];
    table.add_row(cells.map(|cell| or_dash(cell)));
    table.text()
}

/// Table of the volumes that other pods of the controller may write too; `None` if there are none.
fn volumes(warnings: &[VolumeWarning]) -> Option<String> {
    if warnings.is_empty() {
        return None;
    }
    let mut table =
        output::Table::new(&["VOLUME", "CLAIM", "WARNING", "RULES"]).wrapping(2).dropping([3]);
    for VolumeWarning { volume, claim, message, rules, .. } in warnings {
        table.add_row([volume.as_str(), or_dash(claim), message, &rules.join(", ")]);
    }
    Some(table.text())
}

/// Table of past and future events, a row each, in the order of time.
fn timeline(events: &[LifecycleEvent], now: Time, signs: Signs) -> String {
    let mut table = output::Table::new(&["", "TIME", "WHEN", "WHAT", "WHY", "RULES"])
        .wrapping(4)
        .dropping([5, 1]);
    let cells_of = |event: &LifecycleEvent| {
        let sign = if event.upcoming { signs.upcoming } else { signs.past };
        let at = event.at.as_ref();
        let when = at.map_or_else(|| "some time".to_owned(), |_| moment::relative(at, now));
        let rules = event.rules.join(", ");
        let [what, why, rules] = [&event.what, &event.why, &rules].map(|cell| or_dash(cell));
        [
            sign.to_owned(),
            moment::absolute(at),
            when,
            what.to_owned(),
            why.to_owned(),
            rules.to_owned(),
        ]
    };
    for event in events.iter().filter(|event| !event.upcoming) {
        table.add_row(cells_of(event));
    }
    let time = moment::absolute(Some(&now));
    table.add_row([signs.now, time.as_str(), "now", "-", "-", "-"]);
    for event in events.iter().filter(|event| event.upcoming) {
        table.add_row(cells_of(event));
    }
    table.text()
}

/// The next action with its actor, and when to look again.
fn next_step(next: &NextAction, evaluation: &EvaluatePodsResponse, now: Time) -> String {
    let mut line = format!("next: {}", printable(or_dash(&next.action)));
    if !next.actor.is_empty() {
        line += &format!(" by {}", printable(&next.actor));
    }
    if !next.names.is_empty() {
        line += &format!(" ({})", printable(&next.names.join(", ")));
    }
    let moments = [("not before", next.not_before), ("until", next.deadline)];
    for (word, at) in moments {
        line += &dated(word, at.as_ref(), now);
    }
    let why = [next.why.as_str(), &format!("[{}]", next.rules.join(", "))]
        .into_iter()
        .filter(|part| !matches!(*part, "" | "[]"))
        .collect::<Vec<_>>()
        .join(" ");
    if !why.is_empty() {
        line += &format!("\n  {}", printable(&why));
    }
    let wake_up_at = evaluation.wake_up_at.as_ref();
    line += "\nlook again: when the pod changes";
    line + &dated("or at", wake_up_at, now)
}

/// Formats a date as `, WORD TIME (in 4m10s)`; empty if there is none.
fn dated(word: &str, at: Option<&Time>, now: Time) -> String {
    at.map_or_else(String::new, |_| {
        format!(", {word} {} ({})", moment::absolute(at), moment::relative(at, now))
    })
}

fn or_dash(cell: &str) -> &str {
    if cell.is_empty() { "-" } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn story() -> ExplainPodResponse {
        serde_json::from_value(json!({
            "stage": "Execution",
            "summary": "Running: a\u{1b}b",
            "evaluation": {
                "phase": "Running", "publishedPhase": "Running", "effectivePhase": "Unknown",
                "displayStatus": "NodeDown",
                "conditions": {"Ready": {"status": "False", "lastTransitionTime": "2026-01-10T11:58:00Z"}},
                "nextAction": {
                    "action": "RestartContainers", "actor": "nodeAgent", "names": ["app"],
                    "notBefore": "2026-01-10T12:04:10Z", "why": "backs off", "rules": ["L-RESTART-15"]
                },
                "wakeUpAt": "2026-01-10T12:04:10Z"
            },
            "events": [
                {"at": "2026-01-10T11:58:00Z", "upcoming": false, "what": "container app ended", "why": "exit 1"},
                {"at": "2026-01-10T12:04:10Z", "upcoming": true, "what": "restart", "rules": ["L-RESTART-15", "L-RESTART-16"]},
                {"upcoming": true, "what": "pod removed"}
            ]
        }))
        .unwrap()
    }

    #[test]
    fn a_story_reads_from_past_to_future() {
        let now = moment::parse("2026-01-10T12:00:00Z").unwrap();
        let expected = "\
d/p: Running: a\\u{1b}b

STAGE      PHASE    PUBLISHED  SHOWN    STATUS    REASON  MESSAGE
Execution  Running  Running    Unknown  NodeDown  -       -

CONDITION  STATUS  SINCE   REASON  MESSAGE
Ready      False   2m ago  -       -

   TIME                  WHEN       WHAT                 WHY     RULES
*  2026-01-10T11:58:00Z  2m ago     container app ended  exit 1  -
>  2026-01-10T12:00:00Z  now        -                    -       -
o  2026-01-10T12:04:10Z  in 4m10s   restart              -       L-RESTART-15, L-RESTART-16
o  -                     some time  pod removed          -       -

next: RestartContainers by nodeAgent (app), not before 2026-01-10T12:04:10Z (in 4m10s)
  backs off [L-RESTART-15]
look again: when the pod changes, or at 2026-01-10T12:04:10Z (in 4m10s)
rules: `berth rule L-RESTART-15` prints one; docs/spec/lifecycle.md has all";
        let printed = text("d/p", &story(), now, PLAIN);
        assert_eq!(printed, expected);
        assert!(printed.is_ascii());
        assert!(text("d/p", &story(), now, DRAWN).contains("\n▶  2026-01-10T12:00:00Z  now"));
    }
}
