//! What the operator decides: the service's own configuration and the scheduling policy.
//!
//! Both files are read by the same strict reader: a [`document::Document`] keeps every line and every duplicate key, and
//! [`decode`] takes the known fields out of it and reports all that is left.

use std::fmt;
use std::path::{Path, PathBuf};

pub mod audit;
pub mod auth;
pub mod decode;
pub mod document;
pub mod duration;
pub mod expander;
pub mod extender;
pub mod file;
pub mod kube;
pub mod limits;
pub mod policy;
pub mod tls;
pub mod tracing;

pub use audit::{AuditOptions, AuditTarget};
pub use auth::AuthOptions;
pub use expander::{ExpanderConfig, ExpanderSection};
pub use extender::ExtenderOptions;
pub use file::{Config, Overrides};
pub use kube::KubeOptions;
pub use tls::TlsFiles;

use document::Document;

/// Why a configuration cannot be used. Its text names the file and, where there is one, the line and the field.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file that was asked for.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The text is neither YAML nor JSON.
    #[error("`{origin}` {problem}")]
    Syntax {
        /// File name, or what else the text came from.
        origin: String,
        /// Where the text stops making sense, and why; it names no field.
        problem: Problem,
    },
    /// The text is well formed but says something that it may not. All problems of one stage are listed (S-CFG-4).
    #[error("{}", list_problems(origin, problems))]
    Invalid {
        /// File name, or what else the text came from.
        origin: String,
        /// At least one.
        problems: Vec<Problem>,
    },
    /// A flag or a `BERTH_*` variable holds an unusable value.
    #[error("{name}: {reason}")]
    Setting {
        /// `--flag` or the variable's name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1; 0 when the text has none.
    pub line: u64,
    /// Path such as `profiles[0].pluginConfig[1].args.hardPodAffinityWeight`; empty for the document as a whole.
    pub field: String,
    /// What is wrong, lower case, no full stop.
    pub reason: String,
}

impl Problem {
    /// A problem whose line is looked up later, by [`located`].
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Problem {
        Problem { line: 0, field: field.into(), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field)?;
        }
        f.write_str(&self.reason)
    }
}

/// `Err` with every problem, each given the line of its field (or of the nearest thing around it) in `document`, in the
/// order of the lines.
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

/// Gives every problem its line, and sorts by it.
fn with_lines(document: &Document, problems: Vec<Problem>) -> Vec<Problem> {
    let located = problems.into_iter().map(|problem| {
        let line = if problem.line > 0 { problem.line } else { document.line_of(&problem.field) };
        Problem { line, ..problem }
    });
    let mut located: Vec<Problem> = located.collect();
    located.sort_by_key(|problem| problem.line);
    located
}

/// What a document says it is, for the error that another kind was expected.
fn described_kind(kind: &str, api_version: &str) -> String {
    match (kind, api_version) {
        ("", "") => "neither `kind` nor `apiVersion`".to_owned(),
        ("", version) => format!("no `kind`, and `apiVersion: {version}`"),
        (kind, "") => format!("`kind: {kind}` without `apiVersion`"),
        (kind, version) => format!("`{kind}` of `{version}`"),
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

fn parse(origin: &str, text: &str) -> Result<Document, ConfigError> {
    document::parse(text)
        .map_err(|problem| ConfigError::Syntax { origin: origin.to_owned(), problem })
}

fn list_problems(origin: &str, problems: &[Problem]) -> String {
    match problems {
        [problem] => format!("`{origin}` {problem}"),
        _ => {
            let lines: Vec<String> =
                problems.iter().map(|problem| format!("\n  {problem}")).collect();
            format!("`{origin}` has {} problems:{}", problems.len(), lines.concat())
        }
    }
}
