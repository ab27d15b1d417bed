//! The phase of a pod (group `phase`): a summary of its containers that only moves forward.
//!
//! `tally.rs` counts the states of the containers and derives the raw phase. This file applies the recorded phase,
//! eviction orders and the node's contact, in the order of section 1.2. `finalize.rs` handles the last step before
//! removal.
//!
//! No rule of this group fails a pod because contact with its node is lost. Such a pod becomes Failed when the garbage
//! collector removes it (L-PHASE-14, L-GC-6).

mod facts;
mod tally;
mod finalize;

use berth_proto::berth_v1::{
    CheckPhaseTransitionRequest, CheckPhaseTransitionResponse, DerivePodPhaseRequest,
    DerivePodPhaseResponse,
};
use berth_proto::core_v1::Pod;

use self::tally::Tally;
use super::container_state::Roster;
use super::reading;
use super::vocabulary::{ConditionStatus, PodPhase};
use crate::model::ModelError;

pub use facts::{Eviction, PhaseFacts};
pub use finalize::final_statuses;

/// The phase of a pod in its four forms.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PhaseDecision<'a> {
    /// Phase by the container statuses alone (L-PHASE-5). Never `Unknown`.
    pub raw: PodPhase,
    /// Phase after all overrides. Never `Unknown` (L-PHASE-9).
    pub phase: PodPhase,
    /// Phase that may be written to the API now (L-PHASE-11). Never `Unknown`.
    pub published: PodPhase,
    /// Phase to show to a reader (L-PHASE-13).
    pub effective: PodPhase,
    /// Reason that belongs to `phase`.
    pub reason: &'a str,
    /// Message that belongs to `phase`.
    pub message: &'a str,
}

/// The phase of a pod, given the statuses of its containers and the recorded phase (L-PHASE-5 to L-PHASE-13).
///
/// Cost: one pass over the containers; nothing is allocated for pods of up to 6.
///
/// # Errors
/// [`ModelError`] relative to the pod: an unknown phase or policy, a status that contradicts itself or belongs to no
/// container, a duplicate name.
pub fn decide<'a>(pod: &'a Pod, facts: &PhaseFacts<'a>) -> Result<PhaseDecision<'a>, ModelError> {
    decide_on(pod, &Roster::of(pod)?, facts)
}

/// [`decide`] for a pod whose containers have been read.
///
/// # Errors
/// Errors of [`decide`].
pub(crate) fn decide_on<'a>(
    pod: &'a Pod,
    roster: &Roster<'a>,
    facts: &PhaseFacts<'a>,
) -> Result<PhaseDecision<'a>, ModelError> {
    let recorded = reading::phase(pod)?;
    let policy =
        reading::restart_policy(reading::spec(pod)).map_err(|error| error.under("spec"))?;
    let raw = Tally::of(roster, policy)?.phase(facts);
    let (phase, order) = settle(raw, recorded, facts);
    let status = reading::status(pod);
    let (reason, message) = match order {
        Some(eviction) => (eviction.reason, eviction.message),
        None if phase == recorded => (status.reason.as_str(), status.message.as_str()),
        None => ("", ""),
    };
    let published = published(phase, raw, recorded, facts);
    let is_out_of_contact = facts.node_ready == ConditionStatus::Unknown;
    let effective = match is_out_of_contact && !recorded.is_terminal() {
        true => PodPhase::Unknown,
        false => phase,
    };
    Ok(PhaseDecision { raw, phase, published, effective, reason, message })
}

