//! Select: the choice of one of the rows with the highest total (S-SEL-3). Rule for ties: S-SEL-4 (policy).

use std::ops::Range;

use smallvec::SmallVec;

use super::ranking::Ranking;
use super::ties::Tied;
use crate::kernel::TieKey;
use crate::plan::Plan;
use crate::plan::request::TieBreak;
use crate::rows::{NodeRow, RowSet};

/// The row chosen from the best rows; `None` if there are none.
///
/// Cost: one step for each tied row, or one vector pass over their hashes or over each shard that has any.
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

/// The row with the largest key; of equal keys the node whose name sorts first.
fn seeded(plan: &Plan<'_>, best: &mut Ranking, seed: u64) -> Option<NodeRow> {
    let pod = plan.pod();
    let key = match pod.uid() {
        "" => TieKey::new(seed, &pod.key().to_string()),
        uid => TieKey::new(seed, uid),
    };
    match best.tied(plan.snapshot()) {
        Some(tied) => among_tied(plan, tied, key),
        None => by_shard(plan, best.rows(), key),
    }
}

fn among_tied(plan: &Plan<'_>, tied: Tied<'_>, key: TieKey) -> Option<NodeRow> {
    let Tied { hashes, rows, chosen } = tied;
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
    *chosen = winner?;
    rows.get(*chosen).copied()
}

fn by_shard(plan: &Plan<'_>, best: &[(usize, RowSet)], key: TieKey) -> Option<NodeRow> {
    let kernels = plan.kernels;
    let hashes = |shard: usize| &plan.snapshot().shards[shard].nodes.name_hash.0;
    let (mut largest, mut holders) = (0, SmallVec::<[&(usize, RowSet); 4]>::new());
    for of_shard @ (shard, rows) in best {
        let highest = kernels.max_tie_key(hashes(*shard), rows, key);
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
        for row in kernels.rows_of_tie_key(hashes(*shard), rows, key, largest).iter() {
            let row = NodeRow::new(*shard, row);
            if winner.is_none_or(|winner| name(plan, row) < name(plan, winner)) {
                winner = Some(row);
            }
        }
    }
    winner
}

fn name<'a>(plan: &Plan<'a>, row: NodeRow) -> &'a str {
    plan.snapshot().node(row).map_or("", |node| node.name())
}
