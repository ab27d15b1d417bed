//! Rules on whether a pod may be moved off its node; the first rule in order that decides applies. Rules: S-SD-3,
//! S-SD-4.

use super::budget::{Budgets, Covering};
use super::outcome::BlockingReason;
use crate::model::Pod;
use crate::model::drainability::{Drainability, OwnerKind, SafeToEvict};
use crate::snapshot::Snapshot;

/// Which pods a drain may move. The default is cluster-autoscaler's behaviour without looking at controllers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DrainRules {
    /// Whether pods without a controller, which nobody recreates, may move.
    pub move_unreplicated: bool,
    /// Whether pods of `kube-system` that no disruption budget covers may move.
    pub move_system_pods: bool,
    /// Even without `move_system_pods`, such a pod may move when it is older than this, in seconds.
    pub system_pod_timeout_seconds: i64,
    /// Whether pods with volumes local to the node, whose data is lost, may move.
    pub move_local_storage: bool,
    /// Whether pods annotated as not safe to evict may move.
    pub move_not_safe_to_evict: bool,
    /// Whether only pods whose ReplicationController, ReplicaSet or StatefulSet is in the cluster may move, and none
    /// with a controller of an unknown kind. Jobs and DaemonSets are assumed to exist.
    pub require_controllers: bool,
    /// With `require_controllers`, pods of a controller with fewer desired replicas than this do not move.
    pub min_replicas: i32,
}

impl Default for DrainRules {
    fn default() -> DrainRules {
        DrainRules {
            move_unreplicated: false,
            move_system_pods: false,
            system_pod_timeout_seconds: 3600,
            move_local_storage: false,
            move_not_safe_to_evict: false,
            require_controllers: false,
            min_replicas: 0,
        }
    }
}

/// The ruling on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// The pod may be moved.
    Move,
    /// The pod ends with its node; its DaemonSet creates pods on other nodes as these come.
    Daemon,
    Mirror,
    LongTerminating,
    /// The drain waits for the pod to complete.
    Wait,
    Block(BlockingReason, String),
}

/// Inputs of the rules besides the pod.
pub(crate) struct Context<'a> {
    pub(crate) rules: &'a DrainRules,
    pub(crate) snapshot: &'a Snapshot,
    /// Seconds since 1970.
    pub(crate) now: i64,
}

/// A pod to be ruled on.
struct Case<'c, 'a> {
    pod: &'c Pod,
    facts: &'c Drainability,
    context: &'c Context<'a>,
    budgets: &'c Budgets<'a>,
    covering: &'c Covering,
}

type Rule = fn(&Case<'_, '_>) -> Option<Ruling>;

/// The rules in the order in which they are applied (S-SD-3).
const RULES: [Rule; 12] = [
    mirror,
    long_terminating,
    controller,
    daemon,
    safe_to_evict,
    terminal,
    on_completion,
    replicated,
    system,
    not_safe_to_evict,
    local_storage,
    budget,
];

/// The ruling of the first rule that decides; a pod that no rule decides on may be moved. `covering` holds the budgets
/// of this pod.
pub(crate) fn ruling<'a>(
    pod: &Pod,
    context: &Context<'a>,
    budgets: &Budgets<'a>,
    covering: &Covering,
) -> Ruling {
    let case = Case { pod, facts: &pod.facts().drainability, context, budgets, covering };
    match RULES.iter().find_map(|rule| rule(&case)).unwrap_or(Ruling::Move) {
        // The annotation permits eviction, but the API server still refuses it while a budget is exhausted (S-SD-7).
        Ruling::Move => budget(&case).unwrap_or(Ruling::Move),
        ruling => ruling,
    }
}

/// Whether a pod has been terminating for longer than its grace period plus 30 seconds.
pub(crate) fn is_long_terminating(pod: &Pod, now: i64) -> bool {
    const LATE_SECONDS: i64 = 30;
    let (facts, times) = (&pod.facts().drainability, &pod.facts().times);
    times.deleted != i64::MAX
        && times.deleted.saturating_add(facts.grace_period_seconds).saturating_add(LATE_SECONDS)
            < now
}

fn block(reason: BlockingReason, message: impl Into<String>) -> Option<Ruling> {
    Some(Ruling::Block(reason, message.into()))
}