/// The phase after all overrides, and the eviction order that decided it, if one did.
fn settle<'a>(
    raw: PodPhase,
    recorded: PodPhase,
    facts: &PhaseFacts<'a>,
) -> (PodPhase, Option<Eviction<'a>>) {
    if recorded.is_terminal() {
        return (recorded, None); // absorbing (L-PHASE-8)
    }
    if facts.evict.is_some() {
        return (PodPhase::Failed, facts.evict); // L-PHASE-10
    }
    // Statuses from a node without contact are stale (L-PHASE-13). With `Unknown` recorded, they are still the best
    // evidence.
    let is_stale = facts.node_ready == ConditionStatus::Unknown && recorded != PodPhase::Unknown;
    let phase = match !is_stale && may_follow(recorded, raw) {
        true => raw,
        false => recorded, // never back (L-PHASE-9)
    };
    if facts.finalize && !facts.static_pod && !phase.is_terminal() {
        return (PodPhase::Failed, None); // L-PHASE-12
    }
    (phase, None)
}

/// The phase that may be written now: no terminal phase while a process may still run (L-PHASE-11).
fn published(
    phase: PodPhase,
    raw: PodPhase,
    recorded: PodPhase,
    facts: &PhaseFacts<'_>,
) -> PodPhase {
    if !phase.is_terminal() || recorded.is_terminal() || !facts.could_have_running_containers {
        return phase;
    }
    match recorded {
        // Berth never writes `Unknown` (L-PHASE-9), and a pod that may be running is not pending.
        PodPhase::Unknown if raw.is_terminal() => PodPhase::Running,
        PodPhase::Unknown => raw,
        recorded => recorded,
    }
}

/// Whether a pod may go from one phase to another: Pending, Running, then one of the terminal phases, which it never
/// leaves. From `Unknown` any phase may follow, and no phase is followed by it (L-PHASE-8, L-PHASE-9).
#[must_use]
pub fn may_follow(from: PodPhase, to: PodPhase) -> bool {
    if from == to || from == PodPhase::Unknown {
        return true;
    }
    !from.is_terminal() && to != PodPhase::Unknown && from < to
}

/// `DerivePodPhase`: [`decide`] for the wire; with `finalize` also the statuses to record of the containers.
///
/// # Errors
/// [`ModelError`] as [`decide`], for a missing `pod`, an order without a reason, or an unknown `nodeReady`.
pub fn derive_pod_phase(
    request: &DerivePodPhaseRequest,
) -> Result<DerivePodPhaseResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let evict = match &request.evict {
        Some(order) if order.reason.is_empty() => {
            return Err(ModelError::new("evict.reason", "required"));
        }
        Some(order) => Some(Eviction { reason: &order.reason, message: &order.message }),
        None => None,
    };
    let facts = PhaseFacts {
        pod_is_terminal: request.pod_is_terminal,
        regular_container_started: request.regular_container_started,
        static_pod: request.static_pod,
        finalize: request.finalize,
        evict,
        could_have_running_containers: request.could_have_running_containers,
        node_ready: ConditionStatus::parse_or(
            &request.node_ready,
            ConditionStatus::True,
            "nodeReady",
        )?,
    };
    let decision = decide(pod, &facts).map_err(|error| error.under("pod"))?;
    let final_statuses = match facts.finalize && !facts.static_pod {
        true => Some(final_statuses(pod).map_err(|error| error.under("pod"))?),
        false => None,
    };
    Ok(DerivePodPhaseResponse {
        raw_phase: decision.raw.word().to_owned(),
        phase: decision.phase.word().to_owned(),
        published_phase: decision.published.word().to_owned(),
        effective_phase: decision.effective.word().to_owned(),
        reason: decision.reason.to_owned(),
        message: decision.message.to_owned(),
        final_statuses,
    })
}

/// `CheckPhaseTransition`: [`may_follow`] for the wire.
///
/// # Errors
/// [`ModelError`] for an unknown phase.
pub fn check_phase_transition(
    request: &CheckPhaseTransitionRequest,
) -> Result<CheckPhaseTransitionResponse, ModelError> {
    let from = PodPhase::parse(&request.from, "from")?;
    let to = PodPhase::parse(&request.to, "to")?;
    Ok(CheckPhaseTransitionResponse { legal: may_follow(from, to) })
}

#[cfg(test)]
mod tests;
