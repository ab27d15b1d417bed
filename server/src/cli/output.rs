//! Output of commands: tables for people, JSON and YAML for programs.
//!
//! Names of objects cannot control a terminal: control characters are shown, not sent.

use std::io::{self, ErrorKind, Write as _};

use berth_proto::berth_v1::{ClaimBinding, VolumeBindings};
use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, presets};
use serde::Serialize;

use crate::escape::{self, printable};
pub(super) use crate::words::{count, grouped};

/// Minimum width of a wrapped column: below it the terminal may as well break the long line.
const MIN_WRAPPED_WIDTH: u16 = 30;
/// Number of blanks between two columns.
const GAP: u16 = 2;

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

/// Rows under headings. Cells are never broken, so that `grep` and `cut` see whole names; only the column set with
/// [`Table::wrapping`] is fitted to the terminal, if there is one.
pub(super) struct Table {
    inner: comfy_table::Table,
    wrapped: Option<usize>,
}

impl Table {
    /// A table with these headings.
    pub(super) fn new(headings: &[&str]) -> Table {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING);
        inner.set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(headings.iter().copied());
        Table { inner, wrapped: None }
    }

    /// Lets column `index` (from 0), which has sentences and not names, take several lines on a narrow terminal.
    pub(super) fn wrapping(mut self, index: usize) -> Table {
        self.wrapped = Some(index);
        self
    }

    /// Adds a row; control characters are escaped.
    pub(super) fn add_row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let cells: Vec<String> =
            cells.into_iter().map(|cell| printable(cell.as_ref()).into_owned()).collect();
        self.inner.add_row(cells);
    }

    /// The text, without the padding of the last column and the margin of the first.
    pub(super) fn text(&self) -> String {
        // A terminal that does not know its width reports 0.
        self.text_for(self.inner.width().filter(|width| *width > 0))
    }

    fn text_for(&self, width: Option<u16>) -> String {
        let mut table = self.inner.clone();
        if let (Some(width), Some(wrapped)) = (width, self.wrapped)
            && self.room(wrapped, width) >= MIN_WRAPPED_WIDTH
        {
            for (index, column) in table.column_iter_mut().enumerate() {
                if index != wrapped {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
            table.set_content_arrangement(ContentArrangement::Dynamic);
            // The outer margins are removed below.
            table.set_width(width.saturating_add(GAP));
        }
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned())
            .collect();
        lines.join("\n")
    }

    /// Width that the other columns leave of `width` for column `index`.
    fn room(&self, index: usize, width: u16) -> u16 {
        let widths = self.inner.column_max_content_widths();
        let others = widths.iter().enumerate().filter(|(column, _)| *column != index);
        others.fold(width, |room, (_, taken)| room.saturating_sub(taken.saturating_add(GAP)))
    }
}

/// Writes `text` and a line break to standard output. A closed reader (`| head`) is not an error.
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
    use std::borrow::Cow;

    use super::*;
    use crate::escape::{printable_lines, steers};

    #[test]
    fn tables_are_plain_and_unpadded() {
        let mut table = Table::new(&["POD", "NODE"]);
        table.add_row(["default/web", "n1"]);
        table.add_row(["a/b", "a-longer-node-name"]);
        let expected = "POD          NODE\ndefault/web  n1\na/b          a-longer-node-name";
        assert_eq!(table.text_for(None), expected);
        assert_eq!(table.text_for(Some(10)), expected, "no column may be broken");
    }

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
    fn only_the_wrapping_column_is_fitted_to_the_terminal() {
        let name = "default/".to_owned() + &"n".repeat(30);
        let mut table = Table::new(&["POD", "MESSAGE", "NODE"]).wrapping(1);
        let message = "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu.";
        table.add_row([name.as_str(), message, "n1"]);
        let text = table.text_for(Some(80));
        assert!(text.lines().count() > 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().any(|line| line.starts_with(&name)), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        for word in message.split_whitespace() {
            assert!(words.contains(&word), "{word} is broken in\n{text}");
        }
        // Too narrow for a sentence: nothing is wrapped.
        assert_eq!(table.text_for(Some(60)), table.text_for(None));
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{9b}1m\u{7f}"), "a\\u{1b}[2J\\nb\\u{9b}1m\\u{7f}");
        assert_eq!(printable("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(printable_lines("a\nb\r"), "a\nb\\r");
        assert!(matches!(printable("plain µ …"), Cow::Borrowed(_)));
        let mut table = Table::new(&["POD"]);
        table.add_row(["a\r\u{1b}]0;x\u{7}"]);
        assert_eq!(table.text_for(None), "POD\na\\r\\u{1b}]0;x\\u{7}");
        let value = serde_json::json!({"name": "a\u{1b}b\u{9b}c"});
        for format in [Format::Json, Format::Yaml] {
            let text = structured(format, &value).unwrap().unwrap();
            assert!(!text.contains(|c: char| c != '\n' && steers(c)), "{text:?}");
        }
        let text = structured(Format::Json, &value).unwrap().unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
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
