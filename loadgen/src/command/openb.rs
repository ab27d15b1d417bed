//! `berth-loadgen openb`: replays the production trace and compares its placements with recorded ones.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use berth_client::{Client, Credentials};
use clap::Args;

use super::output_file::OutputFile;
use super::{CommandError, Output, TieBreakFlag, print, progress};
use crate::report::replay::ReplayReport;
use crate::trace::expected::{self, Comparison};
use crate::trace::recount::Recount;
use crate::trace::replay::{self, ReplaySpec, TaskPlacement};
use crate::trace::{Order, openb};

/// Flags of `openb`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Flags {
    /// gRPC address of the server, for example http://127.0.0.1:7420.
    #[arg(long, env = "BERTH_SERVER", value_name = "URL")]
    server: String,
    /// Credentials of the client.
    #[command(flatten)]
    credentials: Credentials,
    /// CSV of the nodes, plain or gzipped.
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// CSV of the tasks, plain or gzipped.
    #[arg(long, value_name = "FILE")]
    pods: PathBuf,
    /// Arrive: tasks never leave. Events: they leave at their deletion time.
    #[arg(long, value_enum)]
    order: Order,
    /// Recorded placements to compare with; exit code 1 unless all are equal.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Rule for nodes with equal totals; the recorded placements use the lexicographic rule.
    #[arg(long, value_enum, default_value_t = TieBreakFlag::Lexicographic)]
    tie_break: TieBreakFlag,
    /// Seed of seeded ties.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the placements as CSV, in the form of the recorded ones.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Keep the tasks that remain at the end in the server; without this flag they are deleted.
    #[arg(long)]
    keep: bool,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// Replays, recounts, compares and reports; exit code 1 if a placement differs or a node ever exceeded its allocatable
/// amounts.
pub async fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    if flags.expect.is_some() && flags.tie_break != TieBreakFlag::Lexicographic {
        return Err(CommandError::Flags("`--expect` needs `--tie-break lexicographic`".to_owned()));
    }
    let trace = openb::read(&flags.nodes, &flags.pods)?;
    let recorded = flags.expect.as_deref().map(expected::read).transpose()?;
    // `Place` returns no total if only one node is feasible; the recording has one, so those pods are explained first.
    let single = recorded.iter().flatten().filter(|answer| answer.n_feasible == 1);
    let spec = ReplaySpec {
        tie_break: flags.tie_break.to_wire(flags.seed),
        explained: single.map(|answer| answer.pod.clone()).collect(),
    };

    let saved = flags.save.as_deref().map(OutputFile::open).transpose()?;
    let client = Client::connect_with(&flags.server, 1, &flags.credentials).await?;
    replay::feed(&client, &trace).await?;
    let (bar, on_progress) = progress("replaying", Some(trace.tasks.len() as u64));
    let start = Instant::now();
    let replay = replay::replay(&client, &trace, flags.order, &spec, on_progress).await?;
    let elapsed = start.elapsed();
    bar.finish_and_clear();
    if !flags.keep {
        client.delete_pods(&replay.left).await?;
    }

    if let Some(saved) = saved {
        saved.write(&to_csv(&replay.answers))?;
    }
    let recount = Recount::of(&trace, flags.order, &replay.answers);
    let comparison = recorded.as_deref().map(|recorded| Comparison::of(recorded, &replay.answers));
    let report = ReplayReport::new(&trace, flags.order, elapsed, replay, recount, comparison);
    print(flags.output, &report.render(), &report)?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The placements in the columns of the recorded ones. Names that contain a comma or a quote are quoted.
fn to_csv(answers: &[TaskPlacement]) -> String {
    let mut text = String::from("pod,node,total,feasible,best\n");
    for answer in answers {
        let fields = [
            quoted(&answer.pod),
            quoted(answer.node.as_deref().unwrap_or_default()),
            answer.total.map(|total| total.to_string()).unwrap_or_default(),
            answer.n_feasible.to_string(),
            answer.n_best.to_string(),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{TaskPlacement, to_csv};

    #[test]
    fn answers_are_written_as_the_recorded_ones_are() {
        let answer = |pod: &str, node: Option<&str>, total, n| TaskPlacement {
            pod: pod.to_owned(),
            node: node.map(str::to_owned),
            total,
            n_feasible: n,
            n_best: n,
        };
        let text = to_csv(&[answer("a", Some("n"), Some(467), 3), answer("b,\"c", None, None, 0)]);
        assert_eq!(text, "pod,node,total,feasible,best\na,n,467,3,3\n\"b,\"\"c\",,,0,0\n");
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&path, &text).unwrap();
        let read = crate::trace::expected::read(path.path()).unwrap();
        assert_eq!(read[1], answer("b,\"c", None, None, 0));
    }
}
