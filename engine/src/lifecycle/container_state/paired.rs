//! The containers of a pod's spec, each with its status.

use berth_proto::core_v1::{Container, ContainerStatus, Pod};

use super::by_name::ByName;
use super::names::Names;
use crate::lifecycle::reading::{self, State};
use crate::model::ModelError;

/// One of a pod's lists of containers, paired with the list of their statuses by name.
///
/// Each status belongs to one container, and no container has two. Cost: no allocation for up to 64 statuses; statuses
/// in the order of the containers are found in one step.
#[derive(Clone, Debug)]
pub(crate) struct Paired<'a> {
    list: &'static List,
    containers: &'a [Container],
    statuses: ByName<'a, ContainerStatus>,
}

/// Field paths of the two lists.
#[derive(Debug)]
struct List {
    containers: &'static str,
    statuses: &'static str,
}

const APP: List = List { containers: "spec.containers", statuses: "status.containerStatuses" };
const INIT: List =
    List { containers: "spec.initContainers", statuses: "status.initContainerStatuses" };

/// A container and its status.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pair<'a> {
    list: &'static List,
    /// Position in the spec.
    index: usize,
    pub(crate) container: &'a Container,
    /// The status with its position in the list of statuses.
    status: Option<(usize, &'a ContainerStatus)>,
}

/// The state that a status names: exactly one, or none (L-CSTATE-1).
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum Observed<'a> {
    /// The status names no state.
    Nothing,
    /// The container waits to be started for the first time.
    Waiting,
    /// The container's process runs.
    Running,
    /// The last process has ended.
    Ended {
        exit_code: i32,
        reason: &'a str,
        /// Whether the container waits to be started again.
        is_waiting: bool,
    },
}

impl<'a> Paired<'a> {
    /// `spec.containers` with `status.containerStatuses`.
    ///
    /// # Errors
    /// [`ModelError`], relative to the pod, for a duplicate status and for one that belongs to no container.
    pub(crate) fn app(pod: &'a Pod, names: &Names<'a>) -> Result<Paired<'a>, ModelError> {
        Paired::new(&APP, &names.app, &reading::status(pod).container_statuses)
    }

    /// `spec.initContainers` with `status.initContainerStatuses`: ordinary init containers and sidecars.
    ///
    /// # Errors
    /// Errors of [`Self::app`].
    pub(crate) fn init(pod: &'a Pod, names: &Names<'a>) -> Result<Paired<'a>, ModelError> {
        Paired::new(&INIT, &names.init, &reading::status(pod).init_container_statuses)
    }

    fn new(
        list: &'static List,
        containers: &ByName<'a, Container>,
        statuses: &'a [ContainerStatus],
    ) -> Result<Paired<'a>, ModelError> {
        let statuses = ByName::new(statuses).map_err(|at| {
            let reason = format!("duplicate `{}`", statuses[at].name);
            ModelError::new(format!("{}[{at}].name", list.statuses), reason)
        })?;
        for (at, status) in statuses.items().iter().enumerate() {
            if containers.position_near(at, &status.name).is_none() {
                let reason = format!("`{}` is not in `{}`", status.name, list.containers);
                return Err(ModelError::new(format!("{}[{at}].name", list.statuses), reason));
            }
        }
        Ok(Paired { list, containers: containers.items(), statuses })
    }

    /// The pairs, in the order of the spec.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Pair<'a>> {
        self.containers.iter().enumerate().map(|(index, container)| {
            let at = self.statuses.position_near(index, &container.name);
            let status = at.map(|at| (at, &self.statuses.items()[at]));
            Pair { list: self.list, index, container, status }
        })
    }

    /// Whether there is no status at all.
    pub(crate) fn has_no_status(&self) -> bool {
        self.statuses.items().is_empty()
    }
}

