//! Attempt: decides one batch with the engine. Synchronous: no await, no clock, no writes; it returns what is to be
//! written. Rules: S-CYC-1 to S-CYC-10, S-PRE-1, S-PRE-21, S-ERR-9; groups are Berth's own.

use std::sync::Arc;

use berth_engine::{
    AssignedDevices, AssumptionStamp, BatchOutcome, BatchRequest, Candidate, Cluster, Decision,
    EngineError, Gang, GivenUp, Nomination, Outcome as Decided, Plugin, Pod, PodKey, Policy,
    PreemptOptions, PreemptRequest, TieBreak, Unschedulable, VolumeBindings,
};

use super::group::Group;
use super::hints::{self, Changes};
use super::pending::Pending;
use super::plugin_set::PluginSet;
use super::queue::{Batch, GroupTurn};
use crate::apiserver::status::{NominatedNode, UnscheduledReason};
use crate::service::watchers::Watchers;
use crate::telemetry::Metrics;

/// Outcome of one pod's attempt.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The pod is assumed on this node.
    Placed { node: Arc<str>, bindings: PodBindings },
    /// The pod is not scheduled, and the reason is to be reported.
    Rejected(Box<Rejection>),
    /// Scheduling gates hold the pod back.
    Gated,
    /// A plugin holds the pod back until a change of these kinds (S-Q-7).
    HeldBack(Changes),
    /// The pod is on a node already, which the feed will report; or it was not tried.
    Overtaken,
    /// The cluster changed during the attempt: it is to be repeated at once.
    Again,
}

/// What a pod is bound to besides its node.
#[derive(Clone, Debug)]
pub(super) struct PodBindings {
    pub(super) volumes: VolumeBindings,
    pub(super) devices: Option<Arc<AssignedDevices>>,
    /// Stamp of the assumption.
    pub(super) stamp: Option<AssumptionStamp>,
}

/// Reason why a pod is not scheduled, with the consequences.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) reason: UnscheduledReason,
    pub(super) message: String,
    /// Changes that can help; `None` if only time can.
    pub(super) wanted: Option<Changes>,
    /// Plugins that rejected the pod.
    pub(super) rejected_by: PluginSet,
    /// Whether the pod was not tried at all.
    pub(super) is_deferred: bool,
    pub(super) nominated: NominatedNode,
    /// What DynamicResources gives up.
    pub(super) given_up: GivenUp,
    /// The candidate whose victims are to be evicted.
    pub(super) displaced: Option<Candidate>,
    /// Pods whose nominations are to be cleared (S-PRE-24).
    pub(super) cleared: Vec<PodKey>,
}

impl Rejection {
    fn new(message: String, wanted: Changes) -> Rejection {
        Rejection {
            reason: UnscheduledReason::Unschedulable,
            message,
            wanted: Some(wanted),
            rejected_by: PluginSet::NONE,
            is_deferred: false,
            nominated: NominatedNode::Unchanged,
            given_up: GivenUp::Nothing,
            displaced: None,
            cleared: Vec::new(),
        }
    }

    /// Rejection of a pod with an invalid field: until the pod changes nothing can help.
    fn malformed(message: String) -> Rejection {
        Rejection { wanted: Some(Changes::NONE), ..Rejection::error(message) }
    }

    /// Rejection for an attempt that failed.
    pub(super) fn error(message: String) -> Rejection {
        let reason = UnscheduledReason::SchedulerError;
        Rejection { reason, wanted: None, ..Rejection::new(message, Changes::NONE) }
    }
}

/// Settings of an attempt.
#[derive(Copy, Clone)]
pub(super) struct Attempt<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) policy: &'a Policy,
    pub(super) tie_break: TieBreak,
    pub(super) metrics: &'a Metrics,
    /// Those who are told of decisions.
    pub(super) watchers: &'a Watchers,
    /// Whether pods may evict others.
    pub(super) may_preempt: bool,
    /// The present time in seconds since 1970.
    pub(super) now: Option<i64>,
}

