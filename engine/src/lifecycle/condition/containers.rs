//! `Initialized`, `ContainersReady` and `Ready`, derived from the statuses of a pod's containers.

use berth_proto::core_v1::PodSpec;

use super::recorded::{Recorded, is_true};
use crate::lifecycle::condition::finding::{Finding, POD_COMPLETED, Text};
use crate::lifecycle::container_state::{Member, Observed, Roster};
use crate::lifecycle::vocabulary::{ContainerKind, PodPhase};
use crate::model::ModelError;
use crate::model::label::is_qualified_name;

/// Facts about the containers of a pod that conditions depend on.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Containers {
    /// Whether no container has a status.
    is_unknown: bool,
    has_init: bool,
    /// Whether an init container has no status.
    init_missing: bool,
    /// Whether an init container has not completed, or a sidecar not started.
    init_incomplete: bool,
    /// Whether an app container runs or has ended.
    app_started: bool,
    /// Whether an app container or sidecar has no status.
    missing: bool,
    /// Whether an app container or sidecar is not ready.
    unready: bool,
}

impl Containers {
    pub(super) fn of(roster: &Roster<'_>) -> Containers {
        let mut containers = Containers {
            is_unknown: roster.has_no_status(),
            has_init: !roster.init().is_empty(),
            ..Containers::default()
        };
        for member in roster.init() {
            match member.observed {
                None => containers.init_missing = true,
                Some(_) => containers.init_incomplete |= !is_initialized(member),
            }
        }
        for member in roster.app() {
            containers.app_started |= matches!(
                member.observed,
                Some(Observed::Running | Observed::Ended { is_waiting: false, .. })
            );
        }
        for member in roster.all().iter().filter(|member| member.counts_for_readiness()) {
            match member.observed {
                None => containers.missing = true,
                Some(_) => containers.unready |= !member.is_ready(),
            }
        }
        containers
    }

    /// `Initialized`, the first rule that matches (L-COND-7).
    pub(super) fn initialized(&self, phase: PodPhase, was_initialized: bool) -> Finding {
        if self.is_unknown && self.has_init {
            return Finding::not("UnknownContainerStatuses", Text::None);
        }
        if phase == PodPhase::Succeeded && !self.init_missing {
            return Finding { reason: POD_COMPLETED, ..Finding::plain(true) };
        }
        // Init containers run again after an in-place restart, and sidecars whenever they end; the condition stays
        // True.
        let is_behind = self.app_started || was_initialized;
        if (self.init_missing || self.init_incomplete) && !is_behind {
            return Finding::not("ContainersNotInitialized", Text::NotInitialized);
        }
        Finding::plain(true)
    }

    /// `ContainersReady`, the first rule that matches (L-COND-8).
    pub(super) fn ready(&self, phase: PodPhase) -> Finding {
        if self.is_unknown {
            return Finding::not("UnknownContainerStatuses", Text::None);
        }
        match Finding::over(phase) {
            Some(over) if phase == PodPhase::Failed || !self.missing => return over,
            _ => {}
        }
        if self.missing || self.unready {
            return Finding::not("ContainersNotReady", Text::NotReady);
        }
        Finding::plain(true)
    }
}

/// `Ready` of a pod with ready containers: True if every readiness gate has a condition that is True (L-COND-9,
/// L-COND-10).
///
/// # Errors
/// [`ModelError`] relative to the pod, for a gate that cannot be the type of a condition (L-COND-16).
pub(super) fn gates_met(spec: &PodSpec, recorded: &Recorded<'_>) -> Result<Finding, ModelError> {
    let mut all_met = true;
    for (at, gate) in spec.readiness_gates.iter().enumerate() {
        if !is_qualified_name(&gate.condition_type) {
            let field = format!("spec.readinessGates[{at}].conditionType");
            return Err(ModelError::new(field, "is not a valid condition type"));
        }
        all_met &= recorded.find(&gate.condition_type).is_some_and(is_true);
    }
    Ok(match all_met {
        true => Finding::plain(true),
        false => Finding::not("ReadinessGatesNotReady", Text::GatesUnmet),
    })
}

/// Whether an init container is done: an ordinary one is ready once it has completed, a sidecar only has to be started
/// (L-COND-7).
pub(super) fn is_initialized(member: &Member<'_>) -> bool {
    match member.kind {
        ContainerKind::Sidecar => member.is_started(),
        _ => member.is_ready(),
    }
}
