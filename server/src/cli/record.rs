//! `berth record`: records a cluster that another scheduler runs.

use std::path::PathBuf;

use super::serve::ServeArgs;
use crate::config::Config;
use crate::document::ConfigError;

/// Flags of `berth record`: the directory, and those of `berth serve`, of which `--kube` is implied.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    /// Directory of the journal; it is created if it does not exist
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Flags of the server.
    #[command(flatten)]
    pub serve: ServeArgs,
}

impl RecordArgs {
    /// Defaults, overridden by the file, the environment and the flags, in this order.
    ///
    /// # Errors
    /// The errors of [`Config::resolve`]; a file or flag that says something else than this command.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        let mut overrides = self.serve.overrides.clone();
        if overrides.kube.kube == Some(false) {
            return refused("--kube", "`berth record` is fed by the API server");
        }
        if overrides.journal.journal_directory.is_some() {
            return refused("--journal", "`berth record` is given its directory as DIR");
        }
        overrides.kube.kube = Some(true);
        overrides.journal.journal_directory = Some(self.directory.clone());
        Config::resolve(self.serve.config.as_deref(), &overrides)
    }
}

fn refused<T>(flag: &str, reason: &str) -> Result<T, ConfigError> {
    Err(ConfigError::Setting { name: flag.to_owned(), reason: reason.to_owned() })
}
