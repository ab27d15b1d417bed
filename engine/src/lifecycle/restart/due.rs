//! Restart decision for one container (L-RESTART-1 to L-RESTART-9, L-RESTART-26).

use berth_proto::core_v1::{Container, ContainerRestartRule};

use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::{ContainerKind, RestartPolicy};
use crate::lifecycle::word::{unknown, words};
use crate::model::ModelError;

words! {
    /// Action for a container that does not run.
    enum RestartAction {
        /// The container stays as it is.
        None = "None",
        /// The container is started again.
        Restart = "Restart",
        /// Every container of the pod is stopped, removed and started again in place (L-RESTART-11).
        RestartAllContainers = "RestartAllContainers",
    }

    /// Last known state of a container.
    enum LastState {
        /// The container was never created.
        None = "None",
        /// The container was created and not started.
        Created = "Created",
        /// The container's process runs.
        Running = "Running",
        /// The container's process has ended.
        Exited = "Exited",
        /// The runtime lost track of the container.
        Unknown = "Unknown",
    }
}

/// The fact, rule or policy that decides about a restart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecidedBy {
    /// The pod is marked for deletion (L-RESTART-2).
    PodDeleted,
    /// The container never ran, or an in-place restart removed the record of its run (L-RESTART-3).
    NeverStarted,
    /// The container runs (L-RESTART-3).
    Running,
    /// The runtime lost track of the container (L-RESTART-3).
    StateUnknown,
    /// The runtime created the container and never started it (L-RESTART-3).
    StateCreated,
    /// The container is an init container that has completed (L-RESTART-8).
    InitCompleted,
    /// The container is a sidecar (L-RESTART-9).
    Sidecar,
    /// The container is ephemeral and runs once (L-RESTART-26).
    Ephemeral,
    /// The rule at this position (L-RESTART-6).
    Rule(usize),
    /// The container's own policy (L-RESTART-5).
    ContainerPolicy,
    /// The pod's policy (L-RESTART-4).
    PodPolicy,
}

/// A decision, and the fact, rule or policy behind it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) action: RestartAction,
    pub(crate) decided_by: DecidedBy,
}

/// The container to decide about.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Candidate<'a> {
    /// The pod's policy, defaults applied (L-RESTART-1).
    pub(crate) pod_policy: RestartPolicy,
    pub(crate) pod_deleting: bool,
    pub(crate) kind: ContainerKind,
    pub(crate) container: &'a Container,
}

/// Exit of a run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit<'a> {
    pub(crate) code: i32,
    /// Reason, such as `OOMKilled` or `RestartingAllContainers`; empty if unknown.
    pub(crate) reason: &'a str,
}

/// Reason of a termination by the memory killer (L-RESTART-22).
pub(crate) const OOM_KILLED: &str = "OOMKilled";
/// Reason of a termination that is part of an in-place restart of the whole pod (L-PHASE-18).
pub(crate) const RESTARTING_ALL_CONTAINERS: &str = "RestartingAllContainers";

/// Whether a restart is due after an exit. A termination that is part of an in-place restart is restartable under any
/// policy (L-PHASE-18). Allocates only for errors, which are relative to the container.
///
/// # Errors
/// [`ModelError`] at `restartPolicy`, or at the operator or action of a rule, for an unknown word.
pub(crate) fn restart_due(
    pod_policy: RestartPolicy,
    container: &Container,
    kind: ContainerKind,
    exit_code: i32,
    reason: &str,
    pod_deleting: bool,
) -> Result<RestartAction, ModelError> {
    let candidate = Candidate { pod_policy, pod_deleting, kind, container };
    Ok(candidate.after_exit(Exit { code: exit_code, reason })?.action)
}

/// Whether an exit restarts every container of the pod in place (L-RESTART-11), by the rules of a container with a
/// policy of its own (L-RESTART-6). The kind makes no difference: rules of a completed init container count too. An
/// exit that is itself part of such a restart does not count (L-PHASE-18).
///
/// # Errors
/// Errors of [`restart_due`].
pub(crate) fn restarts_all(container: &Container, exit: Exit<'_>) -> Result<bool, ModelError> {
    if exit.reason == RESTARTING_ALL_CONTAINERS || reading::own_restart_policy(container)?.is_none()
    {
        return Ok(false);
    }
    let matched = first_match(container, exit.code)?;
    Ok(matched.is_some_and(|(_, action)| action == RestartAction::RestartAllContainers))
}

/// Whether a run counts as failed: a non-zero exit code, or a memory kill with any exit code (L-RESTART-8,
/// L-RESTART-22).
pub(crate) fn is_failure(exit: Exit<'_>) -> bool {
    exit.code != 0 || exit.reason == OOM_KILLED
}

