//! InterPodAffinity's filter: required affinity and anti-affinity of the pod, and required anti-affinity of existing
//! pods. Rules: S-IPA-5 to S-IPA-7, S-IPA-9. Reads: `Census`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope};
use crate::census::class::Class;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::matching::with_keys;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::InterPodAffinity,
    scope: Scope::Counts(passes),
    reads: NodePods::Affinity,
    pre_filter,
    applies,
    run,
    account: Account::ByRow { refusal, count, resolvable },
};

/// Refuses a pod with a term that does not parse (S-IPA-6).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    let affinity = prepared.shape().pod_affinity.as_ref();
    match affinity.and_then(|affinity| affinity.invalid.as_ref()) {
        Some(why) => Err(PreFilterFailure::Refused(format!("parsing pod: {why}"))),
        None => Ok(()),
    }
}

/// Whether the filter applies (S-IPA-6).
fn applies(prepared: &Prepared<'_>) -> bool {
    let demand = prepared.demand();
    !demand.affinity.sums.is_empty()
        || !demand.anti_affinity.is_empty()
        || !demand.blockers.is_empty()
}

/// Whether the nodes of a class satisfy the pod's affinity and anti-affinity, and that of the pods on nodes.
fn passes(prepared: &Prepared<'_>, class: &Class<'_>) -> bool {
    let (demand, census) = (prepared.demand(), prepared.census());
    let is_first = may_be_first(prepared);
    let is_near = |sum: &usize| match census.of_class(*sum, class) {
        None => false,
        Some(n_pods) => is_first || n_pods > 0,
    };
    let is_occupied = |sum: &usize| census.of_class(*sum, class).is_some_and(|n_pods| n_pods > 0);
    demand.affinity.sums.iter().all(is_near)
        && !demand.anti_affinity.iter().chain(&demand.blockers).any(is_occupied)
}

/// Whether the pod may be the first of its group (S-IPA-7).
fn may_be_first(prepared: &Prepared<'_>) -> bool {
    let (affinity, census) = (&prepared.demand().affinity, prepared.census());
    affinity.matches_itself && affinity.sums.iter().all(|sum| census.total(*sum) == 0)
}

/// Clears rows. Cost: for each topology key one step for each of its values in the shard, or for each row.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    rows.intersect(&near(prepared, shard, rows));
    rows.subtract(&occupied(prepared, &prepared.demand().anti_affinity, shard, rows));
    rows.subtract(&occupied(prepared, &prepared.demand().blockers, shard, rows));
}

/// The rows that satisfy the pod's required affinity; where the pod may be the first of its group, all rows with the
/// topology keys (S-IPA-7).
fn near(prepared: &Prepared<'_>, shard: &Shard, rows: &RowSet) -> RowSet {
    let (affinity, census) = (&prepared.demand().affinity, prepared.census());
    if may_be_first(prepared) {
        let keys: Vec<_> = affinity.sums.iter().map(|sum| census.key(*sum)).collect();
        let mut keyed = with_keys(&shard.nodes, keys.iter());
        keyed.intersect(rows);
        return keyed;
    }
    let mut near = *rows;
    for sum in affinity.sums.iter().map(|sum| census.sum(*sum)) {
        near = match shard.nodes.labels.get(&sum.key()) {
            Some(label) => label.rows_where(&near, |domain| sum.of(domain) > 0),
            None => return RowSet::EMPTY,
        };
    }
    near
}

/// The rows whose domain has a counted pod for any of these sums.
fn occupied(prepared: &Prepared<'_>, sums: &[usize], shard: &Shard, rows: &RowSet) -> RowSet {
    let mut occupied = RowSet::EMPTY;
    let census = prepared.census();
    for index in sums {
        if census.total(*index) > 0
            && let Some(label) = shard.nodes.labels.get(&census.key(*index))
        {
            occupied.union(&match census.by_row(*index, shard) {
                Some(weights) => {
                    let mut keyed = *rows;
                    keyed.intersect(&label.rows);
                    prepared.kernels.rows_positive(weights, &keyed)
                }
                None => {
                    let sum = census.sum(*index);
                    label.rows_where(rows, |domain| sum.of(domain) > 0)
                }
            });
        }
    }
    occupied
}

fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    Refusal::counted(count, prepared, shard, row)
}

/// Counts reasons: affinity is checked first, then the pod's anti-affinity, then that of the pods on the node
/// (S-IPA-7).
fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    let near = near(prepared, shard, refused);
    counts.add(Reason::PodAffinity, refused.without(&near).len());
    let far = near.without(&occupied(prepared, &prepared.demand().anti_affinity, shard, &near));
    counts.add(Reason::PodAntiAffinity, near.without(&far).len());
    let blocked = occupied(prepared, &prepared.demand().blockers, shard, &far);
    counts.add(Reason::ExistingAntiAffinity, blocked.len());
}

/// The rows refused by anti-affinity: such pods can be evicted, while eviction does not add pods that affinity
/// requires.
fn resolvable(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet) -> RowSet {
    near(prepared, shard, refused)
}
