//! Ages as kubectl shows them: one or two units.

/// A duration of whole seconds, such as `90s`, `5m30s`, `5h`, `3d4h` or `2y`.
pub(super) fn text(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, large_name: &str, small: i64, small_name: &str| match seconds % large
        / small
    {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    };
    match seconds {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn ages_have_one_or_two_units() {
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (601, "10m"),
            (10_860, "3h1m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (-1, "<invalid>"),
        ] {
            assert_eq!(text(seconds), expected, "{seconds}");
        }
    }
}
