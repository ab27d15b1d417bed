//! Skew: how unevenly the pods of a pod's kind lie over topology domains, as its spread constraints count them, or the policy's
//! defaults where it has none. Rules: S-PTS-4 to S-PTS-6, S-PTS-12, S-TS-6.

use super::{Evaluation, Plan};
use crate::model::intern::Symbol;
use crate::snapshot::matching::with_keys;

/// For each constraint, hard ones first, its topology key and the largest number of pods in a domain less the smallest.
pub(crate) fn skews(plan: &mut Plan<'_>, evaluation: &mut Evaluation) -> Vec<(Symbol, i64)> {
    let demand = plan.prepared.demand();
    if demand.hard.is_empty() && demand.soft.list.is_empty() {
        return Vec::new();
    }
    plan.prepared.count(&mut evaluation.census);
    let (prepared, demand) = (&plan.prepared, plan.prepared.demand());
    let by_domain = |sum: usize| {
        let sum = prepared.census().sum(sum);
        (sum.key(), sum.skew())
    };
    let hard = demand.hard.iter().map(|constraint| by_domain(constraint.sum));
    let soft = demand.soft.list.iter().map(|constraint| match constraint.sum {
        Some(sum) => by_domain(sum),
        None => (constraint.key, by_node(plan, constraint.subject, constraint.key)),
    });
    let skews = hard.chain(soft).collect();
    plan.prepared.give_back(&mut evaluation.census);
    skews
}

/// The same over the nodes that carry a key.
fn by_node(plan: &Plan<'_>, subject: usize, key: Symbol) -> i64 {
    let mut extent: Option<(i32, i32)> = None;
    for shard in &plan.prepared.snapshot().shards {
        let counts = plan.prepared.census().on_shard(subject, shard);
        let rows = with_keys(&shard.nodes, [key].iter());
        for count in rows.iter().filter_map(|row| counts.get(row)) {
            let (low, high) = extent.unwrap_or((*count, *count));
            extent = Some((low.min(*count), high.max(*count)));
        }
    }
    extent.map_or(0, |(low, high)| i64::from(high - low))
}
