//! RFC 3339 text, exactly as strict as Kubernetes reads it: upper-case `T` and `Z`, seconds required, years 0 to 9999,
//! no leap second, any offset below a day.

use jiff::SignedDuration;
use jiff::civil::{Date, date};

/// A time: whole seconds since the epoch, rounded down, and the rest in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) seconds: i64,
    /// 0 to 999,999,999; digits past the ninth are dropped.
    pub(super) nanos: i32,
}

const EPOCH: Date = date(1970, 1, 1);

/// Reads `YYYY-MM-DDThh:mm:ss[.fraction](Z|±hh:mm)`; `None` for anything else and for a day or time that does not
/// exist.
pub(super) fn parse(text: &str) -> Option<Moment> {
    let (time, rest) = text.as_bytes().split_at_checked("YYYY-MM-DDThh:mm:ss".len())?;
    let [y0, y1, y2, y3, b'-', month @ .., b'-', d0, d1, b'T', h0, h1, b':', m0, m1, b':', s0, s1] =
        time
    else {
        return None;
    };
    let year = number(&[*y0, *y1, *y2, *y3])?;
    let (month, day) = (number(month)?, number(&[*d0, *d1])?);
    let (hour, minute, second) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?, number(&[*s0, *s1])?);
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, zone) = fraction(rest)?;
    let of_day =
        (i64::from(hour) * 60 + i64::from(minute) - offset_minutes(zone)?) * 60 + i64::from(second);
    Some(Moment { seconds: EPOCH.duration_until(date).as_secs() + of_day, nanos })
}

/// Writes the moment in UTC, with six fractional digits when `micros` (0 to 999,999) is given; `None` outside the years
/// 0 to 9999.
pub(super) fn format(seconds: i64, micros: Option<i64>) -> Option<String> {
    let utc = EPOCH.at(0, 0, 0, 0).checked_add(SignedDuration::from_secs(seconds)).ok()?;
    let (year, month, day) = (utc.year(), utc.month(), utc.day());
    let (hour, minute, second) = (utc.hour(), utc.minute(), utc.second());
    let fraction = micros.map(|micros| format!(".{micros:06}")).unwrap_or_default();
    (year >= 0).then(|| {
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    })
}

/// Reads nanoseconds; returns them and the rest of the text. A fraction starts with `.` or `,` and has at least one
/// digit.
fn fraction(rest: &[u8]) -> Option<(i32, &[u8])> {
    let [b'.' | b',', digits @ ..] = rest else {
        return Some((0, rest));
    };
    let n_digits = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = digits.split_at(n_digits);
    let nanos = (0..9).fold(0, |nanos, place| {
        nanos * 10 + digits.get(place).map_or(0, |digit| i32::from(digit - b'0'))
    });
    (n_digits > 0).then_some((nanos, zone))
}

/// Minutes east of UTC.
fn offset_minutes(zone: &[u8]) -> Option<i64> {
    let (sign, h0, h1, m0, m1) = match zone {
        b"Z" => return Some(0),
        [b'+', h0, h1, b':', m0, m1] => (1, h0, h1, m0, m1),
        [b'-', h0, h1, b':', m0, m1] => (-1, h0, h1, m0, m1),
        _ => return None,
    };
    let (hours, minutes) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?);
    (hours <= 23 && minutes <= 59).then(|| sign * (i64::from(hours) * 60 + i64::from(minutes)))
}

/// The value of up to four decimal digits.
fn number(digits: &[u8]) -> Option<i16> {
    digits.iter().try_fold(0, |number: i16, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i16::from(digit - b'0'))
    })
}
