//! Normalize: scores that read all nodes, scaled to 0 to 100. Rules: S-IS-6, S-TS-7, S-TS-8.
//!
//! Every integer here is below 2⁴⁰ and so exact in a double. ⌊a / b⌋ is computed as ⌊(a + ½) · (1 / b)⌋: the exact value
//! of (a + ½) / b is at least 1 / 2b > 2⁻³³ away from every integer, and with a quotient of at most 200 the two roundings
//! move it by less than 2⁻⁴⁴; so the floor is the integer quotient.

use std::ops::AddAssign;

use super::exact_i32;
use crate::domain::DomainId;
use crate::rows::ROWS;

/// Number of domains of a key, that of rows without it included, up to which [`add_by_domain`] takes them.
pub(crate) const FEW_DOMAINS: usize = 256;

/// Values by domain, for the kernels that take a few; `None` for more.
pub(crate) fn few_domains<T: Copy + Default>(by_domain: &[T]) -> Option<[T; FEW_DOMAINS]> {
    let mut few = [T::default(); FEW_DOMAINS];
    few.get_mut(..by_domain.len())?.copy_from_slice(by_domain);
    Some(few)
}

/// `totals` += `weight` · ⌊100 · (lowest + highest − value) / highest⌋, for values from `lowest` to `highest` > 0.
#[inline(always)]
pub(super) fn add_spread(
    totals: &mut [i32; ROWS],
    values: &[i32; ROWS],
    (lowest, highest): (i32, i32),
    weight: i32,
) {
    let (sum, inverse) = (f64::from(lowest) + f64::from(highest), 1.0 / f64::from(highest));
    for row in 0..ROWS {
        let score = ((100.0 * (sum - f64::from(values[row])) + 0.5) * inverse).floor();
        totals[row] = totals[row].wrapping_add(weight.wrapping_mul(exact_i32(score)));
    }
}

/// `totals` += `weight` · ⌊100 · ((value − lowest) / (highest − lowest))⌋ with the inner quotient rounded first, for
/// values from `lowest` to `highest` > `lowest`.
#[inline(always)]
pub(super) fn add_range(
    totals: &mut [i32; ROWS],
    values: &[i32; ROWS],
    (lowest, highest): (i32, i32),
    weight: i32,
) {
    let (lowest, range) = (f64::from(lowest), f64::from(highest) - f64::from(lowest));
    for row in 0..ROWS {
        let score = (100.0 * ((f64::from(values[row]) - lowest) / range)).floor();
        totals[row] = totals[row].wrapping_add(weight.wrapping_mul(exact_i32(score)));
    }
}

/// `sums` += `values`, by row.
#[inline(always)]
pub(super) fn add_all(sums: &mut [i32; ROWS], values: &[i32; ROWS]) {
    for row in 0..ROWS {
        sums[row] = sums[row].wrapping_add(values[row]);
    }
}

/// `sums` += count · `weight` + `constant`, by row.
#[inline(always)]
pub(super) fn add_counts(sums: &mut [f64; ROWS], counts: &[i32; ROWS], weight: f64, constant: f64) {
    for row in 0..ROWS {
        sums[row] += f64::from(counts[row]) * weight + constant;
    }
}

/// `sums` += the value of the row's domain.
#[inline(always)]
pub(super) fn add_by_domain<T: Copy + AddAssign>(
    sums: &mut [T; ROWS],
    domains: &[DomainId; ROWS],
    values: &[T; FEW_DOMAINS],
) {
    for row in 0..ROWS {
        // Every index is below the length, which the compiler does not know.
        sums[row] += values[domains[row].index() % FEW_DOMAINS];
    }
}

/// Each cost rounded half away from zero; costs lie in 0..2³¹.
#[inline(always)]
pub(super) fn round_costs(costs: &[f64; ROWS]) -> [i32; ROWS] {
    let mut rounded = [0; ROWS];
    for row in 0..ROWS {
        rounded[row] = round_cost(costs[row]);
    }
    rounded
}

/// A cost rounded half away from zero; it lies in 0..2³¹.
#[inline(always)]
pub(crate) fn round_cost(cost: f64) -> i32 {
    /// The largest double below ½: added to anything below a half it stays below one, added to a half it rounds to one.
    const BELOW_HALF: f64 = 0.5 - f64::EPSILON / 4.0;
    exact_i32((cost + BELOW_HALF).floor())
}
