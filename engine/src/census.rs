//! Census: how many pods of interest are where. Topology spread and inter-pod affinity ask for nothing else of other pods.
//!
//! A [`Demand`] says who counts for a pod and by which domains; a [`Census`] holds the counts by row and by domain. It is
//! remembered with the evaluation that it belongs to and advances by the rows that changed: its first cost is one step for
//! each row that has pods of interest, every later one for each row that changed, never one for each pod of the cluster.

mod affinity;
pub(crate) mod demand;
mod spread;
pub(crate) mod subject;
mod sums;

use rustc_hash::FxHashSet;

use crate::kernel::Kernels;
use crate::model::shape::ShapeFacts;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;
use crate::snapshot::{NodeRow, ROWS, Snapshot};
use demand::Demand;
use subject::Weights;
use sums::DomainSums;

/// Counts for one demand at one snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    /// For each subject of the demand.
    tallies: Vec<Tally>,
    /// For each sum of the demand.
    sums: Vec<DomainSums>,
    /// What was counted, so that another demand is noticed.
    counted: Demand,
    /// The versions of the indexes that the weights were looked up in.
    weighed_at: (u64, u64, u64),
    lineage: u64,
    /// For each shard its version, and that of its nodes.
    versions: Vec<(u64, u64)>,
}

/// One subject by row.
#[derive(Clone, Debug, Default)]
struct Tally {
    weights: Weights,
    /// What the pods of each row weigh together.
    by_row: Vec<i32>,
}

/// With more changed rows than this everything is counted anew.
const MANY_CHANGED: usize = 256;

impl Census {
    /// Brings the counts to a snapshot. Whatever was counted before, the result is that of counting anew.
    pub(crate) fn advance(
        &mut self,
        demand: &Demand,
        snapshot: &Snapshot,
        shape: &ShapeFacts,
        kernels: Kernels,
    ) {
        let mut changed = self.changed_rows(demand, snapshot, kernels);
        let Snapshot { populations, terms, objects, .. } = snapshot;
        let weighed_at = (populations.version, terms.version, objects.version);
        if changed.is_none() || self.weighed_at != weighed_at {
            let is_reweighed = self.weigh_anew(demand, snapshot);
            // Rows tell of populations and terms that came or went, not of namespaces that changed.
            if is_reweighed && self.weighed_at.2 != weighed_at.2 {
                changed = None;
            }
            self.weighed_at = weighed_at;
        }
        match changed {
            Some(rows) => rows.into_iter().for_each(|row| self.recount(snapshot, row)),
            None => self.count_anew(demand, snapshot, shape),
        }
        self.sums.iter_mut().for_each(DomainSums::settle);
        self.lineage = snapshot.lineage;
        self.versions.clear();
        self.versions.extend(snapshot.shards.iter().map(|s| (s.version, s.nodes.version)));
    }

    /// Whether anything was counted.
    pub(crate) fn is_taken(&self) -> bool {
        !self.tallies.is_empty()
    }

    /// A copy for a fork of the snapshot that it was taken on.
    pub(crate) fn fork(&self, lineage: u64) -> Census {
        Census { lineage, ..self.clone() }
    }

    /// The weight of the pods on each row of a shard for a subject.
    pub(crate) fn on_shard(&self, subject: usize, shard: &Shard) -> &[i32] {
        let rows = shard.index * ROWS..(shard.index + 1) * ROWS;
        self.tallies[subject].by_row.get(rows).unwrap_or(&[])
    }

    /// A sum of the demand.
    pub(crate) fn sum(&self, index: usize) -> &DomainSums {
        &self.sums[index]
    }

