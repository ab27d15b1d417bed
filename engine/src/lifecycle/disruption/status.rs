//! The status of a budget: how many pods are healthy, have to be, and may be evicted (L-PDB-2 to L-PDB-10).

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::Time;
use berth_proto::berth_v1::{
    BudgetCondition, PdbStatusRequest, PdbStatusResponse, ScaledController,
};
use berth_proto::core_v1::Pod;
use berth_proto::policy_v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};

use super::REMEMBERED_FOR;
use super::coverage::{Coverage, Subject};
use super::demand::{Demand, demand};
use crate::lifecycle::listed::refuse_duplicates;
use crate::lifecycle::reading::{self, Seconds, after, given_text, in_list};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::label::clip;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
const SUFFICIENT_PODS: &str = "SufficientPods";
const INSUFFICIENT_PODS: &str = "InsufficientPods";
const SYNC_FAILED: &str = "SyncFailed";

/// `PDBStatus`: the status of a budget now. If a pod's controller is missing, no figure can be worked out and no
/// disruption is allowed (L-PDB-10). Cost: n log n in pods and controllers.
///
/// # Errors
/// [`ModelError`] for a missing budget or time, a budget that is not well formed, a pod without a name, a duplicate
/// pod, a pod with an invalid readiness, and controllers without a UID, duplicate ones or ones with a negative scale.
pub fn pdb_status(request: &PdbStatusRequest) -> Result<PdbStatusResponse, ModelError> {
    let budget = request.pdb.as_ref().ok_or_else(|| ModelError::new("pdb", "required"))?;
    let now = reading::required(request.now.as_ref(), "now")?;
    let demand = match &budget.spec {
        Some(spec) => demand(spec).map_err(|error| error.under("pdb.spec"))?,
        None => Demand::Nothing,
    };
    let scales = scales(&request.controllers)?;
    let pods = covered(budget, &request.pods)?;
    let recorded = budget.status.clone().unwrap_or_default();
    let expected = match expected(demand, &pods, &scales) {
        Ok(expected) => expected,
        Err(pod) => return Ok(sync_failed(recorded, pod)),
    };
    let approved = Approved::of(&recorded.disrupted_pods, &pods, now);
    let current_healthy = count(pods.iter().filter(|covered| approved.is_healthy(covered)));
    let desired_healthy = demand.desired(expected);
    let disruptions_allowed = demand.allowed(expected, current_healthy);
    let remembered = approved.remembered;
    Ok(PdbStatusResponse {
        current_healthy,
        desired_healthy,
        expected_pods: expected,
        disruptions_allowed,
        recheck_at: remembered
            .values()
            .min()
            .and_then(|at| after(*at, REMEMBERED_FOR))
            .map(reading::time),
        disrupted_pods: remembered
            .into_iter()
            .map(|(name, at)| (name.to_owned(), reading::time(at)))
            .collect(),
        condition: Some(condition(disruptions_allowed > 0, current_healthy, desired_healthy)),
    })
}

/// Number of pods that are expected: for a plain number the existing pods (L-PDB-2), else the scales of their
/// controllers (L-PDB-3, L-PDB-4). Pods without a controller add nothing (L-PDB-9). The error is a pod with an unknown
/// controller.
fn expected<'a>(
    demand: Demand,
    pods: &[Covered<'a>],
    scales: &BTreeMap<&str, i64>,
) -> Result<i64, &'a Pod> {
    if demand == Demand::Nothing {
        return Ok(0);
    }
    if !demand.expects_scales() {
        return Ok(count(pods));
    }
    let mut counted = BTreeSet::new();
    let mut sum = 0i64;
    for Covered { pod, .. } in pods {
        let Some(uid) = controller(pod) else { continue };
        let scale = scales.get(uid).ok_or(*pod)?;
        if counted.insert(uid) {
            sum = sum.saturating_add(*scale);
        }
    }
    Ok(sum)
}

/// UID of the owner that controls a pod.
fn controller(pod: &Pod) -> Option<&str> {
    reading::meta(pod).controller().map(|owner| owner.uid.as_str())
}

/// Scales by UID.
fn scales(controllers: &[ScaledController]) -> Result<BTreeMap<&str, i64>, ModelError> {
    let mut scales = BTreeMap::new();
    for (index, controller) in controllers.iter().enumerate() {
        let refuse = |field: &str, reason: String| {
            Err(ModelError::new(format!("controllers[{index}].{field}"), reason))
        };
        if controller.uid.is_empty() {
            return refuse("uid", "required".to_owned());
        }
        if controller.scale < 0 {
            return refuse("scale", format!("`{}` is negative", controller.scale));
        }
        if scales.insert(controller.uid.as_str(), controller.scale.into()).is_some() {
            return refuse("uid", format!("duplicate `{}`", clip(&controller.uid)));
        }
    }
    Ok(scales)
}

