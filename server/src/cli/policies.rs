//! Policies that a command is given by name.

use std::path::{Path, PathBuf};

use berth_engine::KubernetesVersion;

use super::profiles::load_profiles;
use crate::document::ConfigError;
use crate::policy::Profiles;

/// A KubeSchedulerConfiguration, or kube-scheduler's own default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PolicyArg {
    Default,
    File(PathBuf),
}

/// Name of kube-scheduler's own default.
const DEFAULT: &str = "default";

#[expect(clippy::unnecessary_wraps, reason = "the form of a parser of arguments")]
pub(super) fn parse_policy(text: &str) -> Result<PolicyArg, String> {
    Ok(match text {
        DEFAULT => PolicyArg::Default,
        path => PolicyArg::File(path.into()),
    })
}

impl PolicyArg {
    /// The file's name without its ending.
    pub(super) fn name(&self) -> String {
        match self {
            PolicyArg::Default => DEFAULT.to_owned(),
            PolicyArg::File(path) => {
                path.file_stem().map_or_else(String::new, |it| it.to_string_lossy().into_owned())
            }
        }
    }

    /// # Errors
    /// [`ConfigError`]: the file cannot be used.
    pub(super) fn load(&self) -> Result<Profiles, ConfigError> {
        let path: Option<&Path> = match self {
            PolicyArg::Default => None,
            PolicyArg::File(path) => Some(path),
        };
        load_profiles(path, KubernetesVersion::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_named_as_its_file() {
        let name = |text: &str| parse_policy(text).unwrap().name();
        assert_eq!(name("default"), "default");
        assert_eq!(name("policies/tight.yaml"), "tight");
        assert_eq!(name("./default"), "default", "a file of that name");
        let missing = parse_policy("missing.yaml").unwrap().load().unwrap_err().to_string();
        assert!(missing.contains("missing.yaml"), "{missing}");
    }
}
