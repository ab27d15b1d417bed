//! Proposal: an eviction chosen by the caller, tried on its node. Rules: S-EXT-13, S-PRE-8, S-PRE-14.

use crate::dry_run::DryRuns;
use crate::error::EngineError;
use crate::place::{Evaluation, pre_filter_refusal};
use crate::plan::Plan;
use crate::rows::RowSet;

/// Pods to evict from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal<'a> {
    /// Node name.
    pub node: &'a str,
    /// `metadata.uid` of each victim, in any order.
    pub victims: Vec<&'a str>,
}

/// The outcome of trying a proposal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ProposalOutcome {
    /// The pod fits after the eviction.
    Helps,
    /// The pod does not fit after the eviction.
    NoHelp,
    /// The cluster has no node of this name.
    UnknownNode,
    /// The victim at this position does not run on the node.
    UnknownVictim(usize),
    /// The victim at this position has no lower priority than the pod.
    TooImportant(usize),
    /// The proposal has no victims.
    NoVictims,
}

/// Tries each proposal on its node; pods nominated to the node are added as in every dry run (S-NOM-1).
///
/// Cost: for each proposal one look at the pods of its node and one run of the filters that look at pods.
pub(crate) fn check(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    proposals: &[Proposal<'_>],
) -> Result<Vec<ProposalOutcome>, EngineError> {
    let is_refused = pre_filter_refusal(plan)?.is_some();
    plan.filtering(evaluation, |plan, _| {
        let runs = DryRuns::new(plan);
        let tried = proposals.iter().map(|proposal| {
            let outcome = try_on_node(plan, &runs, proposal);
            if is_refused && outcome == ProposalOutcome::Helps {
                ProposalOutcome::NoHelp
            } else {
                outcome
            }
        });
        Ok(tried.collect())
    })
}

fn try_on_node(
    plan: &Plan<'_>,
    runs: &DryRuns<'_, '_>,
    proposal: &Proposal<'_>,
) -> ProposalOutcome {
    let snapshot = plan.snapshot();
    let Some(row) = snapshot.row_named(proposal.node) else {
        return ProposalOutcome::UnknownNode;
    };
    if proposal.victims.is_empty() {
        return ProposalOutcome::NoVictims;
    }
    let shard = &snapshot.shards[row.shard()];
    let pods = shard.pods.of(row.row());
    let mut victims: Vec<usize> = Vec::with_capacity(proposal.victims.len());
    for (i, uid) in proposal.victims.iter().enumerate() {
        let Some(at) = pods.iter().position(|placed| placed.pod.uid() == *uid) else {
            return ProposalOutcome::UnknownVictim(i);
        };
        if pods[at].pod.priority() >= plan.pod().priority() {
            return ProposalOutcome::TooImportant(i);
        }
        victims.push(at);
    }
    victims.sort_unstable();
    victims.dedup();
    let rows: RowSet = [row.row()].into_iter().collect();
    let mut rows = runs.passing_whatever_pods(shard, rows);
    rows.intersect(&plan.candidates(shard));
    if rows.is_empty() {
        return ProposalOutcome::NoHelp;
    }
    let mut run = runs.on(shard, row.row());
    victims.iter().for_each(|at| run.remove(&pods[*at].pod));
    if run.passes(plan.promised().on(row)) {
        ProposalOutcome::Helps
    } else {
        ProposalOutcome::NoHelp
    }
}