fn mirror(case: &Case<'_, '_>) -> Option<Ruling> {
    case.facts.is_mirror.then_some(Ruling::Mirror)
}

fn long_terminating(case: &Case<'_, '_>) -> Option<Ruling> {
    is_long_terminating(case.pod, case.context.now).then_some(Ruling::LongTerminating)
}

/// Applies to controllers whose objects the cluster holds; other controllers are assumed to exist.
fn controller(case: &Case<'_, '_>) -> Option<Ruling> {
    let Context { rules, snapshot, .. } = case.context;
    let key = case.pod.facts().owner.filter(|_| rules.require_controllers)?;
    let name = || snapshot.model.names().name(key.name());
    let kind = key.kind();
    let Some(controller) = snapshot.objects.controller(key) else {
        let message = format!("its {kind} `{}` is not in the cluster", name());
        return block(BlockingReason::ControllerNotFound, message);
    };
    match controller.n_replicas {
        // S-SD-3 checks the replicas of the two other kinds only: a StatefulSet's pods are removed in an order of their
        // own.
        Some(n) if n < rules.min_replicas && case.facts.owner != OwnerKind::StatefulSet => block(
            BlockingReason::MinReplicasReached,
            format!("its {kind} `{}` has {n} of at least {} replicas", name(), rules.min_replicas),
        ),
        Some(_) | None => None,
    }
}

fn daemon(case: &Case<'_, '_>) -> Option<Ruling> {
    case.facts.is_daemon.then_some(Ruling::Daemon)
}

fn safe_to_evict(case: &Case<'_, '_>) -> Option<Ruling> {
    (case.facts.safe_to_evict == SafeToEvict::Yes).then_some(Ruling::Move)
}

fn terminal(case: &Case<'_, '_>) -> Option<Ruling> {
    case.pod.is_terminal().then_some(Ruling::Move)
}

fn on_completion(case: &Case<'_, '_>) -> Option<Ruling> {
    (case.facts.safe_to_evict == SafeToEvict::OnCompletion).then_some(Ruling::Wait)
}

fn replicated(case: &Case<'_, '_>) -> Option<Ruling> {
    let rules = case.context.rules;
    let message = match case.facts.owner {
        _ if rules.move_unreplicated => return None,
        OwnerKind::None => "no controller would make it anew",
        OwnerKind::Other if rules.require_controllers => {
            "its controller is of a kind that Kubernetes does not have"
        }
        _ => return None,
    };
    block(BlockingReason::NotReplicated, message)
}

fn system(case: &Case<'_, '_>) -> Option<Ruling> {
    let Context { rules, now, .. } = case.context;
    let created = case.pod.facts().times.created;
    let is_old = created.saturating_add(rules.system_pod_timeout_seconds) < *now;
    if &*case.pod.key().namespace != "kube-system"
        || rules.move_system_pods
        || is_old
        || !case.covering.is_empty()
    {
        return None;
    }
    let message = "is of kube-system, and no disruption budget covers it";
    block(BlockingReason::UnmovableKubeSystemPod, message)
}

fn not_safe_to_evict(case: &Case<'_, '_>) -> Option<Ruling> {
    let forbids = case.facts.safe_to_evict == SafeToEvict::No;
    if !forbids || case.context.rules.move_not_safe_to_evict {
        return None;
    }
    let message = "is annotated `cluster-autoscaler.kubernetes.io/safe-to-evict: false`";
    block(BlockingReason::NotSafeToEvictAnnotation, message)
}

fn local_storage(case: &Case<'_, '_>) -> Option<Ruling> {
    let volumes = &case.facts.local_storage;
    if volumes.is_empty() || case.context.rules.move_local_storage {
        return None;
    }
    let names = case.context.snapshot.model.names();
    let volumes: Vec<String> =
        volumes.iter().map(|name| format!("`{}`", names.name(*name))).collect();
    let message = format!("keeps data on its node, in {}", volumes.join(", "));
    block(BlockingReason::LocalStorageRequested, message)
}

fn budget(case: &Case<'_, '_>) -> Option<Ruling> {
    let at = case.budgets.exhausted(case.covering)?;
    let names = case.budgets.names_of(&[at].into_iter().collect());
    let message = format!("disruption budget `{}` allows no more", names.concat());
    block(BlockingReason::NotEnoughPdb, message)
}
