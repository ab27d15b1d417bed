use proptest::prelude::*;
use prost::Message;

use super::*;

fn amount(text: &str) -> Amount {
    Quantity::new(text).parse().unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

/// Checks units, thousandths and the canonical text.
fn check(text: &str, value: i64, milli: i64, canonical: &str) {
    let amount = amount(text);
    assert_eq!(amount.checked_value(), Some(value), "value of `{text}`");
    assert_eq!(amount.checked_milli_value(), Some(milli), "milli value of `{text}`");
    assert_eq!(Quantity::new(text).canonical().unwrap(), canonical, "canonical form of `{text}`");
    assert_eq!(Quantity::new(text).to_string(), text);
}

#[test]
fn the_verified_examples() {
    check("0.5m", 1, 1, "500u");
    check("100n", 1, 1, "100n");
    check("0.0000000001", 1, 1, "1n");
    check("0.1", 1, 100, "100m");
    check("1500m", 2, 1500, "1500m");
    check("1.5", 2, 1500, "1500m");
    check("-1.5", -2, -1500, "-1500m");
    check(".5", 1, 500, "500m");
    check("5.", 5, 5000, "5");
    check("+2", 2, 2000, "2");
    check("1e3", 1000, 1_000_000, "1e3");
    check("1E3", 1000, 1_000_000, "1e3");
    check("12e-1", 2, 1200, "1200e-3");
    check("1Ki", 1024, 1_024_000, "1Ki");
    check("1.1Ki", 1127, 1_126_400, "1126400m");
    check("0.5Ki", 512, 512_000, "512");
    check("1.5Gi", 1_610_612_736, 1_610_612_736_000, "1536Mi");
}

#[test]
fn every_suffix() {
    for (suffix, nanos) in [
        ("n", 1),
        ("u", 1_000),
        ("m", 1_000_000),
        ("", NANOS_PER_UNIT),
        ("k", 1_000 * NANOS_PER_UNIT),
        ("M", 1_000_000 * NANOS_PER_UNIT),
        ("G", 1_000_000_000 * NANOS_PER_UNIT),
        ("T", 1_000_000_000_000 * NANOS_PER_UNIT),
        ("P", 1_000_000_000_000_000 * NANOS_PER_UNIT),
        ("E", 1_000_000_000_000_000_000 * NANOS_PER_UNIT),
        ("Ki", NANOS_PER_UNIT << 10),
        ("Mi", NANOS_PER_UNIT << 20),
        ("Gi", NANOS_PER_UNIT << 30),
        ("Ti", NANOS_PER_UNIT << 40),
        ("Pi", NANOS_PER_UNIT << 50),
        ("Ei", NANOS_PER_UNIT << 60),
        ("e0", NANOS_PER_UNIT),
        ("e+2", 100 * NANOS_PER_UNIT),
        ("E-9", 1),
        ("e18", 1_000_000_000_000_000_000 * NANOS_PER_UNIT),
    ] {
        assert_eq!(amount(&format!("7{suffix}")).nanos, 7 * nanos, "`{suffix}`");
        assert_eq!(amount(&format!("-7{suffix}")).nanos, -7 * nanos, "`{suffix}`");
        // A mantissa of 7 fits every suffix, so that the canonical form finds it again.
        let canonical = Quantity::new(format!("7{suffix}")).canonical().unwrap();
        assert_eq!(amount(&canonical).nanos, 7 * nanos, "`{suffix}` as `{canonical}`");
        if !suffix.contains(['e', 'E']) || suffix.len() < 2 {
            assert_eq!(canonical, format!("7{suffix}"));
        }
    }
}

#[test]
fn errors_in_kubernetes_words() {
    for text in [
        "", " ", "1 ", " 1", "0x10", "1KI", "2e2Ki", "1.1.M", "1+1.0M", "0.1am", "aoeu", "m", "Ki",
        "+", "-", "e3", "--1", "1e3e", "1,5", "١", "1µ", "1\n",
    ] {
        assert_eq!(Quantity::new(text).parse(), Err(QuantityError::Shape), "`{text}`");
    }
    for text in [
        "1i", "1e", "1K", "1ki", "1kk", "1e+", "1e-", "1m3", "1Mi2", "1KiKi", "1ee3", "1E-", "1-3",
        "1+",
    ] {
        assert_eq!(Quantity::new(text).parse(), Err(QuantityError::Suffix), "`{text}`");
    }
    for text in [".", "+.", "-.", ".Ki", ".e3"] {
        assert_eq!(Quantity::new(text).parse(), Err(QuantityError::Number), "`{text}`");
    }
    assert_eq!(
        QuantityError::Shape.to_string(),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
    assert_eq!(QuantityError::Number.to_string(), "unable to parse numeric part of quantity");
    assert_eq!(QuantityError::Suffix.to_string(), "unable to parse quantity's suffix");
}

#[test]
fn finer_than_nano_rounds_away_from_zero() {
    for (text, nanos) in [
        ("0.1n", 1),
        ("-0.1n", -1),
        ("1.0000000001", 1_000_000_001),
        ("-1.0000000001", -1_000_000_001),
        ("1.0000000010", 1_000_000_001),
        ("1.000000000", 1_000_000_000),
        ("1e-10", 1),
        ("1e-99999999999999999999", 1),
        ("0e-99999999999999999999", 0),
        ("0e99999999999999999999", 0),
        ("0.0000000000000000000000000000000000000000000000000001", 1),
        ("0.0000000000000000000000000000000000000000000000000000", 0),
        // 2^10 / 10^12 units are 1.024 nanos.
        ("0.000000000001Ki", 2),
        // Exactly a nano: 5^10 / 10^10 × 2^10 / 10^9.
        ("0.0000000000009765625Ki", 1),
        ("0.00000000000097656250000000000000000000000000000000000000001Ki", 2),
    ] {
        assert_eq!(amount(text).nanos, nanos, "`{text}`");
    }
}

#[test]
fn binary_amounts_are_capped() {
    for text in
        ["8Ei", "9Ei", "9223372036854775808Ki", "99999999999999999999999999999999999999999999999Ei"]
    {
        assert_eq!(amount(text), Amount::from_value(i64::MAX), "`{text}`");
        assert_eq!(amount(&format!("-{text}")), Amount::from_value(-i64::MAX), "`-{text}`");
        assert_eq!(Quantity::new(text).canonical().unwrap(), "9223372036854775807");
    }
    let ninth = amount("9Ei");
    assert_eq!((ninth.value(), ninth.checked_value()), (i64::MAX, Some(i64::MAX)));
    assert_eq!((ninth.milli_value(), ninth.checked_milli_value()), (i64::MAX, None));
    assert_eq!(amount("7.999999999999999999Ei").checked_value(), Some(9_223_372_036_854_775_807));
}

#[test]
fn values_out_of_range_saturate_and_tell() {
    let large = amount("10E");
    assert_eq!((large.value(), large.checked_value()), (i64::MAX, None));
    let small = amount("-10E");
    assert_eq!((small.value(), small.checked_value()), (i64::MIN, None));
    let milli = amount("1E");
    assert_eq!((milli.value(), milli.milli_value()), (1_000_000_000_000_000_000, i64::MAX));
    assert_eq!(milli.checked_milli_value(), None);
    for text in ["1e99999999999999999999", "99999999999999999999999999999999999999999999", "1e30"] {
        assert_eq!(amount(text).checked_value(), None, "`{text}`");
        assert_eq!(amount(&format!("-{text}")).value(), i64::MIN, "`-{text}`");
        assert_eq!(amount(text) + amount(text), amount(text), "the limit holds");
    }
    assert_eq!(amount("9223372036854775807").checked_value(), Some(i64::MAX));
    assert_eq!(amount("-9223372036854775808").checked_value(), Some(i64::MIN));
    assert_eq!(amount("9223372036854775807.1").checked_value(), None);
}

#[test]
fn canonical_forms() {
    for (text, canonical) in [
        ("0", "0"),
        ("-0", "0"),
        ("0Ki", "0"),
        ("0.000", "0"),
        ("007", "7"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1023Ki", "1023Ki"),
        ("1024Ki", "1Mi"),
        ("-2048Ki", "-2Mi"),
        ("1025", "1025"),
        ("0.0009765625Ki", "1"),
        ("0.9990234375Ki", "1023"),
        ("1.0009765625Ki", "1025"),
        ("1000E", "1000E"),
        ("1500e-3", "1500e-3"),
        ("1000e-3", "1"),
        ("10e1", "100"),
        ("1e4", "10e3"),
        ("1e27", "1e27"),
        ("123456789n", "123456789n"),
    ] {
        assert_eq!(Quantity::new(text).canonical().unwrap(), canonical, "`{text}`");
    }
}

#[test]
fn json_reads_strings_and_numbers() {
    for (json, text) in [
        (r#""100m""#, "100m"),
        (r#"" \t1Gi\n""#, "1Gi"),
        ("4", "4"),
        ("-2", "-2"),
        ("0.1", "0.1"),
        ("1.5e3", "1500"),
        ("18446744073709551615", "18446744073709551615"),
        ("0.000000001", "0.000000001"),
    ] {
        assert_eq!(serde_json::from_str::<Quantity>(json).unwrap(), Quantity::from(text), "{json}");
    }
    assert_eq!(serde_json::to_string(&Quantity::from("1.0Gi")).unwrap(), r#""1.0Gi""#);
    assert_eq!(serde_json::from_str::<Quantity>("null").unwrap().parse(), Ok(Amount::ZERO));
    assert_eq!(serde_json::to_string(&Quantity::default()).unwrap(), r#""0""#);
    // Refused later, with the field path of whoever asks for the value.
    assert_eq!(
        serde_json::from_str::<Quantity>(r#""""#).unwrap().parse(),
        Err(QuantityError::Shape)
    );
    for json in ["true", "{}", "[]"] {
        assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
    }
}

#[test]
fn protobuf_keeps_the_text() {
    let quantity = Quantity::decode(&b"\x0a\x051.0Gi"[..]).unwrap();
    assert_eq!(quantity.as_str(), "1.0Gi");
    assert_eq!(quantity.encode_to_vec(), b"\x0a\x051.0Gi");
    assert_eq!(Quantity::decode(&b""[..]).unwrap().parse(), Ok(Amount::ZERO));
    assert_eq!(Quantity::decode(&b"\x0a\x00"[..]).unwrap().parse(), Err(QuantityError::Shape));
    // Not trimmed, unlike JSON (W-QTY-2).
    assert_eq!(Quantity::decode(&b"\x0a\x021 "[..]).unwrap().parse(), Err(QuantityError::Shape));
}

#[test]
fn sums_and_comparisons_are_exact() {
    let third: Amount = ["0.1", "100m", "100000u"].map(amount).into_iter().sum();
    assert_eq!(third, amount("300m"));
    assert_eq!(third.value(), 1);
    // Rounding comes last: three times 0.4 are 2, not 3.
    assert_eq!((amount("0.4") + amount("0.4") + amount("0.4")).value(), 2);
    assert!(amount("1Ki") > amount("1k"));
    assert_eq!(amount("1Gi").max(amount("1G")), amount("1Gi"));
    assert_eq!(amount("2") + amount("-2"), Amount::ZERO);
    assert!(amount("-1n").is_negative() && !Amount::ZERO.is_negative() && Amount::ZERO.is_zero());
    assert_eq!(Amount::from_milli(1500), amount("1.5"));
    assert_eq!(-Amount::from_value(3), amount("-3"));
}

/// Suffix, numerator and denominator of its factor.
const FACTORS: [(&str, u128, u128); 18] = [
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1_000),
    ("", 1, 1),
    ("k", 1_000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("e-4", 1, 10_000),
    ("E+2", 100, 1),
    ("e7", 10_000_000, 1),
];

proptest! {
    /// Against one fraction of whole numbers, rounded up once.
    #[test]
    fn equals_the_fraction(digits in 0_u128..=9_999_999, places in 0_usize..=7, factor in 0..FACTORS.len(), minus: bool) {
        let (suffix, up, down) = FACTORS[factor];
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        let text = format!("{}{whole}.{fraction}{suffix}", if minus { "-" } else { "" });
        let mut nanos = (digits * up * 1_000_000_000).div_ceil(down * 10_u128.pow(u32::try_from(places).unwrap()));
        if suffix.ends_with('i') {
            nanos = nanos.min(u128::from(i64::MAX.unsigned_abs()) * 1_000_000_000);
        }
        let nanos = i128::try_from(nanos).unwrap();
        prop_assert_eq!(amount(&text).nanos, if minus { -nanos } else { nanos }, "`{}`", text);
    }

    /// The canonical text has the same value and is its own canonical text.
    #[test]
    fn canonical_keeps_the_value(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,12})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]|)") {
        let quantity = Quantity::new(text);
        let canonical = Quantity::new(quantity.canonical().unwrap());
        prop_assert_eq!(canonical.parse(), quantity.parse());
        prop_assert_eq!(canonical.canonical().unwrap(), canonical.as_str());
        prop_assert!(!canonical.as_str().contains('.'));
    }

    /// Zeros that do not count change nothing.
    #[test]
    fn padding_changes_nothing(whole in 0_u64.., fraction in "[0-9]{1,20}", zeros in 0_usize..60, suffix in "|m|Gi|k") {
        let zeros = "0".repeat(zeros);
        prop_assert_eq!(
            amount(&format!("{zeros}{whole}.{fraction}{zeros}{suffix}")),
            amount(&format!("{whole}.{fraction}{suffix}"))
        );
    }

    /// Views round away from zero, and only as far as they must.
    #[test]
    fn views_bracket_the_amount(nanos in -(1_i128 << 92)..(1_i128 << 92)) {
        let amount = Amount { nanos };
        if let Some(value) = amount.checked_value() {
            let over = i128::from(value) * NANOS_PER_UNIT - nanos;
            prop_assert!(over.abs() < NANOS_PER_UNIT && over.signum() * nanos.signum() >= 0);
            prop_assert_eq!(amount.value(), value);
        }
        if let Some(milli) = amount.checked_milli_value() {
            let over = i128::from(milli) * NANOS_PER_MILLI - nanos;
            prop_assert!(over.abs() < NANOS_PER_MILLI && over.signum() * nanos.signum() >= 0);
        }
    }

    /// No text panics, and what is refused is refused with one of the three errors.
    #[test]
    fn no_text_panics(text in "[-+0-9.eEinumkKMGTPi ]{0,40}") {
        if let Ok(amount) = Quantity::new(&*text).parse() {
            prop_assert!(amount.checked_value().is_none_or(|value| value == amount.value()));
        }
    }
}
