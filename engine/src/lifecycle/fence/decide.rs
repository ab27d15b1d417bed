//! `DecideFence`: whether a node with lost contact is to be fenced now.

use berth_proto::berth_v1::{
    DecideFenceRequest, DecideFenceResponse, FenceBudget, FenceCandidate, FenceDetector,
    FencePolicy,
};

use crate::lifecycle::reading::{self, Seconds, after, given, given_text, in_list, namespace};
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Decision about a node.
    enum FenceDecision {
        /// Do not fence the node.
        NoAction = "NoAction",
        /// Decide again later.
        Wait = "Wait",
        /// A person has to decide.
        AskOperator = "AskOperator",
        /// Fence it now.
        Fence = "Fence",
    }

    /// Reason of a decision.
    enum FenceReason {
        /// The policy forbids it.
        PolicyNever = "PolicyNever",
        /// The node has no pods that are not terminal.
        NothingToProtect = "NothingToProtect",
        /// An operator requested the fence (L-FENCE-6).
        RequestedByOperator = "RequestedByOperator",
        /// Every pod tolerates the loss for ever, or its priority is below `minPriority`.
        NoPodJustifiesFencing = "NoPodJustifiesFencing",
        /// The tolerance of every pod lasts longer.
        ToleranceNotExhausted = "ToleranceNotExhausted",
        /// A required detector observes a healthy node.
        DetectorsDisagree = "DetectorsDisagree",
        /// The tolerance of at least one pod is over.
        ToleranceExhausted = "ToleranceExhausted",
    }

    /// Mode of a fencing policy.
    enum FenceMode {
        /// Berth decides.
        Auto = "Auto",
        /// Berth asks an operator.
        Manual = "Manual",
        /// The node is never fenced.
        Never = "Never",
    }

    /// Observation of a detector.
    enum Observation {
        /// The node has failed.
        Failed = "Failed",
        /// The node is healthy.
        Healthy = "Healthy",
        /// The detector has no data.
        NoData = "NoData",
    }

    /// Reaction to a contradiction between required detectors.
    enum OnContradiction {
        /// Wait until they agree.
        Wait = "Wait",
        /// Ignore the contradiction.
        Fence = "Fence",
    }
}

/// `DecideFence`: whether to fence a node (L-FENCE-4 to L-FENCE-6). An automatic fence never comes before the loss of
/// contact plus the latency bound of the slowest required detector (L-FENCE-15).
///
/// Cost: n log n in the pods that are due.
///
/// # Errors
/// [`ModelError`] for a word, `now`, `policy` or a required detector's bound that is missing, a negative bound or
/// budget, and `contactLostAt` where pods may justify fencing.
pub fn decide_fence(request: &DecideFenceRequest) -> Result<DecideFenceResponse, ModelError> {
    let now = reading::required(request.now.as_ref(), "now")?;
    let policy = Policy::read(request.policy.as_ref())?;
    let evidence = Evidence::read(&request.detectors)?;
    let candidates = candidates(&request.pods, &policy, evidence.bound)?;

    use FenceDecision::{AskOperator, Fence, NoAction, Wait};
    if policy.mode == FenceMode::Never {
        return Ok(answer(NoAction, FenceReason::PolicyNever, None));
    }
    if request.requested_by_operator {
        return Ok(answer(Fence, FenceReason::RequestedByOperator, Some(now)));
    }
    if request.pods.is_empty() {
        return Ok(answer(NoAction, FenceReason::NothingToProtect, None));
    }
    let unjustified = answer(Wait, FenceReason::NoPodJustifiesFencing, None);
    if candidates.is_empty() {
        return Ok(unjustified);
    }
    let lost = reading::required(request.contact_lost_at.as_ref(), "contactLostAt")?;
    // A due time after the end of time is never.
    let due_at = |candidate: &Candidate<'_>| after(lost, candidate.waits);
    let Some(fence_at) = candidates.iter().filter_map(due_at).min() else {
        return Ok(unjustified);
    };
    if now < fence_at {
        return Ok(answer(Wait, FenceReason::ToleranceNotExhausted, Some(fence_at)));
    }
    let (decision, reason) = if evidence.is_contradicted && !policy.fences_on_contradiction {
        (Wait, FenceReason::DetectorsDisagree)
    } else if policy.mode == FenceMode::Manual {
        (AskOperator, FenceReason::ToleranceExhausted)
    } else {
        (Fence, FenceReason::ToleranceExhausted)
    };
    let is_due = |candidate: &&Candidate<'_>| due_at(candidate).is_some_and(|at| at <= now);
    let due = candidates.iter().filter(is_due);
    let place = |candidate: &Candidate<'_>| {
        (candidate.name.to_owned(), namespace(candidate.namespace).to_owned())
    };
    let mut justified_by: Vec<(String, String)> = due.map(place).collect();
    justified_by.sort_unstable();
    let (justified_by, justified_by_namespaces) = justified_by.into_iter().unzip();
    Ok(DecideFenceResponse {
        justified_by,
        justified_by_namespaces,
        ..answer(decision, reason, Some(fence_at))
    })
}

