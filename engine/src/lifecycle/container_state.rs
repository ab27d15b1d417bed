//! The state of one container (group `container-state`): what is shown of it, from what the runtime says and what was recorded.
//!
//! `derive.rs` answers that; `transition.rs` says whether one state may follow another; `roster.rs` is how the other groups read
//! the statuses of a whole pod, and `paired.rs` how containers find theirs. That a preStop hook runs only before an end that
//! Berth's own plan brings about (L-CSTATE-14) is the termination group's to plan; nothing here starts a hook.

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
pub(crate) use paired::Observed;
pub(crate) use roster::{Member, Roster};
pub use transition::check_container_transition;
pub(crate) use transition::may_restart_all;

/// Reason of an end that nobody saw (L-CSTATE-6, L-CSTATE-7).
const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// Exit code of an end that nobody saw: that of a killed process.
const KILLED: i32 = 137;
/// Reason of an end with exit code 0.
const COMPLETED: &str = "Completed";

/// The end of a container that nobody saw, counted as killed (L-CSTATE-6, L-CSTATE-7, L-PHASE-12).
pub(crate) fn lost(message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: KILLED,
        reason: CONTAINER_STATUS_UNKNOWN.to_owned(),
        message: format!("its end was not seen: {message}"),
        ..ContainerStateTerminated::default()
    }
}

/// Puts statuses of app containers in the order in which they are listed: by name. Those of init containers are listed in the
/// order of the spec (L-CSTATE-15).
pub(crate) fn sort_app_statuses(statuses: &mut [ContainerStatus]) {
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
}

/// A container as a request describes it: what it is, and the pod's policy.
#[derive(Copy, Clone, Debug)]
struct Described<'a> {
    container: &'a Container,
    kind: ContainerKind,
    pod_policy: RestartPolicy,
}

impl<'a> Described<'a> {
    /// # Errors
    /// [`ModelError`] at `container`, `kind` or `podRestartPolicy`: absent, unknown, or a kind that the container's own policy
    /// contradicts (L-PHASE-3).
    fn read(
        container: Option<&'a Container>,
        kind: &str,
        pod_policy: &str,
    ) -> Result<Described<'a>, ModelError> {
        let container = container.ok_or_else(|| ModelError::new("container", "required"))?;
        let kind = ContainerKind::parse(kind, "kind")?;
        if kind == ContainerKind::Ephemeral {
            return Err(ModelError::new("kind", "an `ephemeral` container has no such states"));
        }
        reading::check_kind(container, kind).map_err(|error| error.under("container"))?;
        let pod_policy =
            RestartPolicy::parse_or(pod_policy, RestartPolicy::Always, "podRestartPolicy")?;
        Ok(Described { container, kind, pod_policy })
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
        Described::read(Some(&container), kind, "").err().map(|error| error.to_string())
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
        assert_eq!(
            check(None, "ephemeral").unwrap(),
            "`kind`: an `ephemeral` container has no such states"
        );
        assert_eq!(
            check(Some("always"), "regular").unwrap(),
            "`container.restartPolicy`: unknown value `always`: not one of `Always`, `OnFailure`, `Never`"
        );
    }
}
