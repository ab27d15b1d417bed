//! Failed and delayed starts: when a container's state shows them.

use super::{ContainerOfPod, Facts, Shown, waiting};
use crate::lifecycle::restart::{Candidate, LastState, RestartAction};
use crate::lifecycle::vocabulary::ContainerKind;
use crate::model::ModelError;

impl Facts<'_> {
    /// Replaces the state by a failed or delayed start, if a start is due (L-CSTATE-9, L-CSTATE-10): after the exit
    /// that the runtime knows, else after the recorded exit, which stays valid if the runtime's record is lost
    /// (L-CSTATE-7). An init container that exited with 0 is not started again (L-CSTATE-11).
    pub(super) fn show_start_error(&self, shown: &mut Shown) -> Result<(), ModelError> {
        let Some(error) = &self.request.start_error else { return Ok(()) };
        if self.is_init_completed() || !self.is_start_due()? {
            return Ok(());
        }
        if shown.state.terminated.is_some() {
            shown.last_state = std::mem::take(&mut shown.state);
        }
        shown.state = waiting(&error.reason, &error.message);
        Ok(())
    }

    /// Whether an init container has completed: by its exit code, sidecars included, or by L-CSTATE-8.
    fn is_init_completed(&self) -> bool {
        let is_init = matches!(self.subject.kind, ContainerKind::Init | ContainerKind::Sidecar);
        is_init && (self.is_init_done() || self.last_exit().is_some_and(|exit| exit.code == 0))
    }

    /// Whether the container is to be started now, by the decision of the restart group.
    fn is_start_due(&self) -> Result<bool, ModelError> {
        let ContainerOfPod { container, kind, pod_policy } = self.subject;
        let pod_deleting = self.request.pod_deleting;
        let candidate = Candidate { pod_policy, pod_deleting, kind, container };
        let verdict = match self.last_exit() {
            Some(exit) => candidate.after_exit(exit).map_err(|error| error.under("container"))?,
            None => candidate.without_exit(match self.runtime {
                Some((_, state)) => state.into(),
                None => LastState::None,
            }),
        };
        Ok(verdict.action != RestartAction::None)
    }
}
