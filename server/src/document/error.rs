//! Errors of documents that an operator writes: configuration files, policies, token files.

use std::fmt;
use std::path::PathBuf;

/// Reason why a configuration cannot be used. Its text names the file and, if known, the line and the field.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The text is neither YAML nor JSON.
    #[error("`{origin}` {problem}")]
    Syntax {
        /// File name, or another name of the source.
        origin: String,
        /// The position and reason of the error; it names no field.
        problem: Problem,
    },
    /// The text is well formed but its contents are invalid. All problems of one stage are listed (S-CFG-4).
    #[error("{}", list_problems(origin, problems))]
    Invalid {
        /// File name, or another name of the source.
        origin: String,
        /// Problems, at least one.
        problems: Vec<Problem>,
    },
    /// A flag or a `BERTH_*` variable holds an unusable value.
    #[error("{name}: {reason}")]
    Setting {
        /// `--flag` or the variable's name.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// One problem with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1; 0 if it is not known.
    pub line: u64,
    /// Path such as `profiles[0].pluginConfig[1].args.hardPodAffinityWeight`; empty for the document as a whole.
    pub field: String,
    /// The reason, in lower case and without a full stop.
    pub reason: String,
}

impl Problem {
    /// A problem without a line, which [`located`] looks up later.
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
