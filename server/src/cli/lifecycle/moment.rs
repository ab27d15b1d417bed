//! Times on the command line and in tables: absolute, and relative to now.

use berth_proto::Time;
use serde_json::Value;

use crate::clock;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time that a question assumes.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct NowArgs {
    /// The time to assume, in RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse)]
    now: Option<Time>,
}

impl NowArgs {
    /// The given time, or else the clock's.
    pub(in crate::cli) fn get(&self) -> Time {
        self.now.unwrap_or_else(|| Time::from_unix_seconds(clock::unix_seconds()))
    }
}

/// Parses a time from the command line.
pub(super) fn parse(text: &str) -> Result<Time, String> {
    let time: Result<Time, _> = serde_json::from_value(Value::from(text));
    let not_a_time = || "not an RFC 3339 time, such as 2026-01-10T12:00:00Z".to_owned();
    time.ok().filter(|time| time.unix_seconds().is_some()).ok_or_else(not_a_time)
}

/// Formats a time in RFC 3339, UTC; `-` for none, or one that cannot be written.
pub(in crate::cli) fn absolute(time: Option<&Time>) -> String {
    match time.map(serde_json::to_value) {
        Some(Ok(Value::String(text))) => text,
        _ => "-".to_owned(),
    }
}

/// Formats the distance of `time` from `now`: `in 4m10s`, `2m ago`, `now`; `-` for no time.
pub(super) fn relative(time: Option<&Time>, now: Time) -> String {
    let (Some(at), Some(now)) = (time.and_then(Time::unix_seconds), now.unix_seconds()) else {
        return "-".to_owned();
    };
    match (at.abs_diff(now), at > now) {
        (0, _) => "now".to_owned(),
        (distance, true) => format!("in {}", span(distance)),
        (distance, false) => format!("{} ago", span(distance)),
    }
}

/// Formats seconds in their two largest units: `42s`, `4m10s`, `3h`, `2d4h`.
pub(in crate::cli) fn span(seconds: u64) -> String {
    let in_units = |large: u64, large_name: char, small: u64, small_name: char| {
        let (whole, rest) = (seconds / large, seconds % large / small);
        match rest {
            0 => format!("{whole}{large_name}"),
            rest => format!("{whole}{large_name}{rest}{small_name}"),
        }
    };
    match seconds {
        ..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => in_units(MINUTE, 'm', 1, 's'),
        HOUR..DAY => in_units(HOUR, 'h', MINUTE, 'm'),
        DAY.. => in_units(DAY, 'd', HOUR, 'h'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        let spans = [0, 59, 60, 250, 3_599, 3_600, 12_300, 86_400, 187_500, u64::MAX].map(span);
        let expected = ["0s", "59s", "1m", "4m10s", "59m59s", "1h", "3h25m", "1d", "2d4h"];
        assert_eq!(spans[..9], expected);
        assert!(spans[9].ends_with('h'), "{}", spans[9]);
    }

    #[test]
    fn times_are_relative_to_now() {
        let now = parse("2026-01-10T12:00:00Z").unwrap();
        let at = |text: &str| relative(Some(&parse(text).unwrap()), now);
        assert_eq!(at("2026-01-10T12:04:10Z"), "in 4m10s");
        assert_eq!(at("2026-01-10T12:58:00+01:00"), "2m ago");
        assert_eq!(at("2026-01-10T12:00:00Z"), "now");
        assert_eq!((relative(None, now).as_str(), absolute(None).as_str()), ("-", "-"));
        assert_eq!(absolute(Some(&now)), "2026-01-10T12:00:00Z");
        let far = Time::from_unix_seconds(i64::MAX);
        assert_eq!(absolute(Some(&far)), "-");
        assert!(relative(Some(&Time::from_unix_seconds(i64::MIN)), far).ends_with(" ago"));
        for text in ["", "noon", "2026-01-10", "0001-01-01T00:00:00Z"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
