//! The containers of a pod with their observed states, as a plan reads them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use berth_proto::berth_v1::{ObservedContainer, PlanContainersRequest};
use berth_proto::core_v1::{Container, EphemeralContainer, Pod};

use crate::lifecycle::container_state::{Member as StatusMember, Observed as ByStatus, Roster};
use crate::lifecycle::reading;
use crate::lifecycle::restart::due::{self, Exit};
use crate::lifecycle::vocabulary::{ContainerKind, RestartPolicy, RuntimeState};
use crate::model::ModelError;

/// All facts that a plan rests on.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) pod_policy: RestartPolicy,
    /// Whether the pod is marked for deletion.
    pub(super) is_marked: bool,
    pub(super) sandbox_ready: bool,
    pub(super) sandbox_attempt: i32,
    /// Number of containers that the runtime knows.
    pub(super) n_observed: usize,
    pub(super) init: Vec<Member<'a>>,
    pub(super) app: Vec<Member<'a>>,
    pub(super) ephemeral: Vec<Member<'a>>,
}

/// A container of the pod.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) kind: ContainerKind,
    pub(super) name: &'a str,
    pub(super) container: &'a Container,
    /// List of the spec and position in it, for errors.
    place: (&'static str, usize),
    pub(super) observed: Option<Observed<'a>>,
    /// Whether the recorded `started` is true.
    pub(super) is_started: bool,
    pub(super) liveness_failed: bool,
    pub(super) startup_failed: bool,
    pub(super) definition_changed: bool,
}

/// State of a container in the runtime.
#[derive(Copy, Clone, Debug)]
pub(super) struct Observed<'a> {
    pub(super) state: RuntimeState,
    /// The exit; set if and only if the state is `Exited`.
    pub(super) exit: Option<Exit<'a>>,
}

impl<'a> Member<'a> {
    fn new(kind: ContainerKind, container: &'a Container, place: (&'static str, usize)) -> Self {
        Member {
            kind,
            name: &container.name,
            container,
            place,
            observed: None,
            is_started: false,
            liveness_failed: false,
            startup_failed: false,
            definition_changed: false,
        }
    }

    /// Makes the error of a result about this container relative to the spec.
    pub(super) fn in_spec<T>(&self, result: Result<T, ModelError>) -> Result<T, ModelError> {
        reading::in_list(self.place.0, self.place.1, result)
    }
}

impl<'a> View<'a> {
    pub(super) fn of(request: &'a PlanContainersRequest) -> Result<View<'a>, ModelError> {
        let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
        if request.sandbox_attempt < 0 {
            return Err(ModelError::new("sandboxAttempt", "is negative"));
        }
        let roster = Roster::of(pod).map_err(|error| error.under("pod"))?;
        let unobserved = View::unobserved(pod, &roster).map_err(|error| error.under("pod.spec"))?;
        let mut view = View {
            sandbox_ready: request.sandbox_ready,
            sandbox_attempt: request.sandbox_attempt,
            n_observed: request.containers.len(),
            ephemeral: ephemeral(&reading::spec(pod).ephemeral_containers),
            ..unobserved
        };
        if view.app.is_empty() {
            return Err(ModelError::new("pod.spec.containers", "required"));
        }
        view.mark(request)?;
        Ok(view)
    }

    /// Reads a view from the statuses of a pod: a container that waits for its first start counts as unknown to the
    /// runtime. Errors are relative to the spec.
    pub(super) fn of_roster(pod: &'a Pod, roster: &Roster<'a>) -> Result<View<'a>, ModelError> {
        let mut view = View::unobserved(pod, roster)?;
        let members = view.init.iter_mut().chain(&mut view.app);
        for (member, of) in members.zip(roster.all()) {
            member.observed = of.observed.and_then(observed_by_status);
        }
        Ok(view)
    }

