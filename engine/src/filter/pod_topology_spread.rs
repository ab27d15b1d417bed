//! PodTopologySpread's filter: nodes whose domain already has too many matching pods. Rules: S-PTS-1 to S-PTS-8. Reads:
//! `Census`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope};
use crate::census::class::Class;
use crate::census::demand::HardConstraint;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::PodTopologySpread,
    scope: Scope::Counts(passes),
    reads: NodePods::SpreadCounts,
    pre_filter,
    applies: |prepared| !prepared.demand().hard.is_empty(),
    run,
    account: Account::ByRow { refusal, count, resolvable },
};

/// Fails the attempt for a selector of a hard constraint that does not parse (S-PTS-1).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    match &prepared.shape().spread.invalid_hard {
        Some(why) => Err(PreFilterFailure::Error(why.clone())),
        None => Ok(()),
    }
}

/// Clears rows. Cost: for each constraint one step for each domain, and one for each value of its key in the shard, or
/// for each row.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    for constraint in &prepared.demand().hard {
        let (_, passing) = judge(prepared, constraint, shard, rows);
        *rows = passing;
    }
}

/// Whether for each constraint the nodes of a class have its key and stay within the skew (S-PTS-7).
fn passes(prepared: &Prepared<'_>, class: &Class<'_>) -> bool {
    prepared.demand().hard.iter().all(|constraint| {
        let of_domain = prepared.census().of_class(constraint.sum, class);
        of_domain.is_some_and(|sum| sum <= highest_count(prepared, constraint))
    })
}

/// The rows with a constraint's key, and those of them where one more pod stays within the skew (S-PTS-7).
fn judge(
    prepared: &Prepared<'_>,
    constraint: &HardConstraint,
    shard: &Shard,
    rows: &RowSet,
) -> (RowSet, RowSet) {
    let sums = prepared.census().sum(constraint.sum);
    let Some(label) = shard.nodes.labels.get(&sums.key()) else {
        return (RowSet::EMPTY, RowSet::EMPTY);
    };
    let mut keyed = *rows;
    keyed.intersect(&label.rows);
    let highest = highest_count(prepared, constraint);
    let passing = label.rows_where(&keyed, |domain| sums.of(domain) <= highest);
    (keyed, passing)
}

/// The highest count of a domain that can take the pod (S-PTS-6, S-PTS-7).
pub(crate) fn highest_count(prepared: &Prepared<'_>, constraint: &HardConstraint) -> i64 {
    let (n_domains, smallest) = prepared.census().sum(constraint.sum).smallest();
    constraint.max_skew + constraint.minimum(n_domains, smallest) - constraint.own
}

/// The refusal of a row by the first constraint that fails.
fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    Refusal::counted(count, prepared, shard, row)
}

fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    let mut left = *refused;
    for constraint in &prepared.demand().hard {
        let (keyed, passing) = judge(prepared, constraint, shard, &left);
        counts.add(Reason::MissingTopologyLabel, left.without(&keyed).len());
        counts.add(Reason::PodTopologySpread, keyed.without(&passing).len());
        left = passing;
    }
}

/// The resolvable rows: the first constraint that fails decides, and a node that lacks a key cannot be helped.
fn resolvable(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet) -> RowSet {
    let (mut left, mut resolvable) = (*refused, RowSet::EMPTY);
    for constraint in &prepared.demand().hard {
        let (keyed, passing) = judge(prepared, constraint, shard, &left);
        resolvable.union(&keyed.without(&passing));
        left = passing;
    }
    resolvable
}
