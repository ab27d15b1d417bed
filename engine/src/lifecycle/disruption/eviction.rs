//! The answer to an eviction request (L-PDB-12 to L-PDB-18).

use berth_proto::berth_v1::{EvictRequest, EvictResponse};
use berth_proto::core_v1::Pod;
use berth_proto::policy_v1::PodDisruptionBudget;

use super::coverage::{Coverage, Subject, namespace_of};
use super::demand::{UnhealthyPodEvictionPolicy, unhealthy_policy};
use crate::lifecycle::condition::DisruptionCause;
use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::PodPhase;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::intern::Interner;

words! {
    /// Outcome of an eviction request.
    enum EvictionOutcome {
        /// The pod is deleted gracefully.
        Evicted = "Evicted",
        /// The budget allows no eviction now.
        TooManyRequests = "TooManyRequests",
        /// The budget's status is invalid.
        Forbidden = "Forbidden",
        /// More than one budget covers the pod.
        MultipleBudgets = "MultipleBudgets",
    }
}

/// Limit on the approved evictions that a budget may have pending (L-PDB-18).
const MAX_PENDING: usize = 2000;
/// Retry hint if a budget allows no eviction, in seconds: nothing says when that changes (L-PDB-12).
const WHEN_USED_UP: i32 = 0;
/// Retry hint if a budget's status lags behind its spec, in seconds (L-PDB-13).
const WHEN_BEHIND: i32 = 10;

/// Decision on an eviction.
#[derive(Debug)]
struct Decision {
    outcome: EvictionOutcome,
    /// Retry hint in seconds.
    retry_after: Option<i32>,
    /// Whether one disruption of the budget is used up.
    uses_budget: bool,
    /// Whether the delete has to be refused if the pod has changed since (L-PDB-16).
    is_conditional: bool,
    message: String,
}

/// `Evict`: whether a pod may be evicted now, and the changes that follow. A dry run has the same response and changes
/// nothing (L-PDB-17).
///
/// # Errors
/// [`ModelError`] for a missing pod, name or time, an unknown phase, readiness or policy, and for a selector in the
/// pod's namespace that does not parse, since it might protect the pod.
pub fn evict(request: &EvictRequest) -> Result<EvictResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let metadata = reading::meta(pod);
    if metadata.name.is_empty() {
        return Err(ModelError::new("pod.metadata.name", "required"));
    }
    // An eviction that uses up a budget is recorded with this time.
    reading::required(request.now.as_ref(), "now")?;
    let phase = reading::phase(pod).map_err(|error| error.under("pod"))?;
    let is_ready = reading::is_ready(pod).map_err(|error| error.under("pod"))?;
    let is_unprotected = ignores_budgets(pod, phase);
    let covering = if is_unprotected { Vec::new() } else { covering(pod, &request.pdbs)? };
    let decision = match covering.as_slice() {
        [] if is_unprotected => Decision {
            // A pending pod may start meanwhile; terminal and marked pods stay as they are.
            is_conditional: phase == PodPhase::Pending && !reading::is_marked(pod),
            ..Decision::evicted("budgets do not cover pending, finished or terminating pods")
        },
        [] => Decision::evicted("no budget covers the pod"),
        [(index, budget)] => reading::in_list("pdbs", *index, decide(is_ready, budget))?,
        [first, second, ..] => Decision::refused(
            EvictionOutcome::MultipleBudgets,
            format!("covered by `{}` and by `{}`", name(first.1), name(second.1)),
        ),
    };

    let is_evicted = decision.outcome == EvictionOutcome::Evicted && !request.dry_run;
    let budget_used = decision.uses_budget && !request.dry_run;
    let allowed = match covering.as_slice() {
        [(_, budget)] => Some(disruptions_allowed(budget)),
        _ => None,
    };
    let reason = if is_evicted { DisruptionCause::EvictionApi.reason() } else { "" };
    let version = if decision.is_conditional { metadata.resource_version.as_str() } else { "" };
    Ok(EvictResponse {
        outcome: decision.outcome.word().to_owned(),
        code: decision.outcome.code(),
        retry_after_seconds: decision.retry_after,
        budget_used,
        disruptions_allowed_after: allowed.map(|n| n.saturating_sub(budget_used.into())),
        disrupted_pods_added: if budget_used { vec![metadata.name.clone()] } else { Vec::new() },
        disruption_reason: reason.to_owned(),
        is_conditional: decision.is_conditional,
        precondition_resource_version: version.to_owned(),
        message: decision.message,
        taken: None,
    })
}

/// Whether budgets do not apply to the pod: it is pending, has ended or is marked already (L-PDB-15).
fn ignores_budgets(pod: &Pod, phase: PodPhase) -> bool {
    phase == PodPhase::Pending || phase.is_terminal() || reading::is_marked(pod)
}

