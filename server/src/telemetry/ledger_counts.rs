//! The ledger: whether writes to it succeed, and how large it is.

use metrics::{Gauge, Unit};

use super::description::Description;
use super::{Registry, count};

const AVAILABLE: Description = Description::gauge(
    "berth_ledger_available",
    &[],
    "1 while writes to the ledger succeed; 0 from a failed write until the next one that succeeds.",
);

const BYTES: Description = Description::gauge(
    "berth_ledger_bytes",
    &[],
    "Bytes that the ledger takes, of its file or in memory. From 1 GiB no record is added.",
)
.measured_in(Unit::Bytes);

/// Metrics of one server's ledger. Clones count together.
#[derive(Clone)]
pub struct LedgerCounts {
    available: Gauge,
    bytes: Gauge,
}

impl LedgerCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&AVAILABLE, &BYTES];

    pub(super) fn new(registry: &Registry) -> LedgerCounts {
        let counts = LedgerCounts {
            available: registry.gauge(&AVAILABLE, &[]),
            bytes: registry.gauge(&BYTES, &[]),
        };
        counts.set_available(true);
        counts
    }

    /// Sets whether the ledger can be written.
    pub fn set_available(&self, is_available: bool) {
        self.available.set(f64::from(u8::from(is_available)));
    }

    /// Sets the number of bytes that the ledger takes.
    pub fn set_bytes(&self, n_bytes: u64) {
        self.bytes.set(count(usize::try_from(n_bytes).unwrap_or(usize::MAX)));
    }
}
