//! NodeAffinity's score: weights of preferred terms that match. Rules: S-NA-1 to S-NA-3.

use super::normalize::Normalize;
use super::{Raw, Score};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::matching::matching_term;
use crate::snapshot::shard::Shard;

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::NodeAffinity,
    applies,
    raw: Raw::Row(add),
    normalize: Normalize::Default,
};

/// Whether the score contributes (S-NA-1).
fn applies(prepared: &Prepared<'_>) -> bool {
    prepared.preferences().next().is_some()
}

/// Adds scores. Cost: the matching of each term, and one step for each row that it matches.
fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
) -> bool {
    let mut any = false;
    for (term_weight, term) in prepared.preferences().flat_map(|preferences| &preferences.terms) {
        for row in matching_term(term, &shard.nodes, *rows, prepared.names()).iter() {
            any = true;
            scores[row] += weight * term_weight;
        }
    }
    any
}
