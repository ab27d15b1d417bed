//! Quantities as exact integers, read by a separate parser. Rules: W-QTY-1, W-QTY-3, W-QTY-4.

use berth_proto::Quantity;

/// Billionths of a unit.
pub(crate) type Nanos = i128;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// Returns the exact value of a valid, non-negative quantity; fractions of a nano are rounded up (W-QTY-3).
pub(crate) fn nanos(quantity: &Quantity) -> Nanos {
    let text = quantity.as_str();
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: i128 = format!("{whole}{fraction}").parse().expect("digits");
    let (numerator, denominator) = multiplier(suffix);
    let divisor = 10_i128.pow(u32::try_from(fraction.len()).expect("short")) * denominator;
    divide_up(mantissa * numerator * NANOS_PER_UNIT, divisor)
}

/// Returns the integer that filters compare: milli-units for cpu, whole units for other resources, rounded up
/// (S-FIT-1).
pub(crate) fn units(resource: &str, amount: Nanos) -> i64 {
    let unit = if resource == "cpu" { NANOS_PER_MILLI } else { NANOS_PER_UNIT };
    i64::try_from(divide_up(amount, unit)).expect("generated amounts are in range (W-QTY-6)")
}

/// A suffix as a fraction.
fn multiplier(suffix: &str) -> (i128, i128) {
    const DECIMAL: [(&str, i32); 10] = [
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
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(power) = BINARY.iter().position(|binary| *binary == suffix) {
        return (1024_i128.pow(u32::try_from(power).expect("small") + 1), 1);
    }
    let exponent = match DECIMAL.iter().find(|(decimal, _)| *decimal == suffix) {
        Some((_, exponent)) => *exponent,
        None => suffix[1..].parse().expect("an exponent after `e` or `E`"),
    };
    let power = 10_i128.pow(exponent.unsigned_abs());
    if exponent < 0 { (1, power) } else { (power, 1) }
}

fn divide_up(value: i128, divisor: i128) -> i128 {
    (value + divisor - 1) / divisor
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-QTY-1, W-QTY-3, W-QTY-4
    #[test]
    fn forms() {
        for (text, cpu, other) in [
            ("0.5m", 1, 1),
            ("100m", 100, 1),
            ("2", 2000, 2),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("12e3", 12_000_000, 12_000),
            ("12E-1", 1200, 2),
            ("0.1n", 1, 1),
            (".5", 500, 1),
            ("2.", 2000, 2),
            ("3k", 3_000_000, 3000),
            ("0", 0, 0),
        ] {
            let amount = nanos(&text.into());
            assert_eq!((units("cpu", amount), units("memory", amount)), (cpu, other), "{text}");
        }
    }
}
