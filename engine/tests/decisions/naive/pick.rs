//! The choice among candidates. Rules: S-PRE-19, S-PRE-20.

use std::cmp::Reverse;

use berth_proto::core_v1::Pod;

use super::dry_run::Candidate;
use super::pod;

/// The criteria in their order; the lowest value is best.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    n_pdb_violations: u32,
    highest_priority: i32,
    /// The sum of priorities, each raised by 2³¹.
    sum: i64,
    n_victims: usize,
    /// A missing start time counts as now, which is later than any other.
    earliest_start: Reverse<i64>,
}

/// Returns the names of all candidates that are equal in every criterion, in the given order.
pub(crate) fn best(candidates: &[Candidate]) -> Vec<String> {
    let least = candidates.iter().map(cost).min();
    let is_best = |candidate: &&Candidate| Some(cost(candidate)) == least;
    candidates.iter().filter(is_best).map(|candidate| candidate.node.clone()).collect()
}

fn cost(candidate: &Candidate) -> Cost {
    let victims = &candidate.victims;
    let highest = pod::priority(&victims[0]);
    let most_important = victims.iter().filter(|victim| pod::priority(victim) == highest);
    let started = |victim: &Pod| pod::start_time(victim).unwrap_or(i64::MAX);
    Cost {
        n_pdb_violations: candidate.n_pdb_violations,
        highest_priority: highest,
        sum: victims.iter().map(|victim| i64::from(pod::priority(victim)) + (1 << 31)).sum(),
        n_victims: victims.len(),
        earliest_start: Reverse(most_important.map(started).min().expect("there is one")),
    }
}
