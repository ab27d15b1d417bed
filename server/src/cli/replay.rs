//! `berth replay`: makes a journal's decisions again, and shows whether they are the same.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use berth_engine::PodKey;
use berth_proto::berth_v1::{Decision, PlaceResult, decision, place_result};
use berth_proto::{MicroTime, Time};
use serde::Serialize;

use super::CliError;
use super::output::{self, Format, Table};
use crate::clock;
use crate::replay::{self, Attempted, Difference, Report, Selection};

/// Makes the decisions of a journal again and exits with 1 if any differs
///
/// DIR is what `berth serve --journal DIR` has written. All changes of the cluster are made again in their order, and each
/// decision on the generation that it was made on, by the policy that was used then. No server is asked.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when nothing differs; 1 when a decision differs or a segment cannot be read; 2 for \
    a wrong command line."
)]
pub struct ReplayArgs {
    /// Directory of the journal
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Only decisions from this time on, such as 2026-11-28T20:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<u64>,
    /// Only decisions before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<u64>,
    /// Only decisions about this pod, `namespace/name`; each is listed
    #[arg(long, value_name = "POD", value_parser = parse_pod)]
    pod: Option<PodKey>,
    /// So many times as fast as it was recorded, 1 for as fast as it was [default: as fast as possible]
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed)]
    speed: Option<f64>,
    /// Number of threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// A journal that cannot be read, or does not follow from itself.
pub fn run(args: ReplayArgs) -> Result<ExitCode, CliError> {
    if let Some(n) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n.into()).build_global();
        pool.map_err(|error| CliError::Threads(std::io::Error::other(error)))?;
    }
    let ReplayArgs { directory, from, to, pod, speed, output, .. } = args;
    let selection = Selection { from, to, pod, speed };
    let began = clock::now();
    let report = replay::replay(&directory, &selection);
    let report = report.map_err(|error| CliError::Request(error.to_string()))?;
    output::answer(output, &json(&report, began), || text(&report, began))?;
    Ok(if report.n_different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse_time(text: &str) -> Result<u64, String> {
    let time: Result<MicroTime, _> = serde_json::from_value(text.into());
    let micros = time.ok().and_then(|time| time.unix_microseconds());
    micros
        .and_then(|micros| u64::try_from(micros).ok())
        .ok_or_else(|| "is no time such as 2026-11-28T20:00:00Z".to_owned())
}

fn parse_pod(text: &str) -> Result<PodKey, String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(PodKey::new(namespace, name))
        }
        _ => Err("must be `namespace/name`".to_owned()),
    }
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: Option<f64> = text.parse().ok();
    speed
        .filter(|it| (1e-3..=1e9).contains(it))
        .ok_or_else(|| "must be a number above 0".to_owned())
}

/// Output for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Json<'a> {
    n_segments: usize,
    n_changes: u64,
    n_generations: u64,
    n_decisions: u64,
    n_different: u64,
    n_unknown: u64,
    n_gaps: usize,
    n_torn: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Time>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_difference: Option<JsonDifference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decisions: Vec<JsonAttempt<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonDifference {
    time: Option<Time>,
    generation: u64,
    profile: String,
    recorded: Vec<PlaceResult>,
    now: Vec<PlaceResult>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonAttempt<'a> {
    time: Option<Time>,
    generation: u64,
    profile: &'a str,
    results: Vec<PlaceResult>,
}

impl JsonAttempt<'_> {
    fn of(attempted: &Attempted) -> JsonAttempt<'_> {
        JsonAttempt {
            time: Time::try_from_unix_microseconds(attempted.record.unix_micros),
            generation: attempted.record.generation,
            profile: &attempted.record.profile,
            results: results(attempted),
        }
    }
}

fn json(report: &Report, began: Instant) -> Json<'_> {
    let difference = |difference: &Difference| {
        let Difference { attempted, now } = difference;
        JsonDifference {
            time: Time::try_from_unix_microseconds(attempted.record.unix_micros),
            generation: attempted.record.generation,
            profile: attempted.record.profile.clone(),
            recorded: results(attempted),
            now: now.clone().into_results().collect(),
        }
    };
    Json {
        n_segments: report.n_segments,
        n_changes: report.n_changes,
        n_generations: report.n_generations,
        n_decisions: report.n_decisions,
        n_different: report.n_different,
        n_unknown: report.n_unknown,
        n_gaps: report.n_gaps,
        n_torn: report.torn.len(),
        from: report.span.and_then(|(from, _)| Time::try_from_unix_microseconds(from)),
        to: report.span.and_then(|(_, to)| Time::try_from_unix_microseconds(to)),
        seconds: (clock::now() - began).as_secs_f64(),
        first_difference: report.first.as_deref().map(difference),
        decisions: report.of_pod.iter().map(JsonAttempt::of).collect(),
    }
}