impl Attempt<'_> {
    /// Decides the batch; returns one outcome per pod, in the batch's order. Placed pods are assumed.
    pub(super) fn decide(self, batch: &Batch) -> Vec<Outcome> {
        if let Some(turn) = &batch.group
            && turn.n_placed + batch.pods.len() < turn.min_available
        {
            return batch.pods.iter().map(|_| incomplete(turn, batch.pods.len())).collect();
        }
        let compiled: Vec<Result<&Pod, String>> =
            batch.pods.iter().map(|popped| decidable(&popped.pending)).collect();
        let pods: Vec<Pod> = compiled.iter().flatten().map(|&pod| pod.clone()).collect();
        // A group that has enough pods on nodes is no longer decided as a gang.
        let missing =
            batch.group.as_ref().map(|turn| turn.min_available.saturating_sub(turn.n_placed));
        let gang = missing.filter(|&n| n > 0).map(|min_count| Gang { min_count, preempt: None });
        let outcome = self.cluster.place_batch(&BatchRequest {
            pods: &pods,
            policy: self.policy,
            tie_break: self.tie_break,
            assume: true,
            gang,
            cancelled: &|| false,
            now: self.now,
        });
        outcome.results.iter().flatten().for_each(|decision| self.watchers.tell(decision));
        let refused = batch.group.as_ref().filter(|_| is_refused(&outcome));
        let refused = refused.map(|turn| Refused::of(turn, batch.pods.len(), &outcome));
        let mut results = outcome.results.into_iter();
        let mut outcomes = Vec::with_capacity(batch.pods.len());
        for compiled in compiled {
            outcomes.push(match (compiled, &refused) {
                (Err(message), _) => rejected(Rejection::malformed(message)),
                // There is a result for each pod that was passed to the engine.
                (Ok(pod), refused) => match (results.next(), refused) {
                    (None, _) => Outcome::Again,
                    (Some(result), Some(refused)) => refused.outcome(result),
                    (Some(result), None) => self.outcome(pod, result, gang.is_some()),
                },
            });
        }
        outcomes
    }

    fn outcome(self, pod: &Pod, result: Result<Decision, EngineError>, is_member: bool) -> Outcome {
        match result.map(|decision| decision.outcome) {
            Ok(Decided::Placed(placement)) if placement.assumed => {
                let bindings = PodBindings {
                    volumes: placement.volumes,
                    devices: placement.devices,
                    stamp: placement.stamp,
                };
                Outcome::Placed { node: placement.node, bindings }
            }
            // The options here never nominate a member.
            Ok(Decided::Placed(_)) => Outcome::Again,
            Ok(Decided::Gated { plugin, .. }) => held_back(plugin),
            Ok(Decided::Unschedulable(unschedulable)) if is_member || !self.may_preempt => {
                rejected(of_unschedulable(&unschedulable))
            }
            Ok(Decided::Unschedulable(_)) => self.post_filter(pod),
            Err(error) => of_error(&error),
        }
    }

    /// Makes the whole attempt with PostFilter: kube-scheduler's full message, and the victims.
    fn post_filter(self, pod: &Pod) -> Outcome {
        let preemption = self.cluster.preempt(&PreemptRequest {
            pod,
            policy: self.policy,
            tie_break: self.tie_break,
            options: PreemptOptions::default(),
            cancelled: &|| false,
            now: self.now,
        });
        let preemption = match preemption {
            Ok(preemption) => preemption,
            Err(error) => return of_error(&error),
        };
        let unschedulable = match preemption.decision.outcome {
            Decided::Unschedulable(unschedulable) => unschedulable,
            // Room became free since.
            Decided::Placed(_) => return Outcome::Again,
            Decided::Gated { plugin, .. } => return held_back(plugin),
        };
        let mut rejection = of_unschedulable(&unschedulable);
        let Some(post_filter) = preemption.post_filter else { return rejected(rejection) };
        self.metrics.count_preemption(&post_filter);
        rejection.given_up = post_filter.given_up.clone();
        if !matches!(post_filter.nomination, Nomination::Unchanged)
            && let Err(error) = self.cluster.nominate(pod, &post_filter)
        {
            return of_error(&error);
        }
        rejection.nominated = match post_filter.nomination {
            Nomination::Unchanged => NominatedNode::Unchanged,
            Nomination::Cleared => NominatedNode::Cleared,
            Nomination::Node(node) => NominatedNode::Set(node.to_string()),
        };
        rejection.cleared = post_filter.cleared_nominations;
        rejection.displaced = post_filter.chosen;
        rejected(rejection)
    }
}

