//! Log lines on standard error, as text for people or JSON for programs. A panic is logged as a line too.

mod json;
mod limit;

use std::fmt;
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{JsonFields, Writer, debug_fn};

use crate::escape::printable;
use json::JsonLines;
pub(crate) use limit::LogLimit;

const FILTER: &str = "BERTH_LOG";
/// The feed logs its failed requests itself; the client below it would log them again. The transport logs what strangers
/// do, a line each; metrics count it.
const DEFAULT_FILTER: &str = "info,kube_client=off,h2=off,hyper=off";

/// How log lines are written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The format since [`start_logging`].
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Sends log lines to standard error, filtered by `BERTH_LOG` (by default `info`, without the lines of the API client and the transport).
/// A second call changes nothing.
pub fn start_logging(format: LogFormat) {
    let wanted = std::env::var(FILTER).unwrap_or_default();
    let wanted = if wanted.is_empty() { DEFAULT_FILTER } else { &wanted };
    let (filter, fault) = match EnvFilter::try_new(wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT_FILTER), Some(error)),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written is lost. Reporting that on the same standard error would panic.
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Text => builder
            .with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never)
            .with_target(false)
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .try_init(),
        LogFormat::Json => builder.fmt_fields(JsonFields::new()).event_format(JsonLines).try_init(),
    };
    // It fails only if a subscriber is installed already, and then that one is used.
    if started.is_ok() && FORMAT.set(format).is_ok() {
        panic::set_hook(Box::new(log_panic));
    }
    if let Some(error) = fault {
        tracing::warn!("`{FILTER}` is ignored: {error}");
    }
}

/// Logs why the program ends, if the format is JSON. Returns `false` for the text format: the caller then shows `text`
/// itself.
#[must_use]
pub fn log_failure(text: &str) -> bool {
    let is_json = FORMAT.get() == Some(&LogFormat::Json);
    if is_json {
        tracing::error!("{text}");
    }
    is_json
}

/// Logs a panic with its location, and with a backtrace if `RUST_BACKTRACE` is set.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = printable(text.unwrap_or("without a message"));
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => {
            tracing::error!(location, %backtrace, "a thread panicked: {text}");
        }
        _ => tracing::error!(location, "a thread panicked: {text}"),
    }
}

/// Writes one field of a text line. Values come from outside and must not begin a line of their own.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = printable(&text);
    match field.name() {
        "message" => write!(writer, "{text}"),
        name => write!(writer, "{name}={text}"),
    }
}
