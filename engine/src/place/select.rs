//! Select: one of the rows with the highest total. Rule: S-SEL-4 (policy).

use smallvec::SmallVec;

use super::Plan;
use super::ranking::Ranking;
use super::request::TieBreak;
use crate::kernel::TieKey;
use crate::snapshot::NodeRow;
use crate::snapshot::row_set::RowSet;

/// The chosen one of the best rows. There must be one.
///
/// Cost: one step for each tied row, or one vector pass over each shard that has any.
pub(crate) fn select(plan: &Plan<'_>, best: &Ranking, tie_break: TieBreak) -> NodeRow {
    match tie_break {
        TieBreak::Lexicographic => lexicographic(plan, best),
        TieBreak::Seeded(seed) => seeded(plan, best, seed),
    }
}

fn lexicographic(plan: &Plan<'_>, best: &Ranking) -> NodeRow {
    let by_shard = best.rows().iter();
    let tied = by_shard.flat_map(|(shard, rows)| rows.iter().map(|row| NodeRow::new(*shard, row)));
    tied.min_by(|a, b| name(plan, *a).cmp(name(plan, *b))).unwrap_or(NodeRow::new(0, 0))
}

/// The largest key wins; of equal keys the node whose name sorts first.
fn seeded(plan: &Plan<'_>, best: &Ranking, seed: u64) -> NodeRow {
    let pod = plan.prepared.pod();
    let uid = if pod.uid().is_empty() { pod.key().to_string() } else { pod.uid().to_owned() };
    let key = TieKey::new(seed, &uid);
    let highest = |&(shard, rows): &(usize, RowSet)| {
        let hashes = &plan.prepared.snapshot().shards[shard].nodes.name_hash;
        (plan.prepared.kernels.max_tie_key(&hashes.0, &rows, key), shard, rows)
    };
    let by_shard: SmallVec<[_; 32]> = best.rows().iter().map(highest).collect();
    let largest = by_shard.iter().map(|(key, _, _)| *key).max().unwrap_or(0);
    let winning = by_shard.iter().filter(|(highest, _, _)| *highest == largest).flat_map(
        |(_, shard, rows)| {
            let hashes = &plan.prepared.snapshot().shards[*shard].nodes.name_hash;
            rows.iter()
                .filter(move |row| key.of(hashes[*row]) == largest)
                .map(|row| NodeRow::new(*shard, row))
        },
    );
    winning.min_by(|a, b| name(plan, *a).cmp(name(plan, *b))).unwrap_or(NodeRow::new(0, 0))
}

fn name<'a>(plan: &Plan<'a>, row: NodeRow) -> &'a str {
    plan.prepared.snapshot().node(row).map_or("", |node| node.name())
}
