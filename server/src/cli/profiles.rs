//! The profiles by which a command decides.

use crate::config::Config;
use crate::document::ConfigError;
use crate::policy::Profiles;

/// The policies that a configuration names; the default one where it names none.
pub(super) fn load_profiles(config: &Config) -> Result<Profiles, ConfigError> {
    match &config.scheduler_config {
        Some(path) => Profiles::load(path),
        None => Ok(Profiles::default()),
    }
}
