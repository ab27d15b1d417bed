//! Preempt: which pods an attempt would evict. [`preempt`] is the first function to read.
//!
//! An attempt that finds no node continues here: the nodes where evicting pods might help (`resolvable`), the pods to
//! evict from each (`eviction`), and the best of these evictions (`rank`). Rules: section 4, S-ERR-5 to S-ERR-8.

mod answer;
mod budgets;
mod deallocation;
mod elsewhere;
mod eviction;
mod importance;
mod known;
mod known_rows;
mod levels;
pub(crate) mod outcome;
mod post_filter;
pub(crate) mod proposal;
mod rank;
pub(crate) mod request;
mod resolvable;
mod sample;
mod search;
mod tried;
mod sizes;
pub(crate) mod upstream_sort;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::error::EngineError;
use crate::place::decision::Outcome;
use crate::place::{self, Evaluation};
use crate::plan::Plan;
use answer::{All, Detail};
pub(crate) use known::{Known, OfSamples};
use outcome::{CandidateList, Preemption};
use post_filter::Attempt;
use request::PreemptRequest;
pub(crate) use sample::LastOrder;

/// Runs a whole attempt: `plan` is of the request's pod and policy, `evaluation` and `known` of its shape, and `versions`
/// the cluster's, for forks on which victims are placed.
///
/// Cost: a decision, and where no node is feasible one look at the pods of each node where evicting might help and whose
/// shard has changed since it was known.
pub(crate) fn preempt(
    plan: &mut Plan<'_>,
    (evaluation, known): (&mut Evaluation, &mut Known),
    request: &PreemptRequest<'_>,
    versions: &Arc<AtomicU64>,
) -> Result<Preemption, EngineError> {
    Ok(attempt(plan, (evaluation, known), request, versions, Detail::Best)?.0)
}

/// Runs a whole attempt like [`preempt`], and returns every candidate.
pub(crate) fn list_candidates(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    request: &PreemptRequest<'_>,
    versions: &Arc<AtomicU64>,
) -> Result<CandidateList, EngineError> {
    let remembered = (evaluation, &mut Known::default());
    let (preemption, all) = attempt(plan, remembered, request, versions, Detail::All)?;
    let All { mut candidates, mut best, mut not_helped } = all;
    candidates.sort_unstable_by(|a, b| a.node.cmp(&b.node));
    best.sort_unstable();
    not_helped.sort_unstable_by(|a, b| a.node.cmp(&b.node));
    Ok(CandidateList { preemption, candidates, best, not_helped })
}

fn attempt(
    plan: &mut Plan<'_>,
    (evaluation, known): (&mut Evaluation, &mut Known),
    request: &PreemptRequest<'_>,
    versions: &Arc<AtomicU64>,
    detail: Detail,
) -> Result<(Preemption, All), EngineError> {
    let mut decision = place::decide(plan, evaluation, request.tie_break)?.decision;
    let Outcome::Unschedulable(unschedulable) = &mut decision.outcome else {
        return Ok((Preemption { decision, post_filter: None }, All::default()));
    };
    if unschedulable.n_nodes == 0 || plan.policy().spec().post_filter.is_empty() {
        return Ok((Preemption { decision, post_filter: None }, All::default()));
    }
    let (post_filter, all) = plan.filtering(evaluation, |plan, _| {
        Attempt { plan, request, versions, detail }.run(unschedulable, known)
    })?;
    if !post_filter.message.is_empty() {
        unschedulable.message.push(' ');
        unschedulable.message.push_str(&post_filter.message);
    }
    Ok((Preemption { decision, post_filter: Some(post_filter) }, all))
}

#[cfg(test)]
mod tests {
    use super::request::{PreemptOptions, PreemptRequest, VictimPlacement};
    use crate::{Cluster, Delta, EngineError, Policy, TieBreak};

    /// A node that a pod of priority 0 fills.
    fn full() -> Cluster {
        let cluster = Cluster::new();
        let node = serde_json::from_str(
            r#"{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}}"#,
        );
        let pod = serde_json::from_str(
            r#"{"metadata": {"name": "low", "uid": "low"}, "spec": {"nodeName": "n",
                "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}"#,
        );
        let [node, pod] = [
            Delta::UpsertNode(cluster.compile_node(&node.unwrap()).unwrap()),
            Delta::UpsertPod(cluster.compile_pod(&pod.unwrap()).unwrap()),
        ];
        assert_eq!(cluster.apply(vec![node, pod]).rejected, []);
        cluster
    }

    #[test]
    fn a_caller_may_give_up() {
        let cluster = full();
        let pod = serde_json::from_str(
            r#"{"metadata": {"name": "high", "uid": "high"}, "spec": {"priority": 1,
                "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}"#,
        );
        let pod = cluster.compile_pod(&pod.unwrap()).unwrap();
        let policy = Policy::default();
        for victim_placement in [VictimPlacement::Ignore, VictimPlacement::Prefer] {
            for sample in [None, Some(1)] {
                let ask = |has_given_up: bool| {
                    let options = PreemptOptions { victim_placement, sample, ..Default::default() };
                    let preemption = cluster.preempt(&PreemptRequest {
                        pod: &pod,
                        policy: &policy,
                        tie_break: TieBreak::Lexicographic,
                        options,
                        cancelled: &|| has_given_up,
                        now: None,
                    });
                    preemption.map(|preemption| preemption.post_filter.unwrap().n_candidates)
                };
                assert_eq!((ask(false), ask(true)), (Ok(1), Err(EngineError::Cancelled)));
            }
        }
    }
}
