//! Allocation: the mean-of-resources scores, in doubles that are exact.
//!
//! With a < 2⁴⁴, ⌊100 f / a⌋ is computed as ⌊(100 f + ½) · (1/a)⌋. The exact value of (100 f + ½) / a is at least
//! 1/(2a) > 2⁻⁴⁵ away from every integer, while the two roundings move it by less than 101 · 2⁻⁵² < 2⁻⁴⁵; so the floor is the
//! integer quotient. Rules: S-RS-5, S-RS-6.

use super::{exact_f64, exact_i32};
use crate::snapshot::ROWS;

/// One scored resource of a shard.
#[derive(Copy, Clone, Debug)]
pub(crate) struct AllocationInput<'a> {
    pub(crate) allocatable: &'a [i64; ROWS],
    /// 1 / `allocatable`.
    pub(crate) inverse: &'a [f64; ROWS],
    pub(crate) used: &'a [i64; ROWS],
    /// What the pod adds.
    pub(crate) request: i64,
    pub(crate) weight: i64,
}

#[inline(always)]
pub(super) fn add_least_allocated(sum: &mut [f64; ROWS], input: &AllocationInput<'_>) {
    let weight = exact_f64(input.weight);
    for row in 0..ROWS {
        let free = input.allocatable[row]
            .wrapping_sub(input.used[row])
            .wrapping_sub(input.request)
            .max(0);
        sum[row] += weight * percent(free, input.inverse[row]);
    }
}

#[inline(always)]
pub(super) fn add_most_allocated(sum: &mut [f64; ROWS], input: &AllocationInput<'_>) {
    let weight = exact_f64(input.weight);
    for row in 0..ROWS {
        let requested = input.used[row]
            .wrapping_add(input.request)
            .min(input.allocatable[row]);
        sum[row] += weight * percent(requested, input.inverse[row]);
    }
}

/// The mean, by the same argument with a divisor of at most 10⁶.
#[inline(always)]
pub(super) fn add_mean(scores: &mut [i32; ROWS], sum: &[f64; ROWS], divisor: i64, weight: i32) {
    let inverse = 1.0 / exact_f64(divisor);
    for row in 0..ROWS {
        let mean = ((sum[row] + 0.5) * inverse).floor();
        scores[row] = scores[row].wrapping_add(weight.wrapping_mul(exact_i32(mean)));
    }
}

/// ⌊100 · part / whole⌋ for 0 ≤ part ≤ whole < 2⁴⁴, whole > 0.
#[inline(always)]
fn percent(part: i64, inverse_of_whole: f64) -> f64 {
    ((exact_f64(part) * 100.0 + 0.5) * inverse_of_whole).floor()
}