impl<'a> Pair<'a> {
    pub(crate) fn status(&self) -> Option<&'a ContainerStatus> {
        self.status.map(|(_, status)| status)
    }

    /// The state that the status names; `None` without a status.
    ///
    /// # Errors
    /// [`ModelError`], relative to the pod, for a state or last state that is more than one of three.
    pub(crate) fn observed(&self) -> Result<Option<Observed<'a>>, ModelError> {
        let Some((at, status)) = self.status else { return Ok(None) };
        reading::in_list(self.list.statuses, at, observed(status)).map(Some)
    }

    /// Makes the error of a result about the container relative to the pod.
    ///
    /// # Errors
    /// The error of `result`.
    pub(crate) fn of_container<T>(&self, result: Result<T, ModelError>) -> Result<T, ModelError> {
        reading::in_list(self.list.containers, self.index, result)
    }
}

fn observed(status: &ContainerStatus) -> Result<Observed<'_>, ModelError> {
    let last = reading::state(status.last_state.as_ref(), "lastState")?;
    Ok(match (reading::state(status.state.as_ref(), "state")?, last) {
        (None, _) => Observed::Nothing,
        (Some(State::Running(_)), _) => Observed::Running,
        (Some(State::Terminated(end)), _) => {
            Observed::Ended { exit_code: end.exit_code, reason: &end.reason, is_waiting: false }
        }
        (Some(State::Waiting(_)), Some(State::Terminated(end))) => {
            Observed::Ended { exit_code: end.exit_code, reason: &end.reason, is_waiting: true }
        }
        (Some(State::Waiting(_)), _) => Observed::Waiting,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pod: &str) -> String {
        let pod: Pod = serde_json::from_str(pod).unwrap();
        let names = Names::of(reading::spec(&pod)).unwrap();
        let pairs = Paired::app(&pod, &names).map(|pairs| pairs.iter().collect::<Vec<_>>());
        let observed = pairs.and_then(|pairs| {
            pairs.iter().map(Pair::observed).collect::<Result<Vec<_>, ModelError>>()
        });
        match observed {
            Ok(observed) => format!("{observed:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn statuses_are_found_in_any_order() {
        let found = check(
            r#"{"spec":{"containers":[{"name":"b"},{"name":"a"},{"name":"c"}]},"status":{"containerStatuses":[
            {"name":"a","state":{"running":{}}},{"name":"b","state":{"waiting":{}}}]}}"#,
        );
        assert_eq!(found, "[Some(Waiting), Some(Running), None]");
    }

    /// L-CSTATE-1
    #[test]
    fn contradictions_are_refused() {
        let two = r#"{"spec":{"containers":[{"name":"a"}]},"status":{"containerStatuses":[{"name":"a",STATE}]}}"#;
        assert_eq!(
            check(&two.replace("STATE", r#""state":{"running":{},"terminated":{"exitCode":1}}"#)),
            "`status.containerStatuses[0].state`: is running and terminated at once"
        );
        assert_eq!(
            check(&two.replace("STATE", r#""lastState":{"waiting":{},"running":{}}"#)),
            "`status.containerStatuses[0].lastState`: is waiting and running at once"
        );
        assert_eq!(
            check(
                r#"{"spec":{"containers":[{"name":"a"}]},"status":{"containerStatuses":[{"name":"a"},{"name":"a"}]}}"#
            ),
            "`status.containerStatuses[1].name`: duplicate `a`"
        );
        assert_eq!(
            check(
                r#"{"spec":{"containers":[{"name":"a"}]},"status":{"containerStatuses":[{"name":"z"}]}}"#
            ),
            "`status.containerStatuses[0].name`: `z` is not in `spec.containers`"
        );
    }

    /// A hundred thousand containers in the opposite order are paired in one pass over sorted names.
    #[test]
    fn long_lists_are_paired() {
        let name = |at: usize| format!("c{at}");
        let mut pod = Pod {
            spec: Some(Default::default()),
            status: Some(Default::default()),
            ..Pod::default()
        };
        for at in 0..100_000 {
            let container = Container { name: name(at), ..Container::default() };
            let status = ContainerStatus { name: name(99_999 - at), ..ContainerStatus::default() };
            pod.spec.as_mut().unwrap().containers.push(container);
            pod.status.as_mut().unwrap().container_statuses.push(status);
        }
        let pairs = Paired::app(&pod, &Names::of(reading::spec(&pod)).unwrap()).unwrap();
        assert!(pairs.iter().all(|pair| pair.status().unwrap().name == pair.container.name));
    }
}
