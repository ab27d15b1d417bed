//! The natural logarithm bit by bit as kube-scheduler computes it (S-TS-9).

#![allow(
    clippy::excessive_precision,
    reason = "the constants are written as the specification has them"
)]

use std::f64::consts::FRAC_1_SQRT_2;

const H: f64 = 6.931_471_803_691_238_164_90e-1;
const T: f64 = 1.908_214_929_270_587_700_02e-10;
const L: [f64; 7] = [
    6.666_666_666_666_735_130e-1,
    3.999_999_999_940_941_908e-1,
    2.857_142_874_366_239_149e-1,
    2.222_219_843_214_978_396e-1,
    1.818_357_216_161_805_012e-1,
    1.531_383_769_920_937_332e-1,
    1.479_819_860_511_658_591e-1,
];

pub(crate) fn ln(x: u32) -> f64 {
    let [l1, l2, l3, l4, l5, l6, l7] = L;
    let (mut m, mut k) = (f64::from(x), 0.0);
    while m >= 1.0 {
        m /= 2.0;
        k += 1.0;
    }
    if m < FRAC_1_SQRT_2 {
        m *= 2.0;
        k -= 1.0;
    }
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let y = z * z;
    let t1 = z * (l1 + y * (l3 + y * (l5 + y * l7)));
    let t2 = y * (l2 + y * (l4 + y * l6));
    let r = t1 + t2;
    let h = 0.5 * f * f;
    k * H - ((h - (s * (h + r) + k * T)) - f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result is within one unit in the last place of the library's, and differs from it for some inputs.
    #[test]
    fn differs_little_from_the_library() {
        let mut n_different = 0;
        for x in 2..=20_002 {
            let (ours, theirs) = (ln(x), f64::from(x).ln());
            assert!(ours.to_bits().abs_diff(theirs.to_bits()) <= 1, "ln {x}: {ours} and {theirs}");
            n_different += usize::from(ours != theirs);
        }
        assert!((100..400).contains(&n_different), "{n_different} of 20,001 differ");
        for x in [3, 14, 48, 74] {
            assert_ne!(ln(x), f64::from(x).ln(), "ln {x}");
        }
    }
}
