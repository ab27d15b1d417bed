//! The init containers of a plan: the next one to run, and sidecars that have died (L-RESTART-8, L-RESTART-9,
//! L-RESTART-12).

use super::view::{Member, View};
use super::{Plan, STARTUP_PROBE, UNKNOWN};
use crate::lifecycle::restart::due::is_failure;
use crate::lifecycle::vocabulary::{RestartPolicy, RuntimeState};
use crate::model::ModelError;

/// State of the walk over the init containers, from the last to the first.
#[derive(Debug)]
struct Walk {
    /// Whether app containers may be started.
    is_initialized: bool,
    /// Whether a later container has a record, or an app container runs: then this one has completed or started before.
    is_past: bool,
    /// Positions of the init containers to start, last first.
    to_start: Vec<usize>,
}

impl<'a> View<'a> {
    /// Plans the init containers; returns whether the app containers may be started. If the pod is to be killed,
    /// nothing more is planned.
    ///
    /// The walk goes from the last to the first: records of completed containers may be gone, so the last container
    /// with a record shows the progress of the pod.
    pub(super) fn plan_init(&self, plan: &mut Plan<'a>) -> Result<bool, ModelError> {
        if self.init.is_empty() {
            return Ok(true);
        }
        // An exited app container proves nothing: it may belong to an earlier sandbox.
        let has_started = self.app.iter().any(|member| {
            let state = member.observed.map(|seen| seen.state);
            matches!(state, Some(RuntimeState::Created | RuntimeState::Running))
        });
        let mut walk =
            Walk { is_initialized: has_started, is_past: has_started, to_start: Vec::new() };
        for (place, member) in self.init.iter().enumerate().rev() {
            let Some(observed) = member.observed else {
                // The sidecar must have run, and its record is gone.
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

    /// Plans a running init container. The container after a sidecar may start once the sidecar's startup probe has
    /// succeeded; its liveness probe makes no difference. An ordinary init container has to end first (L-RESTART-12).
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

    /// Plans a container that has ended, or that the runtime lost track of; returns false if the pod has failed
    /// (L-RESTART-8).
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
            // If the runtime lost track of it, there is no exit code for the rules, and the policy alone decides.
            let restarts = match exit {
                Some(_) => self.is_due(member)?,
                None => self.policy(member)? != RestartPolicy::Never,
            };
            // A pod that is marked for deletion does not count as failed.
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

    /// Plans the start after a container that has completed or started: the next init container, unless it ran before,
    /// and after the last one the app containers.
    fn pass(&self, walk: &mut Walk, place: usize) {
        if place + 1 == self.init.len() {
            walk.is_initialized = true;
        } else if !walk.is_past {
            walk.to_start.push(place + 1);
        }
    }
}