/// The pod in the engine's form.
///
/// # Errors
/// The invalid part of the pod.
fn decidable(pending: &Pending) -> Result<&Pod, String> {
    if let Some(Group { min_available: Err(bad), .. }) = &pending.group {
        return Err(bad.to_string());
    }
    pending.pod.as_ref().map_err(ToString::to_string)
}

/// Whether the batch is a gang that was not placed.
fn is_refused(outcome: &BatchOutcome) -> bool {
    outcome.gang.as_ref().is_some_and(|gang| !gang.placed)
}

fn incomplete(turn: &GroupTurn, n_pending: usize) -> Outcome {
    let GroupTurn { name, min_available, n_placed } = turn;
    let n_there = n_placed + n_pending;
    let message = format!(
        "pod group `{name}` has {n_there} of the {min_available} pods that are to be placed together"
    );
    let rejection = Rejection::new(message, Changes::GROUP_MEMBER);
    rejected(Rejection { is_deferred: true, ..rejection })
}

/// A group of which too few pods fit, with the message for each of its pods.
struct Refused {
    text: String,
    /// Message of the first member that fits nowhere.
    why: String,
    wanted: Changes,
}

impl Refused {
    fn of(turn: &GroupTurn, n_pods: usize, outcome: &BatchOutcome) -> Refused {
        let n_fit = outcome.gang.as_ref().map_or(0, |gang| gang.n_placed);
        let GroupTurn { name, min_available, n_placed } = turn;
        let text = format!(
            "pod group `{name}`: {n_fit} of {n_pods} pods fit, and {} are to be placed together",
            min_available.saturating_sub(*n_placed)
        );
        let unschedulable = outcome.results.iter().filter_map(|result| match result {
            Ok(Decision { outcome: Decided::Unschedulable(unschedulable), .. }) => {
                Some(unschedulable)
            }
            _ => None,
        });
        let unschedulable: Vec<&Unschedulable> = unschedulable.collect();
        let wanted = unschedulable.iter().map(|it| Changes::helping_rejected(it));
        let wanted = wanted.fold(Changes::GROUP_MEMBER, Changes::or);
        let why = unschedulable.first().map(|it| it.message.clone()).unwrap_or_default();
        Refused { text, why, wanted }
    }

    fn outcome(&self, result: Result<Decision, EngineError>) -> Outcome {
        let why = match result.map(|decision| decision.outcome) {
            Ok(Decided::Unschedulable(own)) => own.message,
            Ok(Decided::Placed(_)) => self.why.clone(),
            Ok(Decided::Gated { plugin, .. }) => return held_back(plugin),
            Err(error) => return of_error(&error),
        };
        let message =
            if why.is_empty() { self.text.clone() } else { format!("{}: {why}", self.text) };
        rejected(Rejection::new(message, self.wanted))
    }
}

/// The outcome of a pod that a PreEnqueue plugin holds back.
fn held_back(plugin: Plugin) -> Outcome {
    match plugin {
        Plugin::SchedulingGates => Outcome::Gated,
        plugin => Outcome::HeldBack(Changes::helping(plugin)),
    }
}

fn of_unschedulable(unschedulable: &Unschedulable) -> Rejection {
    let wanted = Changes::helping_rejected(unschedulable);
    let mut rejection = Rejection::new(unschedulable.message.clone(), wanted);
    rejection.rejected_by = hints::rejecting_plugins(unschedulable);
    if unschedulable.n_nodes == 0 {
        // The nomination is cleared (S-CYC-1).
        rejection.nominated = NominatedNode::Cleared;
    }
    rejection
}

fn of_error(error: &EngineError) -> Outcome {
    match error {
        EngineError::AlreadyPlaced { .. } => Outcome::Overtaken,
        EngineError::Cancelled => Outcome::Again,
        EngineError::Model(_) | EngineError::SchedulerError { .. } => {
            rejected(Rejection::error(error.to_string()))
        }
    }
}

fn rejected(rejection: Rejection) -> Outcome {
    Outcome::Rejected(Box::new(rejection))
}
