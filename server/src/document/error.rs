//! Errors of documents that an operator writes: configuration files, policies, token files.

use std::fmt;
use std::path::PathBuf;

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