    /// A view of a pod with a sandbox, before the states of its containers are added; only `is_started` is set. Errors
    /// are relative to the spec.
    fn unobserved(pod: &'a Pod, roster: &Roster<'a>) -> Result<View<'a>, ModelError> {
        let members = |list, of: &[StatusMember<'a>]| {
            let member = |(index, of): (usize, &StatusMember<'a>)| Member {
                is_started: of.is_started(),
                ..Member::new(of.kind, of.pair.container, (list, index))
            };
            of.iter().enumerate().map(member).collect()
        };
        Ok(View {
            pod_policy: reading::restart_policy(reading::spec(pod))?,
            is_marked: reading::is_marked(pod),
            sandbox_ready: true,
            sandbox_attempt: 0,
            n_observed: 0,
            init: members("initContainers", roster.init()),
            app: members("containers", roster.app()),
            ephemeral: Vec::new(),
        })
    }

    /// Adds the facts that the request gives about containers by name.
    fn mark(&mut self, request: &'a PlanContainersRequest) -> Result<(), ModelError> {
        let mut by_name = BTreeMap::new();
        for member in self.init.iter_mut().chain(&mut self.app).chain(&mut self.ephemeral) {
            if member.name.is_empty() {
                let (list, index) = member.place;
                return Err(ModelError::new(format!("pod.spec.{list}[{index}].name"), "required"));
            }
            by_name.insert(member.name, member); // names are unique: see Roster
        }
        for (index, seen) in request.containers.iter().enumerate() {
            let observed = reading::in_list("containers", index, observe(seen))?;
            let name = || format!("containers[{index}].name");
            let member = find(&mut by_name, &seen.name, name)?;
            if member.observed.replace(observed).is_some() {
                let reason = format!("`{}` is listed twice", seen.name);
                return Err(ModelError::new(name(), reason));
            }
        }
        type Flag = for<'m, 'c> fn(&'m mut Member<'c>) -> &'m mut bool;
        let lists: [(&str, &[String], Flag); 3] = [
            ("livenessFailed", &request.liveness_failed, |member| &mut member.liveness_failed),
            ("startupFailed", &request.startup_failed, |member| &mut member.startup_failed),
            ("definitionChanged", &request.definition_changed, |member| {
                &mut member.definition_changed
            }),
        ];
        for (field, names, flag) in lists {
            for (index, name) in names.iter().enumerate() {
                *flag(find(&mut by_name, name, || format!("{field}[{index}]"))?) = true;
            }
        }
        Ok(())
    }
}

fn find<'m, 'a>(
    by_name: &'m mut BTreeMap<&'a str, &mut Member<'a>>,
    name: &str,
    field: impl FnOnce() -> String,
) -> Result<&'m mut Member<'a>, ModelError> {
    match by_name.get_mut(name) {
        Some(member) => Ok(member),
        None => {
            let reason = format!("`{name}` is not a container of the pod");
            Err(ModelError::new(field(), reason))
        }
    }
}

fn observed_by_status(status: ByStatus<'_>) -> Option<Observed<'_>> {
    match status {
        ByStatus::Running => Some(Observed { state: RuntimeState::Running, exit: None }),
        ByStatus::Ended { exit_code: code, reason, .. } => {
            Some(Observed { state: RuntimeState::Exited, exit: Some(Exit { code, reason }) })
        }
        ByStatus::Waiting | ByStatus::Nothing => None,
    }
}

fn observe(seen: &ObservedContainer) -> Result<Observed<'_>, ModelError> {
    let state = RuntimeState::parse(&seen.state, "state")?;
    let code = due::exit_code(state.into(), seen.exit_code)?;
    let exit = (state == RuntimeState::Exited).then_some(Exit { code, reason: &seen.reason });
    Ok(Observed { state, exit })
}

/// The ephemeral containers; a plan reads only their names.
fn ephemeral<'a>(containers: &'a [EphemeralContainer]) -> Vec<Member<'a>> {
    static NONE: LazyLock<Container> = LazyLock::new(Container::default);
    let name = |ephemeral: &'a EphemeralContainer| -> &'a str {
        ephemeral.ephemeral_container_common.as_ref().map_or("", |common| &common.name)
    };
    let named = containers.iter().map(name).enumerate();
    let member = |(index, name)| {
        let place = ("ephemeralContainers", index);
        Member { name, ..Member::new(ContainerKind::Ephemeral, &NONE, place) }
    };
    named.map(member).collect()
}
