//! Reads a quantity's text: sign, digits, suffix (W-QTY-1 to W-QTY-3).

use super::{Amount, NANOS_PER_UNIT, QuantityError};

/// A quantity's value, and the family of suffixes that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) amount: Amount,
    pub(super) format: Format,
}

/// The family of a suffix; the canonical form keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, …
    DecimalSi,
    /// `Ki`, `Mi`, …
    BinarySi,
    /// `e3`, `E-6`, …
    DecimalExponent,
}

/// Factor of a suffix.
#[derive(Clone, Copy)]
enum Scale {
    /// Ten to this power.
    Decimal(i64, Format),
    /// Two to this power.
    Binary(u32),
}

/// Largest binary amount: 2⁶³ − 1 units (W-QTY-3).
const BINARY_CAP: u128 = i64::MAX as u128 * NANOS_PER_UNIT as u128;

/// The exact value of `text`, rounded away from zero to the next nano.
pub(super) fn parse(text: &str) -> Result<Parsed, QuantityError> {
    let bytes = text.as_bytes();
    let (negative, unsigned) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let (whole, rest) = digits(unsigned);
    let (fraction, suffix) = match rest {
        [b'.', rest @ ..] => digits(rest),
        _ => (&b""[..], rest),
    };
    if unsigned.len() == suffix.len() || !has_suffix_shape(suffix) {
        return Err(QuantityError::Shape);
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(QuantityError::Number);
    }
    let scale = scale(suffix).ok_or(QuantityError::Suffix)?;
    let (magnitude, format) = match scale {
        Scale::Decimal(exponent, format) => (decimal(whole, fraction, exponent), format),
        Scale::Binary(exponent) => (binary(whole, fraction, exponent), Format::BinarySi),
    };
    let nanos = i128::try_from(magnitude).unwrap_or(i128::MAX);
    Ok(Parsed { amount: Amount { nanos: if negative { -nanos } else { nanos } }, format })
}

/// Splits off the leading decimal digits.
fn digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let n_digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.split_at(n_digits)
}

/// `[eEinumkKMGTP]*[-+]?[0-9]*`
fn has_suffix_shape(suffix: &[u8]) -> bool {
    let n_letters = suffix.iter().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let signed = match &suffix[n_letters..] {
        [b'-' | b'+', rest @ ..] => rest,
        rest => rest,
    };
    signed.iter().all(u8::is_ascii_digit)
}

fn scale(suffix: &[u8]) -> Option<Scale> {
    let si = |exponent| Some(Scale::Decimal(exponent, Format::DecimalSi));
    match suffix {
        b"" => si(0),
        b"n" => si(-9),
        b"u" => si(-6),
        b"m" => si(-3),
        b"k" => si(3),
        b"M" => si(6),
        b"G" => si(9),
        b"T" => si(12),
        b"P" => si(15),
        b"E" => si(18),
        b"Ki" => Some(Scale::Binary(10)),
        b"Mi" => Some(Scale::Binary(20)),
        b"Gi" => Some(Scale::Binary(30)),
        b"Ti" => Some(Scale::Binary(40)),
        b"Pi" => Some(Scale::Binary(50)),
        b"Ei" => Some(Scale::Binary(60)),
        [b'e' | b'E', exponent @ ..] => {
            let (negative, digits) = match exponent {
                [b'-', digits @ ..] => (true, digits),
                [b'+', digits @ ..] => (false, digits),
                digits => (false, digits),
            };
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return None;
            }
            // Held at a bound far outside any value's range, where the result no longer depends on it.
            let size = digits
                .iter()
                .fold(0_i64, |size, digit| (size * 10 + i64::from(digit - b'0')).min(1 << 40));
            Some(Scale::Decimal(if negative { -size } else { size }, Format::DecimalExponent))
        }
        _ => None,
    }
}

/// Nanos of `whole.fraction` × 10^`exponent`, rounded up, held at the limit of `u128`.
fn decimal(whole: &[u8], fraction: &[u8], exponent: i64) -> u128 {
    if let (Some(number), Ok(power)) = (short_number(whole, fraction), u32::try_from(exponent + 9))
    {
        return times(number, 10_u128.checked_pow(power));
    }
    let n_digits = i64::try_from(whole.len() + fraction.len()).unwrap_or(i64::MAX);
    // Number of digits left of the nano's decimal point; zeros follow when there are not enough.
    let n_kept = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(exponent + 9);
    let mut nanos = 0_u128;
    let mut lost = false;
    for (digit, place) in whole.iter().chain(fraction).zip(0_i64..) {
        if place < n_kept {
            nanos = nanos.saturating_mul(10).saturating_add(u128::from(digit - b'0'));
        } else {
            lost |= *digit != b'0';
        }
    }
    if nanos == 0 {
        return u128::from(lost);
    }
    if n_kept > n_digits {
        let power = u32::try_from(n_kept - n_digits).ok();
        return times(nanos, power.and_then(|power| 10_u128.checked_pow(power)));
    }
    nanos.saturating_add(u128::from(lost))
}

/// Nanos of `whole.fraction` × 2^`exponent`, rounded up, capped at [`BINARY_CAP`].
fn binary(whole: &[u8], fraction: &[u8], exponent: u32) -> u128 {
    let unit = (NANOS_PER_UNIT as u128) << exponent;
    if let Some(number) = short_number(whole, fraction) {
        return number.saturating_mul(unit).min(BINARY_CAP);
    }
    let whole = whole.iter().fold(0_u128, |whole, digit| {
        whole.saturating_mul(10).saturating_add(u128::from(digit - b'0'))
    });
    // From the last digit to the first, so that each division by ten leaves a whole number and says what it dropped.
    let mut part = 0_u128;
    let mut lost = false;
    for digit in fraction.iter().rev() {
        let tenfold = u128::from(digit - b'0') * unit + part;
        part = tenfold / 10;
        lost |= !tenfold.is_multiple_of(10);
    }
    whole.saturating_mul(unit).saturating_add(part).saturating_add(u128::from(lost)).min(BINARY_CAP)
}

/// The common case, `100m` or `128Mi`: no fraction, and few enough digits for 64 bits.
fn short_number(whole: &[u8], fraction: &[u8]) -> Option<u128> {
    let is_short = fraction.is_empty() && whole.len() <= 18;
    is_short.then(|| {
        u128::from(whole.iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0')))
    })
}

/// The product, held at the limit of `u128`; a factor beyond that limit is `None`.
fn times(number: u128, factor: Option<u128>) -> u128 {
    match factor {
        Some(factor) => number.saturating_mul(factor),
        None if number == 0 => 0,
        None => u128::MAX,
    }
}