impl Candidate<'_> {
    /// Decision for a container that has not ended: `state` is any but `Exited` (L-RESTART-2, L-RESTART-3). Policies
    /// play no role. An ephemeral container with any known state is not started again (L-RESTART-26).
    pub(crate) fn without_exit(&self, state: LastState) -> Verdict {
        debug_assert_ne!(state, LastState::Exited, "`after_exit` decides about exits");
        let start = |decided_by| Verdict { action: RestartAction::Restart, decided_by };
        let stay = |decided_by| Verdict { action: RestartAction::None, decided_by };
        if self.pod_deleting {
            return stay(DecidedBy::PodDeleted);
        }
        match state {
            LastState::None => start(DecidedBy::NeverStarted),
            LastState::Running => stay(DecidedBy::Running),
            _ if self.kind == ContainerKind::Ephemeral => stay(DecidedBy::Ephemeral),
            LastState::Created => start(DecidedBy::StateCreated),
            LastState::Unknown | LastState::Exited => start(DecidedBy::StateUnknown),
        }
    }

    /// Decision after an exit (L-RESTART-4 to L-RESTART-9).
    ///
    /// # Errors
    /// Errors of [`restart_due`].
    pub(crate) fn after_exit(&self, exit: Exit<'_>) -> Result<Verdict, ModelError> {
        let stay = |decided_by| Ok(Verdict { action: RestartAction::None, decided_by });
        if self.pod_deleting {
            return stay(DecidedBy::PodDeleted);
        }
        if self.kind == ContainerKind::Ephemeral {
            return stay(DecidedBy::Ephemeral);
        }
        if exit.reason == RESTARTING_ALL_CONTAINERS {
            return Ok(self.without_exit(LastState::None));
        }
        if self.kind == ContainerKind::Init && !is_failure(exit) {
            return stay(DecidedBy::InitCompleted);
        }
        let own = reading::own_restart_policy(self.container)?;
        if own.is_some()
            && let Some((index, action)) = first_match(self.container, exit.code)?
        {
            return Ok(Verdict { action, decided_by: DecidedBy::Rule(index) });
        }
        if self.kind == ContainerKind::Sidecar {
            return Ok(Verdict { action: RestartAction::Restart, decided_by: DecidedBy::Sidecar });
        }
        let decided_by =
            if own.is_some() { DecidedBy::ContainerPolicy } else { DecidedBy::PodPolicy };
        let restarts = match own.unwrap_or(self.pod_policy) {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit.code != 0,
            RestartPolicy::Never => false,
        };
        let action = if restarts { RestartAction::Restart } else { RestartAction::None };
        Ok(Verdict { action, decided_by })
    }

    /// The effective policy: the container's own, else the pod's (L-RESTART-5); `Always` for a sidecar (L-RESTART-9).
    ///
    /// # Errors
    /// [`ModelError`] at `restartPolicy` for an unknown word.
    pub(crate) fn effective_policy(&self) -> Result<RestartPolicy, ModelError> {
        Ok(reading::own_restart_policy(self.container)?.unwrap_or(match self.kind {
            ContainerKind::Sidecar => RestartPolicy::Always,
            _ => self.pod_policy,
        }))
    }
}

/// The first rule that matches an exit code, with its action (L-RESTART-6).
fn first_match(
    container: &Container,
    exit_code: i32,
) -> Result<Option<(usize, RestartAction)>, ModelError> {
    for (index, rule) in container.restart_policy_rules.iter().enumerate() {
        let matched = reading::in_list("restartPolicyRules", index, matches(rule, exit_code))?;
        if matched {
            let action = reading::in_list("restartPolicyRules", index, action(rule))?;
            return Ok(Some((index, action)));
        }
    }
    Ok(None)
}

fn matches(rule: &ContainerRestartRule, exit_code: i32) -> Result<bool, ModelError> {
    let Some(codes) = &rule.exit_codes else { return Ok(false) };
    let listed = codes.values.contains(&exit_code);
    match codes.operator.as_str() {
        "In" => Ok(listed),
        "NotIn" => Ok(!listed),
        other => Err(unknown(other, OPERATORS, "exitCodes.operator")),
    }
}

/// The action of a rule.
///
/// # Errors
/// [`ModelError`] at `action` for any word but the two of [`ACTIONS`] (L-RESTART-7).
pub(crate) fn action(rule: &ContainerRestartRule) -> Result<RestartAction, ModelError> {
    match rule.action.as_str() {
        "Restart" => Ok(RestartAction::Restart),
        "RestartAllContainers" => Ok(RestartAction::RestartAllContainers),
        other => Err(unknown(other, ACTIONS, "action")),
    }
}

/// Operators of a rule (L-RESTART-7).
pub(crate) const OPERATORS: &[&str] = &["In", "NotIn"];
/// Actions of a rule (L-RESTART-7).
pub(crate) const ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];

/// The exit code of a container in `state`; 0 if it has not ended.
///
/// # Errors
/// [`ModelError`] at `exitCode` for an exit without a code, or another code than 0 without an exit.
pub(crate) fn exit_code(state: LastState, code: Option<i32>) -> Result<i32, ModelError> {
    match (state, code) {
        (LastState::Exited, Some(code)) => Ok(code),
        (LastState::Exited, None) => Err(ModelError::new("exitCode", "required in state `Exited`")),
        (_, None | Some(0)) => Ok(0),
        (state, Some(code)) => {
            Err(ModelError::new("exitCode", format!("is `{code}` in state `{}`", state.word())))
        }
    }
}
