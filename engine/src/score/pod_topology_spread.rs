//! PodTopologySpread's score: nodes whose domains have fewer matching pods score higher. Rules: S-TS-1 to S-TS-9.
//! Reads: `Census`.

use smallvec::{SmallVec, smallvec};

use super::ln::ln;
use super::normalize::Normalize;
use super::{ClassScores, ClusterScores, Columns, Raw, Score};
use crate::census::class::{Class, Reading};
use crate::census::demand::SoftConstraint;
use crate::kernel::{FEW_DOMAINS, few_domains, round_cost};
use crate::model::intern::Symbol;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::matching::with_keys;
use crate::snapshot::shard::Shard;

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::PodTopologySpread,
    applies: |prepared| !prepared.demand().soft.list.is_empty(),
    raw: Raw::Counts(score, score_classes),
    normalize: Normalize::Spread,
};

/// Cost of nodes for one constraint.
struct Cost<'a> {
    constraint: &'a SoftConstraint,
    /// The constraint's weight ln(size + 2): with more domains, each pod in one of them counts more (S-TS-4).
    weight: f64,
    rates: Rates,
}

/// How the cost of a row follows from a constraint. A row without the key costs nothing (S-TS-7).
enum Rates {
    /// From the number of matching pods on the row.
    ByRow,
    /// From the row's domain: the costs by index of at most [`FEW_DOMAINS`] domains.
    Few(Box<[f64; FEW_DOMAINS]>),
    /// From the row's domain: the costs by index of more domains.
    Many(Vec<f64>),
}

/// Computes scores. Cost: for each constraint one step for each domain, one for each value of its key in a shard, and
/// one for each row.
fn score(prepared: &Prepared<'_>, feasible: &[RowSet]) -> Option<ClusterScores> {
    let soft = &prepared.demand().soft;
    let shards = &prepared.snapshot().shards;
    let keyed: Option<Vec<RowSet>> = soft.is_strict.then(|| {
        let keys = || soft.list.iter().map(|constraint| &constraint.key);
        let keyed = |(rows, shard): (&RowSet, &Shard)| {
            let mut keyed = with_keys(&shard.nodes, keys());
            keyed.intersect(rows);
            keyed
        };
        feasible.iter().zip(shards.iter().map(|shard| &**shard)).map(keyed).collect()
    });
    let rows = keyed.as_deref().unwrap_or(feasible);
    let costs: Vec<Cost<'_>> =
        soft.list.iter().map(|constraint| cost(prepared, constraint, rows)).collect();
    let columns = shards.iter().map(|shard| score_shard(prepared, shard, &costs)).collect();
    Some(ClusterScores { columns: Columns::ByRow(columns), normalized: keyed })
}

/// The cost of each class, summed over the constraints and rounded (S-TS-7); `None` for a class whose nodes are ignored
/// (S-TS-2). Cost: one step for each constraint and class.
fn score_classes(prepared: &Prepared<'_>, classes: &[Class<'_>]) -> Option<ClassScores> {
    let (soft, census) = (&prepared.demand().soft, prepared.census());
    let is_scored = |class: &&Class<'_>| {
        !soft.is_strict || soft.list.iter().all(|soft| class.value(soft.reading(census)).is_some())
    };
    let mut costs: SmallVec<[f64; 32]> = smallvec![0.0; classes.len()];
    for constraint in &soft.list {
        let reading = constraint.reading(census);
        let scored = classes.iter().filter(is_scored);
        let weight = ln(n_domains_of(constraint, reading, scored) as f64 + 2.0);
        for (cost, class) in costs.iter_mut().zip(classes) {
            let count = match constraint.sum {
                Some(sum) => census.of_class(sum, class),
                None => class.value(reading).map(i64::from),
            };
            *cost += count.map_or(0.0, |count| constraint.cost_of(count as f64, weight));
        }
    }
    let mut scores = ClassScores::new();
    for (class, cost) in classes.iter().zip(costs) {
        scores.push(is_scored(&class).then(|| round_cost(cost)));
    }
    Some(scores)
}

