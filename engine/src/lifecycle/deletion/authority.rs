//! `AuthorizeRemoval`: whether an actor may signal or remove a pod (L-DEL-1 to L-DEL-6, L-DEL-10, L-DEL-16 to
//! L-DEL-18).

use berth_proto::berth_v1::{
    AuthorizeRemovalRequest, AuthorizeRemovalResponse, RemovalActor, RemovalEvidence,
    RemovalRecord, RemovalTerms,
};
use berth_proto::core_v1::{Node, Pod};

use super::entitlement::{
    NodeAbsence, NodeObject, agent_entitlement, collector_entitlement, nothing_to_lose,
};
use super::reason::RemovalReason;
use crate::lifecycle::fence::is_out_of_service;
use crate::lifecycle::reading::{self, given, meta, node_name, optional, required};
use crate::lifecycle::termination::period;
use crate::lifecycle::vocabulary::PodPhase;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

words! {
    /// Kind of the actor that requests a pod's deletion or removal.
    enum ActorKind {
        /// The agent of one node.
        NodeAgent = "nodeAgent",
        /// A person, privileged or not (L-DEL-4).
        User = "user",
        /// The garbage collector of pods. It always runs and cannot be configured away (L-DEL-20).
        PodGc = "podGC",
        /// The controller that marks nodes without contact.
        NodeController = "nodeController",
        /// The controller that evicts pods from tainted nodes.
        TaintEvictionController = "taintEvictionController",
        /// The controller that empties namespaces.
        NamespaceController = "namespaceController",
        /// The controller that deletes objects without an owner.
        GarbageCollector = "garbageCollector",
        /// The controller of stateful sets.
        StatefulSetController = "statefulSetController",
        /// The controller of replica sets.
        ReplicaSetController = "replicaSetController",
        /// The scheduler, which preempts.
        Scheduler = "scheduler",
    }

    /// Effect of a request on the pod.
    enum RemovalEffect {
        /// No effect.
        None = "None",
        /// A graceful deletion begins or goes on.
        Signal = "Signal",
        /// The object is removed.
        Remove = "Remove",
    }

    /// Warning to an actor.
    enum RemovalWarning {
        /// Two copies of the process may run at the same time, and data may be lost.
        DataLossPossible = "DataLossPossible",
        /// Volumes or other resources of the node are still in use.
        ResourcesNotFreed = "ResourcesNotFreed",
    }
}

/// The decision on a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Effect on the pod.
    pub effect: RemovalEffect,
    /// Reason of the refusal, or the entitlement.
    pub reason: RemovalReason,
    /// Warning for the actor.
    pub warning: Option<RemovalWarning>,
}

impl Removal {
    const fn signal() -> Removal {
        Removal {
            effect: RemovalEffect::Signal,
            reason: RemovalReason::GracefulDelete,
            warning: None,
        }
    }

    const fn refused(reason: RemovalReason) -> Removal {
        Removal { effect: RemovalEffect::None, reason, warning: None }
    }

    fn entitled(by: Result<RemovalReason, RemovalReason>) -> Removal {
        match by {
            Ok(reason) => Removal { effect: RemovalEffect::Remove, reason, warning: None },
            Err(reason) => Removal::refused(reason),
        }
    }

    const fn warning(self, warning: RemovalWarning) -> Removal {
        Removal { warning: Some(warning), ..self }
    }
}

