//! Work: how much a decoder may do for so many bytes, counted in what it asks the allocator for.
//!
//! A count, unlike a clock, is the same on every machine. Whoever builds something of a size that grows faster than the
//! input asks for memory in the same measure, so a bound for each byte finds it.

use allocation_counter::AllocationInfo;

/// Asked for whatever the input: tables, buffers with a first size.
const FIXED_BYTES: u64 = 256 << 10;

/// Does `read`, and holds the bytes that it asks the allocator for against `bytes_each` for each of `n_bytes`.
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
