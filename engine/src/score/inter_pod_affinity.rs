//! InterPodAffinity's score: the weights of the pod's preferences, and of those of the pods on nodes.
//! Rules: S-IS-1 to S-IS-6. Reads: `Census`.

use super::normalize::Normalize;
use super::{ClassScores, ClusterScores, Columns, Raw, Score};
use crate::census::class::Class;
use crate::census::sums::DomainSums;
use crate::kernel::{FEW_DOMAINS, few_domains};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::InterPodAffinity,
    applies: |prepared| !prepared.demand().preferences.is_empty(),
    raw: Raw::Counts(score, score_classes),
    normalize: Normalize::Range,
};

/// The weights of a node's domains, summed over the topology keys (S-IS-5); `None` where no pod has a weight (S-IS-4).
///
/// Cost: one step for each row and key.
fn score(prepared: &Prepared<'_>, feasible: &[RowSet]) -> Option<ClusterScores> {
    let preferences = &prepared.demand().preferences;
    let census = prepared.census();
    if !is_any_weighed(prepared) {
        return None;
    }
    // A sum beyond 32 bits would need more than ten million pods with a preference each.
    let weights = |sum: &DomainSums| -> Vec<i32> {
        sum.by_domain().iter().map(|weight| *weight as i32).collect()
    };
    if let [sum] = preferences[..]
        && census.n_domains(sum) <= FEW_DOMAINS
    {
        let sum = census.sum(sum);
        let columns = Columns::ByDomain { key: sum.key(), scores: weights(sum) };
        return Some(ClusterScores { columns, normalized: None });
    }
    let mut columns = vec![[0; ROWS]; feasible.len()];
    for index in preferences {
        // By row, where each row is a domain of its own; else by domain.
        let is_by_row = census.is_by_row(*index);
        let weights = if is_by_row { Vec::new() } else { weights(census.sum(*index)) };
        let few = few_domains(&weights);
        for (column, shard) in columns.iter_mut().zip(&prepared.snapshot().shards) {
            let Some(label) = shard.nodes.labels.get(&census.key(*index)) else {
                continue;
            };
            let domains = &label.domains.0;
            match (census.by_row(*index, shard), &few) {
                (Some(weights), _) if label.rows == shard.nodes.rows => {
                    // Rows without a node have no pods.
                    prepared.kernels.add_all(column, weights);
                }
                (Some(weights), _) => {
                    label.rows.iter().for_each(|row| column[row] += weights[row]);
                }
                (None, Some(weights)) => prepared.kernels.add_weights(column, domains, weights),
                (None, None) => {
                    for (score, domain) in column.iter_mut().zip(domains) {
                        *score += weights.get(domain.index()).copied().unwrap_or(0);
                    }
                }
            }
        }
    }
    Some(ClusterScores { columns: Columns::ByRow(columns), normalized: None })
}

/// The weights of the domains of each class, summed over the topology keys (S-IS-5). Where no pod has a weight all sums
/// are 0 and are normalized to 0, as if PreScore had skipped (S-IS-4). Cost: one step for each class and key.
fn score_classes(prepared: &Prepared<'_>, classes: &[Class<'_>]) -> Option<ClassScores> {
    let (preferences, census) = (&prepared.demand().preferences, prepared.census());
    let weight = |class: &Class<'_>| -> i32 {
        let weights = preferences.iter().filter_map(|sum| census.of_class(*sum, class));
        weights.map(|weight| weight as i32).sum()
    };
    let mut scores = ClassScores::new();
    classes.iter().for_each(|class| scores.push(Some(weight(class))));
    Some(scores)
}

/// Whether any pod has a weight, even 0 (S-IS-4).
fn is_any_weighed(prepared: &Prepared<'_>) -> bool {
    let census = prepared.census();
    prepared
        .demand()
        .preferences
        .iter()
        .any(|sum| census.is_any(*sum) || census.has_any(*sum, prepared.snapshot()))
}
