//! NodeResourcesFit's score: the configured strategy over the configured resources. Rules: S-RS-1 to S-RS-8.

use super::normalize::Normalize;
use super::{Raw, Score, least_allocated, most_allocated, requested_to_capacity_ratio};
use crate::plugin::Plugin;
use crate::policy::ScoringStrategy;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::NodeResourcesFit,
    applies: |_| true,
    raw: Raw::Row(add),
    normalize: Normalize::No,
};

fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
) -> bool {
    match &prepared.policy().spec().node_resources_fit.scoring {
        ScoringStrategy::LeastAllocated { .. } => {
            least_allocated::add(prepared, shard, rows, scores, weight)
        }
        ScoringStrategy::MostAllocated { .. } => {
            most_allocated::add(prepared, shard, rows, scores, weight)
        }
        ScoringStrategy::RequestedToCapacityRatio { shape, .. } => {
            requested_to_capacity_ratio::add(prepared, shard, rows, scores, weight, shape);
        }
    }
    true
}
