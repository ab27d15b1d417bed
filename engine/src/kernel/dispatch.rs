//! Dispatch: selects an instruction set once; the engine's only `unsafe`.
#![expect(unsafe_code, reason = "calling a function compiled for instructions that were detected")]

use std::ops::Range;

use super::fit::FitInput;
use super::normalize::FEW_DOMAINS;
use super::tie::{TieGroup, TieKey};
use super::{allocation, balance, fit, normalize, reduce, tie};
use crate::domain::DomainId;
use crate::rows::{ROWS, RowSet};

/// The kernels, compiled for one instruction set of this machine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernels(InstructionSet);

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum InstructionSet {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Kernels {
    /// The widest instruction set of this machine.
    pub(crate) fn detect() -> Kernels {
        Kernels::all().pop().unwrap_or(Kernels(InstructionSet::Portable))
    }

    /// Every instruction set of this machine, the portable one first.
    pub(crate) fn all() -> Vec<Kernels> {
        let mut all = vec![Kernels(InstructionSet::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Kernels(InstructionSet::Avx2));
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                {
                    all.push(Kernels(InstructionSet::Avx512));
                }
            }
        }
        all
    }
}

/// Declares a method that runs a portable kernel compiled for the chosen set.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident = $source:path; ($($arg:ident: $type:ty),*) $(-> $result:ty)?) => {
        impl Kernels {
            $(#[$doc])*
            #[inline]
            pub(crate) fn $name(self, $($arg: $type),*) $(-> $result)? {
                match self.0 {
                    InstructionSet::Portable => $source($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => {
                        #[target_feature(enable = "avx2")]
                        fn avx2($($arg: $type),*) $(-> $result)? { $source($($arg),*) }
                        // SAFETY: this variant exists only where `Kernels::all` detected AVX2.
                        unsafe { avx2($($arg),*) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => {
                        #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
                        fn avx512($($arg: $type),*) $(-> $result)? { $source($($arg),*) }
                        // SAFETY: this variant exists only where `Kernels::all` detected these five features.
                        unsafe { avx512($($arg),*) }
                    }
                }
            }
        }
    };
}

kernel! {
    /// Rows whose node has room for a request (S-FIT-8).
    fit = fit::fit; (input: &FitInput<'_>) -> RowSet
}
kernel! {
    /// Rows where `request` is at most `allocatable` − `used`.
    fit_one = fit::fit_one; (allocatable: &[i64; ROWS], used: &[i64; ROWS], request: i64) -> RowSet
}
kernel! {
    /// `scores` += `weight` · the LeastAllocated score (S-RS-5). Every allocatable amount of a row whose score is used
    /// must be in 1..2⁴⁴; used and requested amounts are ≥ 0 and at most 2⁶²; at least one weight is not 0.
    add_least_allocated = allocation::add_least_allocated;
    (scores: &mut [i32; ROWS], input: &allocation::AllocationInput<'_>, weight: i32)
}
kernel! {
    /// `scores` += `weight` · the MostAllocated score (S-RS-6), under the bounds of [`Kernels::add_least_allocated`].
    add_most_allocated = allocation::add_most_allocated;
    (scores: &mut [i32; ROWS], input: &allocation::AllocationInput<'_>, weight: i32)
}
kernel! {
    /// `scores` += `weight` · the BalancedAllocation score over two resources (S-BA-3, S-BA-4), under the bounds of
    /// [`Kernels::add_least_allocated`] for both.
    add_balance = balance::add_balance; (scores: &mut [i32; ROWS], input: &balance::BalanceInput<'_>, weight: i32)
}
kernel! {
    /// `scores` += `weight` · the normalized topology spread score of `values` (S-TS-8). The second value of `extent`
    /// is not 0, and the values of used rows are within it.
    add_spread = normalize::add_spread;
    (totals: &mut [i32; ROWS], values: &[i32; ROWS], extent: (i32, i32), weight: i32)
}
kernel! {
    /// `scores` += `weight` · the normalized inter-pod affinity score of `values` (S-IS-6). The values of `extent`
    /// differ.
    add_range = normalize::add_range;
    (totals: &mut [i32; ROWS], values: &[i32; ROWS], extent: (i32, i32), weight: i32)
}
kernel! {
    /// `scores` += the weight of each row's domain, whose index is below [`FEW_DOMAINS`] (S-IS-5).
    add_weights = normalize::add_by_domain;
    (scores: &mut [i32; ROWS], domains: &[DomainId; ROWS], weights: &[i32; FEW_DOMAINS])
}
kernel! {
    /// `scores` += the weight of each row (S-IS-5).
    add_all = normalize::add_all; (scores: &mut [i32; ROWS], weights: &[i32; ROWS])
}
kernel! {
    /// `sums` += count · `weight` + `constant`, by row (S-TS-7).
    add_counts = normalize::add_counts;
    (sums: &mut [f64; ROWS], counts: &[i32; ROWS], weight: f64, constant: f64)
}
kernel! {
    /// `sums` += the cost of each row's domain, whose index is below [`FEW_DOMAINS`] (S-TS-7).
    add_by_domain = normalize::add_by_domain;
    (sums: &mut [f64; ROWS], domains: &[DomainId; ROWS], costs: &[f64; FEW_DOMAINS])
}
kernel! {
    /// Each cost, from 0 to 2³¹ − 1, rounded half away from zero (S-TS-7).
    round_costs = normalize::round_costs; (costs: &[f64; ROWS]) -> [i32; ROWS]
}
kernel! {
    /// The largest value among `rows`; `i32::MIN` if there are none.
    max_of = reduce::max_of; (values: &[i32; ROWS], rows: &RowSet) -> i32
}
kernel! {
    /// The smallest value among `rows`; `i32::MAX` if there are none.
    min_of = reduce::min_of; (values: &[i32; ROWS], rows: &RowSet) -> i32
}
kernel! {
    /// The rows among `rows` that hold `value`.
    rows_equal = reduce::rows_equal; (values: &[i32; ROWS], rows: &RowSet, value: i32) -> RowSet
}
kernel! {
    /// The rows among `rows` whose value is above 0.
    rows_positive = reduce::rows_positive; (values: &[i32; ROWS], rows: &RowSet) -> RowSet
}
kernel! {
    /// The rows whose version is above `version`.
    rows_above = reduce::rows_above; (versions: &[u64; ROWS], version: u64) -> RowSet
}
kernel! {
    /// The largest tie key among the `rows` of a group; 0 if there are none.
    max_tie_key = tie::max_tie_key;
    (hashes: &[u32; ROWS], rows: &RowSet, key: TieKey, group: TieGroup) -> u32
}
kernel! {
    /// The rows among `rows` whose tie key is `value`.
    rows_of_tie_key = tie::rows_of_tie_key;
    (hashes: &[u32; ROWS], rows: &RowSet, key: TieKey, value: u32) -> RowSet
}
kernel! {
    /// The largest tie key of some hashes, 0 if there are none, and a range that has all of its positions.
    highest_tied = tie::highest_tied; (hashes: &[u32], key: TieKey) -> (u32, Range<usize>)
}
kernel! {
    /// The first position from `from` on that holds a hash.
    position_of = tie::position_of; (hashes: &[u32], hash: u32, from: usize) -> Option<usize>
}
