//! NodeResourcesBalancedAllocation: how the pod changes the balance of a node's resources. Rules: S-BA-1 to S-BA-5.

use smallvec::SmallVec;

use super::normalize::Normalize;
use super::{Raw, Score, add_by_row};
use crate::filter::node_resources_fit::{allocatable, requested};
use crate::kernel::{BalanceInput, balance_score};
use crate::model::resources::Resource;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{FEW, ROWS, RowSet};
use crate::snapshot::shard::Shard;

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::NodeResourcesBalancedAllocation,
    applies,
    raw: Raw::Row(add),
    normalize: Normalize::No,
};

/// Whether the score contributes (S-BA-1).
fn applies(prepared: &Prepared<'_>) -> bool {
    prepared.balance_resources().iter().any(|resource| pod_request(prepared, *resource) != 0)
}

/// The pod's actual request, including its status (S-BA-2).
fn pod_request(prepared: &Prepared<'_>, resource: Resource) -> i64 {
    prepared.pod().footprint().requested.get(resource)
}

fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
) -> bool {
    let (room, usage) = (&shard.nodes.allocatable, &shard.usage);
    let is_exact = prepared.balance_resources() == [Resource::Cpu, Resource::Memory]
        && rows.without(&room.exact).is_empty();
    if !is_exact {
        add_by_row(rows, scores, weight, |row| score(prepared, shard, row));
        return true;
    }
    let input = BalanceInput {
        allocatable: [&room.milli_cpu.0, &room.memory.0],
        used: [&usage.milli_cpu.0, &usage.memory.0],
        balance: &usage.balance.0,
        request: [pod_request(prepared, Resource::Cpu), pod_request(prepared, Resource::Memory)],
    };
    if rows.len() < FEW {
        add_by_row(rows, scores, weight, |row| i64::from(balance_score(&input, row)));
    } else {
        prepared.kernels.add_balance(scores, &input, weight);
    }
    true
}

/// The score of one row (S-BA-4).
fn score(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> i64 {
    let (mut before, mut with) = (SmallVec::<[f64; 4]>::new(), SmallVec::<[f64; 4]>::new());
    for resource in prepared.balance_resources() {
        let pod = pod_request(prepared, *resource);
        let room = allocatable(shard, row, *resource);
        if room == 0 || (pod == 0 && matches!(resource, Resource::Scalar(_))) {
            continue;
        }
        let used = requested(shard, row, *resource);
        before.push((used as f64 / room as f64).min(1.0));
        with.push((used.saturating_add(pod) as f64 / room as f64).min(1.0));
    }
    50 + (50 + balance(&with) - balance(&before)) / 2
}

/// Computes ⌊100 · (1 − std)⌋ (S-BA-3).
fn balance(fractions: &[f64]) -> i64 {
    let std = match fractions {
        [] | [_] => 0.0,
        [f0, f1] => ((f0 - f1) / 2.0).abs(),
        more => {
            let n = more.len() as f64;
            let mean = more.iter().sum::<f64>() / n;
            (more.iter().map(|f| (f - mean) * (f - mean)).sum::<f64>() / n).sqrt()
        }
    };
    ((1.0 - std) * 100.0) as i64
}

#[cfg(test)]
mod tests {
    use super::balance;

    /// The worked examples of section 3.2.
    #[test]
    fn worked_examples() {
        for (fractions, expected) in [
            (&[0.25, 0.125][..], 93),
            (&[0.375, 0.25], 93),
            (&[0.0, 0.0], 100),
            (&[0.25, 0.5], 87),
            (&[0.5, 0.25, 1.0], 68),
            (&[1.0, 0.5], 75),
            (&[0.7], 100),
            (&[], 100),
            (&[1.0, 0.0], 50),
        ] {
            assert_eq!(balance(fractions), expected, "{fractions:?}");
        }
    }
}
