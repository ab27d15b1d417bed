//! `ReplacementDecision`: whether a controller creates a replacement (L-DEL-14).

use berth_proto::berth_v1::{ReplacementDecisionRequest, ReplacementDecisionResponse};
use berth_proto::core_v1::Pod;

use crate::lifecycle::reading::{self, in_list, is_marked, meta};
use crate::lifecycle::termination::{n_active, replicas};
use crate::lifecycle::vocabulary::ControllerKind;
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Reason why a replacement is due, or not.
    enum ReplacementReason {
        /// Fewer pods count than the controller wants.
        BelowReplicas = "BelowReplicas",
        /// Enough pods count.
        Satisfied = "Satisfied",
        /// No object has the name.
        NameFree = "NameFree",
        /// The object of that name is terminal and has to be deleted first.
        DeleteFirst = "DeleteFirst",
        /// An object of that name may have a running process.
        NameStillHeld = "NameStillHeld",
    }
}

/// Action of a controller.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Number of pods that the controller creates.
    pub create: i64,
    /// Reason of the action.
    pub reason: ReplacementReason,
}

/// Whether the pod `name` of a stateful set may be created beside `pods`. Consistency goes before availability: no two
/// pods ever have one name.
///
/// # Errors
/// [`ModelError`] under `pods` for an unknown phase.
pub fn replacement(name: &str, pods: &[Pod]) -> Result<Replacement, ModelError> {
    let mut reason = ReplacementReason::NameFree;
    for (index, pod) in pods.iter().enumerate() {
        let phase = in_list("pods", index, reading::phase(pod))?;
        if meta(pod).name != name {
            continue;
        }
        if !phase.is_terminal() || is_marked(pod) {
            reason = ReplacementReason::NameStillHeld;
        } else if reason == ReplacementReason::NameFree {
            reason = ReplacementReason::DeleteFirst;
        }
    }
    Ok(Replacement { create: i64::from(reason == ReplacementReason::NameFree), reason })
}

/// `ReplacementDecision`: how many pods a controller creates now (L-DEL-14).
///
/// # Errors
/// [`ModelError`] for a controller without replicas or names, a missing number or name, and an unknown phase.
pub fn replacement_decision(
    request: &ReplacementDecisionRequest,
) -> Result<ReplacementDecisionResponse, ModelError> {
    let kind = ControllerKind::parse(&request.controller_kind, "controllerKind")?;
    let Replacement { create, reason } = match kind {
        // Availability goes before uniqueness: a terminating pod does not count, so two copies may overlap.
        ControllerKind::ReplicaSet
        | ControllerKind::ReplicationController
        | ControllerKind::Deployment => {
            let missing = replicas(request.replicas)?.saturating_sub(n_active(&request.pods)?);
            let reason = match missing > 0 {
                true => ReplacementReason::BelowReplicas,
                false => ReplacementReason::Satisfied,
            };
            Replacement { create: missing.max(0), reason }
        }
        ControllerKind::StatefulSet if request.name.is_empty() => {
            return Err(ModelError::new("name", "required for a `StatefulSet`"));
        }
        ControllerKind::StatefulSet => replacement(&request.name, &request.pods)?,
        ControllerKind::DaemonSet | ControllerKind::Job | ControllerKind::None => {
            let reason = format!("`{}` is neither a replica set nor a stateful set", kind.word());
            return Err(ModelError::new("controllerKind", reason));
        }
    };
    Ok(ReplacementDecisionResponse { create, reason: reason.word().into() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(request: Value) -> Result<(i64, String), String> {
        let request: ReplacementDecisionRequest = serde_json::from_value(request).unwrap();
        let answer = replacement_decision(&request).map_err(|error| error.to_string())?;
        Ok((answer.create, answer.reason))
    }

    #[test]
    fn a_satisfied_controller_creates_nothing() {
        // L-DEL-14
        let request = json!({"controllerKind": "Deployment", "replicas": 1, "pods": [{}, {}]});
        assert_eq!(answer(request), Ok((0, "Satisfied".into())));
    }

    #[test]
    fn a_pod_that_may_run_holds_its_name() {
        let named = |phase| json!({"metadata": {"name": "web-0"}, "status": {"phase": phase}});
        let answer = |pods| {
            answer(json!({"controllerKind": "StatefulSet", "name": "web-0", "pods": pods})).unwrap()
        };
        // L-DEL-14: the order of the pods makes no difference.
        assert_eq!(answer(json!([named("Failed"), named("Running")])).1, "NameStillHeld");
        assert_eq!(answer(json!([named("Running"), named("Failed")])).1, "NameStillHeld");
        let mut ending = named("Succeeded");
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-10T12:00:00Z");
        assert_eq!(answer(json!([ending])), (0, "NameStillHeld".into()));
        assert_eq!(answer(json!([{"metadata": {"name": "web-1"}}])), (1, "NameFree".into()));
    }

    #[test]
    fn bad_input_is_named() {
        let error = |request| answer(request).unwrap_err();
        let reason = "`controllerKind`: `Job` is neither a replica set nor a stateful set";
        assert_eq!(error(json!({"controllerKind": "Job"})), reason);
        let request = json!({"controllerKind": "StatefulSet"});
        assert_eq!(error(request), "`name`: required for a `StatefulSet`");
        assert_eq!(error(json!({"controllerKind": "ReplicaSet"})), "`replicas`: required");
    }
}
