//! Output of commands: tables and sentences for people, JSON and YAML for programs.
//!
//! Names of objects cannot control a terminal: control characters are shown, not sent.

mod paint;
mod table;

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write as _};

use anstream::{AutoStream, ColorChoice};
use berth_proto::berth_v1::{ClaimBinding, VolumeBindings};
use clap::ValueEnum;
use serde::Serialize;

use crate::escape::{self, printable, printable_lines};
pub(super) use crate::words::{count, grouped};
pub(super) use table::Table;

/// Output format of a command.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Table for people.
    #[default]
    Table,
    /// One JSON value.
    Json,
    /// One YAML document.
    Yaml,
}

/// An answer for programs: the response, with the suppositions that it rests on and remarks.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answered<'a, A> {
    #[serde(flatten)]
    pub(super) answer: A,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) what_if: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) notes: &'a [String],
}

/// An answer for people: the line of the suppositions, if there are any, and the sections, with empty lines between.
pub(super) fn sections(
    what_if: Option<&str>,
    sections: impl IntoIterator<Item = String>,
) -> String {
    let sections = what_if.map(str::to_owned).into_iter().chain(sections);
    sections.collect::<Vec<_>>().join("\n\n")
}

/// Writes an answer: as `text` says for people, as the value itself for programs.
pub(super) fn answer(
    format: Format,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> io::Result<()> {
    match structured(format, value)? {
        Some(structured) => print(&structured),
        None => show(&text()),
    }
}

/// Writes an answer for people to standard output, control characters escaped. On a terminal, lines are broken between
/// words, and painted unless `NO_COLOR` is set.
pub(super) fn show(text: &str) -> io::Result<()> {
    let text = printable_lines(text);
    let text = match table::terminal_width() {
        Some(width) => Cow::Owned(wrapped(&text, width.into())),
        None => text,
    };
    match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => print(&text),
        ColorChoice::Auto | ColorChoice::AlwaysAnsi | ColorChoice::Always => {
            print(&paint::painted(&text))
        }
    }
}

/// Breaks lines of more than `width` columns between words.
fn wrapped(text: &str, width: usize) -> String {
    let options = textwrap::Options::new(width)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    text.lines().flat_map(|line| textwrap::wrap(line, &options)).collect::<Vec<_>>().join("\n")
}

/// Writes `text` and a line break to standard output, for programs. A closed reader (`| head`) is not an error.
pub(super) fn print(text: &str) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes `text` and a line break to standard error: notes that are not part of the answer.
pub(super) fn note(text: &str) {
    // If standard error is closed the note is lost.
    drop(writeln!(io::stderr().lock(), "{}", printable(text)));
}

/// Formats `value` for programs; `None` for [`Format::Table`], which each command draws itself.
pub(super) fn structured(format: Format, value: &impl Serialize) -> io::Result<Option<String>> {
    match format {
        Format::Table => Ok(None),
        Format::Json => {
            let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
            Ok(Some(escape::json(&text).into_owned()))
        }
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
            Ok(Some(text.trim_end().to_owned()))
        }
    }
}

/// Describes the bindings of a pod's claims: ``binds claim `data` to volume `pv-1`, provisions claim `logs` ``.
pub(super) fn volumes(volumes: &VolumeBindings) -> String {
    let bound = volumes.bound.iter().map(|ClaimBinding { claim, persistent_volume }| {
        format!("binds claim `{claim}` to volume `{persistent_volume}`")
    });
    let provisioned = volumes.provisioned.iter().map(|claim| format!("provisions claim `{claim}`"));
    bound.chain(provisioned).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::steers;

    #[test]
    fn bindings_are_described_in_words() {
        let claim_binding = |claim: &str, volume: &str| ClaimBinding {
            claim: claim.to_owned(),
            persistent_volume: volume.to_owned(),
        };
        let bindings = VolumeBindings {
            bound: vec![claim_binding("data", "pv-1")],
            provisioned: vec!["logs".to_owned(), "tmp".to_owned()],
        };
        assert_eq!(
            volumes(&bindings),
            "binds claim `data` to volume `pv-1`, provisions claim `logs`, provisions claim `tmp`"
        );
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{9b}1m\u{7f}"), "a\\u{1b}[2J\\nb\\u{9b}1m\\u{7f}");
        assert_eq!(printable("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(printable_lines("a\nb\r"), "a\nb\\r");
        assert!(matches!(printable("plain µ …"), Cow::Borrowed(_)));
        let value = serde_json::json!({"name": "a\u{1b}b\u{9b}c"});
        for format in [Format::Json, Format::Yaml] {
            let text = structured(format, &value).unwrap().unwrap();
            assert!(!text.contains(|c: char| c != '\n' && steers(c)), "{text:?}");
        }
        let text = structured(Format::Json, &value).unwrap().unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn lines_are_broken_between_words() {
        let text = "a line of words\n\n  POD  NODE\none/very-long-name";
        assert_eq!(wrapped(text, 12), "a line of\nwords\n\n  POD  NODE\none/very-long-name");
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(count(1_u64, "node"), "1 node");
        assert_eq!(count(0_usize, "node"), "0 nodes");
        assert_eq!(count(1_234_567_u32, "pod"), "1,234,567 pods");
        assert_eq!(grouped(100_u64), "100");
    }

    #[test]
    fn structured_formats() {
        let value = serde_json::json!({"a": [1, "x"]});
        assert_eq!(structured(Format::Table, &value).unwrap(), None);
        assert_eq!(
            structured(Format::Json, &value).unwrap().unwrap(),
            "{\n  \"a\": [\n    1,\n    \"x\"\n  ]\n}"
        );
        assert!(structured(Format::Yaml, &value).unwrap().unwrap().starts_with("a:\n"));
    }
}
