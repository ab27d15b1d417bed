//! `PlanContainers`: the containers of a pod to start and to kill now (L-RESTART-10 to L-RESTART-14, L-RESTART-24,
//! L-RESTART-25).

mod init;
mod view;

use berth_proto::berth_v1::{ContainerKill, PlanContainersRequest, PlanContainersResponse};
use berth_proto::core_v1::Pod;

use super::due::{Candidate, LastState, RestartAction, restarts_all};
use crate::lifecycle::container_state::Roster;
use crate::lifecycle::vocabulary::{ContainerKind, RestartPolicy, RuntimeState};
use crate::model::ModelError;
use view::{Member, View};

const LIVENESS_PROBE: &str = "LivenessProbe";
const STARTUP_PROBE: &str = "StartupProbe";
const UNKNOWN: &str = "Unknown";
/// Reason of a kill for a changed definition (L-RESTART-25).
const NO_REASON: &str = "";

/// The actions of a plan, by names of containers.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    pub(crate) kill_pod: bool,
    create_sandbox: bool,
    pub(crate) init_to_start: Vec<&'a str>,
    pub(crate) to_start: Vec<&'a str>,
    to_kill: Vec<(&'a str, &'static str)>,
    ephemeral_to_start: Vec<&'a str>,
    pub(crate) to_remove: Vec<&'a str>,
}

/// The plan for a pod by its statuses, in a ready sandbox, without facts about probes and changed definitions.
///
/// # Errors
/// [`ModelError`] relative to the spec, for an unknown policy or a bad rule.
pub(crate) fn plan_of<'a>(pod: &'a Pod, roster: &Roster<'a>) -> Result<Plan<'a>, ModelError> {
    View::of_roster(pod, roster)?.plan()
}

/// `PlanContainers`: the containers to start and to kill now. Init containers run one after another, then all app
/// containers; sidecars are kept alive beside them (L-RESTART-12, L-RESTART-14). Kills come before starts.
///
/// A pod that is marked for deletion starts nothing (L-RESTART-2). Cost: linear in the containers.
///
/// # Errors
/// [`ModelError`] for an unknown word, a duplicate name, a name that no container of the pod has, an exit without a
/// code, and a negative attempt.
pub fn plan_containers(
    request: &PlanContainersRequest,
) -> Result<PlanContainersResponse, ModelError> {
    let view = View::of(request)?;
    let plan = view.plan().map_err(|error| error.under("pod.spec"))?;
    let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let kill = |(name, reason): (&str, &str)| ContainerKill {
        name: name.to_owned(),
        reason: Some(reason.to_owned()),
    };
    Ok(PlanContainersResponse {
        kill_pod: plan.kill_pod,
        create_sandbox: plan.create_sandbox,
        init_containers_to_start: names(plan.init_to_start),
        containers_to_start: names(plan.to_start),
        containers_to_kill: plan.to_kill.into_iter().map(kill).collect(),
        ephemeral_containers_to_start: names(plan.ephemeral_to_start),
        containers_to_remove: names(plan.to_remove),
    })
}

