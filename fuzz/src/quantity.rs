//! Quantities: `100m`, `1.5Gi`, `12e3`, compared with exact arithmetic.

use berth_proto::{Amount, Quantity, QuantityError};
use prost::Message;

use crate::exact::Exact;
use crate::work::bounded;

/// Checks the bytes as a quantity, or as two with a newline between them.
pub fn run(data: &[u8]) {
    check_encodings(data);
    let Ok(text) = str::from_utf8(data) else { return };
    let (first, second) = text.split_once('\n').unwrap_or((text, "-7"));
    if let (Some(first), Some(second)) = (check_text(first), check_text(second)) {
        check_pair(first, second);
    }
}

/// A quantity as far as it is known from outside: its value, and the same in nanos, exactly.
#[derive(Clone, Copy)]
struct Known {
    amount: Amount,
    nanos: i128,
}

fn check_text(text: &str) -> Option<Known> {
    let quantity = Quantity::new(text);
    let read = bounded(text.len(), 0, || quantity.parse());
    let expected = expected_nanos(text);
    let nanos = match (read, expected) {
        (Ok(_), Ok(nanos)) => nanos,
        (Err(error), Err(expected)) => {
            assert_eq!(error, expected, "`{text}`");
            assert_eq!(quantity.canonical(), Err(expected), "`{text}`");
            return None;
        }
        (read, expected) => panic!("`{text}` is {read:?}, expected {expected:?}"),
    };
    let amount = quantity.parse().unwrap();
    check_views(text, amount, nanos);
    let canonical = quantity.canonical().unwrap();
    assert_eq!(expected_nanos(&canonical), Ok(nanos), "`{text}` as `{canonical}`");
    assert_eq!(Quantity::new(&*canonical).parse(), Ok(amount), "`{text}` as `{canonical}`");
    assert!(!canonical.contains(['.', '+']), "`{text}` as `{canonical}`");
    // The canonical form may change the family of suffixes to the decimal one, which then stays.
    let again = Quantity::new(&*canonical).canonical().unwrap();
    let settled = Quantity::new(&*again).canonical().unwrap();
    assert_eq!(again, settled, "`{text}` as `{canonical}`");
    Some(Known { amount, nanos })
}

fn check_views(text: &str, amount: Amount, nanos: i128) {
    let away_from_zero = |unit: i128| nanos / unit + (nanos % unit).signum();
    let (units, millis) = (away_from_zero(1_000_000_000), away_from_zero(1_000_000));
    assert_eq!(amount.checked_value(), i64::try_from(units).ok(), "`{text}`");
    assert_eq!(amount.checked_milli_value(), i64::try_from(millis).ok(), "`{text}`");
    let held = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into());
    assert_eq!(i128::from(amount.value()), held(units), "`{text}`");
    assert_eq!(i128::from(amount.milli_value()), held(millis), "`{text}`");
    assert_eq!((amount.is_zero(), amount.is_negative()), (nanos == 0, nanos < 0), "`{text}`");
}

fn check_pair(a: Known, b: Known) {
    assert_eq!(a.amount.cmp(&b.amount), a.nanos.cmp(&b.nanos));
    assert_eq!(a.amount == b.amount, a.nanos == b.nanos);
    let sum = a.amount + b.amount;
    check_views("a sum", sum, a.nanos.saturating_add(b.nanos));
    assert_eq!(sum, b.amount + a.amount);
    assert_eq!([a.amount, b.amount].into_iter().sum::<Amount>(), sum);
    check_views("a negation", -a.amount, a.nanos.saturating_neg());
}

/// The text's value in nanos by schoolbook arithmetic (W-QTY-1 to W-QTY-4).
fn expected_nanos(text: &str) -> Result<i128, QuantityError> {
    let is_negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let at = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(at);
    let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_shaped =
        !number.is_empty() && !fraction.contains('.') && digits.chars().all(|c| c.is_ascii_digit());
    if !is_shaped {
        return Err(QuantityError::Shape);
    }
    if number == "." {
        return Err(QuantityError::Number);
    }
    let exact = Exact::of_digits(format!("{whole}{fraction}").as_bytes());
    let magnitude = in_nanos(exact, fraction.len(), suffix).ok_or(QuantityError::Suffix)?;
    let nanos = i128::try_from(magnitude).unwrap_or(i128::MAX);
    Ok(if is_negative { -nanos } else { nanos })
}

/// `number` / 10^`n_fraction` in units of the suffix; `None` for an unknown suffix.
fn in_nanos(number: Exact, n_fraction: usize, suffix: &str) -> Option<u128> {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(power) = binary.iter().position(|known| *known == suffix) {
        let number = (0..=power).fold(number, |number, _| number.times(1024));
        let nanos = number.times_ten_to_the(9).over_ten_to_the(n_fraction);
        return Some(nanos.at_most(i64::MAX as u128 * 1_000_000_000));
    }
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let third = decimal.iter().position(|known| *known == suffix);
    let exponent = match third {
        Some(third) => third as i64 * 3 - 9,
        None => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
            if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            // Beyond this the result is either zero or the limit.
            let size = unsigned.parse().unwrap_or(i64::MAX).min(1_000_000);
            if digits.starts_with('-') { -size } else { size }
        }
    };
    if number.is_zero() {
        return Some(0);
    }
    let power = exponent + 9 - n_fraction as i64;
    let far = usize::try_from(power.abs()).ok()?;
    let nanos = if power < 0 {
        number.over_ten_to_the(far).at_most(u128::MAX)
    } else if power > 40 {
        u128::MAX
    } else {
        number.times_ten_to_the(far).at_most(u128::MAX)
    };
    Some(nanos)
}

/// Checks that the wire forms keep the text: JSON without the white space around it, protobuf unchanged.
fn check_encodings(data: &[u8]) {
    if let Ok(quantity) = bounded(data.len(), 8, || serde_json::from_slice::<Quantity>(data)) {
        let json = serde_json::to_string(&quantity).unwrap();
        let again: Quantity = serde_json::from_str(&json).unwrap();
        assert_eq!(again.as_str(), quantity.as_str());
        let sent = Quantity::decode(&*quantity.encode_to_vec()).unwrap();
        assert_eq!(sent, quantity);
        check_text(quantity.as_str());
    }
    if let Ok(quantity) = Quantity::decode(data) {
        let bytes = quantity.encode_to_vec();
        assert_eq!(Quantity::decode(&*bytes).unwrap(), quantity);
        check_text(quantity.as_str());
    }
}
