//! Selection of the cases to replay.

use std::path::Path;

use berth_engine::KubernetesVersion;

use super::error::ConformanceError;

/// Suites and cases to replay, and how many differences to report.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Only these suites, or groups of examples; empty means all.
    pub suites: Vec<String>,
    /// Every n-th case of a suite, starting with the first; 1 means all.
    pub every: usize,
    /// The version of Kubernetes that is followed; without it the one that the corpus's directory is named after.
    pub kubernetes_version: Option<KubernetesVersion>,
    /// Number of differences to keep per suite; all of them are counted.
    pub n_differences: usize,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { suites: Vec::new(), every: 1, kubernetes_version: None, n_differences: 10 }
    }
}

impl Selection {
    pub(super) fn is_wanted(&self, suite: &str) -> bool {
        self.suites.is_empty() || self.suites.iter().any(|wanted| wanted == suite)
    }

    /// The version to follow in a suite: the selected one, else the one at the end of its directory's name, as in
    /// `conformance-1.37`, else the default.
    pub(super) fn version_of(&self, suite: &Path) -> KubernetesVersion {
        let named = || {
            let directory = suite.parent()?.file_name()?.to_str()?;
            KubernetesVersion::from_name(directory.rsplit('-').next()?)
        };
        self.kubernetes_version.or_else(named).unwrap_or_default()
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
