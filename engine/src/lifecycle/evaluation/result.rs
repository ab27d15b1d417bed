//! Results: the decisions about one pod, and its next action.

use std::borrow::Cow;

use crate::lifecycle::condition::ConditionSet;
use crate::lifecycle::partition::Partition;
use crate::lifecycle::phase::PhaseDecision;
use crate::lifecycle::reading::Seconds;
use crate::lifecycle::word::words;

words! {
    /// The action that has to happen next.
    enum Action {
        /// No action, unless something changes.
        None = "None",
        /// The scheduling gates have to be removed (L-GATE-1).
        AwaitGates = "AwaitGates",
        /// The scheduler finds a node (L-GATE-5).
        Schedule = "Schedule",
        /// Containers are started for the first time (L-RESTART-12).
        StartContainers = "StartContainers",
        /// Containers that ended are started again (L-RESTART-15).
        RestartContainers = "RestartContainers",
        /// Containers have to start up or to end by themselves (L-RESTART-12).
        AwaitContainers = "AwaitContainers",
        /// Containers are stopped gracefully (L-TERM-9).
        StopContainers = "StopContainers",
        /// Containers are killed at the end of their grace period (L-TERM-9).
        KillContainers = "KillContainers",
        /// The pod has been active for too long (L-PHASE-10).
        FailPod = "FailPod",
        /// The pod no longer tolerates its node's taints (L-NODE-16).
        EvictPod = "EvictPod",
        /// The terminal phase is written (L-TERM-18).
        PublishPhase = "PublishPhase",
        /// The object is removed (L-TERM-19, L-GC-4, L-GC-5).
        RemovePod = "RemovePod",
        /// The finalizers have to be removed (L-TERM-6).
        AwaitFinalizers = "AwaitFinalizers",
        /// The node comes back, is fenced, or is declared lost (L-NODE-18).
        AwaitNode = "AwaitNode",
    }

    /// The actor of the next action.
    enum Actor {
        /// No actor, or one that no rule names.
        Unnamed = "",
        /// The scheduler.
        Scheduler = "scheduler",
        /// The agent of the pod's node.
        NodeAgent = "nodeAgent",
        /// The controller that evicts from tainted nodes.
        TaintEvictionController = "taintEvictionController",
        /// The pod garbage collector.
        PodGc = "podGC",
    }
}

/// The next action for a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Next<'a> {
    pub(crate) action: Action,
    pub(crate) actor: Actor,
    pub(crate) not_before: Option<Seconds>,
    pub(crate) deadline: Option<Seconds>,
    /// Time of a further action after this one, if known.
    pub(crate) afterwards: Option<Seconds>,
    pub(crate) names: Vec<&'a str>,
    pub(crate) why: Cow<'static, str>,
    pub(crate) rules: &'static [&'static str],
}

impl<'a> Next<'a> {
    pub(super) fn new(
        action: Action,
        actor: Actor,
        why: impl Into<Cow<'static, str>>,
        rules: &'static [&'static str],
    ) -> Next<'a> {
        Next {
            action,
            actor,
            not_before: None,
            deadline: None,
            afterwards: None,
            names: Vec::new(),
            why: why.into(),
            rules,
        }
    }

    pub(super) fn of(self, names: Vec<&'a str>) -> Next<'a> {
        Next { names, ..self }
    }
}

/// The decisions about one pod.
pub(super) struct Evaluation<'a> {
    pub(super) phase: PhaseDecision<'a>,
    pub(super) conditions: ConditionSet<'a>,
    pub(super) partition: Partition,
    pub(super) next: Next<'a>,
    pub(super) wake_up_at: Option<Seconds>,
}
