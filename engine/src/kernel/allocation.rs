//! Allocation: the mean-of-resources scores, in exact doubles.
//!
//! With a < 2⁴⁴, ⌊100 f / a⌋ is computed as ⌊(100 f + ½) · (1/a)⌋. The exact value of (100 f + ½) / a is at least
//! 1/(2a) > 2⁻⁴⁵ away from every integer, while the two roundings move it by less than 101 · 2⁻⁵² < 2⁻⁴⁵; so the floor
//! is the integer quotient. Rules: S-RS-5, S-RS-6.

use super::{exact_f64, exact_i32};
use crate::rows::ROWS;

/// The scored resources of a shard: CPU, memory or both; one that is not scored has weight 0.
#[derive(Copy, Clone, Debug)]
pub(crate) struct AllocationInput<'a> {
    pub(crate) resources: [ResourceInput<'a>; 2],
}

/// One scored resource.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ResourceInput<'a> {
    pub(crate) allocatable: &'a [i64; ROWS],
    /// 1 / `allocatable`.
    pub(crate) inverse: &'a [f64; ROWS],
    pub(crate) used: &'a [i64; ROWS],
    /// The amount that the pod requests.
    pub(crate) request: i64,
    pub(crate) weight: i64,
}

#[inline(always)]
pub(super) fn add_least_allocated(
    scores: &mut [i32; ROWS],
    input: &AllocationInput<'_>,
    weight: i32,
) {
    add_mean(scores, input, weight, |resource, row| {
        let used = resource.used[row].wrapping_add(resource.request);
        resource.allocatable[row].wrapping_sub(used).max(0)
    });
}

#[inline(always)]
pub(super) fn add_most_allocated(
    scores: &mut [i32; ROWS],
    input: &AllocationInput<'_>,
    weight: i32,
) {
    add_mean(scores, input, weight, |resource, row| {
        resource.used[row].wrapping_add(resource.request).min(resource.allocatable[row])
    });
}

/// Adds the weighted mean over both resources of `part` as a percentage of the allocatable amount. The mean's divisor
/// is at most 200, so it is exact by the same argument.
#[inline(always)]
fn add_mean(
    scores: &mut [i32; ROWS],
    input: &AllocationInput<'_>,
    weight: i32,
    part: impl Fn(&ResourceInput<'_>, usize) -> i64,
) {
    let [first, second] = &input.resources;
    let (weight0, weight1) = (exact_f64(first.weight), exact_f64(second.weight));
    let inverse_of_weights = 1.0 / (weight0 + weight1);
    for row in 0..ROWS {
        let sum = weight0 * percent(part(first, row), first.inverse[row])
            + weight1 * percent(part(second, row), second.inverse[row]);
        let mean = ((sum + 0.5) * inverse_of_weights).floor();
        scores[row] = scores[row].wrapping_add(weight.wrapping_mul(exact_i32(mean)));
    }
}

/// Computes ⌊100 · part / whole⌋ for 0 ≤ part ≤ whole < 2⁴⁴, whole > 0.
#[inline(always)]
fn percent(part: i64, inverse_of_whole: f64) -> f64 {
    ((exact_f64(part) * 100.0 + 0.5) * inverse_of_whole).floor()
}