/// Whether `actor` may carry out the request `terms` on the pod (L-DEL-1). `node` is the pod's node object, `now` in
/// seconds since the epoch. Checks run in order, and the first that fails names the reason.
///
/// A request forces if its effective period is 0. That includes a request without a period for a pod whose own or
/// stored period is 0 (L-TERM-1, L-TERM-3). A pod without a process to lose is removed at once anyway (L-TERM-2,
/// L-DEL-18).
///
/// # Errors
/// [`ModelError`], relative to `AuthorizeRemovalRequest`, for an agent without a node, a node that is not the pod's,
/// and an unknown phase or readiness.
pub fn authorize(
    (kind, agent_node): (ActorKind, &str),
    terms: &RemovalTerms,
    pod: &Pod,
    node: Option<&Node>,
    evidence: &RemovalEvidence,
    now: i64,
) -> Result<Removal, ModelError> {
    check_node(pod, node)?;
    let phase = reading::phase(pod).map_err(|error| error.under("pod"))?;
    let node = node_object(node, evidence)?;
    if kind == ActorKind::NodeAgent && agent_node.is_empty() {
        return Err(ModelError::new("actor.nodeName", "required for a node agent"));
    }
    let freely = nothing_to_lose(pod, phase);
    let requested = terms.grace_period_seconds;
    let is_forcing = requested == Some(0) || (freely.is_none() && period(pod, requested) == 0);
    let names_pod = !terms.uid.is_empty() && terms.uid == meta(pod).uid;
    let is_own = node_name(pod) == Some(agent_node);
    Ok(match (kind, is_forcing) {
        // The only refusal before that of the UID: an actor that may never remove (L-DEL-5, L-DEL-16).
        (
            ActorKind::NodeController
            | ActorKind::TaintEvictionController
            | ActorKind::NamespaceController
            | ActorKind::GarbageCollector
            | ActorKind::StatefulSetController
            | ActorKind::ReplicaSetController
            | ActorKind::Scheduler,
            true,
        ) => Removal::refused(RemovalReason::ControllerMayOnlySignal),
        // A forcing request needs the pod's UID; a graceful one with another UID is about another incarnation
        // (L-DEL-16).
        _ if !names_pod && (is_forcing || !terms.uid.is_empty()) => {
            Removal::refused(RemovalReason::UidMismatch)
        }
        // An agent acts for pods of its own node only (L-DEL-17).
        (ActorKind::NodeAgent, _) if !is_own => Removal::refused(RemovalReason::NotOwnNode),
        (ActorKind::NodeAgent, true) => by_agent(pod, phase, evidence),
        (ActorKind::User, true) => by_user(freely, terms),
        (ActorKind::PodGc, true) => Removal::entitled(collector_entitlement(pod, phase, node, now)),
        (ActorKind::PodGc, false) => Removal::refused(RemovalReason::CollectorMayOnlyForce),
        (_, false) => Removal::signal(),
    })
}

/// Decision for a forcing node agent: the processes must have ended; resources of the node may still be in use
/// (L-DEL-2).
fn by_agent(pod: &Pod, phase: PodPhase, evidence: &RemovalEvidence) -> Removal {
    let removal = Removal::entitled(agent_entitlement(pod, phase, evidence));
    let is_late = removal.effect == RemovalEffect::Remove && !evidence.resources_freed;
    if is_late { removal.warning(RemovalWarning::ResourcesNotFreed) } else { removal }
}

/// Decision for a forcing user: the possible loss of data has to be acknowledged, unless there is nothing to lose
/// (L-DEL-3, L-DEL-18). Permission to delete the pod is enough: `privileged` is not read (L-DEL-4).
fn by_user(freely: Option<RemovalReason>, terms: &RemovalTerms) -> Removal {
    if let Some(reason) = freely {
        return Removal::entitled(Ok(reason));
    }
    let by = match terms.acknowledge_data_loss {
        true => Ok(RemovalReason::AcknowledgedForceDelete),
        false => Err(RemovalReason::AcknowledgementRequired),
    };
    Removal::entitled(by).warning(RemovalWarning::DataLossPossible)
}

/// The facts of a request about the pod's node object.
fn node_object(node: Option<&Node>, evidence: &RemovalEvidence) -> Result<NodeObject, ModelError> {
    let Some(node) = node else {
        return Ok(NodeObject::Absent(NodeAbsence {
            noticed_at: optional(evidence.node_absent_since.as_ref()),
            confirmed_live: evidence.node_absence_confirmed_live,
        }));
    };
    let is_out_of_service = is_out_of_service(node).map_err(|error| error.under("node"))?;
    Ok(NodeObject::There { is_out_of_service })
}

