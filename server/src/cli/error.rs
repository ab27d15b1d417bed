//! Reasons for which a command fails.

use std::io;

use crate::apiserver::ConnectError;
use crate::document::ConfigError;
use crate::feed::FeedError;
use crate::runtime::StartError;

/// Reason why a command failed, as one line for people.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A configuration that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A cluster or pod file that cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// An API server that cannot be called.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A server that did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The threads of the program cannot be started.
    #[error("cannot start the threads: {0}")]
    Threads(io::Error),
    /// Signals cannot be received.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A server that cannot be reached or answered with an error.
    #[error("`{server}`: {reason}")]
    Remote {
        /// Address as it was given.
        server: String,
        /// The server's error, or the reason why it could not be called.
        reason: String,
    },
    /// Any other request on the command line that cannot be carried out.
    #[error("{0}")]
    Request(String),
}

impl CliError {
    /// The error of a request, with the flag that was given in the place of the field of the message.
    pub(super) fn naming(self, field: &str, flag: &str) -> CliError {
        let named = |text: &str| text.replacen(&format!("`{field}`: "), &format!("`{flag}`: "), 1);
        match self {
            CliError::Remote { server, reason } => {
                CliError::Remote { server, reason: named(&reason) }
            }
            CliError::Request(reason) => CliError::Request(named(&reason)),
            other => other,
        }
    }
}
