//! Basis: what a placement rests on. Committing it is sound as long as the newest state has the same.

use super::Plan;
use crate::snapshot::{NodeRow, Snapshot};

/// Versions of all that a placement rests on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    row: u64,
    /// Of the terms that pods own: one that came since might keep the pod away (S-IPA-7).
    terms: u64,
    /// Of claims and volumes, where others can take the same.
    storage: Option<u64>,
    /// Of all rows and of namespaces, services and controllers, where filters asked for pods on other nodes.
    cluster: Option<(u64, u64)>,
}

impl Basis {
    pub(crate) fn of(plan: &Plan<'_>, row: NodeRow) -> Basis {
        let snapshot = plan.prepared.snapshot();
        let asks_others = plan.prepared.demand().filters();
        Basis {
            row: snapshot.shards[row.shard()].usage.version[row.row()],
            terms: snapshot.terms.version,
            storage: plan.prepared.volumes().storage_version(),
            cluster: asks_others.then(|| (snapshot.newest_version(), snapshot.objects.version)),
        }
    }

    /// Whether a later snapshot of the same history still has it.
    pub(crate) fn holds(&self, row: NodeRow, snapshot: &Snapshot) -> bool {
        let is_same_row = snapshot
            .shards
            .get(row.shard())
            .is_some_and(|shard| shard.usage.version[row.row()] == self.row);
        let is_same_cluster =
            |basis| basis == (snapshot.newest_version(), snapshot.objects.version);
        is_same_row
            && self.terms == snapshot.terms.version
            && self.storage.is_none_or(|version| version == snapshot.storage.version)
            && self.cluster.is_none_or(is_same_cluster)
    }
}