/// Checks that the node of a request, if any, is the pod's.
fn check_node(pod: &Pod, node: Option<&Node>) -> Result<(), ModelError> {
    let Some(node) = node else { return Ok(()) };
    let name = node.metadata.as_ref().map_or("", |metadata| &metadata.name);
    match node_name(pod) {
        Some(bound) if bound == name => Ok(()),
        Some(bound) => {
            let (name, bound) = (clip(name), clip(bound));
            let reason = format!("`{name}` is not `{bound}`, the pod's node");
            Err(ModelError::new("node.metadata.name", reason))
        }
        None => Err(ModelError::new("node", "must be absent: the pod is not bound")),
    }
}

/// `AuthorizeRemoval`: [`authorize`] for the wire.
///
/// A removal releases the name unless finalizers still hold the object (L-DEL-15). A removal that does not rest on the
/// node agent comes with the record to keep of it (L-DEL-10).
///
/// # Errors
/// [`ModelError`] as [`authorize`], and for a missing actor, pod or time.
pub fn authorize_removal(
    request: &AuthorizeRemovalRequest,
) -> Result<AuthorizeRemovalResponse, ModelError> {
    let RemovalActor { kind, node_name } = given(request.actor.as_ref(), "actor")?;
    let kind = ActorKind::parse(kind, "actor.kind")?;
    let pod = given(request.pod.as_ref(), "pod")?;
    let now = required(request.now.as_ref(), "now")?;
    let (no_terms, no_evidence) = (RemovalTerms::default(), RemovalEvidence::default());
    let removal = authorize(
        (kind, node_name),
        request.request.as_ref().unwrap_or(&no_terms),
        pod,
        request.node.as_ref(),
        request.evidence.as_ref().unwrap_or(&no_evidence),
        now,
    )?;
    let removes = removal.effect == RemovalEffect::Remove;
    Ok(AuthorizeRemovalResponse {
        allowed: removal.effect != RemovalEffect::None,
        effect: removal.effect.word().into(),
        reason: removal.reason.word().into(),
        releases_identity: removes && meta(pod).finalizers.is_empty(),
        warnings: removal.warning.iter().map(|warning| warning.word().into()).collect(),
        message: removal.warning.map_or("", text).into(),
        record: record(kind, pod, removal),
    })
}

/// Text of a warning (L-DEL-3).
const fn text(warning: RemovalWarning) -> &'static str {
    match warning {
        RemovalWarning::DataLossPossible => {
            "the node has not confirmed that the pod's processes have ended: once the object is gone, two copies of the \
             process may run at the same time, and data may be lost"
        }
        RemovalWarning::ResourcesNotFreed => {
            "the pod's volumes or other resources of the node are still in use"
        }
    }
}

/// The record to keep of a removal, unless it rests on the node agent (L-DEL-10).
fn record(kind: ActorKind, pod: &Pod, removal: Removal) -> Option<RemovalRecord> {
    let is_agents = removal.reason == RemovalReason::ProcessesConfirmedDead;
    if removal.effect != RemovalEffect::Remove || is_agents {
        return None;
    }
    let is_unsafe = removal.reason == RemovalReason::AcknowledgedForceDelete;
    let consequence = match (meta(pod).finalizers.is_empty(), is_unsafe) {
        (false, _) => "HeldByFinalizers",
        (true, true) => "IdentityReleasedUnsafely",
        (true, false) => "IdentityReleased",
    };
    Some(RemovalRecord {
        actor: kind.word().into(),
        reason: removal.reason.word().into(),
        pod_uid: meta(pod).uid.clone(),
        consequence: consequence.into(),
        is_unsafe,
    })
}

#[cfg(test)]
mod tests;
