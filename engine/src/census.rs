//! Census: counts of other pods by row and by domain. Topology spread and inter-pod affinity read other pods only
//! through it.
//!
//! A [`Demand`] says which pods count for a pod and over which domains; a [`Census`] holds the counts by row and by
//! domain. It is remembered with its evaluation and updated by changed rows: at first it costs one step for each row
//! that has counted pods, later one for each changed row, never one for each pod of the cluster.

mod affinity;
pub(crate) mod class;
pub(crate) mod demand;
mod spread;
pub(crate) mod subject;
pub(crate) mod sums;

use smallvec::SmallVec;

use crate::kernel::Kernels;
use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::shape::ShapeFacts;
use crate::plugin::Plugin;
use crate::policy::Policy;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::snapshot::Snapshot;
use crate::snapshot::row_changes::RowChange;
use crate::snapshot::shard::Shard;
use demand::Demand;
use subject::{Scale, Weights};
use sums::DomainSums;

impl Demand {
    /// Demand of the plugins that the policy enables. Cost: the pod's terms, the services of its namespace, and the
    /// terms of other pods that name one of its labels.
    pub(crate) fn of(pod: &Pod, policy: &Policy, snapshot: &Snapshot) -> Demand {
        let mut demand = Demand::default();
        let spec = policy.spec();
        let scores = |plugin| spec.score.iter().any(|(scored, _)| *scored == plugin);
        let spread = Plugin::PodTopologySpread;
        if spec.filter.contains(&spread) || scores(spread) {
            spread::demand(&mut demand, pod, policy, snapshot);
        }
        let affinity = Plugin::InterPodAffinity;
        if spec.filter.contains(&affinity) || scores(affinity) {
            affinity::demand(&mut demand, pod, policy, snapshot);
        }
        demand
    }
}

/// Counts for one demand at one snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    /// Tallies of the demand's subjects.
    tallies: Vec<Tally>,
    /// Sums of the demand's sums, in the same order.
    sums: Vec<DomainSums>,
    /// The counted demand, to detect another one.
    counted: Demand,
    lineage: u64,
    /// How often another demand was counted, for which nothing was known.
    n_anew: u64,
    /// The version of each shard and that of its nodes.
    versions: Vec<(u64, u64)>,
}

/// Counts of one subject by row.
#[derive(Clone, Debug, Default)]
struct Tally {
    scale: Scale,
    /// Weight of the pods on each row.
    by_row: Vec<i32>,
}

impl Tally {
    /// Sets the weights of this number of rows to 0.
    fn clear(&mut self, n_rows: usize) {
        if self.by_row.capacity() < n_rows {
            // New memory is mostly zero already.
            self.by_row = vec![0; n_rows];
        } else {
            self.by_row.clear();
            self.by_row.resize(n_rows, 0);
        }
    }
}

/// Changes in a shard since a version.
struct Changed {
    shard: usize,
    since: u64,
    rows: RowSet,
    nodes_changed: bool,
}

/// With more changed rows than this everything is counted again.
const MANY_CHANGED: usize = 256;

/// Debug builds compare updated counts with new ones on clusters of at most this many shards.
#[cfg(debug_assertions)]
const MAX_SHARDS_CHECKED: usize = 1;

impl Census {
    /// Updates the counts to a snapshot. The result equals new counts, whatever was counted before.
    pub(crate) fn advance(
        &mut self,
        demand: &Demand,
        snapshot: &Snapshot,
        shape: &ShapeFacts,
        kernels: Kernels,
    ) {
        match self.changes(demand, snapshot, kernels) {
            Some(changes) => self.count_on(&changes, snapshot, shape),
            None => self.count_anew(demand, snapshot, shape),
        }
        for (sums, by) in self.sums.iter_mut().zip(&self.counted.sums) {
            sums.settle(&self.tallies[by.subject].by_row);
        }
        #[cfg(debug_assertions)]
        if snapshot.shards.len() <= MAX_SHARDS_CHECKED {
            self.assert_as_anew(demand, snapshot, shape);
        }
        self.lineage = snapshot.lineage;
        self.versions.clear();
        self.versions.extend(snapshot.shards.iter().map(|s| (s.version, s.nodes.version)));
    }

    /// Whether the census has counts.
    pub(crate) fn is_taken(&self) -> bool {
        !self.tallies.is_empty()
    }

    /// How often another demand was counted: since the last time, counts have changed only of changed rows and of domains.
    pub(crate) fn n_anew(&self) -> u64 {
        self.n_anew
    }

    /// A copy for a fork of the counted snapshot.
    pub(crate) fn fork(&self, lineage: u64) -> Census {
        Census { lineage, ..self.clone() }
    }

