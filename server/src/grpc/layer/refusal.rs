//! Refusal: the response to a call that is not carried out. Under overload most calls are refused, so a refusal for
//! load is encoded once per thread and copied: encoding a message, its details and their base64 takes longer than all
//! other work of a refusal.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderMap, Response};
use tonic::Status;
use tonic::body::Body;

use crate::admission::Overloaded;
use crate::service::CallError;

thread_local! {
    /// Encoded refusals by reason and delay. Reasons are few, and delays powers of two, so the map stays small.
    static WRITTEN: RefCell<HashMap<(&'static str, Duration), HeaderMap>> = RefCell::default();
}

/// The response, entirely in its headers.
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

/// The delay rounded up to a power of two in milliseconds: no caller retries too early, and there are few different
/// delays.
fn rounded(retry_after: Duration) -> Duration {
    let millis = u64::try_from(retry_after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    Duration::from_millis(millis.clamp(1, 1 << 20).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::StatusExt as _;

    #[test]
    fn a_copied_refusal_equals_the_encoded_one() {
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
    fn rounded_delays_are_not_too_short() {
        for micros in [0, 1, 999, 1_000, 1_001, 30_000_000, u64::MAX] {
            let delay = Duration::from_micros(micros);
            let rounded_up = rounded(delay);
            assert!(
                rounded_up >= delay.min(Duration::from_secs(1_048)) && !rounded_up.is_zero(),
                "{delay:?}"
            );
        }
    }
}
