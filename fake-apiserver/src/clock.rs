//! Current time in the format of Kubernetes.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// The time `seconds` from now, in whole seconds: `2026-11-21T07:41:16Z`.
pub(crate) fn time(seconds: i64) -> String {
    at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Number of whole seconds since a time of Kubernetes; `None` if it is none.
pub(crate) fn seconds_since(time: &str) -> Option<i64> {
    let then: Timestamp = time.parse().ok()?;
    Some(at(0).as_second() - then.as_second())
}

fn at(seconds: i64) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    let then = micros.saturating_add(seconds.saturating_mul(1_000_000));
    Timestamp::from_microsecond(then).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds() {
        let now = time(0);
        assert!((9..=11).contains(&seconds_since(&time(-10)).unwrap()));
        assert_eq!(seconds_since("never"), None);
        assert!(now.len() == 20 && now.ends_with('Z'), "{now}");
        assert!(time(60) > now && time(i64::MAX).starts_with("9999"));
    }
}
