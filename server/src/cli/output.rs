//! How commands print: tables for people, JSON and YAML for programs.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// The form of a command's answer.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON value.
    Json,
    /// One YAML document.
    Yaml,
}

/// A table with these headings. On a terminal it is fitted to the width; elsewhere lines are never broken, so that
/// `grep` and `cut` see whole cells.
pub(super) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let arrangement = if io::stdout().is_terminal() {
        ContentArrangement::Dynamic
    } else {
        ContentArrangement::Disabled
    };
    table.set_content_arrangement(arrangement);
    table.set_header(headings.iter().copied());
    table
}

/// The table's text, without the blanks that pad the last column and the first one's margin.
pub(super) fn table_text(table: &Table) -> String {
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// Writes `text` and a line break to standard output. A reader that went away (`| head`) is not an error.
pub(super) fn print(text: &str) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes `text` and a line break to standard error: notes that are no part of the answer.
pub(super) fn note(text: &str) {
    // Nobody is left to hear of a closed standard error.
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// `value` in a format for programs; `None` for [`Format::Table`], which each command draws itself.
pub(super) fn structured(format: Format, value: &impl Serialize) -> io::Result<Option<String>> {
    match format {
        Format::Table => Ok(None),
        Format::Json => serde_json::to_string_pretty(value).map(Some).map_err(io::Error::other),
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
            Ok(Some(text.trim_end().to_owned()))
        }
    }
}

/// `1 node`, `2 nodes`, `12,345 nodes`.
pub(super) fn count(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(n))
}

/// Digits in groups of three.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_plain_and_unpadded() {
        let mut table = table(&["POD", "NODE"]);
        table.add_row(["default/web", "n1"]);
        table.add_row(["a/b", "a-longer-node-name"]);
        assert_eq!(
            table_text(&table),
            "POD          NODE\ndefault/web  n1\na/b          a-longer-node-name"
        );
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(count(1, "node"), "1 node");
        assert_eq!(count(0, "node"), "0 nodes");
        assert_eq!(count(1_234_567, "pod"), "1,234,567 pods");
        assert_eq!(grouped(100), "100");
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
