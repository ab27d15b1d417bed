//! Whether a container is started again, and by whose word (L-RESTART-1 to L-RESTART-9, L-RESTART-26).

use berth_proto::core_v1::{Container, ContainerRestartRule};

use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::{ContainerKind, RestartPolicy};
use crate::lifecycle::word::{unknown, words};
use crate::model::ModelError;

words! {
    /// What follows for a container that does not run.
    enum RestartAction {
        /// It stays as it is.
        None = "None",
        /// It is started again.
        Restart = "Restart",
        /// Every container of the pod is stopped, removed and started again in place (L-RESTART-11).
        RestartAllContainers = "RestartAllContainers",
    }

    /// What was last seen of a container.
    enum LastState {
        /// It was never made.
        None = "None",
        /// Made, not started.
        Created = "Created",
        /// Its process runs.
        Running = "Running",
        /// Its process has ended.
        Exited = "Exited",
        /// The runtime lost track of it.
        Unknown = "Unknown",
    }
}

/// By whose word a container is started again or not.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecidedBy {
    /// The pod is marked for deletion (L-RESTART-2).
    PodDeleted,
    /// It never ran, or the record of its run went with an in-place restart (L-RESTART-3).
    NeverStarted,
    /// It runs (L-RESTART-3).
    Running,
    /// The runtime lost track of it (L-RESTART-3).
    StateUnknown,
    /// The runtime made it and never started it (L-RESTART-3).
    StateCreated,
    /// An init container that is done (L-RESTART-8).
    InitCompleted,
    /// A sidecar (L-RESTART-9).
    Sidecar,
    /// An ephemeral container runs once (L-RESTART-26).
    Ephemeral,
    /// The rule at this place (L-RESTART-6).
    Rule(usize),
    /// The container's own policy (L-RESTART-5).
    ContainerPolicy,
    /// The pod's policy (L-RESTART-4).
    PodPolicy,
}

/// A decision and who made it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) action: RestartAction,
    pub(crate) decided_by: DecidedBy,
}

/// The container that is asked about.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Candidate<'a> {
    /// The pod's policy, defaults applied (L-RESTART-1).
    pub(crate) pod_policy: RestartPolicy,
    pub(crate) pod_deleting: bool,
    pub(crate) kind: ContainerKind,
    pub(crate) container: &'a Container,
}

/// How a run ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit<'a> {
    pub(crate) code: i32,
    /// `OOMKilled`, `RestartingAllContainers` and the like; empty when unknown.
    pub(crate) reason: &'a str,
}

/// Reason of a termination by the memory killer (L-RESTART-22).
const OOM_KILLED: &str = "OOMKilled";
/// Reason of a termination that is part of an in-place restart of the whole pod (L-PHASE-18).
const RESTARTING_ALL_CONTAINERS: &str = "RestartingAllContainers";

/// Whether a restart is due after an exit. A termination that is part of an in-place restart is restartable under any policy
/// (L-PHASE-18). Allocates only for errors, which are relative to the container.
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

/// Whether an exit restarts every container of the pod in place (L-RESTART-11): by the rules of a container that has a policy of
/// its own (L-RESTART-6), whatever its kind; so the exit of an init container that is done asks, too. An end that is itself part
/// of such a restart does not (L-PHASE-18).
///
/// # Errors
/// As [`restart_due`].
pub(crate) fn restarts_all(container: &Container, exit: Exit<'_>) -> Result<bool, ModelError> {
    if exit.reason == RESTARTING_ALL_CONTAINERS || reading::own_restart_policy(container)?.is_none()
    {
        return Ok(false);
    }
    let matched = first_match(container, exit.code)?;
    Ok(matched.is_some_and(|(_, action)| action == RestartAction::RestartAllContainers))
}

/// Whether a run counts as failed: a memory kill does whatever its exit code (L-RESTART-8, L-RESTART-22).
pub(crate) fn is_failure(exit: Exit<'_>) -> bool {
    exit.code != 0 || exit.reason == OOM_KILLED
}

impl Candidate<'_> {
    /// What follows for a container that has not ended: `state` is any but `Exited` (L-RESTART-2, L-RESTART-3). Policies play no
    /// role. An ephemeral container of which anything was seen is not started a second time (L-RESTART-26).
    pub(crate) fn without_exit(&self, state: LastState) -> Verdict {
        debug_assert_ne!(state, LastState::Exited, "an exit has a code, see `after_exit`");
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

    /// What follows after an exit (L-RESTART-4 to L-RESTART-9).
    ///
    /// # Errors
    /// As [`restart_due`].
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

    /// The policy in effect: the container's own, else the pod's (L-RESTART-5); a sidecar's is `Always` (L-RESTART-9).
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

/// The first rule that matches an exit code, and what it asks for (L-RESTART-6).
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

/// What a rule asks for.
///
/// # Errors
/// [`ModelError`] at `action` for any word but the two that a rule may say (L-RESTART-7).
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

/// The exit code of a container in `state`; 0 where it has not ended.
///
/// # Errors
/// [`ModelError`] at `exitCode` for an exit without a code, or another code than 0 without an exit.
pub(crate) fn exit_code(state: LastState, code: Option<i32>) -> Result<i32, ModelError> {
    match (state, code) {
        (LastState::Exited, Some(code)) => Ok(code),
        (LastState::Exited, None) => Err(ModelError::new("exitCode", "required of state `Exited`")),
        (_, None | Some(0)) => Ok(0),
        (state, Some(code)) => {
            Err(ModelError::new("exitCode", format!("is `{code}` in state `{}`", state.word())))
        }
    }
}
