//! Limits the memory that a decoder allocates for an input of some length.
//!
//! A count of bytes, unlike a time, is the same on every machine. A decoder that builds something larger than its input
//! allocates memory in the same measure, so a limit for each byte finds it.

use allocation_counter::AllocationInfo;

/// Bytes that any input may need: tables, and the initial sizes of buffers.
const FIXED_BYTES: u64 = 256 << 10;

/// Runs `read` and checks that it allocates at most `bytes_each` for each of `n_bytes`.
pub(crate) fn bounded<T>(n_bytes: usize, bytes_each: u64, read: impl FnOnce() -> T) -> T {
    let mut read_value = None;
    let AllocationInfo { bytes_total, count_total, .. } =
        allocation_counter::measure(|| read_value = Some(read()));
    let limit = FIXED_BYTES + n_bytes as u64 * bytes_each;
    assert!(
        bytes_total <= limit,
        "{bytes_total} bytes in {count_total} allocations for {n_bytes} bytes of input, more than {limit}"
    );
    read_value.unwrap()
}
