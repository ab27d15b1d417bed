//! Reads a document from a file, and adds lines to its problems.

use std::path::Path;

use super::error::{ConfigError, Problem};
use super::tree::{self, Document};

/// Returns `Err` with every problem, each with the line of its field (or of the nearest enclosing value) in `document`,
/// in the order of the lines.
pub fn located(
    origin: &str,
    document: &Document,
    problems: Vec<Problem>,
) -> Result<(), ConfigError> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(ConfigError::Invalid {
        origin: origin.to_owned(),
        problems: with_lines(document, problems),
    })
}

/// Adds the line to every problem, and sorts by it.
pub(crate) fn with_lines(document: &Document, problems: Vec<Problem>) -> Vec<Problem> {
    let located = problems.into_iter().map(|problem| {
        let line = if problem.line > 0 { problem.line } else { document.line_of(&problem.field) };
        Problem { line, ..problem }
    });
    let mut located: Vec<Problem> = located.collect();
    located.sort_by_key(|problem| problem.line);
    located
}

/// Description of a document's kind, for the error that another kind was expected.
pub(crate) fn described_kind(kind: &str, api_version: &str) -> String {
    match (kind, api_version) {
        ("", "") => "neither `kind` nor `apiVersion`".to_owned(),
        ("", version) => format!("no `kind`, and `apiVersion: {version}`"),
        (kind, "") => format!("`kind: {kind}` without `apiVersion`"),
        (kind, version) => format!("`{kind}` of `{version}`"),
    }
}

/// Reads a file as text.
///
/// # Errors
/// [`ConfigError::Read`] with the path.
pub(crate) fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

/// Parses a text; `origin` names it in errors.
///
/// # Errors
/// [`ConfigError::Syntax`] with the line.
pub(crate) fn parse(origin: &str, text: &str) -> Result<Document, ConfigError> {
    tree::parse(text).map_err(|problem| ConfigError::Syntax { origin: origin.to_owned(), problem })
}
