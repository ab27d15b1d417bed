//! The `SimulateDrain` method, and the rules that `Consolidate` shares with it. Rules: S-SD-1 to S-SD-8.

mod response;

use std::sync::Arc;

use berth_engine::{self as engine, Cluster, DrainMode, PodKey, Policy, TieBreak};
use berth_proto::Time;
use berth_proto::berth_v1::{self as wire, SimulateDrainRequest, SimulateDrainResponse};

use crate::clock;
use crate::policy::Profiles;
use crate::service::CallError;
use crate::service::Cancel;
use crate::service::State;
use crate::service::Target;
use crate::service::convert;

pub(super) use response::{code, node as wire_node, utilization as wire_utilization};

pub(super) fn answer(
    state: &State,
    target: &Target,
    request: SimulateDrainRequest,
    cancel: &Cancel,
) -> Result<SimulateDrainResponse, CallError> {
    let cancelled = || cancel.is_cancelled();
    simulate(target, &state.profiles, state.tie_break, request, &cancelled)
}

/// Simulates a drain on a cluster; `configured` is the tie-breaking rule if the request has none.
pub(crate) fn simulate(
    cluster: &Cluster,
    profiles: &Profiles,
    configured: TieBreak,
    request: SimulateDrainRequest,
    cancelled: &dyn Fn() -> bool,
) -> Result<SimulateDrainResponse, CallError> {
    let SimulateDrainRequest {
        session_id: _,
        node_names,
        mode,
        destination_node_names,
        hints,
        node_rules,
        rules,
        now,
        tie_break,
        scheduler_name,
    } = request;
    if node_names.is_empty() {
        return Err(CallError::field("node_names", "must not be empty"));
    }
    let nodes = names("node_names", node_names)?;
    let destinations = names("destination_node_names", destination_node_names)?;
    let hints = hints
        .into_iter()
        .enumerate()
        .map(|(index, wire::DrainHint { pod, node_name })| compile_hint(index, pod, node_name))
        .collect::<Result<Vec<_>, _>>()?;
    let node_rules = node_rules.unwrap_or_default();
    let recently =
        names("node_rules.recently_unremovable", node_rules.recently_unremovable.clone())?;
    let drained = cluster.simulate_drain(&engine::DrainRequest {
        policy: policy(profiles, &scheduler_name)?,
        tie_break: convert::tie_break(tie_break.as_ref(), configured)?,
        nodes: &nodes,
        mode: compile_mode(mode)?,
        destinations: (!destinations.is_empty()).then_some(&*destinations),
        hints: &hints,
        node_rules: compile_node_rules(&node_rules, &recently, None)?,
        rules: compile_rules(rules.as_ref())?,
        now: moment(now)?,
        cancelled,
    });
    Ok(response::drain(drained.map_err(CallError::undecided)?))
}

/// Maximum number of names in a list: more than a cluster has nodes.
const MAX_NAMES: usize = 100_000;

/// Checks node names: not too many, and none of them empty; `path` is the field path for errors.
pub(super) fn names(path: &str, names: Vec<String>) -> Result<Vec<Arc<str>>, CallError> {
    if names.len() > MAX_NAMES {
        let reason = format!("has {} names, more than {MAX_NAMES}", names.len());
        return Err(CallError::field(path, reason));
    }
    let names = names.into_iter().enumerate().map(|(index, name)| match name.as_str() {
        "" => Err(CallError::field(format!("{path}[{index}]"), "must not be empty")),
        name => Ok(Arc::from(name)),
    });
    names.collect()
}

/// The profile that decides where pods are placed.
pub(super) fn policy<'s>(
    profiles: &'s Profiles,
    scheduler_name: &str,
) -> Result<&'s Policy, CallError> {
    let policy = profiles.of_scheduler(scheduler_name);
    policy.map_err(|reason| CallError::field("scheduler_name", reason))
}

/// The time of the request, or else the server's, in seconds since 1970.
pub(super) fn moment(now: Option<Time>) -> Result<i64, CallError> {
    match now {
        None => Ok(clock::unix_seconds()),
        Some(now) => now
            .unix_seconds()
            .ok_or_else(|| CallError::field("now", "must be a moment, not the zero time")),
    }
}

