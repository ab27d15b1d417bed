//! Durations: `1m30s` of the configuration, and `grpc-timeout`.

use std::time::Duration;

use berth_server::document::duration;
use berth_server::grpc::timeout::parse_timeout;

use crate::exact::Exact;
use crate::work::bounded;

/// Checks the bytes as the text of a duration and as the header.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    check_duration(text);
    check_timeout(text);
}

fn check_duration(text: &str) {
    let read = bounded(text.len(), 16, || duration::parse_nanoseconds(text));
    match (&read, expected_nanos(text)) {
        (Ok(nanos), Some(expected)) => assert_eq!(i128::from(*nanos), expected, "`{text}`"),
        (Err(reason), None) => assert!(reason.contains(text), "`{text}`: {reason}"),
        (read, expected) => panic!("`{text}` is {read:?}, expected {expected:?}"),
    }
    let span = duration::parse(text);
    let positive = read.ok().and_then(|nanos| u64::try_from(nanos).ok());
    assert_eq!(span.ok(), positive.map(Duration::from_nanos), "`{text}`");
    if let Some(nanos) = positive {
        assert_eq!(duration::parse_nanoseconds(&format!("{nanos}ns")), Ok(nanos as i64));
    }
}

/// Sum of the parts, each truncated to a nanosecond; `None` if the text is not a duration or the sum is too large.
fn expected_nanos(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Some(0);
    }
    let mut rest = unsigned;
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(at);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || number == "." || fraction.contains('.') {
            return None;
        }
        let (unit, nanos) = unit(tail)?;
        let whole = Exact::of_digits(whole.as_bytes()).times(nanos).at_most(1 << 100);
        let digits = &fraction[..fraction.len().min(18)];
        let scale = 10_u128.pow(digits.len() as u32);
        let part = Exact::of_digits(digits.as_bytes()).times(nanos).at_most(u128::MAX) / scale;
        total = total.saturating_add((whole + part) as i128);
        rest = &tail[unit..];
    }
    let total = if text.starts_with('-') { -total } else { total };
    let is_in_range = (i128::from(i64::MIN)..=i128::from(i64::MAX)).contains(&total);
    (is_in_range && !unsigned.is_empty()).then_some(total)
}

/// Length of the unit in bytes, and its nanoseconds.
fn unit(tail: &str) -> Option<(usize, u64)> {
    const SECOND: u64 = 1_000_000_000;
    let at = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
    // `5msx` has no unit `msx`, and `1h5` no unit at its end: only a whole unit counts.
    let found = match &tail[..at] {
        unit if unit.starts_with("ns") => (2, 1),
        unit if unit.starts_with("us") => (2, 1_000),
        unit if unit.starts_with("µs") || unit.starts_with("μs") => (3, 1_000),
        unit if unit.starts_with("ms") => (2, 1_000_000),
        unit if unit.starts_with('s') => (1, SECOND),
        unit if unit.starts_with('m') => (1, 60 * SECOND),
        unit if unit.starts_with('h') => (1, 3_600 * SECOND),
        _ => return None,
    };
    Some(found)
}

fn check_timeout(text: &str) {
    let read = bounded(text.len(), 0, || parse_timeout(text));
    let seconds = read.map(|timeout| timeout.as_nanos());
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let nanos = match text.strip_prefix(digits) {
        Some("H") => 3_600_000_000_000,
        Some("M") => 60_000_000_000,
        Some("S") => 1_000_000_000,
        Some("m") => 1_000_000,
        Some("u") => 1_000,
        Some("n") => 1,
        _ => 0_u128,
    };
    let expected = (is_number && nanos > 0).then(|| digits.parse::<u128>().unwrap() * nanos);
    assert_eq!(seconds, expected, "`{text}`");
}