fn text(report: &Report, began: Instant) -> String {
    let seconds = (clock::now() - began).as_secs_f64();
    let mut sections = Vec::new();
    if !report.of_pod.is_empty() {
        sections.push(listed(&report.of_pod));
    }
    if let Some(first) = &report.first {
        sections.push(different(first));
    }
    let span = report.span.map_or_else(String::new, |(from, to)| {
        format!("{} to {}: ", time_text(from), time_text(to))
    });
    let mut lines = vec![format!(
        "{span}{} in {}, from {}",
        output::count(as_usize(report.n_changes), "change"),
        output::count(as_usize(report.n_generations), "generation"),
        output::count(report.n_segments, "segment"),
    )];
    for (path, n_bytes) in &report.torn {
        lines.push(format!(
            "`{}` ends with {n_bytes} bytes of a block that was not written to its end",
            path.display()
        ));
    }
    if report.n_gaps > 0 {
        lines.push(format!(
            "{} where the journal begins anew",
            output::count(report.n_gaps, "place")
        ));
    }
    if report.n_unknown > 0 {
        lines.push(format!(
            "{} made on a generation that the journal does not have, and left out",
            output::count(as_usize(report.n_unknown), "attempt")
        ));
    }
    let n_equal = report.n_attempts - report.n_different;
    lines.push(format!(
        "{} of {} attempts are the same again: {} in {seconds:.1} s",
        output::grouped(as_usize(n_equal)),
        output::grouped(as_usize(report.n_attempts)),
        output::count(as_usize(report.n_decisions), "decision"),
    ));
    sections.push(lines.join("\n"));
    sections.join("\n\n")
}

fn listed(attempts: &[Attempted]) -> String {
    let mut table = Table::new(&["TIME", "GENERATION", "POD", "RESULT"]);
    for attempted in attempts {
        let at = time_text(attempted.record.unix_micros);
        for (recorded, result) in attempted.pods().zip(results(attempted)) {
            table.add_row([
                at.clone(),
                attempted.record.generation.to_string(),
                format!("{}/{}", recorded.namespace, recorded.name),
                result_text(&result),
            ]);
        }
    }
    table.text()
}

fn different(difference: &Difference) -> String {
    let Difference { attempted, now } = difference;
    let record = &attempted.record;
    let recorded = results(attempted);
    let now: Vec<PlaceResult> = now.clone().into_results().collect();
    let mut lines = vec![format!(
        "The first attempt that differs, at {} on generation {}:",
        time_text(record.unix_micros),
        record.generation
    )];
    for (at, pod) in attempted.pods().enumerate() {
        let (recorded, now) = (recorded.get(at), now.get(at));
        if recorded != now {
            let shown = |result: Option<&PlaceResult>| {
                result.map_or_else(|| "nothing".to_owned(), result_text)
            };
            let name = format!("{}/{}", pod.namespace, pod.name);
            lines.push(format!(
                "  {name}\n    recorded: {}\n    now:      {}",
                shown(recorded),
                shown(now)
            ));
        }
    }
    if lines.len() == 1 {
        lines.push(
            "  the results of its pods are the same, but not what it evicts or nominates"
                .to_owned(),
        );
    }
    lines.join("\n")
}

/// The recorded results of an attempt, one for each pod.
fn results(attempted: &Attempted) -> Vec<PlaceResult> {
    attempted.answer().unwrap_or_default().into_results().collect()
}

fn result_text(result: &PlaceResult) -> String {
    use decision::Outcome;
    match &result.result {
        Some(place_result::Result::Decision(Decision { outcome, .. })) => match outcome {
            Some(Outcome::Placement(placed)) => {
                let total =
                    placed.total_score.map_or(String::new(), |total| format!(", score {total}"));
                format!("{}{total}, {} feasible", placed.node_name, placed.n_feasible_nodes)
            }
            Some(Outcome::Unschedulable(refused)) => refused.message.clone(),
            Some(Outcome::Gated(gated)) => format!("held back by {}", gated.plugin),
            None => "nothing".to_owned(),
        },
        Some(place_result::Result::Error(error)) => error.message.clone(),
        None => "nothing".to_owned(),
    }
}

fn time_text(unix_micros: u64) -> String {
    Time::try_from_unix_microseconds(unix_micros).unwrap_or_default().to_string()
}

fn as_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