/// Compiles which nodes may be removed; `threshold` is the utilization threshold if the request has none.
pub(super) fn compile_node_rules<'r>(
    rules: &'r wire::NodeRules,
    recently_unremovable: &'r [Arc<str>],
    threshold: Option<f64>,
) -> Result<engine::NodeRules<'r>, CallError> {
    let wire::NodeRules {
        ignore_scale_down_disabled,
        node_group_label,
        keep_unready,
        utilization_threshold,
        skip_daemon_pods,
        skip_mirror_pods,
        gpu_resource,
        recently_unremovable: _,
    } = rules;
    if utilization_threshold.is_some_and(|threshold| !threshold.is_finite() || threshold < 0.0) {
        let field = "node_rules.utilization_threshold";
        return Err(CallError::field(field, "must be a number that is not negative"));
    }
    Ok(engine::NodeRules {
        ignore_scale_down_disabled: *ignore_scale_down_disabled,
        node_group_label: (!node_group_label.is_empty()).then_some(node_group_label),
        keep_unready: *keep_unready,
        utilization_threshold: utilization_threshold.or(threshold),
        skip_daemon_pods: *skip_daemon_pods,
        skip_mirror_pods: *skip_mirror_pods,
        gpu_resource: (!gpu_resource.is_empty()).then_some(gpu_resource),
        recently_unremovable,
    })
}

/// Compiles which pods may be moved.
pub(super) fn compile_rules(
    rules: Option<&wire::DrainRules>,
) -> Result<engine::DrainRules, CallError> {
    let default = engine::DrainRules::default();
    let Some(rules) = rules else { return Ok(default) };
    let wire::DrainRules {
        move_unreplicated,
        move_system_pods,
        system_pod_timeout_seconds,
        move_local_storage,
        move_not_safe_to_evict,
        require_controllers,
        min_replicas,
    } = *rules;
    if system_pod_timeout_seconds.is_some_and(|seconds| seconds < 0) {
        return Err(CallError::field("rules.system_pod_timeout_seconds", "must not be negative"));
    }
    if min_replicas < 0 {
        return Err(CallError::field("rules.min_replicas", "must not be negative"));
    }
    if min_replicas > 0 && !require_controllers {
        let reason = "has no effect without `rules.require_controllers`";
        return Err(CallError::field("rules.min_replicas", reason));
    }
    Ok(engine::DrainRules {
        move_unreplicated,
        move_system_pods,
        system_pod_timeout_seconds: system_pod_timeout_seconds
            .unwrap_or(default.system_pod_timeout_seconds),
        move_local_storage,
        move_not_safe_to_evict,
        require_controllers,
        min_replicas,
    })
}

fn compile_mode(mode: i32) -> Result<DrainMode, CallError> {
    match wire::DrainMode::try_from(mode) {
        Ok(wire::DrainMode::Unspecified | wire::DrainMode::OneByOne) => Ok(DrainMode::OneByOne),
        Ok(wire::DrainMode::Together) => Ok(DrainMode::Together),
        Ok(wire::DrainMode::InTurn) => Ok(DrainMode::InTurn),
        Err(_) => Err(CallError::field("mode", format!("`{mode}` is no drain mode"))),
    }
}

/// Compiles `hints[index]`: its pod and its node.
pub(super) fn compile_hint(
    index: usize,
    pod: Option<wire::PodKey>,
    node_name: String,
) -> Result<(PodKey, Arc<str>), CallError> {
    let pod = pod.filter(|pod| !pod.name.is_empty());
    let Some(pod) = pod else {
        return Err(CallError::field(format!("hints[{index}].pod.name"), "must not be empty"));
    };
    if node_name.is_empty() {
        return Err(CallError::field(format!("hints[{index}].node_name"), "must not be empty"));
    }
    // An empty namespace means `default`, as in the metadata of a pod.
    let namespace = if pod.namespace.is_empty() { "default" } else { &pod.namespace };
    Ok((PodKey::new(namespace, &pod.name), node_name.into()))
}

#[cfg(test)]
mod tests;