impl<'a> View<'a> {
    /// The plan; errors are relative to the spec.
    fn plan(&self) -> Result<Plan<'a>, ModelError> {
        if let Some(to_remove) = self.restart_of_all()? {
            let (kill_pod, create_sandbox) = (!self.sandbox_ready, !self.sandbox_ready);
            return Ok(Plan { kill_pod, create_sandbox, to_remove, ..Plan::default() });
        }
        if !self.sandbox_ready {
            return self.anew();
        }
        if self.is_over()? {
            return Ok(Plan { kill_pod: true, ..Plan::default() });
        }
        let mut plan = Plan::default();
        let is_initialized = self.plan_init(&mut plan)?;
        if !plan.kill_pod {
            if is_initialized {
                self.plan_app(&mut plan)?;
            }
            if !self.is_marked {
                let unseen = self.ephemeral.iter().filter(|member| member.observed.is_none());
                plan.ephemeral_to_start = unseen.map(|member| member.name).collect();
            }
        }
        if self.is_marked {
            self.start_nothing(&mut plan);
        }
        if plan.kill_pod {
            plan.ephemeral_to_start.clear();
        }
        Ok(plan)
    }

    /// The containers to stop and remove if a rule restarts the whole pod in place. The triggering ones come last, and
    /// ephemeral ones are left out (L-RESTART-11). A pod that is marked for deletion is not restarted (L-RESTART-2).
    fn restart_of_all(&self) -> Result<Option<Vec<&'a str>>, ModelError> {
        if self.is_marked {
            return Ok(None);
        }
        let (mut triggering, mut others) = (Vec::new(), Vec::new());
        for member in self.init.iter().chain(&self.app) {
            let Some(observed) = member.observed else { continue };
            let triggers = match observed.exit {
                Some(exit) => member.in_spec(restarts_all(member.container, exit))?,
                None => false,
            };
            if triggers { triggering.push(member.name) } else { others.push(member.name) }
        }
        if triggering.is_empty() {
            return Ok(None);
        }
        others.extend(triggering);
        Ok(Some(others))
    }

    /// Whether every app container has ended for good; then no other container is kept or started (L-RESTART-14).
    fn is_over(&self) -> Result<bool, ModelError> {
        for member in &self.app {
            let has_ended = member.observed.is_some_and(|seen| seen.exit.is_some());
            if !has_ended || self.is_due(member)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The plan without a usable sandbox: everything starts over, except containers that are done for good
    /// (L-RESTART-13).
    fn anew(&self) -> Result<Plan<'a>, ModelError> {
        let only_kill = Plan { kill_pod: true, ..Plan::default() };
        let has_run = self.sandbox_attempt > 0 && self.n_observed > 0;
        if self.is_marked || (self.pod_policy == RestartPolicy::Never && has_run) {
            return Ok(only_kill);
        }
        let mut to_start = Vec::new();
        for member in &self.app {
            let is_done =
                member.observed.and_then(|seen| seen.exit).is_some_and(|exit| exit.code == 0);
            if !is_done || self.policy(member)? != RestartPolicy::OnFailure {
                to_start.push(member.name);
            }
        }
        // All have succeeded: nothing is left to run.
        if to_start.is_empty() {
            return Ok(only_kill);
        }
        let init_to_start: Vec<&str> = self.init.iter().take(1).map(|member| member.name).collect();
        if !init_to_start.is_empty() {
            to_start.clear();
        }
        Ok(Plan { create_sandbox: true, init_to_start, to_start, ..only_kill })
    }

    /// Plans the app containers of an initialized pod.
    fn plan_app(&self, plan: &mut Plan<'a>) -> Result<(), ModelError> {
        let mut n_kept = 0usize;
        for member in &self.app {
            match member.observed.map(|seen| seen.state) {
                Some(RuntimeState::Running) => {
                    let Some(reason) = member.reason_to_kill() else {
                        n_kept += 1;
                        continue;
                    };
                    plan.to_kill.push((member.name, reason));
                    // A changed definition restarts under any policy (L-RESTART-25), a failed probe unless the policy
                    // is `Never`; rules apply to exits only (L-RESTART-10).
                    if reason == NO_REASON || self.policy(member)? != RestartPolicy::Never {
                        plan.to_start.push(member.name);
                    }
                }
                state => {
                    if self.is_due(member)? {
                        plan.to_start.push(member.name);
                        // The container may still run: a kill first prevents two instances (L-RESTART-24).
                        if state == Some(RuntimeState::Unknown) {
                            plan.to_kill.push((member.name, UNKNOWN));
                        }
                    }
                }
            }
        }
        // Sidecars do not keep a pod alive (L-RESTART-14).
        if n_kept == 0 && plan.to_start.is_empty() {
            plan.kill_pod = true;
            plan.init_to_start.clear();
        }
        Ok(())
    }

    /// Removes the starts from a plan for a pod that is marked for deletion (L-RESTART-2, L-RESTART-14).
    fn start_nothing(&self, plan: &mut Plan<'a>) {
        plan.init_to_start.clear();
        plan.to_start.clear();
        let is_kept =
            |member: &Member<'a>| member.is_running() && member.reason_to_kill().is_none();
        let keeps_running = self.app.iter().any(is_kept);
        plan.kill_pod |= !keeps_running;
    }

    /// Whether a container that does not run is to be started.
    fn is_due(&self, member: &Member<'a>) -> Result<bool, ModelError> {
        let action = match member.observed {
            None => self.candidate(member).without_exit(LastState::None).action,
            Some(seen) => match seen.exit {
                Some(exit) => member.in_spec(self.candidate(member).after_exit(exit))?.action,
                None => self.candidate(member).without_exit(seen.state.into()).action,
            },
        };
        Ok(action != RestartAction::None)
    }

    fn policy(&self, member: &Member<'a>) -> Result<RestartPolicy, ModelError> {
        member.in_spec(self.candidate(member).effective_policy())
    }

    fn candidate(&self, member: &Member<'a>) -> Candidate<'a> {
        let (pod_policy, pod_deleting) = (self.pod_policy, self.is_marked);
        Candidate { pod_policy, pod_deleting, kind: member.kind, container: member.container }
    }
}

impl Member<'_> {
    /// The first reason to kill a running container, if there is one.
    fn reason_to_kill(&self) -> Option<&'static str> {
        if self.definition_changed {
            Some(NO_REASON)
        } else if self.liveness_failed {
            Some(LIVENESS_PROBE)
        } else if self.startup_failed {
            Some(STARTUP_PROBE)
        } else {
            None
        }
    }

    fn is_sidecar(&self) -> bool {
        self.kind == ContainerKind::Sidecar
    }

    fn is_running(&self) -> bool {
        self.observed.is_some_and(|seen| seen.state == RuntimeState::Running)
    }
}

impl From<RuntimeState> for LastState {
    fn from(state: RuntimeState) -> LastState {
        match state {
            RuntimeState::Created => LastState::Created,
            RuntimeState::Running => LastState::Running,
            RuntimeState::Exited => LastState::Exited,
            RuntimeState::Unknown => LastState::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
