//! ImageLocality: nodes that have the pod's images, the more widely spread ones first. Rules: S-IL-1 to S-IL-5.

use super::normalize::Normalize;
use super::{Raw, Score};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::node_table::ImageState;
use crate::snapshot::shard::Shard;

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::ImageLocality,
    applies: |_| true,
    raw: Raw::Row(add),
    normalize: Normalize::No,
};

const MIB: i64 = 1 << 20;

/// Adds scores. Cost: one lookup for each image; rows without any of the images score 0 and are not visited.
fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
) -> bool {
    let shape = prepared.shape();
    let mut holders = RowSet::EMPTY;
    for image in &shape.images {
        for (_, group) in shard.nodes.images.get(image).into_iter().flatten() {
            holders.union(group);
        }
    }
    holders.intersect(rows);
    for row in holders.iter() {
        let groups = shape.images.iter().filter_map(|image| shard.nodes.images.get(image));
        let states = groups.filter_map(|groups| groups.iter().find(|(_, rows)| rows.contains(row)));
        let sum = states.fold(0, |sum: i64, (state, _)| {
            sum.saturating_add(contribution(*state, prepared.n_nodes()))
        });
        scores[row] += weight * score(sum, i64::from(shape.n_containers)) as i32;
    }
    !holders.is_empty()
}

/// An image's size, scaled by the share of all nodes that have it (S-IL-2).
fn contribution(state: ImageState, n_nodes: usize) -> i64 {
    (state.size_bytes as f64 * (f64::from(state.n_nodes) / n_nodes as f64)) as i64
}

/// The score for a sum of contributions (S-IL-3).
fn score(sum: i64, n_containers: i64) -> i64 {
    let (min, max) = (23 * MIB, n_containers * 1000 * MIB);
    let sum = if sum < min { min } else { sum.min(max) };
    100 * (sum - min) / (max - min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked examples under S-IL-5.
    #[test]
    fn worked_examples() {
        let of = |mib: i64, n_nodes| contribution(ImageState { size_bytes: mib * MIB, n_nodes }, 3);
        assert_eq!(of(600, 1), 200 * MIB);
        assert_eq!(score(of(600, 1), 1), 18);
        assert_eq!(score(of(900, 2), 1), 59);
        assert_eq!(score(of(900, 1), 1), 28);
        assert_eq!(score(0, 1), 0);
        assert_eq!(score(i64::MAX, 2), 100);
    }
}
