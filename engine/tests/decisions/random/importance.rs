//! Random importance of pods: priority, preemption policy, start time, termination.

use std::ops::Range;

use berth_proto::{Time, core_v1};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Generates the template with a priority and a preemption policy.
pub(crate) fn ranked(template: BoxedStrategy<core_v1::Pod>) -> BoxedStrategy<core_v1::Pod> {
    let policy = prop_oneof![
        12 => Just(None),
        1 => Just(Some("PreemptLowerPriority")),
        1 => Just(Some("Never")),
    ];
    (template, priority(), policy)
        .prop_map(|(mut template, priority, policy)| {
            let spec = template.spec.get_or_insert_default();
            spec.priority = priority;
            spec.preemption_policy = policy.map(str::to_owned);
            template
        })
        .boxed()
}

fn priority() -> BoxedStrategy<Option<i32>> {
    let some = select(vec![0, -10, 5, 10, 10, 100, i32::MIN, i32::MAX]);
    prop_oneof![1 => Just(None), 4 => some.prop_map(Some)].boxed()
}

/// Gives the pod so high a priority that it may evict nearly all pods.
pub(crate) fn urgent(mut pod: core_v1::Pod) -> core_v1::Pod {
    let spec = pod.spec.get_or_insert_default();
    (spec.priority, spec.preemption_policy) = (Some(1000), None);
    pod
}

/// Fields of a pod on a node that its template does not have.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct PlacedState {
    /// `None` keeps the template's priority.
    priority: Option<Option<i32>>,
    /// In seconds; there are few values, so that some are equal.
    start: Option<i64>,
    leaving: Option<Leaving>,
}

/// Why a pod is being deleted.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Leaving {
    /// The pod was deleted.
    Deleted,
    /// The pod was evicted by preemption (S-PRE-23).
    Preempted,
    /// The pod was evicted by preemption, but an earlier condition of that type contradicts it.
    PreemptedLater,
    /// The pod has the condition of an eviction, but is not deleted.
    Marked,
}

pub(crate) fn placed_state() -> BoxedStrategy<PlacedState> {
    let start = prop_oneof![
        3 => Just(None),
        5 => (0..3_i64).prop_map(Some),
        2 => (0..1000_i64).prop_map(Some),
    ];
    (option::weighted(0.6, priority()), start, option::weighted(0.15, leaving()))
        .prop_map(|(priority, start, leaving)| PlacedState { priority, start, leaving })
        .boxed()
}

/// A pod on a node: template, node and further fields.
pub(crate) type PlacedPod = (usize, usize, PlacedState);

/// Nodes of the pods of one cluster. In some clusters nodes have equal pods, so that candidates are equal in all
/// criteria.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    places: Vec<PlacedPod>,
    pub(crate) is_mirrored: bool,
}

pub(crate) fn places(n: Range<usize>) -> BoxedStrategy<Places> {
    let places = vec((any::<usize>(), any::<usize>(), placed_state()), n);
    (places, prop::bool::weighted(0.3))
        .prop_map(|(places, is_mirrored)| Places { places, is_mirrored })
        .boxed()
}

impl Places {
    pub(crate) fn on(self, n_nodes: usize) -> Vec<PlacedPod> {
        if !self.is_mirrored {
            return self.places;
        }
        let n = self.places.len();
        let of = |i: usize| {
            let (template, _, placed_state) = self.places[i / n_nodes];
            (template, i % n_nodes, placed_state)
        };
        (0..n).map(of).collect()
    }
}

pub(crate) fn leaving() -> BoxedStrategy<Leaving> {
    select(vec![
        Leaving::Deleted,
        Leaving::Preempted,
        Leaving::Preempted,
        Leaving::PreemptedLater,
        Leaving::Marked,
    ])
    .boxed()
}

impl PlacedState {
    pub(crate) fn applied_to(self, mut pod: core_v1::Pod) -> core_v1::Pod {
        if let Some(priority) = self.priority {
            pod.spec.get_or_insert_default().priority = priority;
        }
        if let Some(start) = self.start {
            let start_time = Some(Time::from_unix_seconds(1_700_000_000 + start));
            pod.status.get_or_insert_default().start_time = start_time;
        }
        match self.leaving {
            Some(leaving) => leaving.applied_to(pod),
            None => pod,
        }
    }
}

impl Leaving {
    pub(crate) fn applied_to(self, mut pod: core_v1::Pod) -> core_v1::Pod {
        if !matches!(self, Leaving::Marked) {
            let metadata = pod.metadata.get_or_insert_default();
            metadata.deletion_timestamp = Some(Time::from_unix_seconds(1_800_000_000));
        }
        let condition = |status: &str, reason: &str| core_v1::PodCondition {
            r#type: "DisruptionTarget".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            ..Default::default()
        };
        let preempted = condition("True", "PreemptionByScheduler");
        let conditions = match self {
            Leaving::Deleted => Vec::new(),
            Leaving::Preempted | Leaving::Marked => vec![preempted],
            Leaving::PreemptedLater => vec![condition("False", "PreemptionByScheduler"), preempted],
        };
        pod.status.get_or_insert_default().conditions.extend(conditions);
        pod
    }
}
