//! Writes a quantity's canonical text (W-QTY-7).

use super::NANOS_PER_UNIT;
use super::text::{Format, Parsed};

/// Powers of ten with a suffix, in threes, from the largest.
const DECIMAL: [(i32, &str); 10] = [
    (18, "E"),
    (15, "P"),
    (12, "T"),
    (9, "G"),
    (6, "M"),
    (3, "k"),
    (0, ""),
    (-3, "m"),
    (-6, "u"),
    (-9, "n"),
];

/// Powers of 1024 with a suffix, from the largest.
const BINARY: [(u32, &str); 7] =
    [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"), (0, "")];

/// Writes the canonical text: no fraction, and the largest suffix of the family that keeps the mantissa integral.
///
/// Amounts of the binary family below 1024 units, or with a fraction of a unit, are written with decimal suffixes.
pub(super) fn write(Parsed { amount, format }: Parsed) -> String {
    let nanos = amount.nanos;
    if nanos == 0 {
        return "0".to_owned();
    }
    let units = nanos / NANOS_PER_UNIT;
    match format {
        Format::BinarySi if nanos % NANOS_PER_UNIT == 0 && units.unsigned_abs() >= 1024 => {
            binary(units)
        }
        Format::DecimalExponent => exponent(nanos),
        Format::BinarySi | Format::DecimalSi => decimal(nanos),
    }
}

fn binary(units: i128) -> String {
    let fits = BINARY.iter().find(|(power, _)| units % (1 << power) == 0);
    fits.map_or_else(|| units.to_string(), |(power, suffix)| format!("{}{suffix}", units >> power))
}

fn decimal(nanos: i128) -> String {
    let fits = DECIMAL.iter().find_map(|(power, suffix)| Some((whole(nanos, *power)?, suffix)));
    fits.map_or_else(|| nanos.to_string(), |(mantissa, suffix)| format!("{mantissa}{suffix}"))
}

fn exponent(nanos: i128) -> String {
    // 10^27 is the largest multiple of three that an amount can hold.
    let fits = (-3..=9).rev().find_map(|third| Some((whole(nanos, third * 3)?, third * 3)));
    match fits {
        Some((mantissa, 0)) => mantissa.to_string(),
        Some((mantissa, power)) => format!("{mantissa}e{power}"),
        None => nanos.to_string(),
    }
}

/// `nanos` as a multiple of 10^`power`, when it is one.
fn whole(nanos: i128, power: i32) -> Option<i128> {
    let unit = 10_i128.checked_pow(u32::try_from(power + 9).ok()?)?;
    (nanos % unit == 0).then_some(nanos / unit)
}
