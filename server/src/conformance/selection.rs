//! Selection of the cases to replay.

use std::path::Path;

use super::error::ConformanceError;

/// Suites and cases to replay, and how many differences to report.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Only these suites, or groups of examples; empty means all.
    pub suites: Vec<String>,
    /// Every n-th case of a suite, starting with the first; 1 means all.
    pub every: usize,
    /// Number of differences to keep per suite; all of them are counted.
    pub n_differences: usize,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { suites: Vec::new(), every: 1, n_differences: 10 }
    }
}

impl Selection {
    pub(super) fn is_wanted(&self, suite: &str) -> bool {
        self.suites.is_empty() || self.suites.iter().any(|wanted| wanted == suite)
    }
}

/// Checks that every selected suite exists.
pub(super) fn all_known(
    asked_for: &[String],
    known: &[&str],
    path: &Path,
) -> Result<(), ConformanceError> {
    match asked_for.iter().find(|suite| !known.contains(&suite.as_str())) {
        Some(suite) => Err(ConformanceError::UnknownSuite {
            suite: suite.clone(),
            path: path.to_owned(),
            known: known.join(", "),
        }),
        None => Ok(()),
    }
}
