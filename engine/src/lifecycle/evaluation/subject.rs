//! Facts about the pod under evaluation: its object, its node, and the facts that a node agent adds.

use berth_proto::berth_v1::PodFacts;
use berth_proto::core_v1::{ContainerStatus, Node, Pod};

use crate::lifecycle::condition::SandboxView;
use crate::lifecycle::container_state::{Member, Observed, Roster};
use crate::lifecycle::phase::PhaseFacts;
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::vocabulary::{ConditionStatus, ContainerKind, PodPhase};
use crate::model::ModelError;

/// A pod, the time of the evaluation, and further facts.
pub struct Subject<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) recorded: PodPhase,
    pub(crate) roster: Roster<'a>,
    pub(crate) now: Seconds,
    /// The node that the pod is bound to, if it is known.
    pub(crate) node: Option<&'a Node>,
    pub(crate) phase_facts: PhaseFacts<'a>,
    /// The pod's sandboxes; `None` if nothing is known about them.
    pub(crate) sandboxes: Option<Vec<SandboxView<'a>>>,
}

impl<'a> Subject<'a> {
    /// Reads a request. Without a fact in `facts`, the pod alone decides: a running container may go on running, and so
    /// may a container without a state in a Running pod (L-GEN-4); a container that has ever run has been started; a
    /// mirror of a file on the node is static.
    ///
    /// # Errors
    /// [`ModelError`], relative to the request, for unknown words, containers whose statuses contradict themselves, an
    /// active deadline below one second, and a node that is not the pod's.
    pub fn new(
        pod: &'a Pod,
        now: Seconds,
        node: Option<&'a Node>,
        facts: Option<&'a PodFacts>,
    ) -> Result<Subject<'a>, ModelError> {
        let recorded = reading::phase(pod).map_err(|error| error.under("pod"))?;
        let roster = Roster::of(pod).map_err(|error| error.under("pod"))?;
        check_deadline(pod)?;
        let is_running =
            roster.all().iter().any(Member::is_running) || running_ephemeral(pod).next().is_some();
        let given = |read: fn(&PodFacts) -> Option<bool>| facts.and_then(read);
        check_facts(facts, is_running)?;
        let could_run = given(|facts| facts.could_have_running_containers)
            .unwrap_or_else(|| is_running || has_unknown_state(recorded, &roster));
        let given_terminal = facts.is_some_and(|facts| facts.pod_is_terminal);
        // No container of a marked pod is started again (L-RESTART-2), so its end is final (L-PHASE-6, L-PHASE-12).
        let is_over = reading::is_marked(pod)
            && !could_run
            && (given_terminal || recorded.is_terminal() || has_ended(&roster));
        let phase_facts = PhaseFacts {
            pod_is_terminal: given_terminal || is_over,
            finalize: is_over,
            regular_container_started: given(|facts| facts.regular_container_started)
                .unwrap_or_else(|| roster.app().iter().any(Member::has_run)),
            static_pod: given(|facts| facts.static_pod).unwrap_or_else(|| reading::is_static(pod)),
            could_have_running_containers: could_run,
            node_ready: match node {
                Some(node) => ready_of(node, pod)?,
                None => ConditionStatus::True,
            },
            ..PhaseFacts::default()
        };
        let sandboxes = facts.and_then(|facts| facts.sandboxes.as_ref());
        let sandboxes = sandboxes.map(|sandboxes| {
            let read = |(index, sandbox)| {
                reading::in_list("facts.sandboxes.items", index, SandboxView::read(sandbox))
            };
            sandboxes.items.iter().enumerate().map(read).collect()
        });
        let sandboxes = sandboxes.transpose()?;
        Ok(Subject { pod, recorded, roster, now, node, phase_facts, sandboxes })
    }

    /// Whether contact with the node is lost, so that statuses are stale (L-PHASE-13).
    pub(crate) fn is_out_of_contact(&self) -> bool {
        self.phase_facts.node_ready == ConditionStatus::Unknown
    }

    /// Status of the node's Ready condition; `None` if nothing is known about the node.
    pub(crate) fn node_ready(&self) -> Option<ConditionStatus> {
        self.node.map(|_| self.phase_facts.node_ready)
    }

    /// The names of the containers that run, ephemeral ones last.
    pub(crate) fn running(&self) -> Vec<&'a str> {
        let members = self.roster.all().iter().filter(|member| member.is_running());
        let ephemeral = running_ephemeral(self.pod).map(|status| status.name.as_str());
        members.map(Member::name).chain(ephemeral).collect()
    }
}

/// Whether the pod has been running although the state of one of its containers is unknown.
fn has_unknown_state(recorded: PodPhase, roster: &Roster<'_>) -> bool {
    recorded == PodPhase::Running && roster.app().iter().any(Member::has_no_state)
}

/// Whether every app container and sidecar has ended. Ordinary init containers do not count: one that runs is known by
/// its status.
fn has_ended(roster: &Roster<'_>) -> bool {
    let has_ended = |member: &Member<'_>| {
        member.kind == ContainerKind::Init
            || matches!(member.observed, Some(Observed::Ended { .. }))
    };
    roster.all().iter().all(has_ended)
}

/// Refuses facts that contradict a status.
fn check_facts(facts: Option<&PodFacts>, is_running: bool) -> Result<(), ModelError> {
    let Some(facts) = facts.filter(|_| is_running) else { return Ok(()) };
    let field = if facts.pod_is_terminal {
        "facts.podIsTerminal"
    } else if facts.could_have_running_containers == Some(false) {
        "facts.couldHaveRunningContainers"
    } else {
        return Ok(());
    };
    Err(ModelError::new(field, "contradicts the status of a running container"))
}

/// The ephemeral containers that run.
fn running_ephemeral(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = reading::status(pod).ephemeral_container_statuses.iter();
    statuses.filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// Checks that an active deadline is at least one second.
fn check_deadline(pod: &Pod) -> Result<(), ModelError> {
    match reading::spec(pod).active_deadline_seconds {
        Some(seconds) if seconds < 1 => {
            let reason = format!("`{seconds}` is below 1 second");
            Err(ModelError::new("pod.spec.activeDeadlineSeconds", reason))
        }
        Some(_) | None => Ok(()),
    }
}

/// Status of the Ready condition of the pod's node. A node without one has never reported, so it counts as Unknown.
fn ready_of(node: &Node, pod: &Pod) -> Result<ConditionStatus, ModelError> {
    let name = node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
    match reading::node_name(pod) {
        None => return Err(ModelError::new("node", "the pod is bound to no node")),
        Some(bound) if bound != name => {
            let reason = format!("`{name}` is not the pod's node, which is `{bound}`");
            return Err(ModelError::new("node.metadata.name", reason));
        }
        Some(_) => {}
    }
    let ready = reading::node_ready(node).map_err(|error| error.under("node"))?;
    Ok(ready.unwrap_or(ConditionStatus::Unknown))
}
