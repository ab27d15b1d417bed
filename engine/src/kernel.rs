//! Kernels: plain loops over the columns of one shard, which the compiler vectorizes.
//!
//! A kernel's portable source defines its result; every instruction set gives the same bits. Rows without a node hold
//! zeros and may give any result: callers mask them.
#![expect(
    clippy::needless_range_loop,
    reason = "one row index walks several columns, which the vectoriser likes"
)]

mod allocation;
mod balance;
mod dispatch;
mod fit;
mod normalize;
mod pack;
mod reduce;
mod tie;

pub(crate) use allocation::{AllocationInput, ResourceInput};
pub(crate) use balance::{BalanceInput, balance_of, balance_score};
pub(crate) use dispatch::Kernels;
pub(crate) use fit::{FitInput, NativeColumns};
pub(crate) use normalize::{FEW_DOMAINS, few_domains, round_cost};
pub(crate) use tie::{MANY_TIED, N_GROUPS, TieGroup, TieKey};

/// Allocatable amounts below this are exact in every double expression of the kernels: 16 TiB, or 17 billion CPUs.
pub(crate) const EXACT_LIMIT: i64 = 1 << 44;

/// Converts an integer from 0 to 2⁵² − 1 to a double by its bits: one OR and one subtraction on any instruction set.
#[inline(always)]
fn exact_f64(value: i64) -> f64 {
    const MAGIC: f64 = 4_503_599_627_370_496.0; // 2⁵²
    f64::from_bits(value as u64 | MAGIC.to_bits()) - MAGIC
}

/// Converts a double with an integral value from 0 to 2³¹ − 1.
#[inline(always)]
fn exact_i32(value: f64) -> i32 {
    const MAGIC: f64 = 4_503_599_627_370_496.0;
    (value + MAGIC).to_bits() as i32
}

#[cfg(test)]
mod tests;
