//! The ledger: whether it can be written.

use super::description::Description;
use super::{Gauge, Registry};

const AVAILABLE: Description = Description::gauge(
    "berth_ledger_available",
    &[],
    "1 while the ledger can be written as far as is known; 0 from a failure until something was written again.",
);

/// How one server's ledger is. Clones tell of the same.
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

    /// Notes whether it can be written.
    pub fn set_available(&self, is_available: bool) {
        self.available.set_count(usize::from(is_available));
    }
}
