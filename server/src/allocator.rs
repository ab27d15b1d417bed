//! The allocator of the binary, and what it gives back to the system.

use std::ffi::c_long;

use libmimalloc_sys as sys;

// No slower over gRPC than the system's allocator (benches/record/2026-11-22-epyc-2-cores-wire.md); batches and cold
// loads are measured with it. Without huge pages, with which it would hold a third more memory and up to a half
// (benches/record/2026-11-22-epyc-2-cores-soak.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, which the crate does not name: milliseconds that freed pages are kept.
const PURGE_DELAY: sys::mi_option_t = 15;

/// From now on freed pages go back to the system at once, unless `MIMALLOC_PURGE_DELAY` says otherwise. For processes
/// that run for long: under attack they hold a fifth less, and what they hold does not grow
/// (benches/record/2026-11-27-epyc-2-cores-soak.md).
pub(crate) fn give_pages_back_at_once() {
    set_default(PURGE_DELAY, 0);
}

#[expect(unsafe_code, reason = "the allocator is C")]
fn set_default(option: sys::mi_option_t, value: c_long) {
    // SAFETY: it checks the option's number, and writes one word of a table of its own.
    unsafe { sys::mi_option_set_default(option, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "the allocator is C")]
    fn get(option: sys::mi_option_t) -> c_long {
        // SAFETY: it checks the option's number, and reads one word of a table of its own.
        unsafe { sys::mi_option_get(option) }
    }

    /// The number is that of the delay: no other option is 1000 by default.
    #[test]
    fn pages_are_kept_for_a_second_and_then_not_at_all() {
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_some() {
            return;
        }
        assert_eq!(get(PURGE_DELAY), 1_000);
        give_pages_back_at_once();
        assert_eq!(get(PURGE_DELAY), 0);
    }
}
