//! The command line of `berth-loadgen`: commands, errors, exit codes and output.

mod feed;
mod interrupt;
pub mod openb;
mod output_file;
pub mod overload;
pub mod run;
pub mod soak;

use std::fmt::Arguments;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use berth_client::{ClientError, OnProgress};
use berth_proto::berth_v1::{TieBreak, TieBreakRule};
use berth_synthetic::cluster::SpecError;
use clap::{Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::load::LoadError;
use crate::overload::OverloadError;
use crate::soak::SoakError;
use crate::trace::TraceError;
use crate::trace::replay::ReplayError;

/// Puts load on a running Berth and reports what it answered.
#[derive(Debug, Parser)]
#[command(name = "berth-loadgen", version, about, max_term_width = 110)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The closed list of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Place a synthetic workload and measure it.
    Run(Box<run::Flags>),
    /// Replay the openb trace and compare with recorded answers.
    Openb(Box<openb::Flags>),
    /// Find the highest rate that a server takes, send several times that rate, and judge the server's behaviour.
    Overload(Box<overload::Flags>),
    /// Make calls of all kinds for a long time, recount the cluster regularly, and judge whether memory stays flat.
    Soak(Box<soak::Flags>),
}

impl Cli {
    /// Runs the command. Exit codes: 1 if the result is negative or the command failed, 2 for invalid flags, 130 and
    /// 143 after an interrupt and a termination signal.
    pub async fn run(self) -> Result<ExitCode, CommandError> {
        match self.command {
            Command::Run(flags) => run::run(*flags).await,
            Command::Openb(flags) => openb::run(*flags).await,
            Command::Overload(flags) => overload::run(*flags).await,
            Command::Soak(flags) => soak::run(*flags).await,
        }
    }
}

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Flags that contradict each other.
    #[error("{0}")]
    Flags(String),
    /// The settings of the synthetic cluster are invalid.
    #[error("`--{}`: {}", cluster_flag(.0.field), .0.reason)]
    Spec(#[from] SpecError),
    /// The operating system refuses to deliver signals to the command.
    #[error("cannot listen for signals: {0}")]
    Signal(std::io::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A call of the client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The load run failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The replay failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The overload could not be run.
    #[error(transparent)]
    Overload(#[from] OverloadError),
    /// The soak could not be run.
    #[error(transparent)]
    Soak(#[from] SoakError),
    /// The server refused objects of the feed.
    #[error("the server refused {n} objects of the feed, first {first}")]
    Refused {
        /// Number of refused objects.
        n: usize,
        /// The first refused object with field and reason.
        first: String,
    },
    /// A result cannot be written.
    #[error("`{}`: cannot write: {source}", .path.display())]
    Write {
        /// The file, or `-` for the standard output.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl CommandError {
    /// Exit code 2 for invalid flags, as the argument parser has it; 1 for every other failure.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            CommandError::Flags(_)
            | CommandError::Spec(_)
            | CommandError::Load(LoadError::Spec { .. })
            | CommandError::Overload(OverloadError::Spec { .. })
            | CommandError::Soak(SoakError::Spec { .. })
            | CommandError::Client(ClientError::Url { .. }) => ExitCode::from(2),
            CommandError::Trace(_)
            | CommandError::Client(_)
            | CommandError::Load(_)
            | CommandError::Replay(_)
            | CommandError::Overload(_)
            | CommandError::Soak(_)
            | CommandError::Refused { .. }
            | CommandError::Signal(_)
            | CommandError::Write { .. } => ExitCode::FAILURE,
        }
    }
}

/// The flag of `run` that sets a field of the cluster's specification.
fn cluster_flag(field: &str) -> String {
    match field {
        "n_nodes" | "n_zones" => field.trim_start_matches("n_").to_owned(),
        field => field.replace('_', "-"),
    }
}

/// Format of the printed results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for people.
    Table,
    /// One JSON document for programs.
    Json,
}

/// Rule for nodes with equal totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TieBreakFlag {
    /// The server's own rule.
    Server,
    /// By a hash of seed, pod and node.
    Seeded,
    /// The node whose name sorts first.
    Lexicographic,
}

impl TieBreakFlag {
    fn to_wire(self, seed: u64) -> Option<TieBreak> {
        let rule = match self {
            TieBreakFlag::Server => return None,
            TieBreakFlag::Seeded => TieBreakRule::Seeded,
            TieBreakFlag::Lexicographic => TieBreakRule::Lexicographic,
        };
        Some(TieBreak { rule: rule.into(), seed })
    }
}

/// Parses a flag's positive number of seconds.
fn seconds(flag: &str, seconds: f64) -> Result<Duration, CommandError> {
    let duration = Duration::try_from_secs_f64(seconds).ok();
    duration.filter(|duration| !duration.is_zero()).ok_or_else(|| {
        let message = format!("`--{flag}`: `{seconds}` is not a positive number of seconds");
        CommandError::Flags(message)
    })
}

/// Prints a result as text or as JSON.
fn print(output: Output, text: &str, json: &impl serde::Serialize) -> Result<(), CommandError> {
    let stdout_error = |source| CommandError::Write { path: PathBuf::from("-"), source };
    let mut stdout = std::io::stdout().lock();
    match output {
        Output::Table => stdout.write_all(text.as_bytes()),
        Output::Json => serde_json::to_writer_pretty(&mut stdout, json)
            .map_err(std::io::Error::from)
            .and_then(|()| stdout.write_all(b"\n")),
    }
    .and_then(|()| stdout.flush())
    .map_err(stdout_error)
}

/// Prints a message on standard error. `eprintln!` would panic if standard error is closed.
pub fn print_message(message: Arguments<'_>) {
    drop(writeln!(std::io::stderr(), "berth-loadgen: {message}"));
}

/// A progress bar on standard error, shown only on a terminal.
fn progress(what: &'static str, length: Option<u64>) -> (ProgressBar, OnProgress) {
    let (bar, template) = match length {
        Some(length) => {
            (ProgressBar::new(length), "{msg:>10} {wide_bar} {human_pos}/{human_len} {eta}")
        }
        None => (ProgressBar::no_length(), "{msg:>10} {spinner} {human_pos} {per_sec}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    let shared = bar.clone();
    (bar, std::sync::Arc::new(move |n| shared.inc(n)))
}
