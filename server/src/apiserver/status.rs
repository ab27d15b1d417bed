//! Status: patches of a pod's status by a scheduler, as strategic merge patches: other conditions stay unchanged.
//! Rules: S-ERR-9, S-PRE-21, S-PRE-23.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use berth_proto::{Time, core_v1};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::binding::PodName;
use super::call::{CallFailure, repeated};
use super::leadership::Mandate;

/// The nomination and the condition `PodScheduled` of a pod: a patch of them is made by comparison with these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulingStatus {
    /// `nominatedNodeName`; empty for none.
    pub nominated_node_name: Box<str>,
    /// The condition `PodScheduled`.
    scheduled: Option<Scheduled>,
}

/// The condition `PodScheduled`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Scheduled {
    is_false: bool,
    /// Digest of reason and message, which are as long as all else that is known of a waiting pod.
    digest: u64,
    last_transition_time: Option<Time>,
    observed_generation: i64,
}

impl SchedulingStatus {
    /// Takes them from a pod's status.
    #[must_use]
    pub fn of(status: &core_v1::PodStatus) -> SchedulingStatus {
        let scheduled = status.conditions.iter().find(|known| known.r#type == POD_SCHEDULED);
        SchedulingStatus {
            nominated_node_name: status.nominated_node_name.as_str().into(),
            scheduled: scheduled.map(|condition| Scheduled {
                is_false: condition.status == "False",
                digest: digest(&condition.reason, &condition.message),
                last_transition_time: condition.last_transition_time,
                observed_generation: condition.observed_generation,
            }),
        }
    }
}

fn digest(reason: &str, message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (reason, message).hash(&mut hasher);
    hasher.finish()
}

/// Reason why a pod is not scheduled (S-ERR-9).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum UnscheduledReason {
    /// The pod fits nowhere.
    Unschedulable,
    /// The attempt failed.
    SchedulerError,
}

impl UnscheduledReason {
    /// The condition's `reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            UnscheduledReason::Unschedulable => "Unschedulable",
            UnscheduledReason::SchedulerError => "SchedulerError",
        }
    }
}

/// Change of `status.nominatedNodeName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NominatedNode {
    /// The field stays unchanged.
    Unchanged,
    /// The field is cleared.
    Cleared,
    /// The field is set to this node.
    Set(String),
}

const POD_SCHEDULED: &str = "PodScheduled";
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Why a pod is not scheduled, as its condition states it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Unscheduled<'a> {
    /// The condition's `reason`.
    pub reason: UnscheduledReason,
    /// The condition's `message`.
    pub message: &'a str,
    /// `metadata.generation` of the pod that was decided on, 0 if the API server does not count.
    pub generation: i64,
}

/// The patch for the condition of an unscheduled pod with its reason; `None` if the pod has it already.
///
/// `now` is the wall clock in seconds since 1970: the condition's transition time, unless it was `False` before.
#[must_use]
pub fn unscheduled(
    current: &SchedulingStatus,
    found: Unscheduled<'_>,
    nominated: &NominatedNode,
    now: i64,
) -> Option<Value> {
    let mut status = serde_json::Map::new();
    let known = current.scheduled.as_ref();
    if known.is_none_or(|known| !states(known, found)) {
        let since = known.filter(|known| known.is_false);
        let since = since.and_then(|known| known.last_transition_time);
        let mut condition = json!({
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": found.reason.as_str(),
            "message": found.message,
            "lastProbeTime": null,
            "lastTransitionTime": since.unwrap_or_else(|| Time::from_unix_seconds(now)),
        });
        set_generation(&mut condition, found.generation);
        status.insert("conditions".to_owned(), json!([condition]));
    }
    if let Some(value) = nomination(&current.nominated_node_name, nominated) {
        status.insert("nominatedNodeName".to_owned(), value);
    }
    (!status.is_empty()).then_some(Value::Object(status))
}

fn states(known: &Scheduled, found: Unscheduled<'_>) -> bool {
    known.is_false
        && known.digest == digest(found.reason.as_str(), found.message)
        // 0: an API server that does not keep the field; the condition would be written again and again.
        && [0, found.generation].contains(&known.observed_generation)
}

/// The patch for the nomination of a pod; `None` if it is unchanged.
#[must_use]
pub fn nominated(current: &SchedulingStatus, nominated: &NominatedNode) -> Option<Value> {
    let value = nomination(&current.nominated_node_name, nominated)?;
    Some(json!({ "nominatedNodeName": value }))
}

fn nomination(current: &str, wanted: &NominatedNode) -> Option<Value> {
    match wanted {
        NominatedNode::Cleared if !current.is_empty() => Some(Value::Null),
        NominatedNode::Set(node) if node != current => Some(Value::from(&**node)),
        NominatedNode::Unchanged | NominatedNode::Cleared | NominatedNode::Set(_) => None,
    }
}

/// The patch that marks a victim of preemption (S-PRE-23, L-COND-1). `scheduler_name` is that of the preemptor's profile,
/// `generation` the victim's, 0 if it is not known, and `now` the wall clock in seconds since 1970.
#[must_use]
pub fn disruption_target(scheduler_name: &str, generation: i64, now: i64) -> Value {
    let mut condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": format!("{scheduler_name}: preempting to accommodate a higher priority pod"),
        "lastProbeTime": null,
        "lastTransitionTime": Time::from_unix_seconds(now),
    });
    set_generation(&mut condition, generation);
    json!({ "conditions": [condition] })
}

