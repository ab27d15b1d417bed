//! Quantities of expressions: an exact amount, and whether upstream holds it as a scaled integer (S-DRA-116).
//!
//! Upstream keeps short numbers as an integer with a power of ten, others as an arbitrary decimal. Only the first are
//! integers for `isInteger` and `asInteger`, and only without a negative power: `1.0` and `1.5Gi` are not.

use std::cmp::Ordering;

use berth_proto::{Amount, Quantity, QuantityError};

/// A quantity's amount, with the form in which upstream holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExactAmount {
    amount: Amount,
    scaled: Option<Scaled>,
    /// Whether the amount is a sum or a difference. Upstream's `==` fails with one on its right.
    pub(crate) is_computed: bool,
}

/// The number `value * 10^scale`.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    value: i64,
    scale: i32,
}

impl ExactAmount {
    /// Reads the text of a quantity.
    pub(crate) fn parse(text: &str) -> Result<ExactAmount, QuantityError> {
        let with_digit = with_digit(text);
        let text = with_digit.as_deref().unwrap_or(text);
        let amount = Quantity::new(text).parse()?;
        Ok(ExactAmount { amount, scaled: Scaled::of(text), is_computed: false })
    }

    fn from_int(value: i64) -> ExactAmount {
        ExactAmount {
            amount: Amount::from_value(value),
            scaled: Some(Scaled { value, scale: 0 }),
            is_computed: true,
        }
    }

    pub(crate) fn compare(&self, other: &ExactAmount) -> Ordering {
        self.amount.cmp(&other.amount)
    }

    pub(crate) fn sign(&self) -> i64 {
        match (self.amount.is_zero(), self.amount.is_negative()) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    pub(crate) fn add(&self, other: &ExactAmount) -> ExactAmount {
        let scaled = match (self.scaled, other.scaled) {
            (Some(left), Some(right)) => left.add(right),
            _ => None,
        };
        ExactAmount { amount: self.amount + other.amount, scaled, is_computed: true }
    }

    pub(crate) fn sub(&self, other: &ExactAmount) -> ExactAmount {
        let negated = other
            .scaled
            .map(|scaled| Scaled { value: scaled.value.wrapping_neg(), scale: scaled.scale });
        self.add(&ExactAmount { amount: -other.amount, scaled: negated, is_computed: true })
    }

    pub(crate) fn add_int(&self, other: i64) -> ExactAmount {
        self.add(&ExactAmount::from_int(other))
    }

    pub(crate) fn sub_int(&self, other: i64) -> ExactAmount {
        self.sub(&ExactAmount::from_int(other))
    }

    /// The amount as an integer, if upstream has it as one.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        let Scaled { value, scale } = self.scaled?;
        times_ten_to_the(value, u32::try_from(scale).ok()?)
    }

    /// The amount as a number, rounded.
    pub(crate) fn as_double(&self) -> f64 {
        if let Some(Scaled { value, scale }) = self.scaled {
            return value as f64 * 10_f64.powi(scale);
        }
        let whole = self.amount.value();
        let rest = self.amount + -Amount::from_value(whole);
        whole as f64 + rest.milli_value() as f64 / 1000.0
    }
}

/// The text with a zero before its suffix if it has no number: upstream reads `n` as zero.
fn with_digit(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let has_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let sign = &text[..text.len() - unsigned.len()];
    (!has_number && !text.is_empty()).then(|| format!("{sign}0{unsigned}"))
}

impl Scaled {
    /// The form of a valid text that upstream does not parse as an arbitrary decimal.
    fn of(text: &str) -> Option<Scaled> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let number_end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let n_digits = i32::try_from(whole.len() + fraction.len()).ok()?;
        let (scale, factor, precision) = match exponent_of(suffix)? {
            Exponent::Ten(power) => (power, 1, 18 - n_digits),
            Exponent::Two(power) if fraction.is_empty() => {
                let digits_of_factor = power * 3 / 10;
                (0, 1_i64.checked_shl(power.unsigned_abs())?, 14 - n_digits - digits_of_factor)
            }
            Exponent::Two(_) => return None,
        };
        let scale = scale - i32::try_from(fraction.len()).ok()?;
        if precision < 0 || scale < -9 {
            return None;
        }
        let digits: i64 = format!("{whole}{fraction}").parse().ok()?;
        let value = digits.checked_mul(factor)?;
        Some(Scaled { value: if text.starts_with('-') { -value } else { value }, scale })
    }

    fn add(self, other: Scaled) -> Option<Scaled> {
        if other.value == 0 {
            return Some(self);
        }
        if self.value == 0 {
            return Some(other);
        }
        let scale = self.scale.min(other.scale);
        let at_scale =
            |number: Scaled| times_ten_to_the(number.value, number.scale.abs_diff(scale));
        let value = at_scale(self)?.checked_add(at_scale(other)?)?;
        Some(Scaled { value, scale })
    }
}

fn times_ten_to_the(value: i64, power: u32) -> Option<i64> {
    value.checked_mul(10_i64.checked_pow(power)?)
}

/// The factor that a suffix stands for.
enum Exponent {
    Ten(i32),
    Two(i32),
}

fn exponent_of(suffix: &str) -> Option<Exponent> {
    let known = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some((_, power)) = known.iter().find(|(name, _)| *name == suffix) {
        return Some(Exponent::Ten(*power));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(position) = binary.iter().position(|name| *name == suffix) {
        return Some(Exponent::Two(10 * (i32::try_from(position).ok()? + 1)));
    }
    suffix.strip_prefix(['e', 'E'])?.parse().ok().map(Exponent::Ten)
}

#[cfg(test)]
mod tests {
    use super::ExactAmount;

    /// S-DRA-116: the texts that upstream holds as integers.
    #[test]
    fn integers() {
        for (text, expected) in [
            ("40Gi", Some(40 << 30)),
            ("2k", Some(2000)),
            ("1.5k", Some(1500)),
            ("1.0", None),
            ("1.5Gi", None),
            ("100Ti", None),
            ("1500m", None),
            ("-3", Some(-3)),
            ("n", None),
            ("k", Some(0)),
        ] {
            let amount = ExactAmount::parse(text).unwrap();
            assert_eq!(amount.as_integer(), expected, "{text}");
        }
        assert_eq!(ExactAmount::parse("n").unwrap().sign(), 0);
        assert!(ExactAmount::parse("").is_err() && ExactAmount::parse("x").is_err());
        let half = ExactAmount::parse("0.5").unwrap();
        assert!(half.add(&half).compare(&ExactAmount::parse("1").unwrap()).is_eq());
        assert_eq!(half.sub(&half).sign(), 0);
    }
}
