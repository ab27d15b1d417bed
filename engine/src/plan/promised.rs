//! Promised: rows whose nodes have nominated pods of no lower priority. Rules: S-NOM-1, S-NOM-2.

use smallvec::SmallVec;

use crate::model::Pod;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;

/// Rows, in order, with the pods nominated to each, in insertion order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promised<'a>(Vec<(NodeRow, SmallVec<[&'a Pod; 1]>)>);

impl<'a> Promised<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, pod: &Pod) -> Promised<'a> {
        let mut rows = Vec::new();
        for (node, nominated) in snapshot.nominations.iter() {
            let counts =
                |other: &&Pod| other.priority() >= pod.priority() && !other.is_same_as(pod);
            let counted: SmallVec<[&Pod; 1]> = nominated.iter().filter(counts).collect();
            if let Some(row) = snapshot.row_of(node).filter(|_| !counted.is_empty()) {
                rows.push((row, counted));
            }
        }
        rows.sort_unstable_by_key(|(row, _)| *row);
        Promised(rows)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nominated pods that count on a row.
    pub(crate) fn on(&self, row: NodeRow) -> &[&'a Pod] {
        match self.0.binary_search_by_key(&row, |(row, _)| *row) {
            Ok(at) => &self.0[at].1,
            Err(_) => &[],
        }
    }

    /// The rows of a shard with nominated pods that count.
    pub(crate) fn of_shard(&self, shard: usize) -> RowSet {
        let from = self.0.partition_point(|(row, _)| row.shard() < shard);
        let here = self.0[from..].iter().take_while(|(row, _)| row.shard() == shard);
        here.map(|(row, _)| row.row()).collect()
    }
}