/// API servers before 1.33 do not count generations of pods.
fn set_generation(condition: &mut Value, generation: i64) {
    if generation > 0 {
        condition["observedGeneration"] = generation.into();
    }
}

/// Writes `status` into the pod's status. Sent again when an answer is lost, which is harmless.
///
/// # Errors
/// [`CallFailure`]; see [`is_gone`].
pub async fn patch_status(
    client: &kube::Client,
    mandate: &Mandate,
    pod: &PodName,
    status: &Value,
) -> Result<(), CallFailure> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = Patch::Strategic(json!({ "metadata": { "uid": pod.uid }, "status": status }));
    let params = PatchParams::default();
    repeated(mandate, || api.patch_status(&pod.name, &params, &patch)).await.map(drop)
}

/// Whether a write failed because the pod is gone, or another one has its name: then its uid is invalid. Webhooks and
/// admission policies answer 422 as well, for other reasons.
#[must_use]
pub fn is_gone(failure: &CallFailure) -> bool {
    match failure {
        CallFailure::Refused { code: 404, .. } => true,
        CallFailure::Refused { code: 409 | 422, message, .. } => {
            message.contains("metadata.uid") || message.contains("UID in precondition")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, reason: &str, message: &str) -> core_v1::PodCondition {
        core_v1::PodCondition {
            r#type: POD_SCHEDULED.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Some(Time::from_unix_seconds(60)),
            ..core_v1::PodCondition::default()
        }
    }

    fn patch(current: &core_v1::PodStatus, message: &str, node: &NominatedNode) -> Option<Value> {
        let reason = UnscheduledReason::Unschedulable;
        let current = SchedulingStatus::of(current);
        unscheduled(&current, Unscheduled { reason, message, generation: 0 }, node, 120)
    }

    #[test]
    fn what_the_pod_says_already_is_not_written_again() {
        let mut status = core_v1::PodStatus {
            conditions: vec![condition("False", "Unschedulable", "no room")],
            ..core_v1::PodStatus::default()
        };
        assert_eq!(patch(&status, "no room", &NominatedNode::Unchanged), None);
        assert_eq!(patch(&status, "no room", &NominatedNode::Cleared), None);
        let set = NominatedNode::Set("n1".to_owned());
        let written = patch(&status, "no room", &set).expect("a nomination");
        assert_eq!(written, json!({ "nominatedNodeName": "n1" }));
        status.nominated_node_name = "n1".to_owned();
        assert_eq!(patch(&status, "no room", &set), None);
        let cleared = patch(&status, "no room", &NominatedNode::Cleared).expect("a nomination");
        assert_eq!(cleared, json!({ "nominatedNodeName": null }));
        let current = SchedulingStatus::of(&status);
        assert_eq!(nominated(&current, &NominatedNode::Unchanged), None);
    }

    #[test]
    fn the_condition_is_about_one_generation_of_the_spec() {
        let of = |current: &core_v1::PodStatus, generation| {
            let reason = UnscheduledReason::Unschedulable;
            let found = Unscheduled { reason, message: "no room", generation };
            let current = SchedulingStatus::of(current);
            unscheduled(&current, found, &NominatedNode::Unchanged, 120)
        };
        let mut status = core_v1::PodStatus {
            conditions: vec![condition("False", "Unschedulable", "no room")],
            ..core_v1::PodStatus::default()
        };
        assert_eq!(of(&status, 2), None);
        status.conditions[0].observed_generation = 1;
        let written = of(&status, 2).expect("the pod was changed since");
        assert_eq!(written["conditions"][0]["observedGeneration"], 2);
        assert_eq!(written["conditions"][0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
        status.conditions[0].observed_generation = 2;
        assert_eq!(of(&status, 2), None);
        let without = of(&core_v1::PodStatus::default(), 0).expect("a condition");
        assert!(without["conditions"][0].get("observedGeneration").is_none(), "{without}");
    }

    #[test]
    fn the_transition_time_is_that_of_the_first_false() {
        let mut status = core_v1::PodStatus {
            conditions: vec![condition("False", "Unschedulable", "no room")],
            ..core_v1::PodStatus::default()
        };
        let time = |status: &core_v1::PodStatus| {
            let written = patch(status, "other", &NominatedNode::Unchanged).expect("a condition");
            written["conditions"][0]["lastTransitionTime"].clone()
        };
        assert_eq!(time(&status), "1970-01-01T00:01:00Z");
        status.conditions[0].status = "True".to_owned();
        assert_eq!(time(&status), "1970-01-01T00:02:00Z");
        status.conditions.clear();
        assert_eq!(time(&status), "1970-01-01T00:02:00Z");
    }

    #[test]
    fn a_victim_is_marked_in_the_words_of_kube_scheduler() {
        let patch = disruption_target("berth", 3, 0);
        let condition = &patch["conditions"][0];
        assert_eq!(condition["observedGeneration"], 3);
        let unknown = disruption_target("berth", 0, 0);
        assert!(unknown["conditions"][0].get("observedGeneration").is_none(), "{unknown}");
        assert_eq!(condition["reason"], "PreemptionByScheduler");
        assert_eq!(condition["message"], "berth: preempting to accommodate a higher priority pod");
    }
}
