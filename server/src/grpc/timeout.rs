//! Parser of the header `grpc-timeout`.

use std::time::Duration;

/// Parses `grpc-timeout`: up to 8 digits and a unit of `HMSmun`. Any other text counts as no timeout, as in other
/// servers.
pub fn parse_timeout(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let check = |text: &str, expected: Option<Duration>| {
            assert_eq!(parse_timeout(text), expected, "{text}")
        };
        check("1H", Some(Duration::from_secs(3600)));
        check("2M", Some(Duration::from_secs(120)));
        check("3S", Some(Duration::from_secs(3)));
        check("40m", Some(Duration::from_millis(40)));
        check("5u", Some(Duration::from_micros(5)));
        check("99999999n", Some(Duration::from_nanos(99_999_999)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "S", "1", "1s", "-1S", "+1S", "123456789S", "1 S", "1é"] {
            check(bad, None);
        }
    }
}
