//! The conditions of a pod (group `conditions`): observed aspects, each with the time of its last change.
//!
//! `derive` derives the conditions that a node agent would publish, with `containers.rs` (L-COND-7 to L-COND-10),
//! `sandbox.rs` (L-COND-6) and `set.rs`, which keeps the times (L-COND-2) and carries over other conditions
//! (L-COND-15). `scheduling.rs`, `contact.rs`, `disruption.rs` and `restarting.rs` each set one condition for an event
//! of its own.
//!
//! Nothing here sets `lastProbeTime` (L-COND-3) or writes a condition of the type `Unschedulable`, which is a reason of
//! `PodScheduled`; a recorded one is carried over like any other (L-COND-5).

mod set;
mod owned;
mod finding;
mod stated;
mod recorded;
mod containers;
mod text;
mod sandbox;
mod scheduling;
mod contact;
mod disruption;
mod restarting;

use berth_proto::berth_v1::{
    DeriveConditionsRequest, DeriveConditionsResponse, ValidateConditionTypeRequest,
    ValidateConditionTypeResponse,
};
use berth_proto::core_v1::{Pod, PodSpec};

pub use contact::mark_pod_not_ready_on_node;
pub(crate) use contact::{as_recorded, without_contact};
pub use disruption::{DisruptionCause, expire_disruption, mark_disruption};
pub(crate) use disruption::{disruption_stale_at, drop_stale_mark};
pub use owned::OwnedType;
pub(crate) use recorded::recorded;
pub use restarting::all_containers_restarting;
pub use sandbox::{NetworkMode, SandboxState, SandboxView};
pub use scheduling::{SchedulingResult, set_scheduling_condition};
pub use set::{ConditionSet, ConditionView};
pub(crate) use stated::stated;

use self::containers::Containers;
use self::finding::Finding;
use self::recorded::Recorded;
use super::container_state::{Roster, may_restart_all};
use super::reading::{self, Seconds};
use super::vocabulary::{ConditionStatus, PodPhase};
use crate::model::ModelError;
use crate::model::label::is_qualified_name;

/// The conditions that follow from a pod's phase, the statuses of its containers and its sandboxes (newest first), and
/// those that the pod keeps (L-COND-6 to L-COND-11, L-COND-15). `now` is in seconds since the epoch.
///
/// A condition without facts stays as recorded (L-GEN-4): `PodReadyToStartContainers` with `sandboxes: None`,
/// `PodScheduled` of a pod without a node in that case, `AllContainersRestarting` before the end of the pod, and the
/// two of a resize.
///
/// A terminal phase leaves neither `Ready` nor `ContainersReady` True (L-COND-11).
///
/// Cost: one pass over containers and one over the recorded conditions; nothing is allocated for pods of up to 6
/// containers and 64 conditions.
///
/// # Errors
/// [`ModelError`] relative to the pod: a duplicate name or condition type, an unknown status of a condition
/// (L-COND-19), a readiness gate that cannot be a condition (L-COND-16), a container status that contradicts itself.
pub fn derive<'a>(
    pod: &'a Pod,
    phase: PodPhase,
    sandboxes: Option<&[SandboxView<'a>]>,
    now: Seconds,
) -> Result<ConditionSet<'a>, ModelError> {
    derive_on(pod, &Roster::of(pod)?, phase, sandboxes, now)
}

/// [`derive`] for a pod whose containers have been read.
///
/// # Errors
/// Errors of [`derive`].
pub(crate) fn derive_on<'a>(
    pod: &'a Pod,
    roster: &Roster<'a>,
    phase: PodPhase,
    sandboxes: Option<&[SandboxView<'a>]>,
    now: Seconds,
) -> Result<ConditionSet<'a>, ModelError> {
    let spec = reading::spec(pod);
    let recorded = Recorded::read(pod)?;
    let containers = Containers::of(roster);
    let was_initialized = recorded.is_true(OwnedType::Initialized);
    let containers_ready = containers.ready(phase);
    let gates_met = containers::gates_met(spec, &recorded)?;
    let ready = match containers_ready.status {
        ConditionStatus::True => gates_met,
        _ => containers_ready, // L-COND-9
    };
    let mut set = ConditionSet::new(pod, recorded, now);
    if let Some(sandboxes) = sandboxes {
        let is_ready = sandbox::is_ready_to_start(spec.host_network, sandboxes);
        set.put(OwnedType::PodReadyToStartContainers, Finding::plain(is_ready));
    }
    set.put(OwnedType::Initialized, containers.initialized(phase, was_initialized));
    set.put(OwnedType::Ready, ready);
    set.put(OwnedType::ContainersReady, containers_ready);
    if sandboxes.is_some() || reading::node_name(pod).is_some() {
        set.put(OwnedType::PodScheduled, Finding::plain(true)); // bound (L-COND-4)
    }
    if !has_restart_all_rule(spec) {
        set.drop(OwnedType::AllContainersRestarting);
    } else if let Some(over) = Finding::over(phase) {
        set.put(OwnedType::AllContainersRestarting, over);
    }
    Ok(set)
}

/// Whether any container of the pod may restart them all (L-COND-18).
fn has_restart_all_rule(spec: &PodSpec) -> bool {
    spec.init_containers.iter().chain(&spec.containers).any(may_restart_all)
}

/// `DeriveConditions`: [`derive`] for the wire. A pod without sandboxes is not ready to start containers.
///
/// # Errors
/// [`ModelError`] as [`derive`], for a missing `pod` or `now`, or an unknown word.
pub fn derive_conditions(
    request: &DeriveConditionsRequest,
) -> Result<DeriveConditionsResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let phase = PodPhase::parse(&request.phase, "phase")?;
    let now = reading::required(request.now.as_ref(), "now")?;
    let read = |(index, sandbox)| reading::in_list("sandboxes", index, SandboxView::read(sandbox));
    let sandboxes: Vec<SandboxView<'_>> =
        request.sandboxes.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let set = derive(pod, phase, Some(&sandboxes), now).map_err(|error| error.under("pod"))?;
    Ok(DeriveConditionsResponse { conditions: set.to_wire() })
}

/// `ValidateConditionType`: whether a condition type is valid, which means a qualified name, like the key of a label.
/// The built-in types are qualified names too (L-COND-16).
///
/// # Errors
/// Never fails; an empty type is not valid.
pub fn validate_condition_type(
    request: &ValidateConditionTypeRequest,
) -> Result<ValidateConditionTypeResponse, ModelError> {
    Ok(ValidateConditionTypeResponse { valid: is_qualified_name(&request.r#type) })
}

#[cfg(test)]
mod tests;
