//! Durations in the text form that Kubernetes writes: `5s`, `1m30s`, `250ms` (S-CFG-2).

use std::time::Duration;

const NANOS: [(&str, i128); 8] = [
    // Longer names first: `ms` must not be read as `m`.
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Parses `text` into nanoseconds: an optional sign and one or more decimal numbers, each with a unit; `0` needs no
/// unit.
///
/// Errors: a text of another form, or more than 2^63 − 1 nanoseconds (about 292 years). Fractions of a nanosecond are
/// cut.
pub fn parse_nanoseconds(text: &str) -> Result<i64, String> {
    let invalid = || format!("invalid duration `{text}`, expected for example `5s` or `1m30s`");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(end);
        let (unit, nanos) =
            NANOS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(invalid)?;
        total = total.saturating_add(amount(number, *nanos).ok_or_else(invalid)?);
        rest = &tail[unit.len()..];
    }
    i64::try_from(if negative { -total } else { total })
        .map_err(|_| format!("duration `{text}` is out of range"))
}

/// Parses `text` like [`parse_nanoseconds`], for durations that cannot be negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    let nanos = parse_nanoseconds(text)?;
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| format!("duration `{text}` must not be negative"))
}

/// `number` (digits with at most one point) times `nanos`, truncated; `None` if it is no number or far too large.
fn amount(number: &str, nanos: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // 18 digits are finer than a nanosecond of any unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some(whole * nanos + fraction * nanos / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_kubernetes_durations() {
        for (text, nanos) in [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("250ms", 250_000_000),
            ("1.5s", 1_500_000_000),
            (".5m", 30_000_000_000),
            ("-2s", -2_000_000_000),
            ("7us8ns", 7_008),
            ("00000000000000000000001s", 1_000_000_000),
        ] {
            assert_eq!(parse_nanoseconds(text), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "5", "s", "5 s", "1.2.3s", "5sec", "-", ".s", "9999999999h"] {
            assert!(parse_nanoseconds(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
        assert!(parse("-1s").unwrap_err().contains("must not be negative"));
    }
}
