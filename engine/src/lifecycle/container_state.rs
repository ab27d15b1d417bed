//! The published state of one container (group `container-state`), derived from the runtime's record and the recorded
//! status.
//!
//! `derive.rs` derives it, and `transition.rs` decides whether one state may follow another. The other groups read the
//! statuses of a whole pod through `roster.rs`; `paired.rs` matches containers with their statuses. Nothing here starts
//! a hook: the termination group plans preStop hooks, and only for containers that Berth's own plan stops
//! (L-CSTATE-14).

mod derive;
mod transition;
mod paired;
mod roster;
mod by_name;
mod names;

use berth_proto::core_v1::{Container, ContainerStateTerminated, ContainerStatus};

use super::reading;
use super::vocabulary::{ContainerKind, RestartPolicy};
use crate::model::ModelError;

pub(crate) use by_name::ByName;
pub use derive::{PostStart, StartErrorReason, derive_container_state};
pub(crate) use names::Names;
pub(crate) use paired::{Observed, Pair};
pub(crate) use roster::{Member, Roster};
pub use transition::check_container_transition;
pub(crate) use transition::may_restart_all;

/// Reason of a termination that was not observed (L-CSTATE-6, L-CSTATE-7).
const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// Exit code of a termination that was not observed: that of a killed process.
const KILLED: i32 = 137;
/// Reason of a termination with exit code 0.
const COMPLETED: &str = "Completed";

/// Termination of a container whose end was not observed, counted as killed (L-CSTATE-6, L-CSTATE-7, L-PHASE-12).
pub(crate) fn lost(message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: KILLED,
        reason: CONTAINER_STATUS_UNKNOWN.to_owned(),
        message: format!("its end was not observed: {message}"),
        ..ContainerStateTerminated::default()
    }
}

/// Sorts statuses of app containers into the order of listings: by name. Init containers are listed in the order of the
/// spec (L-CSTATE-15).
pub(crate) fn sort_app_statuses(statuses: &mut [ContainerStatus]) {
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
}

/// A container as a request describes it, with its kind and the pod's restart policy.
#[derive(Copy, Clone, Debug)]
struct ContainerOfPod<'a> {
    container: &'a Container,
    kind: ContainerKind,
    pod_policy: RestartPolicy,
}

impl<'a> ContainerOfPod<'a> {
    /// # Errors
    /// [`ModelError`] at `container`, `kind` or `podRestartPolicy` that is absent or unknown, and for a kind that the
    /// container's own policy contradicts (L-PHASE-3).
    fn read(
        container: Option<&'a Container>,
        kind: &str,
        pod_policy: &str,
    ) -> Result<ContainerOfPod<'a>, ModelError> {
        let container = container.ok_or_else(|| ModelError::new("container", "required"))?;
        let kind = ContainerKind::parse(kind, "kind")?;
        if kind == ContainerKind::Ephemeral {
            return Err(ModelError::new("kind", "must not be `ephemeral`"));
        }
        reading::check_kind(container, kind).map_err(|error| error.under("container"))?;
        let pod_policy =
            RestartPolicy::parse_or(pod_policy, RestartPolicy::Always, "podRestartPolicy")?;
        Ok(ContainerOfPod { container, kind, pod_policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-CSTATE-15
    #[test]
    fn app_containers_are_listed_by_name() {
        let names = |statuses: &[ContainerStatus]| {
            statuses.iter().map(|status| status.name.clone()).collect::<Vec<_>>()
        };
        let mut statuses = ["b", "c", "a"]
            .map(|name| ContainerStatus { name: name.to_owned(), ..ContainerStatus::default() });
        sort_app_statuses(&mut statuses);
        assert_eq!(names(&statuses), ["a", "b", "c"]);
    }

    fn check(own_policy: Option<&str>, kind: &str) -> Option<String> {
        let container =
            Container { restart_policy: own_policy.map(ToOwned::to_owned), ..Container::default() };
        ContainerOfPod::read(Some(&container), kind, "").err().map(|error| error.to_string())
    }

    #[test]
    fn kinds_that_contradict_the_policy_are_refused() {
        assert_eq!(check(Some("Always"), "sidecar"), None);
        assert_eq!(check(None, "sidecar"), None);
        assert_eq!(check(Some("Always"), "regular"), None);
        assert_eq!(check(Some("Never"), "init"), None);
        assert_eq!(
            check(Some("Always"), "init").unwrap(),
            "`container.restartPolicy`: an init container of policy `Always` is a `sidecar`"
        );
        assert_eq!(
            check(Some("Never"), "sidecar").unwrap(),
            "`container.restartPolicy`: a `sidecar` is of policy `Always`"
        );
        assert_eq!(check(None, "ephemeral").unwrap(), "`kind`: must not be `ephemeral`");
        assert_eq!(
            check(Some("always"), "regular").unwrap(),
            "`container.restartPolicy`: unknown value `always`: not one of `Always`, `OnFailure`, `Never`"
        );
    }
}
