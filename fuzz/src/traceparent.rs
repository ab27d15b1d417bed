//! `traceparent`, the header of W3C Trace Context.

use berth_server::telemetry::TraceContext;
use http::{HeaderMap, HeaderValue};

/// Checks the bytes as the header, or as two with a newline between them.
pub fn run(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for value in data.split(|byte| *byte == b'\n') {
        let Ok(value) = HeaderValue::from_bytes(value) else { return };
        headers.append("traceparent", value);
    }
    let Some(TraceContext { trace_id, parent_id, is_sampled }) = TraceContext::of(&headers) else {
        assert!(!is_version_0(data), "`{}` is not read", data.escape_ascii());
        return;
    };
    assert!(trace_id != 0 && parent_id != 0);
    // The text has the parsed value, digit by digit.
    let text = str::from_utf8(&data[..55]).expect("hexadecimal digits and dashes");
    assert_eq!(text[3..52], format!("{trace_id:032x}-{parent_id:016x}"), "`{text}`");
    let flags = u8::from_str_radix(&text[53..55], 16).unwrap();
    assert_eq!(flags & 1 == 1, is_sampled, "`{text}`");
    assert!(!text.starts_with("ff") && (data.len() == 55 || !text.starts_with("00")), "`{text}`");
}

/// `00-`, 32, 16 and 2 lower-case hexadecimal digits, of which the first two groups are not all zeros.
fn is_version_0(data: &[u8]) -> bool {
    let parts: Vec<&[u8]> = data.split(|byte| *byte == b'-').collect();
    let is_hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [2, 32, 16, 2]
        && parts[0] == b"00"
        && parts.iter().all(|part| is_hex(part))
        && !is_zero(parts[1])
        && !is_zero(parts[2])
}
