//! InterPodAffinity, the hard half: pods that must be near, pods that must be far, and pods that want this one far.
//! Rules: S-IPA-5 to S-IPA-7, S-IPA-9. Reads: `Census`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::matching::with_keys;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::InterPodAffinity,
    scope: Scope::Request,
    reads: NodePods::Affinity,
    pre_filter,
    applies,
    run,
    account: Account::ByRow { refusal, count, resolvable },
};

/// A term of the pod that does not parse (S-IPA-6).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    let affinity = prepared.shape().pod_affinity.as_ref();
    match affinity.and_then(|affinity| affinity.invalid.as_ref()) {
        Some(why) => Err(PreFilterFailure::Refused(format!("parsing pod: {why}"))),
        None => Ok(()),
    }
}

/// S-IPA-6
fn applies(prepared: &Prepared<'_>) -> bool {
    let demand = prepared.demand();
    !demand.affinity.sums.is_empty()
        || !demand.anti_affinity.is_empty()
        || !demand.blockers.is_empty()
}

/// Cost: for each topology key one step for each of its values in the shard, or for each row.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    rows.intersect(&near(prepared, shard, rows));
    rows.subtract(&occupied(prepared, &prepared.demand().anti_affinity, shard, rows));
    rows.subtract(&occupied(prepared, &prepared.demand().blockers, shard, rows));
}

/// The rows that have every pod near that the pod must be near to, or may be the first of their series (S-IPA-7).
fn near(prepared: &Prepared<'_>, shard: &Shard, rows: &RowSet) -> RowSet {
    let (affinity, census) = (&prepared.demand().affinity, prepared.census());
    let sums = || affinity.sums.iter().map(|sum| census.sum(*sum));
    if affinity.matches_itself && sums().all(|sum| sum.total() == 0) {
        let keys: Vec<_> = sums().map(|sum| sum.key()).collect();
        let mut keyed = with_keys(&shard.nodes, keys.iter());
        keyed.intersect(rows);
        return keyed;
    }
    let mut near = *rows;
    for sum in sums() {
        near = match shard.nodes.labels.get(&sum.key()) {
            Some(label) => label.rows_where(&near, |domain| sum.of(domain) > 0),
            None => return RowSet::EMPTY,
        };
    }
    near
}

/// The rows whose domain holds, for any of these sums, a pod that counts.
fn occupied(prepared: &Prepared<'_>, sums: &[usize], shard: &Shard, rows: &RowSet) -> RowSet {
    let mut occupied = RowSet::EMPTY;
    for sum in sums.iter().map(|sum| prepared.census().sum(*sum)) {
        if sum.total() > 0
            && let Some(label) = shard.nodes.labels.get(&sum.key())
        {
            occupied.union(&label.rows_where(rows, |domain| sum.of(domain) > 0));
        }
    }
    occupied
}

fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    Refusal::counted(count, prepared, shard, row)
}

/// Affinity is looked at first, then the pod's anti-affinity, then that of the pods on the node (S-IPA-7).
fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    let near = near(prepared, shard, refused);
    counts.add(Reason::PodAffinity, refused.without(&near).len());
    let far = near.without(&occupied(prepared, &prepared.demand().anti_affinity, shard, &near));
    counts.add(Reason::PodAntiAffinity, near.without(&far).len());
    let blocked = occupied(prepared, &prepared.demand().blockers, shard, &far);
    counts.add(Reason::ExistingAntiAffinity, blocked.len());
}

/// Pods that are too near can go; those that are missing do not come.
fn resolvable(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet) -> RowSet {
    near(prepared, shard, refused)
}
