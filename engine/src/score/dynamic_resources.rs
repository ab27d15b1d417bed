//! DynamicResources: nodes where earlier alternatives of a request are taken. Rules: S-DRA-90, S-DRA-91.

use super::normalize::Normalize;
use super::{Raw, Score, add_by_row};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::DynamicResources,
    applies: |prepared| prepared.devices().found().is_some(),
    raw: Raw::Row(add),
    normalize: Normalize::Default,
};

/// Adds scores. Cost: nothing for claims without alternatives, else a few bits or a search for each row.
fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
) -> bool {
    let Some(found) = prepared.devices().found() else { return false };
    let claims = &found.claims.claims;
    let mut requests = claims.iter().flat_map(|own| own.claim.shape.requests());
    if requests.all(|request| request.first_available.is_empty()) {
        return false;
    }
    let fit = found.fit(shard);
    add_by_row(rows, scores, weight, |row| i64::from(found.score(fit.as_ref(), shard, row)));
    true
}
