//! InterPodAffinity's score: the weights of the pod's preferences, and of those of the pods on nodes.
//! Rules: S-IS-1 to S-IS-6. Reads: `Census`.

use super::normalize::Normalize;
use super::{ClusterScores, Raw, Score};
use crate::kernel::few_domains;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::InterPodAffinity,
    applies: |prepared| !prepared.demand().preferences.is_empty(),
    raw: Raw::ByCluster(score),
    normalize: Normalize::Range,
};

/// The weights of a node's domains, summed over the topology keys (S-IS-5); `None` where no pod has a weight (S-IS-4).
///
/// Cost: one step for each row and key.
fn score(prepared: &Prepared<'_>, feasible: &[RowSet]) -> Option<ClusterScores> {
    let preferences = &prepared.demand().preferences;
    let census = prepared.census();
    let has_any =
        |sum: &usize| census.sum(*sum).is_any() || census.has_any(*sum, prepared.snapshot());
    if !preferences.iter().any(has_any) {
        return None;
    }
    let mut columns = vec![[0; ROWS]; feasible.len()];
    for sum in preferences.iter().map(|sum| census.sum(*sum)) {
        // A sum beyond 32 bits would need more than ten million pods with a preference each.
        let weights: Vec<i32> = sum.by_domain().iter().map(|weight| *weight as i32).collect();
        let few = few_domains(&weights);
        for (column, shard) in columns.iter_mut().zip(&prepared.snapshot().shards) {
            let Some(label) = shard.nodes.labels.get(&sum.key()) else {
                continue;
            };
            let domains = &label.domains.0;
            if let Some(weights) = &few {
                prepared.kernels.add_weights(column, domains, weights);
                continue;
            }
            for (score, domain) in column.iter_mut().zip(domains) {
                *score += weights.get(domain.index()).copied().unwrap_or(0);
            }
        }
    }
    Some(ClusterScores { columns, normalized: None })
}
