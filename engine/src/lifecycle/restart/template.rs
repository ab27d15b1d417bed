//! `ControllerRestartPolicy`: the restart policies that a controller's pod template may have.

use berth_proto::berth_v1::{ControllerRestartPolicyRequest, ControllerRestartPolicyResponse};

use crate::lifecycle::vocabulary::{ControllerKind, RestartPolicy};
use crate::model::ModelError;

/// `ControllerRestartPolicy`: whether a controller accepts a pod template with this policy. Pods of a job have to end,
/// those of other controllers never do (L-RESTART-23). A pod without a controller may have any policy.
///
/// # Errors
/// [`ModelError`] for an unknown word.
pub fn controller_restart_policy(
    request: &ControllerRestartPolicyRequest,
) -> Result<ControllerRestartPolicyResponse, ModelError> {
    let kind = ControllerKind::parse(&request.controller_kind, "controllerKind")?;
    let policy =
        RestartPolicy::parse_or(&request.restart_policy, RestartPolicy::Always, "restartPolicy")?;
    let allowed = match kind {
        ControllerKind::Job => policy != RestartPolicy::Always,
        ControllerKind::ReplicaSet
        | ControllerKind::ReplicationController
        | ControllerKind::Deployment
        | ControllerKind::StatefulSet
        | ControllerKind::DaemonSet => policy == RestartPolicy::Always,
        ControllerKind::None => true,
    };
    Ok(ControllerRestartPolicyResponse { allowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-RESTART-23 for every pair; an absent policy is `Always` (L-RESTART-1).
    #[test]
    fn policies_by_kind() {
        let allowed = |kind: &str| -> Vec<&str> {
            let is_allowed = |policy: &&&str| {
                let (controller_kind, restart_policy) = (kind.to_owned(), (**policy).to_owned());
                let request = ControllerRestartPolicyRequest { controller_kind, restart_policy };
                controller_restart_policy(&request).unwrap().allowed
            };
            ["Always", "OnFailure", "Never", ""].iter().filter(is_allowed).copied().collect()
        };
        for kind in
            ["ReplicaSet", "ReplicationController", "Deployment", "StatefulSet", "DaemonSet"]
        {
            assert_eq!(allowed(kind), ["Always", ""], "{kind}");
        }
        assert_eq!(allowed("Job"), ["OnFailure", "Never"]);
        assert_eq!(allowed("None").len(), 4);
    }

    #[test]
    fn unknown_words_are_refused() {
        let request = |kind: &str, policy: &str| ControllerRestartPolicyRequest {
            controller_kind: kind.to_owned(),
            restart_policy: policy.to_owned(),
        };
        let error = controller_restart_policy(&request("CronJob", "Never")).unwrap_err();
        assert_eq!(error.field, "controllerKind");
        let error = controller_restart_policy(&request("Job", "never")).unwrap_err();
        assert_eq!(error.field, "restartPolicy");
    }
}
