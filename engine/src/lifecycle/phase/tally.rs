//! Tally: counts of a pod's containers by state, and the phase that follows from them alone.

use super::PhaseFacts;
use crate::lifecycle::container_state::{Member, Observed, Roster};
use crate::lifecycle::restart::{RestartAction, restart_due};
use crate::lifecycle::vocabulary::{ContainerKind, PodPhase, RestartPolicy};
use crate::model::ModelError;

/// Numbers of a pod's containers by state (L-PHASE-2 to L-PHASE-4).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Ordinary init containers that have never ended.
    init_pending: usize,
    /// Ordinary init containers that failed and are not started again.
    init_fatalities: usize,
    /// Sidecars that have not started.
    sidecar_pending: usize,
    unknown: usize,
    running: usize,
    waiting: usize,
    /// App containers whose last process has ended.
    stopped: usize,
    /// App containers whose last process has ended and that are not started again.
    last_run: usize,
    /// App containers that ended with exit code 0 and do not wait.
    succeeded: usize,
}

impl Tally {
    /// # Errors
    /// [`ModelError`] relative to the pod, for an invalid restart rule of a container.
    pub(super) fn of(roster: &Roster<'_>, policy: RestartPolicy) -> Result<Tally, ModelError> {
        let mut tally = Tally::default();
        for member in roster.all() {
            match member.kind {
                ContainerKind::Init => tally.init(member, policy)?,
                ContainerKind::Sidecar => tally.sidecar(member),
                ContainerKind::Regular | ContainerKind::Ephemeral => tally.app(member, policy)?,
            }
        }
        Ok(tally)
    }

    /// Counts an ordinary init container (L-PHASE-2). With exit code 0 it has completed; any other code is a failure
    /// (L-PHASE-17).
    fn init(&mut self, member: &Member<'_>, policy: RestartPolicy) -> Result<(), ModelError> {
        match member.observed {
            Some(Observed::Ended { exit_code: 0, .. }) => {}
            Some(Observed::Ended { exit_code, reason, .. }) => {
                let is_due = is_due(member, policy, exit_code, reason)?;
                self.init_fatalities += usize::from(!is_due);
            }
            Some(Observed::Nothing | Observed::Waiting | Observed::Running) | None => {
                self.init_pending += 1;
            }
        }
        Ok(())
    }

    /// Counts a sidecar, whose exit code never matters (L-PHASE-3).
    fn sidecar(&mut self, member: &Member<'_>) {
        match member.observed {
            Some(Observed::Running) => {
                self.running += 1;
                self.sidecar_pending += usize::from(!member.is_started());
            }
            Some(Observed::Waiting) => {
                self.waiting += 1;
                self.sidecar_pending += 1;
            }
            Some(Observed::Nothing) => {
                self.unknown += 1;
                self.sidecar_pending += 1;
            }
            None => self.unknown += 1,
            Some(Observed::Ended { .. }) => {}
        }
    }

    /// Counts an app container (L-PHASE-4). A container in back-off has stopped and will run again (L-PHASE-7), and so
    /// will one that ended for an in-place restart of the pod (L-PHASE-18, which the restart group decides).
    fn app(&mut self, member: &Member<'_>, policy: RestartPolicy) -> Result<(), ModelError> {
        match member.observed {
            Some(Observed::Running) => self.running += 1,
            Some(Observed::Waiting) => self.waiting += 1,
            Some(Observed::Ended { exit_code, reason, is_waiting }) => {
                let is_due = is_due(member, policy, exit_code, reason)?;
                self.stopped += 1;
                self.last_run += usize::from(!is_due);
                self.succeeded += usize::from(exit_code == 0 && !is_waiting);
            }
            Some(Observed::Nothing) | None => self.unknown += 1,
        }
        Ok(())
    }

    /// The table of L-PHASE-5, row by row. A container that has never started keeps the pod Pending (L-PHASE-16).
    pub(super) fn phase(&self, facts: &PhaseFacts<'_>) -> PodPhase {
        let is_sidecar_awaited = self.sidecar_pending > 0 && !facts.regular_container_started;
        if self.init_fatalities > 0 {
            return PodPhase::Failed;
        }
        if self.init_pending > 0 || is_sidecar_awaited || self.waiting > 0 {
            return PodPhase::Pending;
        }
        if self.unknown > 0 {
            return PodPhase::Pending;
        }
        if self.running > 0 {
            return PodPhase::Running;
        }
        if self.stopped == 0 {
            return PodPhase::Pending;
        }
        // Once all processes are gone for good, no policy restarts one; static pods do not end this way (L-PHASE-6).
        let is_over = facts.pod_is_terminal && !facts.static_pod;
        if !is_over && self.stopped != self.last_run {
            return PodPhase::Running;
        }
        match self.stopped == self.succeeded {
            true => PodPhase::Succeeded,
            false => PodPhase::Failed,
        }
    }
}

/// Whether a container is started again after this exit (group `restart`). A requested deletion plays no role: until
/// every process is gone for good (L-PHASE-6), a pod that restarts its containers is Running.
fn is_due(
    member: &Member<'_>,
    policy: RestartPolicy,
    exit_code: i32,
    reason: &str,
) -> Result<bool, ModelError> {
    let Member { pair, kind, .. } = member;
    let due = restart_due(policy, pair.container, *kind, exit_code, reason, false);
    Ok(pair.of_container(due)? != RestartAction::None)
}
