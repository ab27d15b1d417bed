//! Preempt: the scheduler's candidates that make room by Berth's filters too. Rule: S-EXT-13.
//!
//! Candidates are dropped, never changed: victims and the number of violated budgets are returned as sent, since
//! kube-scheduler chose them by the rules that Berth would apply, on a state at least as new.

use berth_engine::{Proposal, ProposalOutcome};

use super::candidates;
use super::failure::Failure;
use super::shared::Extender;
use super::text::comma;
use crate::escape;
use crate::service::State;

/// Responds with `ExtenderPreemptionResult`, whose only form is `NodeNameToMetaVictims` for callers of either kind.
pub(super) fn preempt(state: &State, extender: &Extender, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let arguments = candidates::read(body)?;
    let pod = state.cluster.compile_pod(&arguments.pod).map_err(|error| Failure::field(&error))?;
    let policy = extender.policies.of(&pod)?;
    let proposals: Vec<Proposal<'_>> = arguments
        .candidates
        .iter()
        .map(|candidate| Proposal {
            node: &candidate.node,
            victims: candidate.victims.iter().map(|uid| &**uid).collect(),
        })
        .collect();
    let outcomes = state.cluster.check_evictions(&pod, policy, &proposals)?;
    let mut out = b"{\"NodeNameToMetaVictims\":{".to_vec();
    let opened = out.len();
    for (candidate, outcome) in arguments.candidates.iter().zip(outcomes) {
        if outcome == ProposalOutcome::Helps {
            comma(&mut out, opened);
            candidate.write(&mut out);
            continue;
        }
        tracing::debug!(
            node = %escape::printable(&candidate.node),
            ?outcome,
            "a candidate for preemption is dropped"
        );
    }
    out.extend_from_slice(b"}}");
    Ok(out)
}
