//! Asked: the server of a command that only a server can answer.

use berth_client::{Client, Credentials};

use super::CliError;

/// The server to ask.
#[derive(Clone, Debug, clap::Args)]
pub struct AskedArgs {
    /// Server to ask
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7420")]
    pub server: String,
    /// Trusted authorities, and the client's credentials.
    #[command(flatten)]
    pub credentials: Credentials,
}

impl AskedArgs {
    /// Connects to the server.
    pub(super) async fn connect(&self) -> Result<Client, CliError> {
        connect(&self.server, &self.credentials).await
    }
}

/// Connects to the server at `url`.
///
/// # Errors
/// A server that cannot be reached, credentials that cannot be used.
pub(super) async fn connect(url: &str, credentials: &Credentials) -> Result<Client, CliError> {
    Client::connect_with(url, 1, credentials)
        .await
        .map_err(|error| CliError::Request(error.to_string()))
}

/// The failure of a call.
pub(super) fn refused(status: &tonic::Status) -> CliError {
    CliError::Request(format!("{:?}: {}", status.code(), status.message()))
}
