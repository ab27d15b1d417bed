//! Log lines: to standard error, for people or for programs.

use std::fmt;
use std::io::IsTerminal as _;

use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::escape::printable;

const FILTER: &str = "BERTH_LOG";
/// The feed says what becomes of its requests; the client below it would say it once more.
const DEFAULT_FILTER: &str = "info,kube_client=off";

/// How log lines are written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends log lines to standard error, filtered by `BERTH_LOG` (`info` when unset, without the API client's own). A second call changes nothing.
pub fn start_logging(format: LogFormat) {
    let wanted = std::env::var(FILTER).unwrap_or_default();
    let wanted = if wanted.is_empty() { DEFAULT_FILTER } else { &wanted };
    let (filter, fault) = match EnvFilter::try_new(wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT_FILTER), Some(error)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // The only failure is that a subscriber is there already, and that one serves.
    drop(match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    });
    if let Some(error) = fault {
        tracing::warn!("`{FILTER}` is ignored: {error}");
    }
}

/// One field of a text line. Names come from outside: one of them must not begin a line of its own.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = printable(&text);
    match field.name() {
        "message" => write!(writer, "{text}"),
        name => write!(writer, "{name}={text}"),
    }
}
