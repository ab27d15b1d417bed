//! Call: one request to the API server, and the meaning of its outcome for the caller.

use std::future::Future;
use std::time::Duration;

use super::causes::with_causes;
use super::leadership::Mandate;
use crate::{clock, escape};

/// Time after which the answer to a request counts as lost.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const N_TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum of the pause that the server requests: after it the request is sent again all the same.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Maximum size of a refusal's text that is kept, in bytes: some quote the whole object.
const MAX_MESSAGE_BYTES: usize = 1_024;

/// How a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The server refused, and did nothing.
    #[error("the API server refused with {code}: {message}")]
    Refused {
        /// HTTP status, 400 to 499.
        code: u16,
        /// The machine-readable reason, such as `Conflict`; empty when there is none.
        reason: String,
        /// Message of the server, safe to show.
        message: String,
        /// Pause that the server requested.
        retry_after: Option<Duration>,
    },
    /// The request may have been carried out or not: no answer, a truncated one, or a status of 500 to 599.
    #[error("no usable answer from the API server: {reason}")]
    Unknown {
        /// HTTP status, if there was an answer.
        code: Option<u16>,
        /// The error, safe to show.
        reason: String,
    },
    /// The request was not sent: this instance does not lead any more.
    #[error("not sent, for another instance may lead by now")]
    Overtaken,
}

impl CallFailure {
    /// The HTTP status of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            CallFailure::Refused { code, .. } => Some(*code),
            CallFailure::Unknown { .. } | CallFailure::Overtaken => None,
        }
    }
}

/// Sends a request and waits for its answer, for 30 s at most.
///
/// # Errors
/// [`CallFailure`].
pub async fn call<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallFailure> {
    within(REQUEST_TIMEOUT, request).await
}

/// Sends a write. It is not sent without a mandate, and is aborted when the mandate ends, so that none is under way
/// when another instance begins.
///
/// # Errors
/// [`CallFailure`].
pub async fn write<T>(
    mandate: &Mandate,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallFailure> {
    match mandate.left(clock::now()) {
        Some(left) => within(left.min(REQUEST_TIMEOUT), request).await,
        None => Err(CallFailure::Overtaken),
    }
}

/// Sends a write that is harmless when carried out twice: if the answer is lost, or the server is busy, it
/// is sent again, four times in all.
///
/// # Errors
/// The last [`CallFailure`].
pub async fn repeated<T, F>(
    mandate: &Mandate,
    mut request: impl FnMut() -> F,
) -> Result<T, CallFailure>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..N_TRIES {
        let wanted = match write(mandate, request()).await {
            Err(CallFailure::Refused { code: 429, retry_after, .. }) => retry_after,
            Err(CallFailure::Unknown { .. }) => None,
            decided => return decided,
        };
        tokio::time::sleep(wanted.unwrap_or(pause).min(MAX_PAUSE)).await;
        pause *= 4;
    }
    write(mandate, request()).await
}

async fn within<T>(
    timeout: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallFailure> {
    match tokio::time::timeout(timeout, request).await {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => Err(CallFailure::Unknown {
            code: None,
            reason: format!("it took longer than {} s", timeout.as_secs_f64()),
        }),
    }
}

fn failure(error: &kube::Error) -> CallFailure {
    match error {
        kube::Error::Api(status) if is_refusal(status.code) => CallFailure::Refused {
            code: status.code,
            reason: shown(&status.reason),
            message: shown(&status.message),
            retry_after: status
                .details
                .as_ref()
                .filter(|details| details.retry_after_seconds > 0)
                .map(|details| Duration::from_secs(u64::from(details.retry_after_seconds))),
        },
        kube::Error::Api(status) => CallFailure::Unknown {
            code: Some(status.code),
            reason: shown(&format!("status {}: {}", status.code, status.message)),
        },
        other => CallFailure::Unknown { code: None, reason: shown(&with_causes(other)) },
    }
}

/// Whether a server with this answer has done nothing. One that timed out may have done something.
fn is_refusal(code: u16) -> bool {
    (400..500).contains(&code) && code != 408
}

fn shown(text: &str) -> String {
    let cut = text.floor_char_boundary(MAX_MESSAGE_BYTES);
    escape::printable(&text[..cut]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn of(code: u16, message: &str) -> CallFailure {
        failure(&kube::Error::Api(Box::new(Status::failure(message, "Why").with_code(code))))
    }

    #[test]
    fn only_refusals_are_known_to_have_done_nothing() {
        for code in [400, 403, 404, 409, 422, 429] {
            assert_eq!(of(code, "no").code(), Some(code));
        }
        for code in [0, 408, 500, 503, 504] {
            assert_eq!(of(code, "no").code(), None, "{code}");
        }
    }

    #[test]
    fn what_the_server_says_is_cut_and_cannot_steer_a_terminal() {
        let failure = of(422, &format!("\u{1b}[31m{}", "é".repeat(2_000)));
        let CallFailure::Refused { message, .. } = failure else { panic!("{failure:?}") };
        assert!(message.starts_with("\\u{1b}[31mé"), "{message}");
        assert!(message.len() <= MAX_MESSAGE_BYTES + 8, "{}", message.len());
    }

    #[tokio::test]
    async fn silence_is_a_lost_answer() {
        let silent = std::future::pending::<Result<(), kube::Error>>();
        let failed = within(Duration::from_millis(1), silent).await;
        assert!(matches!(failed, Err(CallFailure::Unknown { .. })), "{failed:?}");
    }

    #[tokio::test]
    async fn what_may_be_repeated_is_until_the_server_decides() {
        let mut n = 0;
        let mandate = Mandate::unlimited();
        let outcome = repeated(&mandate, || {
            n += 1;
            let code = if n < 3 { 500 } else { 403 };
            std::future::ready(Err::<(), _>(kube::Error::Api(Box::new(
                Status::failure("no", "Why").with_code(code),
            ))))
        });
        assert_eq!(outcome.await.map_err(|failure| failure.code()), Err(Some(403)));
        assert_eq!(n, 3);
    }

    #[tokio::test]
    async fn nothing_is_written_when_the_mandate_is_over() {
        let mut n = 0;
        let mandate = Mandate::until(clock::now());
        let outcome = repeated(&mandate, || {
            n += 1;
            std::future::ready(Ok::<(), kube::Error>(()))
        });
        assert_eq!(outcome.await, Err(CallFailure::Overtaken));
        assert_eq!(n, 1, "and not tried again");
        let mandate = Mandate::until(clock::now() + Duration::from_millis(50));
        let hanging = write(&mandate, std::future::pending::<Result<(), kube::Error>>()).await;
        assert!(matches!(hanging, Err(CallFailure::Unknown { code: None, .. })), "{hanging:?}");
    }
}
