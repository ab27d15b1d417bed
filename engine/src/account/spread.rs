//! PodTopologySpread: each constraint with the counts of its domains. Rules: S-PTS-5 to S-PTS-7.

use std::sync::Arc;

use super::at::{At, Judged};
use super::comparison::{Compared, N_DOMAINS, SpreadAccount};
use crate::census::demand::HardConstraint;
use crate::model::intern::Symbol;
use crate::model::label_selector::value_of;
use crate::plan::counted::Filtering;
use crate::snapshot::shard::Shard;

/// The constraints that filter, in the demand's order. Cost: for each constraint one step for each node.
pub(super) fn accounts(plan: &Filtering<'_, '_>) -> Vec<Arc<SpreadAccount>> {
    let own = plan.shape().spread.list.iter().enumerate().filter(|(_, own)| own.is_hard);
    let own: Vec<usize> = own.map(|(i, _)| i).collect();
    let hard = plan.demand().hard.iter().enumerate();
    hard.map(|(i, constraint)| Arc::new(account(plan, constraint, own.get(i).copied()))).collect()
}

fn account(
    plan: &Filtering<'_, '_>,
    constraint: &HardConstraint,
    position: Option<usize>,
) -> SpreadAccount {
    let sums = plan.census().sum(constraint.sum);
    let (n_domains, smallest) = sums.smallest();
    let mut domains: Vec<(Arc<str>, i64)> = Vec::with_capacity(n_domains);
    let mut is_seen = vec![false; sums.by_domain().len()];
    for shard in &plan.snapshot().shards {
        let Some(label) = shard.nodes.labels.get(&sums.key()) else {
            continue;
        };
        for row in label.rows.iter() {
            let domain = label.domains[row];
            if sums.exists(domain)
                && let Some(is_seen) = is_seen.get_mut(domain.index())
                && !std::mem::replace(is_seen, true)
                && let Some(name) = domain_name(plan, shard, row, sums.key())
            {
                domains.push((name, sums.of(domain)));
            }
        }
    }
    domains.sort_unstable_by(|(a, a_count), (b, b_count)| a_count.cmp(b_count).then(a.cmp(b)));
    domains.truncate(N_DOMAINS);
    SpreadAccount {
        constraint: position,
        topology_key: plan.names().name(sums.key()),
        max_skew: constraint.max_skew,
        min_domains: i64::try_from(constraint.min_domains).unwrap_or(i64::MAX),
        minimum: constraint.minimum(n_domains, smallest),
        counts_itself: constraint.own > 0,
        n_domains,
        domains,
    }
}

pub(super) fn compare(
    plan: &Filtering<'_, '_>,
    accounts: &[Arc<SpreadAccount>],
    at: At<'_>,
) -> Vec<Judged> {
    let constraints = plan.demand().hard.iter().zip(accounts);
    let judged = constraints.map(|(constraint, account)| {
        let sums = plan.census().sum(constraint.sum);
        let n_pods = sums.of(at.shard.nodes.domain_of(at.row, sums.key()));
        let skew = n_pods + constraint.own - account.minimum;
        let domain = domain_name(plan, at.shard, at.row, sums.key());
        let is_met = domain.is_some() && skew <= constraint.max_skew;
        (is_met, Compared::Spread { constraint: account.clone(), domain, n_pods, skew })
    });
    judged.collect()
}

/// The value of a row's label.
pub(super) fn domain_name(
    plan: &Filtering<'_, '_>,
    shard: &Shard,
    row: usize,
    key: Symbol,
) -> Option<Arc<str>> {
    let value = value_of(&shard.nodes.node(row)?.facts().labels, key)?;
    Some(plan.names().name(value))
}
