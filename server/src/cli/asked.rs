//! Asked: a server that a command asks, and the failures of its answers.

use berth_client::{Client, Credentials};

use super::CliError;

/// The server of a command that only a server can answer.
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
    ///
    /// # Errors
    /// The errors of [`Asked::connect`].
    pub(super) async fn connect(&self) -> Result<Asked, CliError> {
        Asked::connect(&self.server, &self.credentials).await
    }
}

/// A connection to one server.
pub(super) struct Asked {
    /// Address as it was given.
    url: String,
    pub(super) client: Client,
}

impl Asked {
    /// Connects to the server at `url`.
    ///
    /// # Errors
    /// A server that cannot be reached, credentials that cannot be used.
    pub(super) async fn connect(url: &str, credentials: &Credentials) -> Result<Asked, CliError> {
        let client = Client::connect_with(url, 1, credentials).await;
        let client = client.map_err(|error| CliError::Request(error.to_string()))?;
        Ok(Asked { url: url.to_owned(), client })
    }

    /// The response of a call.
    ///
    /// # Errors
    /// The status of a call that failed, in words.
    pub(super) fn answer<T>(
        &self,
        answer: Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, CliError> {
        match answer {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(failed(&self.url, &status)),
        }
    }
}

/// Whether the connection ended before the answer: tonic's words depend on which of its tasks noticed first.
fn is_hang_up(status: &tonic::Status) -> bool {
    match status.code() {
        tonic::Code::Cancelled => true,
        tonic::Code::Unknown => status.message() == "transport error",
        _ => false,
    }
}

fn failed(url: &str, status: &tonic::Status) -> CliError {
    // tonic's words for the answer of some other HTTP server, such as Berth's own second port: without a body, with
    // one, and with a status of its own.
    const NOT_GRPC: [&str; 3] =
        ["grpc-status header missing", "invalid compression flag", "mapped from HTTP status code"];
    let reason = if NOT_GRPC.iter().any(|words| status.message().contains(words)) {
        "something answers there, but not in gRPC; `berth serve` has gRPC and HTTP on different ports".to_owned()
    } else if is_hang_up(status) && !url.starts_with("https://") {
        // A TLS listener closes a connection that does not begin with a handshake, an HTTP/1 listener one that begins
        // with HTTP/2.
        "the connection was closed before an answer: either nothing speaks gRPC there, or it does with TLS, which takes `https://` and `--ca-file`".to_owned()
    } else {
        format!("{:?}: {}", status.code(), status.message())
    };
    CliError::Remote { server: url.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_grpc_says_so() {
        let status = tonic::Status::unimplemented(
            "grpc-status header missing, mapped from HTTP status code 404",
        );
        let error = failed("http://h:1", &status).to_string();
        assert!(
            error.starts_with("`http://h:1`: something answers there, but not in gRPC"),
            "{error}"
        );
        for status in [
            tonic::Status::cancelled("operation was canceled"),
            tonic::Status::unknown("transport error"),
        ] {
            let error = failed("http://h:1", &status).to_string();
            assert!(error.contains("which takes `https://` and `--ca-file`"), "{error}");
        }
        let status = tonic::Status::unavailable("gone");
        assert_eq!(failed("http://h:1", &status).to_string(), "`http://h:1`: Unavailable: gone");
    }
}
