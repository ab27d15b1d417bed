//! Log lines: to standard error, for people or for programs.

use std::borrow::Cow;
use std::fmt;
use std::io::IsTerminal as _;

use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

const FILTER: &str = "BERTH_LOG";
const DEFAULT_FILTER: &str = "info";

/// How log lines are written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends log lines to standard error, filtered by `BERTH_LOG` (`info` when unset). A second call changes nothing.
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
    let text = escape_controls(&text);
    match field.name() {
        "message" => write!(writer, "{text}"),
        name => write!(writer, "{name}={text}"),
    }
}

/// `text` with control characters, and those that turn the direction of writing, written out: `\n`, `\u{1b}`.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_control(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert!(matches!(escape_controls("plain ж 日本"), Cow::Borrowed(_)));
        assert_eq!(escape_controls("a\n\u{1b}[31m\u{202e}b\t"), "a\\n\\u{1b}[31m\\u{202e}b\\t");
    }
}
