//! Times: RFC 3339 as Kubernetes reads it, compared with a plain count of days.

use berth_proto::{MicroTime, Time};
use prost::Message;

use crate::work::bounded;

/// 0001-01-01T00:00:00Z, the zero time.
const YEAR_ONE: i64 = -62_135_596_800;
/// 0000-01-01T00:00:00Z to 9999-12-31T23:59:59Z, the times that can be written.
const WRITABLE: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Checks the bytes as the text of a time and as protobuf.
pub fn run(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        check_text(text);
    }
    if let Ok(time) = Time::decode(data) {
        assert_eq!(Time::decode(&*time.encode_to_vec()).unwrap(), time);
        check_time(time);
    }
    if let Ok(time) = MicroTime::decode(data) {
        assert_eq!(MicroTime::decode(&*time.encode_to_vec()).unwrap(), time);
        check_micro_time(time);
    }
}

fn check_text(text: &str) {
    let json = serde_json::to_string(text).unwrap();
    let read = bounded(text.len(), 16, || serde_json::from_str::<Time>(&json));
    let micro = bounded(text.len(), 16, || serde_json::from_str::<MicroTime>(&json));
    let Some((seconds, nanos)) = expected(text) else {
        assert!(read.is_err() && micro.is_err(), "`{text}` was read");
        return;
    };
    let (read, micro) = (read.expect("a time"), micro.expect("a time"));
    let is_zero = seconds == YEAR_ONE;
    assert_eq!(read.unix_seconds(), (!is_zero).then_some(seconds), "`{text}`");
    let micros = seconds * 1_000_000 + nanos / 1000;
    assert_eq!(micro.unix_microseconds(), (!is_zero).then_some(micros), "`{text}`");
    check_time(read);
    check_micro_time(micro);
}

/// Checks that a written time can be read, and is written again without a change. Only years of RFC 3339 can be
/// written.
fn check_time(time: Time) {
    let seconds = time.unix_seconds();
    let Ok(json) = serde_json::to_string(&time) else {
        assert!(seconds.is_some_and(|seconds| !WRITABLE.contains(&seconds)), "{seconds:?}");
        return;
    };
    let again: Time = serde_json::from_str(&json).unwrap();
    assert_eq!(again.unix_seconds(), seconds, "{json}");
    assert_eq!(serde_json::to_string(&again).unwrap(), json);
}

fn check_micro_time(time: MicroTime) {
    let micros = time.unix_microseconds();
    let Ok(json) = serde_json::to_string(&time) else {
        let is_writable =
            micros.is_none_or(|micros| WRITABLE.contains(&micros.div_euclid(1_000_000)));
        assert!(!is_writable, "{micros:?}");
        return;
    };
    let again: MicroTime = serde_json::from_str(&json).unwrap();
    assert_eq!(again.unix_microseconds(), micros, "{json}");
    assert_eq!(serde_json::to_string(&again).unwrap(), json);
}

/// Seconds since the epoch and nanoseconds, of `YYYY-MM-DDThh:mm:ss[.,fraction](Z|±hh:mm)`.
fn expected(text: &str) -> Option<(i64, i64)> {
    let digits = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten()
    };
    let signs = [(4, '-'), (7, '-'), (10, 'T'), (13, ':'), (16, ':')];
    let byte = |at: usize| text.as_bytes().get(at).map(|byte| char::from(*byte));
    if signs.iter().any(|(at, sign)| byte(*at) != Some(*sign)) {
        return None;
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let is_real = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let (nanos, zone) = fraction(text.get(19..)?)?;
    let offset = offset(zone)?;
    let days = days_before(year) + (1..month).map(|month| days_of(year, month)).sum::<i64>() + day;
    // 1970-01-01 is day 719,529 of the calendar that begins with day 1 of the year 0.
    let seconds = (days - 719_529) * 86_400 + (hour * 60 + minute - offset) * 60 + second;
    is_real.then_some((seconds, nanos))
}

fn fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(digits) = rest.strip_prefix(['.', ',']) else { return Some((0, rest)) };
    let zone = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &digits[..digits.len() - zone.len()];
    let nanos = format!("{:0<9}", digits.get(..9).unwrap_or(digits)).parse().ok()?;
    (!digits.is_empty()).then_some((nanos, zone))
}

fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.strip_prefix(['-', '+'])?.split_once(':')?;
    let number = |digits: &str, below: i64| -> Option<i64> {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| is_number && *number < below)
    };
    Some(sign * (number(hours, 24)? * 60 + number(minutes, 60)?))
}

/// Days of the years from 0 up to `year`.
fn days_before(year: i64) -> i64 {
    (0..year).map(|year| 365 + i64::from(is_leap(year))).sum()
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}
