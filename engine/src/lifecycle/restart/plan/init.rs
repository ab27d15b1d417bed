//! The init containers of a plan: the next one to run, and sidecars that have died (L-RESTART-8, L-RESTART-9, L-RESTART-12).

use super::view::{Member, View};
use super::{Plan, STARTUP_PROBE, UNKNOWN};
use crate::lifecycle::restart::due::is_failure;
use crate::lifecycle::vocabulary::{RestartPolicy, RuntimeState};
use crate::model::ModelError;

/// Where the walk over the init containers, from the last to the first, has got to.
#[derive(Debug)]
struct Walk {
    /// App containers may be started.
    is_initialized: bool,
    /// A later container has been seen, or an app container runs: this one has had its turn.
    is_past: bool,
    /// Places of the init containers to start, last first.
    to_start: Vec<usize>,
}

impl<'a> View<'a> {
    /// Plans the init containers; whether the app containers may be started. When the pod is to be killed, nothing more is
    /// planned.
    ///
    /// The walk goes from the last to the first: records of containers that are done may be gone, so the last one of which
    /// anything is known tells how far the pod has got.
    pub(super) fn plan_init(&self, plan: &mut Plan<'a>) -> Result<bool, ModelError> {
        if self.init.is_empty() {
            return Ok(true);
        }
        // An exited app container does not tell: it may be of a sandbox that is gone.
        let has_started = self.app.iter().any(|member| {
            let state = member.observed.map(|seen| seen.state);
            matches!(state, Some(RuntimeState::Created | RuntimeState::Running))
        });
        let mut walk =
            Walk { is_initialized: has_started, is_past: has_started, to_start: Vec::new() };
        for (place, member) in self.init.iter().enumerate().rev() {
            let Some(observed) = member.observed else {
                // The record of a sidecar that must have run is gone.
                if walk.is_past && member.is_sidecar() {
                    walk.to_start.push(place);
                }
                continue;
            };
            if walk.is_past && !member.is_sidecar() {
                continue;
            }
            let goes_on = match observed.state {
                RuntimeState::Running => {
                    self.plan_running(&mut walk, plan, place, member);
                    true
                }
                RuntimeState::Created => {
                    walk.to_start.push(place);
                    true
                }
                RuntimeState::Exited | RuntimeState::Unknown => {
                    self.plan_ended(&mut walk, plan, place, member)?
                }
            };
            if !goes_on {
                *plan = Plan { kill_pod: true, ..Plan::default() };
                return Ok(false);
            }
            walk.is_past = true;
        }
        if !walk.is_past {
            walk.to_start.push(0);
        }
        plan.init_to_start =
            walk.to_start.iter().rev().map(|place| self.init[*place].name).collect();
        plan.to_kill.reverse();
        Ok(walk.is_initialized)
    }

    /// A sidecar that runs lets the next one start as soon as its startup probe has succeeded, whatever its liveness probe says;
    /// an ordinary init container has to end first (L-RESTART-12).
    fn plan_running(
        &self,
        walk: &mut Walk,
        plan: &mut Plan<'a>,
        place: usize,
        member: &Member<'a>,
    ) {
        if !member.is_sidecar() {
            return;
        }
        if member.startup_failed {
            plan.to_kill.push((member.name, STARTUP_PROBE));
            walk.to_start.push(place);
            return;
        }
        if member.container.startup_probe.is_some() && !member.is_started {
            return;
        }
        self.pass(walk, place);
        if let Some(reason) = member.reason_to_kill() {
            plan.to_kill.push((member.name, reason));
            walk.to_start.push(place);
        }
    }

    /// A container that ended, or that the runtime lost track of; false when the pod has failed (L-RESTART-8).
    fn plan_ended(
        &self,
        walk: &mut Walk,
        plan: &mut Plan<'a>,
        place: usize,
        member: &Member<'a>,
    ) -> Result<bool, ModelError> {
        let exit = member.observed.and_then(|seen| seen.exit);
        if let Some(exit) = exit
            && !member.is_sidecar()
            && !is_failure(exit)
        {
            self.pass(walk, place);
            return Ok(true);
        }
        if !member.is_sidecar() {
            // There is no exit code for rules to judge when the runtime lost track, so the policy alone decides.
            let restarts = match exit {
                Some(_) => self.is_due(member)?,
                None => self.policy(member)? != RestartPolicy::Never,
            };
            // A pod that is marked for deletion has not failed for that.
            if !restarts && !self.is_marked {
                return Ok(false);
            }
        }
        if exit.is_none() {
            plan.to_kill.push((member.name, UNKNOWN));
        }
        walk.to_start.push(place);
        Ok(true)
    }

    /// A container has done its part: the next one is to start, unless it had its turn, and after the last one the app.
    fn pass(&self, walk: &mut Walk, place: usize) {
        if place + 1 == self.init.len() {
            walk.is_initialized = true;
        } else if !walk.is_past {
            walk.to_start.push(place + 1);
        }
    }
}