/// The budgets that cover the pod, with their positions in the list.
fn covering<'a>(
    pod: &Pod,
    budgets: &'a [PodDisruptionBudget],
) -> Result<Vec<(usize, &'a PodDisruptionBudget)>, ModelError> {
    let names = Interner::new();
    let subject = Subject::of(pod, &names).map_err(|error| error.under("pod"))?;
    let mut covering = Vec::new();
    for (index, budget) in budgets.iter().enumerate() {
        if namespace_of(budget) != subject.namespace {
            continue;
        }
        let coverage = reading::in_list("pdbs", index, Coverage::of(budget, &names))?;
        if coverage.covers(&subject) {
            covering.push((index, budget));
        }
    }
    Ok(covering)
}

/// Decision of the only budget that covers the pod. Errors are relative to the budget.
fn decide(is_ready: bool, budget: &PodDisruptionBudget) -> Result<Decision, ModelError> {
    let policy = match &budget.spec {
        Some(spec) => unhealthy_policy(spec).map_err(|error| error.under("spec"))?,
        None => UnhealthyPodEvictionPolicy::IfHealthyBudget,
    };
    if !is_ready && may_go_unhealthy(policy, budget) {
        let evicted =
            Decision::evicted("the pod is not ready, and its application does not need it");
        return Ok(Decision { is_conditional: true, ..evicted });
    }
    Ok(use_budget(budget))
}

/// Whether a pod that is not ready may be evicted without using the budget: always with `AlwaysAllow`, else while its
/// application is healthy and wants at least one pod (L-PDB-16).
fn may_go_unhealthy(policy: UnhealthyPodEvictionPolicy, budget: &PodDisruptionBudget) -> bool {
    match policy {
        UnhealthyPodEvictionPolicy::AlwaysAllow => true,
        UnhealthyPodEvictionPolicy::IfHealthyBudget => {
            budget.status.as_ref().is_some_and(|status| {
                status.desired_healthy > 0 && status.current_healthy >= status.desired_healthy
            })
        }
    }
}

/// Uses up one disruption of the budget if it allows any (L-PDB-12, L-PDB-13, L-PDB-18).
fn use_budget(budget: &PodDisruptionBudget) -> Decision {
    let generation = budget.metadata.as_ref().map_or(0, |metadata| metadata.generation);
    let observed = budget.status.as_ref().map_or(0, |status| status.observed_generation);
    let n_pending = budget.status.as_ref().map_or(0, |status| status.disrupted_pods.len());
    let n_allowed = disruptions_allowed(budget);
    let name = name(budget);
    let too_many = |retry_after, message| Decision {
        retry_after: Some(retry_after),
        ..Decision::refused(EvictionOutcome::TooManyRequests, message)
    };
    if observed < generation {
        too_many(WHEN_BEHIND, format!("the status of budget `{name}` is older than its spec"))
    } else if n_allowed < 0 {
        let message = format!("budget `{name}` allows a negative number of disruptions");
        Decision::refused(EvictionOutcome::Forbidden, message)
    } else if n_pending > MAX_PENDING {
        let message = format!("budget `{name}` has {n_pending} approved evictions pending");
        Decision::refused(EvictionOutcome::Forbidden, message)
    } else if n_allowed == 0 {
        too_many(WHEN_USED_UP, format!("would violate budget `{name}`"))
    } else {
        let message = format!("budget `{name}` allowed {n_allowed} disruptions");
        Decision { uses_budget: true, ..Decision::evicted(message) }
    }
}

fn disruptions_allowed(budget: &PodDisruptionBudget) -> i32 {
    budget.status.as_ref().map_or(0, |status| status.disruptions_allowed)
}

fn name(budget: &PodDisruptionBudget) -> &str {
    budget.metadata.as_ref().map_or("", |metadata| &metadata.name)
}

impl Decision {
    fn evicted(message: impl Into<String>) -> Decision {
        Decision::refused(EvictionOutcome::Evicted, message)
    }

    fn refused(outcome: EvictionOutcome, message: impl Into<String>) -> Decision {
        let (retry_after, message) = (None, message.into());
        Decision { outcome, retry_after, uses_budget: false, is_conditional: false, message }
    }
}

impl EvictionOutcome {
    /// HTTP status of the response (L-PDB-12, L-PDB-14, L-PDB-18).
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            EvictionOutcome::Evicted => 201,
            EvictionOutcome::TooManyRequests => 429,
            EvictionOutcome::Forbidden => 403,
            EvictionOutcome::MultipleBudgets => 500,
        }
    }
}

#[cfg(test)]
mod tests;
