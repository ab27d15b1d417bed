//! The ledger: whether writes to it succeed.

use metrics::Gauge;

use super::Registry;
use super::description::Description;

const AVAILABLE: Description = Description::gauge(
    "berth_ledger_available",
    &[],
    "1 while writes to the ledger succeed; 0 from a failed write until the next one that succeeds.",
);

/// Metrics of one server's ledger. Clones count together.
#[derive(Clone)]
pub struct LedgerCounts {
    available: Gauge,
}

impl LedgerCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&AVAILABLE];

    pub(super) fn new(registry: &Registry) -> LedgerCounts {
        let counts = LedgerCounts { available: registry.gauge(&AVAILABLE, &[]) };
        counts.set_available(true);
        counts
    }

    /// Sets whether the ledger can be written.
    pub fn set_available(&self, is_available: bool) {
        self.available.set(f64::from(u8::from(is_available)));
    }
}
