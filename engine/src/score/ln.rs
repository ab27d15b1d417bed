//! ln: the natural logarithm with kube-scheduler's exact bits; other libraries' results sometimes differ by one ulp.
//! Rule: S-TS-9.

const HIGH: f64 = 0.693_147_180_369_123_8;
const LOW: f64 = 1.908_214_929_270_587_7e-10;
const L: [f64; 7] = [
    0.666_666_666_666_673_5,
    0.399_999_999_994_094_2,
    0.285_714_287_436_623_9,
    0.222_221_984_321_497_84,
    0.181_835_721_616_180_5,
    0.153_138_376_992_093_73,
    0.147_981_986_051_165_86,
];

/// Computes ln x for a finite, normal x > 0. Products and sums are never fused.
pub(super) fn ln(x: f64) -> f64 {
    let (fraction, exponent) = split(x);
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let y = z * z;
    let odd = z * (L[0] + y * (L[2] + y * (L[4] + y * L[6])));
    let even = y * (L[1] + y * (L[3] + y * L[5]));
    let r = odd + even;
    let half_square = 0.5 * f * f;
    exponent * HIGH - ((half_square - (s * (half_square + r) + exponent * LOW)) - f)
}

/// Splits x into m · 2ᵏ with m in [√½, √2).
fn split(x: f64) -> (f64, f64) {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = x.to_bits();
    let half = f64::from_bits(bits & ((1 << FRACTION_BITS) - 1) | 0.5_f64.to_bits());
    let exponent = ((bits >> FRACTION_BITS) as i64 - 1022) as f64;
    if half < std::f64::consts::FRAC_1_SQRT_2 {
        (half * 2.0, exponent - 1.0)
    } else {
        (half, exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::ln;

    /// Checks that results are within an ulp of the platform's, but differ from it for the integers that S-TS-9 names.
    #[test]
    fn results_are_within_an_ulp_of_the_platforms() {
        for size in 2..=20_002_u32 {
            let (ours, theirs) = (ln(f64::from(size)), f64::from(size).ln());
            assert!(ours.to_bits().abs_diff(theirs.to_bits()) <= 1, "{size}: {ours} {theirs}");
        }
        assert_eq!(ln(2.0), std::f64::consts::LN_2);
        for (x, bits) in [
            (3.0, 0x3ff1_93ea_7aad_030a),
            (14.0, 0x4005_1cca_16d7_bba8),
            (48.0, 0x400e_f838_3c50_bb74),
            (74.0, 0x4011_375c_d6fc_ab1c),
        ] {
            assert_eq!(ln(x).to_bits(), bits, "{x}");
        }
    }
}