/// The number of domains of classes: for `kubernetes.io/hostname` that of their rows; that of an absent value counts as
/// one (S-TS-3).
fn n_domains_of<'c>(
    constraint: &SoftConstraint,
    reading: Reading,
    classes: impl Iterator<Item = &'c Class<'c>>,
) -> usize {
    let (mut n_rows, mut n_keyed, mut is_unkeyed) = (0, 0, false);
    let mut domains = SmallVec::<[i32; 16]>::new();
    for class in classes {
        n_rows += class.n_rows as usize;
        match class.value(reading) {
            None => is_unkeyed = true,
            Some(domain) => {
                n_keyed += class.n_rows as usize;
                if matches!(reading, Reading::Domain(_)) && !domains.contains(&domain) {
                    domains.push(domain);
                }
            }
        }
    }
    match (constraint.sum, reading) {
        (None, _) => n_rows,
        (Some(_), Reading::Domain(_)) => domains.len() + usize::from(is_unkeyed),
        // Each row with the key is alone in its domain.
        (Some(_), Reading::Weight { .. }) => n_keyed + usize::from(is_unkeyed),
    }
}

fn cost<'a>(prepared: &Prepared<'_>, constraint: &'a SoftConstraint, rows: &[RowSet]) -> Cost<'a> {
    let Some(sum) = constraint.sum else {
        let n_rows = rows.iter().map(RowSet::len).sum::<u32>();
        return Cost { constraint, weight: ln(f64::from(n_rows) + 2.0), rates: Rates::ByRow };
    };
    let by_domain = prepared.census().sum(sum).by_domain();
    let size = n_domains(prepared, constraint.key, rows, by_domain.len());
    let weight = ln(size as f64 + 2.0);
    let mut by_domain: Vec<f64> =
        by_domain.iter().map(|count| constraint.cost_of(*count as f64, weight)).collect();
    by_domain[0] = 0.0;
    let rates = match few_domains(&by_domain) {
        Some(few) => Rates::Few(Box::new(few)),
        None => Rates::Many(by_domain),
    };
    Cost { constraint, weight, rates }
}

/// The number of domains of the rows; that of an absent value counts as one (S-TS-3).
fn n_domains(prepared: &Prepared<'_>, key: Symbol, rows: &[RowSet], n_ids: usize) -> usize {
    let mut is_seen = vec![false; n_ids];
    for (rows, shard) in rows.iter().zip(&prepared.snapshot().shards) {
        match shard.nodes.labels.get(&key) {
            Some(label) => {
                label.for_each_domain(rows, |domain, _| is_seen[domain.index()] = true);
                is_seen[0] |= !rows.without(&label.rows).is_empty();
            }
            None => is_seen[0] |= !rows.is_empty(),
        }
    }
    is_seen.into_iter().filter(|is_seen| *is_seen).count()
}

impl SoftConstraint {
    /// The cost of a count (S-TS-7).
    fn cost_of(&self, count: f64, weight: f64) -> f64 {
        count * weight + self.constant()
    }

    /// The cost of no pods.
    fn constant(&self) -> f64 {
        f64::from(self.max_skew) - 1.0
    }
}

/// The costs of a shard's rows, summed in the constraints' order and rounded half away from zero.
fn score_shard(prepared: &Prepared<'_>, shard: &Shard, costs: &[Cost<'_>]) -> [i32; ROWS] {
    let mut sums = [0.0_f64; ROWS];
    for cost in costs {
        let Some(label) = shard.nodes.labels.get(&cost.constraint.key) else {
            continue;
        };
        let domains = &label.domains.0;
        match &cost.rates {
            Rates::ByRow => {
                let counts = prepared.census().on_shard(cost.constraint.subject, shard);
                let all: Result<&[i32; ROWS], _> = counts.try_into();
                match all {
                    // Rows without a node get a cost, too, which is never read.
                    Ok(counts) if label.rows == shard.nodes.rows => {
                        let constant = cost.constraint.constant();
                        prepared.kernels.add_counts(&mut sums, counts, cost.weight, constant);
                    }
                    _ => {
                        for ((sum, count), domain) in sums.iter_mut().zip(counts).zip(domains) {
                            if domain.is_some() {
                                *sum += cost.constraint.cost_of(f64::from(*count), cost.weight);
                            }
                        }
                    }
                }
            }
            Rates::Few(costs) => prepared.kernels.add_by_domain(&mut sums, domains, costs),
            Rates::Many(costs) => {
                for (sum, domain) in sums.iter_mut().zip(domains) {
                    *sum += costs.get(domain.index()).copied().unwrap_or(0.0);
                }
            }
        }
    }
    prepared.kernels.round_costs(&sums)
}
