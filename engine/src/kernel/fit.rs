//! Fit: which rows have room. Rule: S-FIT-8.

use super::pack::pack_where;
use crate::rows::{ROWS, RowSet};

/// A request with the native columns of a shard.
#[derive(Copy, Clone, Debug)]
pub(crate) struct FitInput<'a> {
    pub(crate) allocatable: NativeColumns<'a>,
    pub(crate) used: NativeColumns<'a>,
    /// A resource with request 0 is not checked, not even on an over-committed node.
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
}

/// Amounts of the resources that every node has, and the number of pods.
#[derive(Copy, Clone, Debug)]
pub(crate) struct NativeColumns<'a> {
    pub(crate) milli_cpu: &'a [i64; ROWS],
    pub(crate) memory: &'a [i64; ROWS],
    pub(crate) ephemeral_storage: &'a [i64; ROWS],
    pub(crate) pods: &'a [i64; ROWS],
}

/// The largest amount, as the bound of resources that are not checked.
fn bound(request: i64) -> i64 {
    if request > 0 { request } else { i64::MIN }
}

#[inline(always)]
pub(super) fn fit(input: &FitInput<'_>) -> RowSet {
    let (a, u) = (input.allocatable, input.used);
    let (cpu, memory) = (bound(input.milli_cpu), bound(input.memory));
    let rows = pack_where(&RowSet::FULL, |row| {
        let pods_fit = u.pods[row] < a.pods[row];
        let cpu_fits = a.milli_cpu[row].wrapping_sub(u.milli_cpu[row]) >= cpu;
        let memory_fits = a.memory[row].wrapping_sub(u.memory[row]) >= memory;
        pods_fit & cpu_fits & memory_fits
    });
    if input.ephemeral_storage <= 0 {
        return rows;
    }
    pack_where(&rows, |row| {
        let free = a.ephemeral_storage[row].wrapping_sub(u.ephemeral_storage[row]);
        free >= input.ephemeral_storage
    })
}

#[inline(always)]
pub(super) fn fit_one(allocatable: &[i64; ROWS], used: &[i64; ROWS], request: i64) -> RowSet {
    pack_where(&RowSet::FULL, |row| allocatable[row].wrapping_sub(used[row]) >= request)
}
