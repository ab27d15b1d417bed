//! Durations and timestamps: their texts, arithmetic and calendar fields (S-DRA-114). The only time zones are UTC and
//! fixed offsets, because the engine has no table of zones.

/// A moment: seconds since 1970 and nanoseconds within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// The calendar fields of a moment in a time zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calendar {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
    /// Sunday is 0.
    pub(crate) day_of_week: i64,
    pub(crate) second_of_day: i64,
}

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// The first second of the year 1 and the last one of the year 9999.
const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;

impl Timestamp {
    /// A moment in the years 1 to 9999.
    pub(crate) fn of_seconds(seconds: i64) -> Option<Timestamp> {
        (FIRST_SECOND..=LAST_SECOND).contains(&seconds).then_some(Timestamp { seconds, nanos: 0 })
    }

    /// Reads RFC 3339.
    pub(crate) fn parse(text: &str) -> Option<Timestamp> {
        let (date, rest) = text.split_at_checked(10)?;
        let (clock, rest) = rest.strip_prefix('T')?.split_at_checked(8)?;
        let (year, month, day) = three(date, '-', 4)?;
        let (hour, minute, second) = three(clock, ':', 2)?;
        let is_valid = (1..=12).contains(&month)
            && (1..=days_of_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let (nanos, zone) = fraction(rest)?;
        let offset = zone_offset_rfc3339(zone)?;
        let days = days_before(year, month) + day - 1;
        let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset;
        Timestamp::of_seconds(seconds)
            .filter(|_| is_valid)
            .map(|moment| Timestamp { nanos, ..moment })
    }

    /// The moment after a duration in nanoseconds.
    pub(crate) fn plus(self, nanos: i64) -> Option<Timestamp> {
        let total = i64::from(self.nanos) + nanos.rem_euclid(NANOS);
        let seconds = self.seconds + nanos.div_euclid(NANOS) + total / NANOS;
        let nanos = u32::try_from(total % NANOS).ok()?;
        Timestamp::of_seconds(seconds).map(|moment| Timestamp { nanos, ..moment })
    }

    /// Nanoseconds since another moment.
    pub(crate) fn since(self, other: Timestamp) -> Option<i64> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(seconds * i128::from(NANOS) + nanos).ok()
    }

    /// The calendar fields in a time zone: an empty name, `UTC` or `+01:30`. `None` for other zones.
    pub(crate) fn calendar(self, zone: &str) -> Option<Calendar> {
        let local = self.seconds + zone_offset(zone)?;
        let days = local.div_euclid(DAY);
        let (year, month, day) = date_of(days);
        Some(Calendar {
            year,
            month,
            day,
            day_of_year: days - days_before(year, 1),
            day_of_week: (days + 4).rem_euclid(7),
            second_of_day: local.rem_euclid(DAY),
        })
    }

    /// The text in RFC 3339, in UTC.
    pub(crate) fn text(self) -> String {
        let days = self.seconds.div_euclid(DAY);
        let (year, month, day) = date_of(days);
        let second = self.seconds.rem_euclid(DAY);
        let mut text = format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        );
        if self.nanos > 0 {
            text.push_str(format!(".{:09}", self.nanos).trim_end_matches('0'));
        }
        text.push('Z');
        text
    }
}

/// Reads numbers separated by a mark; the first has `width` digits, the others two.
fn three(text: &str, mark: char, width: usize) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(mark);
    let mut next = |width: usize| {
        let part = parts.next().filter(|part| part.len() == width)?;
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        part.parse::<i64>().ok()
    };
    let fields = (next(width)?, next(2)?, next(2)?);
    parts.next().is_none().then_some(fields)
}

/// Splits a fraction of a second, in nanoseconds, from the time zone.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(rest) = text.strip_prefix(['.', ',']) else { return Some((0, text)) };
    let n_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let digits = rest.get(..n_digits.min(9)).filter(|digits| !digits.is_empty())?;
    Some((format!("{digits:0<9}").parse().ok()?, rest.get(n_digits..)?))
}

fn zone_offset_rfc3339(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    let is_plain = [hours, minutes]
        .iter()
        .all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()));
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (is_plain && hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn zone_offset(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone == "UTC" {
        return Some(0);
    }
    let (hours, minutes) = zone.split_once(':')?;
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i64 = hours.parse().ok().filter(|hours| (-24..=24).contains(hours))?;
    let minutes: i64 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
    Some(hours * 3600 + sign * minutes * 60)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to the first day of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let past = year - 1;
    let of_years = past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let of_months: i64 = (1..month).map(|month| days_of_month(year, month)).sum();
    of_years + of_months - 719_162
}

/// Year, month and day of a day counted from 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    // A year at or before that of the day.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_before(year, month + 1) <= days {
        month += 1;
    }
    (year, month, days - days_before(year, month) + 1)
}

/// Reads a duration such as `1h30m` or `-1.5s`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Some(0);
    }
    let mut rest = unsigned;
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        total += in_nanos(number, unit_nanos(unit)?)?;
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
        rest = after;
    }
    let is_negative = text.starts_with('-');
    (!unsigned.is_empty()).then_some(())?;
    i64::try_from(if is_negative { -total } else { total }).ok()
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn in_nanos(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.into() };
    let fraction = fraction.get(..fraction.len().min(18)).unwrap_or_default();
    let parts: i128 = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.into() };
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(whole * unit + parts * unit / scale)
}

/// The text of a duration: seconds, as `string()` writes them.
pub(crate) fn duration_text(nanos: i64) -> String {
    let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / 1e9;
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, duration_text, parse_duration};

    /// S-DRA-114: texts of durations and timestamps.
    #[test]
    fn texts() {
        assert_eq!(parse_duration("1h30m"), Some(5_400_000_000_000));
        assert_eq!(parse_duration("-1.5s"), Some(-1_500_000_000));
        for broken in ["", "x", "1", "1.2.3s", "9999999999h", "-"] {
            assert_eq!(parse_duration(broken), None, "{broken}");
        }
        assert_eq!(duration_text(-1_500_000_000), "-1.5s");
        let moment = Timestamp::parse("2024-02-29T23:59:59.5+01:00").unwrap();
        assert_eq!(moment.text(), "2024-02-29T22:59:59.5Z");
        let calendar = moment.calendar("+02:00").unwrap();
        assert_eq!((calendar.month, calendar.day, calendar.day_of_week), (3, 1, 5));
        assert_eq!(calendar.day_of_year, 60);
        for broken in
            ["2023-02-29T00:00:00Z", "2023-01-01T24:00:00Z", "2023-01-01", "2023-01-01T00:00:00"]
        {
            assert!(Timestamp::parse(broken).is_none(), "{broken}");
        }
        assert!(moment.calendar("Europe/Berlin").is_none());
        assert_eq!(
            Timestamp::parse("0001-01-01T00:00:00Z").unwrap().text(),
            "0001-01-01T00:00:00Z"
        );
    }
}
