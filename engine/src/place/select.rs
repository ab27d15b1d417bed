//! Select: the choice of one of the rows with the highest total (S-SEL-3). Rule for ties: S-SEL-4 (policy).

use std::ops::Range;

use smallvec::SmallVec;

use super::ranking::Ranking;
use super::ties::{Group, Tied};
use crate::kernel::{MANY_TIED, TieGroup, TieKey};
use crate::plan::Plan;
use crate::plan::request::TieBreak;
use crate::rows::{NodeRow, RowSet};

/// The row chosen from the best rows; `None` if there are none.
///
/// Cost: one step for each tied row, or one vector pass over their hashes or over each shard that has any. Where hashes are
/// cached, that of many rows reads one of [`N_GROUPS`](crate::kernel::N_GROUPS) groups.
pub(crate) fn select(plan: &Plan<'_>, best: &mut Ranking, tie_break: TieBreak) -> Option<NodeRow> {
    match tie_break {
        TieBreak::Lexicographic => lexicographic(plan, best),
        TieBreak::Seeded(seed) => seeded(plan, best, seed),
    }
}

fn lexicographic(plan: &Plan<'_>, best: &Ranking) -> Option<NodeRow> {
    let by_shard = best.rows().iter();
    let tied = by_shard.flat_map(|(shard, rows)| rows.iter().map(|row| NodeRow::new(*shard, row)));
    tied.min_by(|a, b| name(plan, *a).cmp(name(plan, *b)))
}

/// The row with the largest key; of equal keys the node whose name sorts first. Of many rows only those of one group of
/// names are compared, which the pod's hash chooses.
fn seeded(plan: &Plan<'_>, best: &mut Ranking, seed: u64) -> Option<NodeRow> {
    let pod = plan.pod();
    let key = match pod.uid() {
        "" => TieKey::new(seed, &pod.key().to_string()),
        uid => TieKey::new(seed, uid),
    };
    let n_rows = best.n_rows();
    match best.tied(plan.snapshot()) {
        Some(tied) => among_tied(plan, tied, key),
        None if n_rows < MANY_TIED => by_shard(plan, best.rows(), key, TieGroup::ALL),
        None => key.groups().find_map(|group| by_shard(plan, best.rows(), key, group)),
    }
}

fn among_tied(plan: &Plan<'_>, tied: Tied<'_>, key: TieKey) -> Option<NodeRow> {
    let Tied { groups, chosen } = tied;
    let group = match groups.len() {
        1 => 0,
        _ => key.groups().map(TieGroup::index).find(|at| !groups[*at].rows.is_empty())?,
    };
    let Group { hashes, rows } = &groups[group];
    debug_assert_eq!(hashes.len(), rows.len(), "a hash for each row");
    let kernels = plan.kernels;
    // Distinct hashes have distinct keys.
    let (highest, Range { start: mut from, end }) = kernels.highest_tied(hashes, key);
    let (hash, hashes) = (key.hash_of(highest), &hashes[..end]);
    let mut winner: Option<usize> = None;
    while let Some(at) = kernels.position_of(hashes, hash, from) {
        if winner.is_none_or(|winner| name(plan, rows[at]) < name(plan, rows[winner])) {
            winner = Some(at);
        }
        from = at + 1;
    }
    *chosen = (group, winner?);
    rows.get(chosen.1).copied()
}

/// The row of a group; `None` if the group has none.
fn by_shard(
    plan: &Plan<'_>,
    best: &[(usize, RowSet)],
    key: TieKey,
    group: TieGroup,
) -> Option<NodeRow> {
    let kernels = plan.kernels;
    let hashes = |shard: usize| &plan.snapshot().shards[shard].nodes.name_hash.0;
    let (mut largest, mut holders) = (0, SmallVec::<[&(usize, RowSet); 4]>::new());
    for of_shard @ (shard, rows) in best {
        let highest = kernels.max_tie_key(hashes(*shard), rows, key, group);
        if highest > largest {
            largest = highest;
            holders.clear();
        }
        if highest == largest {
            holders.push(of_shard);
        }
    }
    let mut winner: Option<NodeRow> = None;
    for (shard, rows) in holders {
        let of_key = kernels.rows_of_tie_key(hashes(*shard), rows, key, largest);
        // Where the group has no row, that of the lowest key may be in another one.
        for row in of_key.iter().filter(|row| group.has(hashes(*shard)[*row])) {
            let row = NodeRow::new(*shard, row);
            if winner.is_none_or(|winner| name(plan, row) < name(plan, winner)) {
                winner = Some(row);
            }
        }
    }
    winner
}

fn name<'a>(plan: &Plan<'a>, row: NodeRow) -> &'a str {
    plan.snapshot().node_name(row).map_or("", |name| &**name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_testing::object;

    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;
    use crate::hash::hash_name;
    use crate::kernel::Kernels;
    use crate::place::decision::Outcome;
    use crate::place::{Evaluation, decide};
    use crate::plan::request::PlaceRequest;
    use crate::policy::Policy;

    /// The rule itself: the first group that has a name, and of its names the one with the largest key.
    fn by_rule(names: &[Arc<str>], key: TieKey) -> Option<&Arc<str>> {
        let is_many = names.len() >= MANY_TIED as usize;
        let groups: Vec<TieGroup> =
            if is_many { key.groups().collect() } else { vec![TieGroup::ALL] };
        groups.into_iter().find_map(|group| {
            let of_group = names.iter().filter(|name| group.has(hash_name(name)));
            of_group.max_by_key(|name| key.of(hash_name(name)))
        })
    }

    /// Each pod fills a node, until fewer are tied than are grouped. With cached hashes and without, the choice is as the
    /// rule says.
    #[test]
    fn many_tied() {
        const N_NODES: usize = MANY_TIED as usize + 30;
        let cluster = Cluster::new();
        let nodes = (0..N_NODES).map(|i| {
            let node = object::node(&format!("n{i} cpu=1 memory=1Gi pods=10"));
            Delta::UpsertNode(cluster.compile_node(&node).unwrap())
        });
        assert_eq!(cluster.apply(nodes.collect()).rejected, []);
        let mut left: Vec<Arc<str>> = (0..N_NODES).map(|i| format!("n{i}").into()).collect();
        let (policy, tie_break) = (Policy::default(), TieBreak::Seeded(5));
        let mut kept = Evaluation::default();
        for i in 0..60 {
            let pod = cluster.compile_pod(&object::pod(&format!("p{i} uid=u{i} cpu=1"))).unwrap();
            let snapshot = cluster.snapshot();
            let node = |evaluation: &mut Evaluation| {
                let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
                let mut plan = Plan::new(&snapshot, &request, Kernels::detect());
                match decide(&mut plan, evaluation, tie_break).unwrap().decision.outcome {
                    Outcome::Placed(placement) => placement.node,
                    other => panic!("{other:?}"),
                }
            };
            let expected = by_rule(&left, TieKey::new(5, &format!("u{i}"))).unwrap().clone();
            assert_eq!(node(&mut kept), expected, "pod {i}");
            assert_eq!(node(&mut Evaluation::default()), expected, "pod {i}, from nothing");
            left.retain(|name| *name != expected);
            let bound = object::pod(&format!("p{i} uid=u{i} cpu=1 node={expected}"));
            let bound = Delta::UpsertPod(cluster.compile_pod(&bound).unwrap());
            assert_eq!(cluster.apply(vec![bound]).rejected, []);
        }
    }
}
