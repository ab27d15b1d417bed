//! `Quantity` and its value: exact decimal amounts such as `100m`, `1536Mi` and `12e3` (W-QTY).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod canonical;
mod text;

/// A quantity as written: the text is kept, and parsed only when the value is needed.
///
/// Protobuf: `{ string = 1 string }`; a missing text is zero, an empty one an error. JSON: a string, trimmed of white
/// space, or a bare number; `null` is zero. The default is the missing text. Equality is that of texts: compare
/// [`Amount`]s to compare values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Quantity {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

/// Fault of a quantity's text, in Kubernetes' words (W-QTY-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Empty, or not of the shape sign, digits, suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Shape,
    /// A number without a digit.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// A suffix that Kubernetes does not have.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// A quantity of this text, valid or not.
    pub fn new(text: impl Into<String>) -> Quantity {
        Quantity { text: Some(text.into()) }
    }

    /// The text as written; `0` when it is missing.
    pub fn as_str(&self) -> &str {
        self.text.as_deref().unwrap_or("0")
    }

    /// Whether a protobuf writer sent no text. It reads as zero, as in Kubernetes, which always writes the text.
    pub fn is_unset(&self) -> bool {
        self.text.is_none()
    }

    /// The exact value. Cost: one pass over the text, no allocation.
    pub fn parse(&self) -> Result<Amount, QuantityError> {
        text::parse(self.as_str()).map(|parsed| parsed.amount)
    }

    /// The canonical text of the value (W-QTY-7): no fraction, the largest suffix that keeps the mantissa integral.
    pub fn canonical(&self) -> Result<String, QuantityError> {
        text::parse(self.as_str()).map(canonical::write)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Quantity {
        Quantity::new(text)
    }
}

impl From<String> for Quantity {
    fn from(text: String) -> Quantity {
        Quantity::new(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An exact decimal with up to 9 fractional digits (W-QTY-3); sums, maxima and comparisons are exact (W-QTY-5).
///
/// Values beyond about ±1.7 × 10²⁹ are held at that limit. Integer views are at the limits of `i64` when the value is
/// out of their range (W-QTY-6); the `checked_` methods return `None` then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount {
    nanos: i128,
}

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

impl Amount {
    /// The amount zero.
    pub const ZERO: Amount = Amount { nanos: 0 };

    /// An amount of whole units.
    pub const fn from_value(value: i64) -> Amount {
        Amount { nanos: value as i128 * NANOS_PER_UNIT }
    }

    /// An amount of thousandths.
    pub const fn from_milli(milli: i64) -> Amount {
        Amount { nanos: milli as i128 * NANOS_PER_MILLI }
    }

    /// Whole units, rounded away from zero (W-QTY-4), at the limits of `i64` when out of range.
    pub fn value(self) -> i64 {
        saturate(self.in_units_of(NANOS_PER_UNIT))
    }

    /// Thousandths, rounded away from zero (W-QTY-4), at the limits of `i64` when out of range.
    pub fn milli_value(self) -> i64 {
        saturate(self.in_units_of(NANOS_PER_MILLI))
    }

    /// Whole units, as [`Amount::value`] rounds them; `None` when out of range.
    pub fn checked_value(self) -> Option<i64> {
        i64::try_from(self.in_units_of(NANOS_PER_UNIT)).ok()
    }

    /// Thousandths, as [`Amount::milli_value`] rounds them; `None` when out of range.
    pub fn checked_milli_value(self) -> Option<i64> {
        i64::try_from(self.in_units_of(NANOS_PER_MILLI)).ok()
    }

    /// Whether the amount is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is exactly zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    fn in_units_of(self, unit: i128) -> i128 {
        // A 64-bit division costs a fraction of a 128-bit one, and processor amounts always fit.
        let (quotient, rest) = match (i64::try_from(self.nanos), i64::try_from(unit)) {
            (Ok(nanos), Ok(unit)) => (i128::from(nanos / unit), i128::from(nanos % unit)),
            _ => (self.nanos / unit, self.nanos % unit),
        };
        quotient + rest.signum()
    }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        Amount { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        *self = *self + other;
    }
}

impl Neg for Amount {
    type Output = Amount;

    fn neg(self) -> Amount {
        Amount { nanos: self.nanos.saturating_neg() }
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Amount>>(amounts: I) -> Amount {
        amounts.fold(Amount::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a string or a number")
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity::new(text.trim()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity::new(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::new(number.to_string()))
    }

    /// The shortest text that reads back as the same number: the written text, up to 17 significant digits.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        Ok(Quantity::new(number.to_string()))
    }
}

#[cfg(test)]
mod tests;
