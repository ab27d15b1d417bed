//! A minimal HTTP client for probes and metrics: one request a connection, without TLS.

use std::io;
use std::time::Duration;

use berth_client::Credentials;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Limit of a response; Berth sends no larger ones.
const MAX_BYTES: u64 = 16 << 20;

/// A plain HTTP address with the credentials for it.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    authority: String,
    /// The `Authorization` header with its line break; empty for an anonymous caller.
    authorization: Secret,
}

/// A text that `Debug` does not show.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Reason why an HTTP request failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL is not of the supported form.
    #[error("`{0}` is not of the form `http://HOST:PORT`; HTTP with TLS is not supported")]
    Url(String),
    /// The token cannot be read.
    #[error("{0}")]
    Credentials(String),
    /// The connection failed.
    #[error("`http://{authority}`: {source}")]
    Connection {
        /// Host and port.
        authority: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The status is not 200.
    #[error("`http://{authority}{path}`: {status}")]
    Status {
        /// Host and port.
        authority: String,
        /// Path of the request.
        path: String,
        /// First line of the response.
        status: String,
    },
}

impl Http {
    /// Checks the URL and reads the token.
    pub(crate) fn open(url: &str, credentials: &Credentials) -> Result<Http, HttpError> {
        let authority = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        if authority.contains('/')
            || !authority.contains(':')
            || authority.contains(char::is_whitespace)
        {
            return Err(HttpError::Url(url.to_owned()));
        }
        let token = credentials.authorization().map_err(HttpError::Credentials)?;
        let token = token.as_ref().and_then(|token| token.to_str().ok());
        let header = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
        Ok(Http { authority: authority.to_owned(), authorization: Secret(header) })
    }

    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect(&self.authority).await
    }

    /// Requests `path` and returns the body.
    pub(crate) async fn get(&self, path: &str) -> Result<String, HttpError> {
        let failed = |source| HttpError::Connection { authority: self.authority.clone(), source };
        let exchange = async {
            let mut stream = self.connect().await?;
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n",
                self.authority, self.authorization.0
            );
            stream.write_all(request.as_bytes()).await?;
            let mut response = Vec::new();
            stream.take(MAX_BYTES).read_to_end(&mut response).await?;
            Ok(String::from_utf8_lossy(&response).into_owned())
        };
        let timed_out = || Err(io::Error::from(io::ErrorKind::TimedOut));
        let response =
            tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| timed_out());
        let response = response.map_err(failed)?;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            let (authority, path) = (self.authority.clone(), path.to_owned());
            return Err(HttpError::Status { authority, path, status: status.to_owned() });
        }
        Ok(body.to_owned())
    }
}

/// The value of a metric without labels.
pub(super) fn value(text: &str, metric: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '))?;
    // The cast saturates; a gauge of sessions is small and whole.
    line.trim().parse::<f64>().ok().map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_bad_ones_refused() {
        for url in ["127.0.0.1:7421", "http://127.0.0.1:7421", "http://localhost:7421/"] {
            assert!(Http::open(url, &Credentials::default()).is_ok(), "{url}");
        }
        for url in ["https://localhost:7421", "localhost", "http://a:1/metrics", "a b:1"] {
            let refused = Http::open(url, &Credentials::default());
            assert!(matches!(refused, Err(HttpError::Url(_))), "{url}");
        }
    }

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP berth_sessions x\nberth_sessions_ended_total 9\nberth_sessions 3\n";
        assert_eq!(value(text, "berth_sessions"), Some(3));
        assert_eq!(value(text, "berth_session"), None);
    }
}
