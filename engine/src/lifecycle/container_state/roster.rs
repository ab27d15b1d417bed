//! The containers of a pod with their statuses, read once for all decision groups.

use berth_proto::core_v1::Pod;
use smallvec::SmallVec;

use super::names::Names;
use super::paired::{Observed, Pair, Paired};
use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::ContainerKind;
use crate::model::ModelError;

/// The init containers and sidecars of a pod, in order, and then its app containers.
///
/// Cost: one pass over containers and statuses; nothing is allocated for up to 6 containers.
#[derive(Clone, Debug)]
pub(crate) struct Roster<'a> {
    members: SmallVec<[Member<'a>; 6]>,
    n_init: usize,
    has_no_status: bool,
}

/// A container, its kind, and its observed state.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) pair: Pair<'a>,
    pub(crate) kind: ContainerKind,
    /// The state that its status names; `None` without a status.
    pub(crate) observed: Option<Observed<'a>>,
}

impl<'a> Roster<'a> {
    /// # Errors
    /// [`ModelError`], relative to the pod: a duplicate container name in any of the lists, a status without a
    /// container or one that contradicts itself, an unknown policy of an init container.
    pub(crate) fn of(pod: &'a Pod) -> Result<Roster<'a>, ModelError> {
        let names = Names::of(reading::spec(pod))?;
        let (init, app) = (Paired::init(pod, &names)?, Paired::app(pod, &names)?);
        let mut members = SmallVec::new();
        for pair in init.iter() {
            let kind = pair.of_container(reading::init_kind(pair.container))?;
            members.push(Member { pair, kind, observed: pair.observed()? });
        }
        let n_init = members.len();
        for pair in app.iter() {
            let (kind, observed) = (ContainerKind::Regular, pair.observed()?);
            members.push(Member { pair, kind, observed });
        }
        let has_no_status = init.has_no_status() && app.has_no_status();
        Ok(Roster { members, n_init, has_no_status })
    }

    /// All containers: init containers and sidecars first.
    pub(crate) fn all(&self) -> &[Member<'a>] {
        &self.members
    }

    /// Init containers and sidecars, in order.
    pub(crate) fn init(&self) -> &[Member<'a>] {
        &self.members[..self.n_init]
    }

    /// App containers, in order.
    pub(crate) fn app(&self) -> &[Member<'a>] {
        &self.members[self.n_init..]
    }

    /// Whether no container has a status.
    pub(crate) fn has_no_status(&self) -> bool {
        self.has_no_status
    }
}

impl<'a> Member<'a> {
    pub(crate) fn name(&self) -> &'a str {
        &self.pair.container.name
    }

    pub(crate) fn is_running(&self) -> bool {
        self.observed == Some(Observed::Running)
    }

    /// Whether the container's state is unknown: it has no status, or one that names no state.
    pub(crate) fn has_no_state(&self) -> bool {
        matches!(self.observed, None | Some(Observed::Nothing))
    }

    /// Whether the container has ever run.
    pub(crate) fn has_run(&self) -> bool {
        matches!(self.observed, Some(Observed::Running | Observed::Ended { .. }))
            || self.pair.status().is_some_and(|status| status.restart_count > 0)
    }

    /// Whether the container has started: its startup probe, if any, has passed (L-PROBE-10).
    pub(crate) fn is_started(&self) -> bool {
        self.pair.status().is_some_and(|status| status.started == Some(true))
    }

    /// Whether the container's status is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.pair.status().is_some_and(|status| status.ready)
    }

    /// Whether the container counts for readiness: app containers and sidecars do (L-COND-8).
    pub(crate) fn counts_for_readiness(&self) -> bool {
        self.kind != ContainerKind::Init
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-PHASE-2, L-PHASE-3
    #[test]
    fn parts_and_places() {
        let pod: Pod = serde_json::from_str(
            r#"{"spec":{"containers":[{"name":"app"}],"initContainers":[{"name":"setup"},{"name":"logs","restartPolicy":"Always"}]},
            "status":{"containerStatuses":[{"name":"app","ready":true,"started":true,"state":{"running":{}}}]}}"#,
        )
        .unwrap();
        let roster = Roster::of(&pod).unwrap();
        let kinds: Vec<ContainerKind> = roster.all().iter().map(|member| member.kind).collect();
        assert_eq!(kinds, [ContainerKind::Init, ContainerKind::Sidecar, ContainerKind::Regular]);
        let names: Vec<&str> = roster.init().iter().map(Member::name).collect();
        assert_eq!(names, ["setup", "logs"]);
        let app = roster.app()[0];
        assert!(app.is_running() && app.has_run() && app.is_started() && app.is_ready());
        let logs = roster.init()[1];
        assert!(logs.counts_for_readiness() && !logs.has_run() && logs.observed.is_none());
        assert!(!roster.has_no_status());
    }

    /// A status belongs to a container by name alone.
    #[test]
    fn a_name_of_two_lists_is_refused() {
        let pod = r#"{"spec":{"containers":[{"name":"b"},{"name":"a"}],"initContainers":[{"name":"a"}]}}"#;
        let error = Roster::of(&serde_json::from_str(pod).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "`spec.containers[1].name`: duplicate `a`");
    }

    /// L-RESTART-1
    #[test]
    fn an_unknown_policy_is_refused() {
        let pod = r#"{"spec":{"initContainers":[{"name":"a","restartPolicy":"Sometimes"}]}}"#;
        let error = Roster::of(&serde_json::from_str(pod).unwrap()).unwrap_err();
        assert_eq!(error.field, "spec.initContainers[0].restartPolicy");
    }
}
