//! Refusal: the answer to a call that is not carried out. Under overload that is what most calls get, so what is said of load is
//! written once a thread and copied: a message, its details and their base64 take longer than all that is done to refuse.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderMap, Response};
use tonic::Status;
use tonic::body::Body;

use crate::admission::Overloaded;
use crate::service::CallError;

thread_local! {
    /// By reason and time. Reasons are a handful, and times powers of two: it stays small.
    static WRITTEN: RefCell<HashMap<(&'static str, Duration), HeaderMap>> = RefCell::default();
}

/// The answer, all of it in its headers.
pub(super) fn response(error: CallError) -> Response<Body> {
    let CallError::Overloaded(Overloaded { reason, retry_after }) = error else {
        return Status::from(error).into_http();
    };
    let retry_after = rounded(retry_after);
    let written = WRITTEN.with_borrow_mut(|written| {
        let write = || {
            let status = Status::from(CallError::Overloaded(Overloaded { reason, retry_after }));
            status.into_http::<Body>().into_parts().0.headers
        };
        written.entry((reason, retry_after)).or_insert_with(write).clone()
    });
    let mut response = Response::new(Body::empty());
    *response.headers_mut() = written;
    response
}

/// The next power of two in milliseconds: nobody comes back too early, and there are few of them.
fn rounded(retry_after: Duration) -> Duration {
    let millis = u64::try_from(retry_after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    Duration::from_millis(millis.clamp(1, 1 << 20).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::StatusExt as _;

    #[test]
    fn what_is_copied_says_what_was_written() {
        let refused = |millis: u64| {
            let retry_after = Duration::from_micros(millis * 1_000 - 1);
            response(CallError::Overloaded(Overloaded { reason: "it is full", retry_after }))
        };
        for _ in 0..2 {
            let answer = refused(100);
            assert_eq!(answer.headers()["content-type"], "application/grpc");
            let status = Status::from_header_map(answer.headers()).unwrap();
            assert_eq!(status.code(), tonic::Code::ResourceExhausted);
            assert_eq!(status.message(), "the server is overloaded: it is full");
            let details = status.get_error_details();
            let retry_after = details.retry_info().unwrap().retry_delay;
            assert_eq!(retry_after, Some(Duration::from_millis(128)));
        }
        for millis in 1..5_000 {
            refused(millis);
        }
        assert!(WRITTEN.with_borrow(HashMap::len) < 20);
        let other = response(CallError::Draining);
        assert_eq!(other.headers()["grpc-status"], "14");
    }

    #[test]
    fn nobody_is_told_to_come_back_too_early() {
        for micros in [0, 1, 999, 1_000, 1_001, 30_000_000, u64::MAX] {
            let asked = Duration::from_micros(micros);
            let told = rounded(asked);
            assert!(told >= asked.min(Duration::from_secs(1_048)) && !told.is_zero(), "{asked:?}");
        }
    }
}
