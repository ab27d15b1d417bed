//! KnownRows: what earlier searches for a shape among a sample of the nodes found on each of them, so that a search tries
//! only nodes that have changed since.

use super::rank::Rank;
use crate::rows::{NodeRow, ROWS};
use crate::snapshot::shard::Shard;

/// Results by row.
#[derive(Debug, Default)]
pub(super) struct KnownRows(Vec<Option<Box<[OfRow; ROWS]>>>);

/// The result on a row, with what it was made of.
#[derive(Copy, Clone, Debug)]
struct OfRow {
    /// The row's version; 0, which no row has, for none.
    version: u64,
    /// Whether the row passes every filter that does not read pods.
    passes: bool,
    result: RowResult,
}

/// The result of a search for evictions on one node: of an eviction only its rank, without the victims.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum RowResult {
    Evicts(Rank),
    NoVictims,
    NoHelp,
    NobodyToEvict,
}

const NONE: OfRow = OfRow { version: 0, passes: false, result: RowResult::NoHelp };

impl KnownRows {
    /// The result on a row of a shard, known or made.
    pub(super) fn get_or_try(
        &mut self,
        shard: &Shard,
        row: NodeRow,
        passes: bool,
        make: impl FnOnce() -> RowResult,
    ) -> RowResult {
        if self.0.len() <= row.shard() {
            self.0.resize_with(row.shard() + 1, Option::default);
        }
        let rows = self.0[row.shard()].get_or_insert_with(|| Box::new([NONE; ROWS]));
        let (known, version) = (&mut rows[row.row()], shard.usage.version[row.row()]);
        if (known.version, known.passes) != (version, passes) || version == 0 {
            *known = OfRow { version, passes, result: make() };
        }
        known.result
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use berth_testing::object;

    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;
    use crate::model::PodKey;
    use crate::plan::request::TieBreak;
    use crate::policy::Policy;
    use crate::preempt::outcome::PostFilter;
    use crate::preempt::request::{PreemptOptions, PreemptRequest};

    const N_NODES: usize = 300;

    /// The outcome of an attempt by the cluster, which remembers earlier ones; by a new fork, which remembers nothing; and
    /// by the list of all candidates.
    fn found(cluster: &Cluster, seed: u64) -> [PostFilter; 3] {
        let pod = cluster.compile_pod(&object::pod("high cpu=3 priority=9")).unwrap();
        let request = PreemptRequest {
            pod: &pod,
            policy: &Policy::default(),
            tie_break: TieBreak::Seeded(seed),
            options: PreemptOptions { sample: Some(seed), ..PreemptOptions::default() },
            cancelled: &|| false,
            now: None,
        };
        let listed = cluster.list_candidates(&request).unwrap().preemption;
        let made = [cluster.preempt(&request), cluster.fork().preempt(&request)];
        let [known, anew] = made.map(Result::unwrap);
        [known, anew, listed].map(|preemption| preemption.post_filter.unwrap())
    }

    #[test]
    fn what_is_known_is_what_is_found_anew() {
        let cluster = Cluster::new();
        let node = |i: usize, cpu: usize| {
            let node = object::node(&format!("n{i} cpu={cpu} pods=9"));
            Delta::UpsertNode(cluster.compile_node(&node).unwrap())
        };
        let pod = |i: usize, k: usize, priority: usize| {
            let text = format!("p{i}-{k} cpu=1 priority={priority} node=n{i}");
            Delta::UpsertPod(cluster.compile_pod(&object::pod(&text)).unwrap())
        };
        cluster.apply((0..N_NODES).map(|i| node(i, 4)).collect());
        let full = (0..4 * N_NODES).map(|i| pod(i / 4, i % 4, i * 7 % 5));
        assert_eq!(cluster.apply(full.collect()).rejected, []);
        let mut chosen = Vec::new();
        for step in 0..60 {
            let seed = step as u64 % 7;
            let [known, anew, listed] = found(&cluster, seed);
            assert_eq!(known, anew, "step {step}");
            assert_eq!(known, listed, "step {step}");
            assert!((100..N_NODES as u32).contains(&known.n_candidates), "a sample");
            chosen.extend(known.chosen.map(|candidate| candidate.node));
            // The best pod of a node becomes another one, its node too small, or all of its pods important.
            let i = step * 37 % N_NODES;
            let key = PodKey::new("default", &format!("p{i}-{}", step % 4));
            cluster.apply(match step % 3 {
                0 => vec![Delta::DeletePod { key, uid: None }, pod(i, 9, step % 5)],
                1 => vec![node(i, 2)],
                _ => (0..4).map(|k| pod(i, k, 10)).collect(),
            });
        }
        chosen.sort_unstable();
        chosen.dedup();
        assert!(chosen.len() > 3, "{chosen:?}");
    }
}
