//! The profiles that a command uses.

use crate::config::Config;
use crate::document::ConfigError;
use crate::policy::Profiles;

/// Loads the policies that a configuration names, or else the default one.
pub(super) fn load_profiles(config: &Config) -> Result<Profiles, ConfigError> {
    match &config.scheduler_config {
        Some(path) => Profiles::load(path),
        None => Ok(Profiles::default()),
    }
}
