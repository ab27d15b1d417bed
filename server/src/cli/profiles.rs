//! The profiles that a command uses.

use std::path::Path;

use berth_engine::KubernetesVersion;

use crate::document::ConfigError;
use crate::policy::Profiles;
use crate::policy::configuration::DEFAULT_SCHEDULER_NAME;

/// Loads the policies of a KubeSchedulerConfiguration, or else the default one of the version.
pub(super) fn load_profiles(
    path: Option<&Path>,
    kubernetes: KubernetesVersion,
) -> Result<Profiles, ConfigError> {
    match path {
        Some(path) => Profiles::load(path, kubernetes),
        None => Ok(Profiles::of_version(DEFAULT_SCHEDULER_NAME, kubernetes)),
    }
}
