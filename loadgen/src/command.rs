//! The command line: what can be asked, and where its answer goes.

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
    /// What to do.
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
    /// Find the highest rate that a server takes, offer many times that, and judge what becomes of it.
    Overload(Box<overload::Flags>),
    /// Do everything that callers do for a long time, recount the cluster all along, and judge whether memory stays flat.
    Soak(Box<soak::Flags>),
}

impl Cli {
    /// Does what was asked. Exit codes: 1 when the answer is "no" or the command failed, 2 for flags that cannot be
    /// used, 130 and 143 after an interrupt and a termination signal.
    pub async fn run(self) -> Result<ExitCode, CommandError> {
        match self.command {
            Command::Run(flags) => run::run(*flags).await,
            Command::Openb(flags) => openb::run(*flags).await,
            Command::Overload(flags) => overload::run(*flags).await,
            Command::Soak(flags) => soak::run(*flags).await,
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Flags that contradict each other.
    #[error("{0}")]
    Flags(String),
    /// A synthetic cluster that cannot be built.
    #[error("`--{}`: {}", cluster_flag(.0.field), .0.reason)]
    Spec(#[from] SpecError),
    /// The operating system does not let the command listen for signals.
    #[error("cannot listen for signals: {0}")]
    Signal(std::io::Error),
    /// A trace that cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The server, or talking to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A run that could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A replay that stopped.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A server that could not be overloaded.
    #[error(transparent)]
    Overload(#[from] OverloadError),
    /// A soak that could not be made.
    #[error(transparent)]
    Soak(#[from] SoakError),
    /// The server refused objects of the feed.
    #[error("the server refused {n} objects of the feed, first {first}")]
    Refused {
        /// How many.
        n: usize,
        /// The first one with field and reason.
        first: String,
    },
    /// A result that cannot be written.
    #[error("`{}`: cannot write: {source}", .path.display())]
    Write {
        /// The file, or `-` for the standard output.
        path: PathBuf,
        /// The operating system's account.
        source: std::io::Error,
    },
}

impl CommandError {
    /// 2 where the flags themselves are at fault, as the argument parser has it; 1 for every other failure.
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

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for people.
    Table,
    /// One JSON document for programs.
    Json,
}

/// How equal totals are to be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TieBreakFlag {
    /// As the server is configured.
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

/// A flag's positive number of seconds.
fn seconds(flag: &str, seconds: f64) -> Result<Duration, CommandError> {
    let duration = Duration::try_from_secs_f64(seconds).ok();
    duration.filter(|duration| !duration.is_zero()).ok_or_else(|| {
        let message = format!("`--{flag}`: `{seconds}` is not a positive number of seconds");
        CommandError::Flags(message)
    })
}

/// Prints a result: its text for people, or its JSON.
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

/// Says something to people, on the standard error output. Not by `eprintln!`, which panics where nobody can hear.
pub fn tell(what: Arguments<'_>) {
    drop(writeln!(std::io::stderr(), "berth-loadgen: {what}"));
}

/// A bar on the standard error output, shown only where that is a terminal.
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