    /// The weight of the pods on each row of a shard for a subject.
    pub(crate) fn on_shard(&self, subject: usize, shard: &Shard) -> &[i32] {
        let rows = shard.index * ROWS..(shard.index + 1) * ROWS;
        self.tallies[subject].by_row.get(rows).unwrap_or(&[])
    }

    /// For the sums at an index of the demand's sums, where each row is alone in its domain: the weights of a shard's
    /// rows; those of rows without the key do not count.
    pub(crate) fn by_row<'c>(&'c self, index: usize, shard: &Shard) -> Option<&'c [i32; ROWS]> {
        let subject = self.counted.sums[index].subject;
        self.sums[index].is_by_row().then(|| self.on_shard(subject, shard).try_into().ok())?
    }

    /// The sums at an index of the demand's sums, by domain. The first call adds them up.
    pub(crate) fn sum(&self, index: usize) -> &DomainSums {
        let subject = self.counted.sums[index].subject;
        self.sums[index].fill(&self.tallies[subject].by_row);
        &self.sums[index]
    }

    /// The total of the sums at an index of the demand's sums.
    pub(crate) fn total(&self, index: usize) -> i64 {
        self.sums[index].total()
    }

    /// The topology key of the sums at an index of the demand's sums.
    pub(crate) fn key(&self, index: usize) -> Symbol {
        self.sums[index].key()
    }

    /// Whether each row is alone in its domain of the sums at an index of the demand's sums.
    pub(crate) fn is_by_row(&self, index: usize) -> bool {
        self.sums[index].is_by_row()
    }

    /// Whether the weight of any domain of the sums at an index of the demand's sums is not 0.
    pub(crate) fn is_any(&self, index: usize) -> bool {
        self.total(index) != 0 || self.sum(index).by_domain().iter().any(|sum| *sum != 0)
    }

    /// One more than the largest number of a domain of the sums at an index of the demand's sums.
    pub(crate) fn n_domains(&self, index: usize) -> usize {
        self.sums[index].n_domains()
    }

    /// The shards that changed since the last update, with the changed rows of each, if they are known and few. All
    /// other rows have the same pods and nodes as before.
    fn changes(
        &self,
        demand: &Demand,
        snapshot: &Snapshot,
        kernels: Kernels,
    ) -> Option<SmallVec<[Changed; 2]>> {
        let is_comparable = self.lineage == snapshot.lineage
            && self.versions.len() <= snapshot.shards.len()
            && self.counted.counts_as(demand)
            && self.is_taken();
        if !is_comparable {
            return None;
        }
        let (mut changes, mut n_rows) = (SmallVec::new(), 0);
        // For a new shard every version is newer than 0.
        let known = self.versions.iter().copied().chain(std::iter::repeat((0, 0)));
        for (shard, (version, nodes_version)) in snapshot.shards.iter().zip(known) {
            if shard.version < version {
                return None;
            }
            if shard.version != version {
                let rows = shard.rows_above(version, kernels);
                n_rows += rows.len() as usize;
                if n_rows > MANY_CHANGED {
                    return None;
                }
                let nodes_changed = shard.nodes.version != nodes_version;
                changes.push(Changed { shard: shard.index, since: version, rows, nodes_changed });
            }
        }
        Some(changes)
    }

    /// Asserts that the counts equal new ones, and that numbers of pods are not negative.
    #[cfg(debug_assertions)]
    fn assert_as_anew(&self, demand: &Demand, snapshot: &Snapshot, shape: &ShapeFacts) {
        let mut anew = Census::default();
        anew.count_anew(demand, snapshot, shape);
        assert_eq!((self.tallies.len(), self.sums.len()), (anew.tallies.len(), anew.sums.len()));
        for ((tally, anew), subject) in self.tallies.iter().zip(&anew.tallies).zip(&demand.subjects)
        {
            assert_eq!(tally.by_row, anew.by_row, "counted on and counted anew");
            let is_number = !matches!(subject, subject::Subject::Preferences { .. });
            assert!(
                !is_number || tally.by_row.iter().all(|n_pods| *n_pods >= 0),
                "numbers of pods"
            );
        }
        for index in 0..self.sums.len() {
            self.sum(index).assert_agrees(anew.sum(index));
        }
    }

    fn count_on(&mut self, changes: &[Changed], snapshot: &Snapshot, shape: &ShapeFacts) {
        if self.versions.len() < snapshot.shards.len() {
            let n_rows = snapshot.shards.len() * ROWS;
            self.tallies.iter_mut().for_each(|tally| tally.by_row.resize(n_rows, 0));
        }
        if changes.iter().any(|changed| changed.nodes_changed) {
            self.sums.iter_mut().for_each(|sum| sum.grow(snapshot));
        }
        for Changed { shard, since, rows, nodes_changed } in changes {
            let shard = &snapshot.shards[*shard];
            if *nodes_changed {
                self.move_rows(shard, rows, snapshot, shape);
            }
            let left = self.count_pods(shard, *since).unwrap_or(*rows);
            left.iter().for_each(|row| self.recount(shard, row));
        }
    }

    /// Moves the weights of rows to the current domains of their nodes, after nodes of a shard changed.
    fn move_rows(&mut self, shard: &Shard, rows: &RowSet, snapshot: &Snapshot, shape: &ShapeFacts) {
        for (sum, by) in self.sums.iter_mut().zip(&self.counted.sums) {
            let counted = by.nodes.rows(by.key, shard, shape, snapshot);
            let weights = &self.tallies[by.subject].by_row[shard.index * ROWS..];
            sum.move_rows(shard, counted, rows, weights);
        }
    }

    /// Counts the pods that came to the rows of a shard since a version, and those that left; returns the rows that have to
    /// be counted anew, since something else changed there, or a weight is not known. `None` if the changes are not known.
    fn count_pods(&mut self, shard: &Shard, since: u64) -> Option<RowSet> {
        let mut left = RowSet::EMPTY;
        for change in &shard.changes.above(since)? {
            let RowChange::Pod(pod) = change.change else {
                left.insert(change.row());
                continue;
            };
            let row = NodeRow::new(shard.index, change.row());
            for i in 0..self.tallies.len() {
                let (tally, subject) = (&mut self.tallies[i], &self.counted.subjects[i]);
                match tally.scale.known_weight(subject, pod) {
                    Some(weight) => {
                        tally.by_row[row.index()] += weight * pod.sign;
                        self.add(i, row, weight * pod.sign);
                    }
                    None => left.insert(change.row()),
                }
            }
        }
        Some(left)
    }

    fn recount(&mut self, shard: &Shard, row: usize) {
        let pods = shard.pods.of(row);
        let row = NodeRow::new(shard.index, row);
        for i in 0..self.tallies.len() {
            let (tally, subject) = (&mut self.tallies[i], &self.counted.subjects[i]);
            let weight = tally.scale.weigh(subject, pods);
            let change = weight - std::mem::replace(&mut tally.by_row[row.index()], weight);
            self.add(i, row, change);
        }
    }

    /// Adds what the weight of a row has changed by to the sums of a subject.
    fn add(&mut self, subject: usize, row: NodeRow, change: i32) {
        if change != 0 {
            let sums = self.sums.iter_mut().zip(&self.counted.sums);
            sums.filter(|(_, by)| by.subject == subject).for_each(|(sum, _)| sum.add(row, change));
        }
    }

    fn count_anew(&mut self, demand: &Demand, snapshot: &Snapshot, shape: &ShapeFacts) {
        let is_same_demand = self.is_taken() && self.counted.counts_as(demand);
        let is_same_nodes = is_same_demand && self.has_nodes_of(snapshot);
        self.n_anew += u64::from(!is_same_demand);
        self.counted = demand.clone();
        self.tallies.resize_with(demand.subjects.len(), Tally::default);
        for (tally, subject) in self.tallies.iter_mut().zip(&demand.subjects) {
            let weights = Weights::of(subject, &demand.terms, snapshot);
            tally.clear(snapshot.shards.len() * ROWS);
            weights.for_each_part(snapshot, |row, weight| tally.by_row[row.index()] += weight);
            tally.scale = Scale::of(weights);
        }
        if !is_same_nodes {
            self.sums.clear();
            let sums = demand.sums.iter().map(|by| DomainSums::new(by, snapshot, shape));
            self.sums.extend(sums);
        }
        for (sums, by) in self.sums.iter_mut().zip(&demand.sums) {
            sums.count(&self.tallies[by.subject].by_row);
        }
    }

    /// Whether the snapshot has the nodes that were counted last.
    fn has_nodes_of(&self, snapshot: &Snapshot) -> bool {
        let counted = self.versions.iter().map(|(_, nodes_version)| *nodes_version);
        self.lineage == snapshot.lineage
            && counted.eq(snapshot.shards.iter().map(|shard| shard.nodes.version))
    }

    /// Whether any pod was weighed for a sum's subject, even with weight 0 (S-IS-4).
    pub(crate) fn has_any(&self, sum: usize, snapshot: &Snapshot) -> bool {
        let by = &self.counted.sums[sum];
        let subject = &self.counted.subjects[by.subject];
        let weights = Weights::of(subject, &self.counted.terms, snapshot);
        weights.rows(snapshot).any(|row| {
            let labels = &snapshot.shards[row.shard()].nodes.labels;
            labels.get(&by.key).is_some_and(|label| label.rows.contains(row.row()))
        })
    }
}
