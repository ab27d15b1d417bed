//! What is known of the pod under evaluation: its object, its node, and what a node agent adds.

use berth_proto::berth_v1::PodFacts;
use berth_proto::core_v1::{Node, Pod};

use crate::lifecycle::condition::SandboxView;
use crate::lifecycle::container_state::{Member, Roster};
use crate::lifecycle::phase::PhaseFacts;
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::model::ModelError;

/// A pod, the moment it is looked at, and what else is known.
pub struct Subject<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) roster: Roster<'a>,
    pub(crate) now: Seconds,
    /// The node that it is bound to, if anything is known of it.
    pub(crate) node: Option<&'a Node>,
    pub(crate) phase_facts: PhaseFacts<'a>,
    /// `None`: nothing is known of sandboxes.
    pub(crate) sandboxes: Option<Vec<SandboxView<'a>>>,
}

impl<'a> Subject<'a> {
    /// What follows from the pod alone where `facts` is silent: a container that runs may go on running, one that has ever
    /// run has been started, a mirror of a file on the node is static.
    ///
    /// # Errors
    /// [`ModelError`] for an unknown word among the facts, under `facts`, and for containers whose statuses contradict
    /// themselves, under `pod`.
    pub fn new(
        pod: &'a Pod,
        now: Seconds,
        node: Option<&'a Node>,
        facts: Option<&'a PodFacts>,
    ) -> Result<Subject<'a>, ModelError> {
        let given = |read: fn(&PodFacts) -> Option<bool>| facts.and_then(read);
        let roster = Roster::of(pod).map_err(|error| error.under("pod"))?;
        let phase_facts = PhaseFacts {
            pod_is_terminal: facts.is_some_and(|facts| facts.pod_is_terminal),
            regular_container_started: given(|facts| facts.regular_container_started)
                .unwrap_or_else(|| roster.app().iter().any(Member::has_run)),
            static_pod: given(|facts| facts.static_pod).unwrap_or_else(|| reading::is_static(pod)),
            could_have_running_containers: given(|facts| facts.could_have_running_containers)
                .unwrap_or_else(|| roster.all().iter().any(Member::is_running)),
            node_ready: node.map_or(ConditionStatus::True, node_ready),
            ..PhaseFacts::default()
        };
        let sandboxes = match facts.and_then(|facts| facts.sandboxes.as_ref()) {
            None => None,
            Some(sandboxes) => {
                let read = |(index, sandbox)| {
                    reading::in_list("facts.sandboxes.items", index, SandboxView::read(sandbox))
                };
                Some(sandboxes.items.iter().enumerate().map(read).collect::<Result<_, _>>()?)
            }
        };
        Ok(Subject { pod, roster, now, node, phase_facts, sandboxes })
    }
}

/// Status of the node's recorded Ready condition; a node that has none never reported, and nothing is known of its pods.
fn node_ready(node: &Node) -> ConditionStatus {
    let conditions = node.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = conditions.iter().find(|condition| condition.r#type == "Ready");
    match ready.map(|ready| ready.status.as_str()) {
        Some("True") => ConditionStatus::True,
        Some("False") => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}
