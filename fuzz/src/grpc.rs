//! gRPC: every method of `berth.v1`, from the frame of its message to the status of its answer.

use berth_proto::access::METHODS;
use berth_server::in_process::CollectedResponse;

use crate::served;

/// Checks a call: the first byte chooses the method, the rest is the message.
pub fn run(data: &[u8]) {
    let Some((method, message)) = data.split_first() else { return };
    let path = METHODS[usize::from(*method) % METHODS.len()].path;
    check(path, &served::call(path, message));
}

/// Checks that a caller can act on the answer: never `UNKNOWN`, `INTERNAL` or `DATA_LOSS`, and a reason with every
/// refusal.
pub(crate) fn check(path: &str, answer: &CollectedResponse) {
    let status = answer.grpc_status();
    let status = status.unwrap_or_else(|| panic!("{path}: no status, HTTP {}", answer.status));
    assert!(!matches!(status, 2 | 13 | 15), "{path}: status {status}, {:?}", answer.headers);
    let message = answer.headers.get("grpc-message").map_or(&b""[..], |text| text.as_bytes());
    assert!(status == 0 || !message.is_empty(), "{path}: status {status} without a reason");
    // Every client and proxy must accept a header of this size.
    assert!(message.len() < 16 << 10, "{path}: {} bytes of reason", message.len());
    let mut frames = &*answer.body;
    while let [is_compressed, a, b, c, d, rest @ ..] = frames {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        assert!(*is_compressed == 0 && length <= rest.len(), "{path}: a broken frame");
        frames = &rest[length..];
    }
    assert!(frames.is_empty(), "{path}: a broken frame");
}
