//! StorageUse: the storage that a pod's claims would take on a row, by class, beside what there is. Rules: S-137-3 to
//! S-137-11.

use std::sync::Arc;

use smallvec::SmallVec;

use super::binding::Binding;
use super::matching::DelayedClaim;
use crate::model::intern::Symbol;
use crate::model::storage::csi_storage_capacity::CsiStorageCapacity;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;

/// What a pod's claims would take of one class on one row, in bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClassUse {
    pub(crate) class: Symbol,
    pub(crate) requested: i64,
    pub(crate) capacity: i64,
}

/// Uses by class.
pub(crate) type Uses = SmallVec<[ClassUse; 1]>;

impl ClassUse {
    /// The percentage of the capacity that is requested (S-137-11).
    pub(crate) fn utilization(&self) -> i64 {
        if self.capacity == 0 || self.requested > self.capacity {
            return 100;
        }
        (i128::from(self.requested) * 100 / i128::from(self.capacity)) as i64
    }
}

impl Binding<'_> {
    /// The uses of some feasible rows, each passed to `take`; rows without any are left out.
    ///
    /// Cost: for rows with volumes to bind, the choice of the volumes; for the others one visit of the capacity reports
    /// for each claim.
    pub(crate) fn storage_uses(
        &self,
        shard: &Shard,
        rows: &RowSet,
        mut take: impl FnMut(usize, &Uses),
    ) {
        let mut dynamic = *rows;
        if self.open.iter().any(|delayed| delayed.has_candidates) {
            for row in rows.iter() {
                let uses = self.bound_uses(shard, row);
                if !uses.is_empty() {
                    dynamic.remove(row);
                    take(row, &uses);
                }
            }
        }
        let mut uses = vec![Uses::new(); ROWS];
        for delayed in self.selected.iter().chain(&self.open) {
            let Some(size) = delayed.size else { continue };
            for (row, report) in self.reports(delayed, shard, &dynamic).iter().enumerate() {
                if let Some(capacity) = report.as_ref().and_then(|report| report.capacity) {
                    let used = entry(&mut uses[row], delayed.claim.class);
                    used.requested = used.requested.saturating_add(size);
                    // The last claim's report counts (S-137-8).
                    used.capacity = capacity;
                }
            }
        }
        for row in dynamic.iter().filter(|row| !uses[*row].is_empty()) {
            take(row, &uses[row]);
        }
    }

    /// Uses of existing volumes (S-137-5).
    fn bound_uses(&self, shard: &Shard, row: usize) -> Uses {
        let mut uses = Uses::new();
        let mut chosen = Vec::new();
        for delayed in self.open.iter().filter(|delayed| delayed.has_candidates) {
            let volume = delayed.volume_for(self.snapshot, shard, row, &chosen);
            let Some(volume) = volume else { continue };
            chosen.push(volume);
            let request = delayed.claim.request.map_or(0, |request| request.value());
            let used = entry(&mut uses, volume.class);
            used.requested = used.requested.saturating_add(request);
            used.capacity = used.capacity.saturating_add(volume.capacity.value());
        }
        uses
    }

    /// The report that a claim finds on each row: the first by namespace and name of those that are large enough
    /// (S-137-9).
    fn reports(
        &self,
        delayed: &DelayedClaim<'_>,
        shard: &Shard,
        rows: &RowSet,
    ) -> Vec<Option<Arc<CsiStorageCapacity>>> {
        let mut found: Vec<Option<Arc<CsiStorageCapacity>>> = vec![None; ROWS];
        delayed.visit_reports(self.snapshot, shard, rows, |report, rows| {
            for row in rows.iter() {
                let known = &mut found[row];
                if known.as_ref().is_none_or(|known| report.key() < known.key()) {
                    *known = Some(report.clone());
                }
            }
        });
        found
    }
}

/// The use of a class, which may be new.
fn entry(uses: &mut Uses, class: Symbol) -> &mut ClassUse {
    let known = uses.iter().position(|used| used.class == class);
    let at = known.unwrap_or_else(|| {
        uses.push(ClassUse { class, requested: 0, capacity: 0 });
        uses.len() - 1
    });
    &mut uses[at]
}