fn answer(
    decision: FenceDecision,
    reason: FenceReason,
    fence_at: Option<Seconds>,
) -> DecideFenceResponse {
    DecideFenceResponse {
        decision: decision.word().to_owned(),
        reason: reason.word().to_owned(),
        fence_at: fence_at.map(reading::time),
        justified_by: Vec::new(),
        justified_by_namespaces: Vec::new(),
    }
}

struct Policy {
    mode: FenceMode,
    min_priority: i32,
    fences_on_contradiction: bool,
}

impl Policy {
    fn read(policy: Option<&FencePolicy>) -> Result<Policy, ModelError> {
        let policy = given(policy, "policy")?;
        let on_contradiction = OnContradiction::parse_or(
            &policy.on_contradiction,
            OnContradiction::Wait,
            "policy.onContradiction",
        )?;
        Ok(Policy {
            mode: FenceMode::parse(&policy.mode, "policy.mode")?,
            min_priority: policy.min_priority.unwrap_or(i32::MIN),
            fences_on_contradiction: on_contradiction == OnContradiction::Fence,
        })
    }
}

/// Evidence of the required detectors; the others only inform people.
struct Evidence {
    /// The longest bound, seconds; 0 without any (L-FENCE-5, step 4).
    bound: Seconds,
    is_contradicted: bool,
}

impl Evidence {
    fn read(detectors: &[FenceDetector]) -> Result<Evidence, ModelError> {
        let mut evidence = Evidence { bound: 0, is_contradicted: false };
        for (index, detector) in detectors.iter().enumerate() {
            let (bound, observed) = in_list("detectors", index, observation(detector))?;
            if detector.required {
                evidence.bound = evidence.bound.max(bound);
                evidence.is_contradicted |= observed == Observation::Healthy;
            }
        }
        Ok(evidence)
    }
}

fn observation(detector: &FenceDetector) -> Result<(Seconds, Observation), ModelError> {
    let observed = Observation::parse(&detector.observed, "observed")?;
    let refused = |reason| ModelError::new("latencyBoundSeconds", reason);
    match detector.latency_bound_seconds {
        Some(bound) if bound < 0 => Err(refused("must not be negative")),
        Some(bound) => Ok((bound, observed)),
        // L-FENCE-1: without a bound, no silence of a detector is conclusive.
        None if detector.required => Err(refused("required for a required detector")),
        None => Ok((0, observed)),
    }
}

/// A pod that may justify fencing.
struct Candidate<'a> {
    name: &'a str,
    namespace: &'a str,
    /// Tolerance in seconds, counted from the loss of contact.
    waits: Seconds,
}

fn candidates<'a>(
    pods: &'a [FenceCandidate],
    policy: &Policy,
    bound: Seconds,
) -> Result<Vec<Candidate<'a>>, ModelError> {
    let mut candidates = Vec::new();
    for (index, pod) in pods.iter().enumerate() {
        let name = in_list("pods", index, given_text(&pod.name, "name"))?;
        let tolerance = in_list("pods", index, tolerance(pod))?;
        if let Some(tolerance) = tolerance.filter(|_| pod.priority >= policy.min_priority) {
            let waits = bound.max(tolerance);
            candidates.push(Candidate { name, namespace: &pod.namespace, waits });
        }
    }
    Ok(candidates)
}

/// Tolerance of the pod in seconds, shortened by its budget; `None` for ever (L-FENCE-5, step 4).
fn tolerance(pod: &FenceCandidate) -> Result<Option<Seconds>, ModelError> {
    let budget = match &pod.budget {
        Some(budget) => Some(healthy(budget).map_err(|error| error.under("budget"))?),
        None => None,
    };
    let Some(tolerance) = pod.toleration_seconds else { return Ok(None) };
    let tolerance = tolerance.max(0);
    Ok(Some(match budget {
        Some((current, desired)) if current < desired => 0,
        Some((current, desired)) if current == desired => tolerance / 2,
        _ => tolerance,
    }))
}

/// Numbers of the budget's pods that are healthy and that have to be.
fn healthy(budget: &FenceBudget) -> Result<(i32, i32), ModelError> {
    let count = |value: Option<i32>, field: &str| match value {
        None => Err(ModelError::new(field, "required")),
        Some(value) if value < 0 => Err(ModelError::new(field, "must not be negative")),
        Some(value) => Ok(value),
    };
    Ok((
        count(budget.current_healthy, "currentHealthy")?,
        count(budget.desired_healthy, "desiredHealthy")?,
    ))
}

#[cfg(test)]
mod tests;