/// A pod that the budget covers.
#[derive(Debug)]
struct Covered<'a> {
    pod: &'a Pod,
    name: &'a str,
    is_ready: bool,
    is_marked: bool,
}

/// The pods that the budget covers, each once (L-PDB-11).
fn covered<'a>(
    budget: &PodDisruptionBudget,
    pods: &'a [Pod],
) -> Result<Vec<Covered<'a>>, ModelError> {
    for (index, pod) in pods.iter().enumerate() {
        in_list("pods", index, given_text(&reading::meta(pod).name, "metadata.name"))?;
    }
    refuse_duplicates(pods.iter(), "metadata.name")?;
    let names = Interner::new();
    let coverage = Coverage::of(budget, &names).map_err(|error| error.under("pdb"))?;
    let mut covered = Vec::with_capacity(pods.len());
    for (index, pod) in pods.iter().enumerate() {
        let subject = in_list("pods", index, Subject::of(pod, &names))?;
        if coverage.covers(&subject) {
            covered.push(Covered {
                pod,
                name: &reading::meta(pod).name,
                is_ready: in_list("pods", index, reading::is_ready(pod))?,
                is_marked: reading::is_marked(pod),
            });
        }
    }
    Ok(covered)
}

/// Approved evictions that have not happened yet.
#[derive(Debug)]
struct Approved<'a> {
    /// Time of the approval, by name of the pod.
    remembered: BTreeMap<&'a str, Seconds>,
    now: Seconds,
}

impl<'a> Approved<'a> {
    /// Selects the recorded evictions that are still remembered: through exactly 120 s, and until the pod is marked or
    /// gone (L-PDB-6).
    fn of(recorded: &BTreeMap<String, Time>, pods: &[Covered<'a>], now: Seconds) -> Approved<'a> {
        let entry = |covered: &Covered<'a>| {
            let at = reading::optional(recorded.get(covered.name))?;
            (ends_at(at) >= now).then_some((covered.name, at))
        };
        let unmarked = pods.iter().filter(|covered| !covered.is_marked);
        Approved { remembered: unmarked.filter_map(entry).collect(), now }
    }

    /// Whether the pod is ready, not marked for deletion, and not about to be evicted (L-PDB-5, L-PDB-6).
    fn is_healthy(&self, covered: &Covered<'_>) -> bool {
        let approved = self.remembered.get(covered.name);
        covered.is_ready && !covered.is_marked && approved.is_none_or(|at| ends_at(*at) <= self.now)
    }
}

/// Time at which an approved eviction stops counting.
fn ends_at(approved_at: Seconds) -> Seconds {
    approved_at.saturating_add(REMEMBERED_FOR)
}

fn count(pods: impl IntoIterator) -> i64 {
    pods.into_iter().fold(0i64, |n, _| n.saturating_add(1))
}

fn condition(is_allowed: bool, healthy: i64, desired: i64) -> BudgetCondition {
    let (status, reason) = if is_allowed {
        (ConditionStatus::True, SUFFICIENT_PODS)
    } else {
        (ConditionStatus::False, INSUFFICIENT_PODS)
    };
    BudgetCondition {
        r#type: DISRUPTION_ALLOWED.to_owned(),
        status: status.word().to_owned(),
        reason: reason.to_owned(),
        message: format!("{healthy} pods are healthy, {desired} have to be"),
    }
}

/// Status with no allowed disruption; everything else stays as recorded (L-PDB-10).
fn sync_failed(recorded: PodDisruptionBudgetStatus, pod: &Pod) -> PdbStatusResponse {
    PdbStatusResponse {
        current_healthy: recorded.current_healthy.into(),
        desired_healthy: recorded.desired_healthy.into(),
        expected_pods: recorded.expected_pods.into(),
        disruptions_allowed: 0,
        disrupted_pods: recorded.disrupted_pods,
        recheck_at: None,
        condition: Some(BudgetCondition {
            r#type: DISRUPTION_ALLOWED.to_owned(),
            status: ConditionStatus::False.word().to_owned(),
            reason: SYNC_FAILED.to_owned(),
            message: format!("the controller of pod `{}` is not known", reading::meta(pod).name),
        }),
    }
}

#[cfg(test)]
mod tests;