    /// The rows whose pods may have changed since, if that can be told and they are few.
    ///
    /// A population or a term that came or went since did so on such a row, so it is enough to recount these.
    fn changed_rows(
        &self,
        demand: &Demand,
        snapshot: &Snapshot,
        kernels: Kernels,
    ) -> Option<Vec<NodeRow>> {
        let is_comparable = self.lineage == snapshot.lineage
            && self.versions.len() == snapshot.shards.len()
            && self.counted.counts_as(demand)
            && self.is_taken();
        if !is_comparable {
            return None;
        }
        let mut rows = Vec::new();
        for (shard, (version, nodes_version)) in snapshot.shards.iter().zip(&self.versions) {
            if shard.nodes.version != *nodes_version || shard.version < *version {
                return None;
            }
            if shard.version != *version {
                let changed = kernels.rows_above(&shard.usage.version.0, *version);
                rows.extend(changed.iter().map(|row| NodeRow::new(shard.index, row)));
                if rows.len() > MANY_CHANGED {
                    return None;
                }
            }
        }
        Some(rows)
    }

    /// Looks up the weights; answers whether any is another than before.
    fn weigh_anew(&mut self, demand: &Demand, snapshot: &Snapshot) -> bool {
        self.tallies.resize_with(demand.subjects.len(), Tally::default);
        let mut is_other = false;
        for (tally, subject) in self.tallies.iter_mut().zip(&demand.subjects) {
            let weights = Weights::of(subject, &demand.terms, snapshot);
            is_other |= weights != tally.weights;
            tally.weights = weights;
        }
        is_other
    }

    fn recount(&mut self, snapshot: &Snapshot, row: NodeRow) {
        let shard = &snapshot.shards[row.shard()];
        let pods = shard.pods.of(row.row());
        for (subject, tally) in self.tallies.iter_mut().enumerate() {
            let cell = &mut tally.by_row[row.index()];
            let weight = tally.weights.weigh(pods);
            let change = weight - std::mem::replace(cell, weight);
            if change != 0 {
                let sums = self.sums.iter_mut().zip(&self.counted.sums);
                for (sum, _) in sums.filter(|(_, by)| by.subject == subject) {
                    sum.add(shard, row.row(), change);
                }
            }
        }
    }

    fn count_anew(&mut self, demand: &Demand, snapshot: &Snapshot, shape: &ShapeFacts) {
        self.counted = demand.clone();
        for tally in &mut self.tallies {
            tally.by_row.clear();
            tally.by_row.resize(snapshot.shards.len() * ROWS, 0);
            tally.weights.spread_over(snapshot, &mut tally.by_row);
        }
        self.sums.clear();
        for by in &demand.sums {
            let by_row = &self.tallies[by.subject].by_row;
            let mut sums = DomainSums::new(by, snapshot, shape);
            for (shard, weights) in snapshot.shards.iter().zip(by_row.chunks_exact(ROWS)) {
                sums.add_shard(shard, weights);
            }
            self.sums.push(sums);
        }
    }

    /// Whether any pod was weighed for a subject at all, even if to nothing (S-IS-4).
    pub(crate) fn has_any(&self, sum: usize, snapshot: &Snapshot) -> bool {
        let by = &self.counted.sums[sum];
        let weights = &self.tallies[by.subject].weights;
        let mut rows: FxHashSet<NodeRow> = FxHashSet::default();
        weights.for_each_row(snapshot, |row, _, _| {
            rows.insert(row);
        });
        let has_key = |row: &NodeRow| {
            let labels = &snapshot.shards[row.shard()].nodes.labels;
            labels.get(&by.key).is_some_and(|label| label.rows.contains(row.row()))
        };
        #[expect(
            clippy::iter_over_hash_type,
            reason = "whether there is one does not depend on order"
        )]
        for row in &rows {
            if has_key(row) {
                return true;
            }
        }
        false
    }
}

/// The rows of a shard whose node carries all of these keys.
pub(crate) fn rows_with_keys<'a>(
    shard: &Shard,
    keys: impl Iterator<Item = &'a crate::model::intern::Symbol>,
) -> RowSet {
    let mut rows = shard.nodes.rows;
    for key in keys {
        match shard.nodes.labels.get(key) {
            Some(label) => rows.intersect(&label.rows),
            None => return RowSet::EMPTY,
        }
    }
    rows
}
