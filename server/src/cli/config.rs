//! `berth config`: checks a configuration, and prints the result. Nothing is listened on, connected to or written.

use std::process::ExitCode;

use super::CliError;
use super::output::{self, Table};
use super::profiles::load_profiles;
use super::serve::ServeArgs;
use crate::config::Config;
use crate::expander::Expander;
use crate::extender::Extender;
use crate::policy::Profiles;

/// Flags of `berth config`: those of `berth serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when the configuration can be used; 1 when it cannot; 2 for a wrong command line."
)]
pub struct ConfigArgs {
    /// Flags of the service.
    #[command(flatten)]
    serve: ServeArgs,
}

/// Resolves the configuration and the files that it names, and prints the effective settings. Certificates, tokens,
/// cluster files and the ledger are not opened: the machine that checks a configuration is often not the one that has
/// them.
///
/// # Errors
/// All errors in the configuration or the scheduling policy, with file, line and field.
pub fn run(args: &ConfigArgs) -> Result<ExitCode, CliError> {
    let config = args.serve.resolve()?;
    let profiles = load_profiles(config.scheduler_config.as_deref(), config.kubernetes_version)?;
    Expander::new(&config.expander)?;
    Extender::new(&profiles, &config.extender)
        .map_err(|error| CliError::Request(error.to_string()))?;
    output::show(&text(&config, &profiles))?;
    Ok(ExitCode::SUCCESS)
}

fn text(config: &Config, profiles: &Profiles) -> String {
    let mut table = Table::new(&["setting", "value"]);
    let protection = match (&config.tls, config.insecure) {
        (Some(_), _) => "TLS",
        (None, true) => "plain text, --insecure",
        (None, false) => "plain text",
    };
    let feed = match (&config.kube, config.cluster_files.len()) {
        (Some(_), _) => "the API server".to_owned(),
        (None, 0) => "over gRPC".to_owned(),
        (None, n) => output::count(n, "file"),
    };
    let ledger =
        config.ledger.as_ref().map_or("in memory".to_owned(), |path| path.display().to_string());
    for (name, value) in [
        ("gRPC", format!("{} ({protection})", config.grpc_address)),
        ("HTTP", format!("{} ({protection})", config.http_address)),
        ("feed", feed),
        ("ledger", ledger),
        ("Kubernetes", config.kubernetes_version.to_string()),
        ("profiles", profiles.names().collect::<Vec<_>>().join(", ")),
    ] {
        table.add_row([name.to_owned(), value]);
    }
    format!("{}\nThe configuration can be used.\n", table.text())
}
