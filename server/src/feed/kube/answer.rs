//! Answer: the error response of a server.

use std::fmt;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use crate::escape::printable;

/// Maximum number of characters of a refusal's text that are kept.
const MAX_MESSAGE: usize = 300;
/// Maximum of the delay that a server requests: after it the request is repeated all the same.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// An error status: over HTTP, or as an `ERROR` event in a stream that began well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// HTTP status, 0 if an event has none.
    pub code: u16,
    /// Message of the server, made safe to show; may be empty.
    pub message: String,
    /// Delay before a retry, as the server requests.
    pub retry_after: Option<Duration>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Status {
    message: Option<String>,
    code: Option<u16>,
    details: Option<Details>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u64>,
}

impl Refusal {
    pub(super) fn of_event(json: &str) -> Refusal {
        let status: Status = serde_json::from_str(json).unwrap_or_default();
        Refusal::of(status.code.unwrap_or(0), &status, None)
    }

    pub(super) fn of_response(code: u16, headers: &HeaderMap, body: &[u8]) -> Refusal {
        // Proxies respond in HTML or plain text.
        let status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
            message: Some(String::from_utf8_lossy(body).trim().to_owned()),
            ..Status::default()
        });
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Refusal::of(code, &status, header)
    }

    fn of(code: u16, status: &Status, retry_after: Option<u64>) -> Refusal {
        let text: String =
            status.message.as_deref().unwrap_or_default().chars().take(MAX_MESSAGE).collect();
        let from_details = status.details.as_ref().and_then(|details| details.retry_after_seconds);
        let retry_after = retry_after.or(from_details).map(Duration::from_secs);
        Refusal {
            code,
            message: printable(&text).into_owned(),
            retry_after: retry_after.map(|after| after.min(MAX_RETRY_AFTER)),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_or_any_other_text_is_read() {
        let mut headers = HeaderMap::new();
        let body = br#"{"kind":"Status","message":"pods is forbidden","code":403}"#;
        let refusal = Refusal::of_response(403, &headers, body);
        assert_eq!(refusal.to_string(), "403: pods is forbidden");
        headers.insert(RETRY_AFTER, "1".parse().unwrap());
        let refusal = Refusal::of_response(429, &headers, b"slow\x1b[31m down\n");
        assert_eq!(refusal.to_string(), "429: slow\\u{1b}[31m down");
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(1)));
        headers.insert(RETRY_AFTER, "99999".parse().unwrap());
        let refusal = Refusal::of_response(503, &headers, b"");
        assert_eq!(
            (refusal.to_string(), refusal.retry_after),
            ("503".to_owned(), Some(MAX_RETRY_AFTER))
        );
        let event =
            Refusal::of_event(r#"{"code":410,"message":"gone","details":{"retryAfterSeconds":2}}"#);
        assert_eq!(event.retry_after, Some(Duration::from_secs(2)));
        assert_eq!(Refusal::of_event("[]").code, 0);
    }
}
