//! Balance: how a pod changes the balance of two resources. Rules: S-BA-3, S-BA-4.

use super::{exact_f64, exact_i32};
use crate::rows::ROWS;

/// The two resources and the pod's requests of them.
#[derive(Copy, Clone, Debug)]
pub(crate) struct BalanceInput<'a> {
    pub(crate) allocatable: [&'a [i64; ROWS]; 2],
    pub(crate) used: [&'a [i64; ROWS]; 2],
    /// [`balance_of`] the two without the pod.
    pub(crate) balance: &'a [f64; ROWS],
    pub(crate) request: [i64; 2],
}

#[inline(always)]
pub(super) fn add_balance(scores: &mut [i32; ROWS], input: &BalanceInput<'_>, weight: i32) {
    for row in 0..ROWS {
        let score = balance_score(input, row);
        scores[row] = scores[row].wrapping_add(weight.wrapping_mul(score));
    }
}

/// The score of one row.
#[inline(always)]
pub(crate) fn balance_score(input: &BalanceInput<'_>, row: usize) -> i32 {
    let ([alloc0, alloc1], [used0, used1], [request0, request1]) =
        (input.allocatable, input.used, input.request);
    let with0 = fraction(used0[row].wrapping_add(request0), alloc0[row]);
    let with1 = fraction(used1[row].wrapping_add(request1), alloc1[row]);
    let score = 50.0 + ((50.0 + balance(with0, with1) - input.balance[row]) * 0.5).floor();
    exact_i32(score)
}

/// The balance of two resources of one node: from 50 (one used up, the other unused) to 100.
pub(crate) fn balance_of(allocatable: [i64; 2], used: [i64; 2]) -> f64 {
    balance(fraction(used[0], allocatable[0]), fraction(used[1], allocatable[1]))
}

/// Computes min(1, used / allocatable): `used` is limited to `allocatable` before dividing, with the same result.
#[inline(always)]
fn fraction(used: i64, allocatable: i64) -> f64 {
    exact_f64(used.min(allocatable)) / exact_f64(allocatable)
}

/// Computes ⌊100 · (1 − std)⌋. The std of two values is half their distance; both are in 0..=1, so the result is in
/// 50..=100.
#[inline(always)]
fn balance(f0: f64, f1: f64) -> f64 {
    ((1.0 - ((f0 - f1) / 2.0).abs()) * 100.0).floor()
}
