//! ByImportance: a node's pods by priority, in the order in which preemption spares them. Rules: S-PRE-10, S-PRE-11.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::placed_pod::PlacedPod;
use crate::model::pod::NOT_STARTED;
use crate::model::shape::Shape;

/// A node's pods by importance. Positions are those in the node's list.
#[derive(Debug, Default)]
pub(crate) struct ByImportance {
    /// The highest priority first.
    pub(crate) levels: SmallVec<[Level; 4]>,
    kinds: SmallVec<[Kind; 4]>,
    runs: SmallVec<[Run; 4]>,
    /// The positions, the most important pod first, and the start times in the same order.
    order: SmallVec<[u32; 32]>,
    start_times: SmallVec<[i64; 32]>,
}

/// The pods of one priority.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) priority: i32,
    pub(crate) n_pods: u32,
    pub(crate) ties: Ties,
    kinds: (u32, u32),
    runs: (u32, u32),
}

/// Which pods of one priority started at the same time.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Ties {
    None,
    /// Pods of one shape.
    OfReplicas,
    /// Different pods.
    OfOthers,
}

/// Pods of one level that take the same amounts.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) n_pods: u32,
    /// Position of one of them.
    pub(crate) at: u32,
    /// Their shape; `None` for a pod whose amounts are its own.
    pub(crate) shape: Option<Arc<Shape>>,
}

/// Pods of one kind, one after another in the order of importance.
#[derive(Copy, Clone, Debug)]
struct Run {
    kind: u32,
    from: u32,
    to: u32,
}

/// Some pods in the order of importance.
#[derive(Copy, Clone, Debug)]
pub(crate) struct RunPods<'a> {
    pub(crate) kind: &'a Kind,
    /// Positions and start times, the most important pod first.
    pub(crate) positions: &'a [u32],
    pub(crate) start_times: &'a [i64],
}

impl ByImportance {
    pub(crate) fn of(pods: &[PlacedPod]) -> ByImportance {
        let mut order: SmallVec<[u32; 32]> = (0..pods.len() as u32).collect();
        order.sort_unstable_by_key(|at| {
            let placed = &pods[*at as usize];
            (Reverse(placed.shape.facts.priority), Ordered::new(placed.start_time, *at))
        });
        let start_times = order.iter().map(|at| pods[*at as usize].start_time).collect();
        let mut all = ByImportance { order, start_times, ..ByImportance::default() };
        let mut from = 0;
        while from < all.order.len() {
            from = all.add_level(from, pods);
        }
        all
    }

    /// Adds the level that begins at a place of the order; returns its end.
    fn add_level(&mut self, from: usize, pods: &[PlacedPod]) -> usize {
        let pod = |place: usize| &pods[self.order[place] as usize];
        let priority = pod(from).shape.facts.priority;
        let places = from..self.order.len();
        let n_pods =
            places.take_while(|place| pod(*place).shape.facts.priority == priority).count();
        let (first_kind, first_run, mut ties) = (self.kinds.len(), self.runs.len(), Ties::None);
        for place in from..from + n_pods {
            let at = self.order[place];
            let kind = self.add(first_kind, at, pods);
            match self.runs[first_run..].last_mut() {
                Some(run) if run.kind == kind => run.to += 1,
                _ => self.runs.push(Run { kind, from: place as u32, to: place as u32 + 1 }),
            }
            if place > from && self.start_times[place - 1] == self.start_times[place] {
                let before = &pods[self.order[place - 1] as usize];
                let are_replicas = are_alike(before, &pods[at as usize]);
                ties = ties.max(if are_replicas { Ties::OfReplicas } else { Ties::OfOthers });
            }
        }
        self.levels.push(Level {
            priority,
            n_pods: n_pods as u32,
            ties,
            kinds: (first_kind as u32, self.kinds.len() as u32),
            runs: (first_run as u32, self.runs.len() as u32),
        });
        from + n_pods
    }

    /// Counts a pod in its kind, one of those from `first` on; returns the kind's index.
    fn add(&mut self, first: usize, at: u32, pods: &[PlacedPod]) -> u32 {
        let pod = &pods[at as usize];
        let mut kinds = self.kinds[first..].iter_mut().enumerate();
        match kinds.find(|(_, kind)| are_alike(&pods[kind.at as usize], pod)) {
            Some((index, kind)) => {
                kind.n_pods += 1;
                (first + index) as u32
            }
            None => {
                let shape = (!pod.is_resized()).then(|| pod.shape.clone());
                self.kinds.push(Kind { n_pods: 1, at, shape });
                self.kinds.len() as u32 - 1
            }
        }
    }

    /// The kinds of pods of a level.
    pub(crate) fn kinds(&self, level: &Level) -> &[Kind] {
        &self.kinds[level.kinds.0 as usize..level.kinds.1 as usize]
    }

    /// The pods of a level, the most important ones first: each time some that take the same amounts.
    pub(crate) fn runs(&self, level: &Level) -> impl Iterator<Item = RunPods<'_>> {
        let runs = &self.runs[level.runs.0 as usize..level.runs.1 as usize];
        runs.iter().map(|run| {
            let places = run.from as usize..run.to as usize;
            RunPods {
                kind: &self.kinds[run.kind as usize],
                positions: &self.order[places.clone()],
                start_times: &self.start_times[places],
            }
        })
    }
}

/// Whether two pods take the same amounts.
fn are_alike(a: &PlacedPod, b: &PlacedPod) -> bool {
    Arc::ptr_eq(&a.shape, &b.shape) && !a.is_resized() && !b.is_resized()
}

/// A pod of a level, in the order in which kube-scheduler spares few pods (S-PRE-10, S-PRE-11).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ordered {
    pub(crate) start_time: i64,
    /// Equal pods keep their order, but those that have not started are reversed.
    place: u32,
    /// Position among the node's pods.
    pub(crate) at: u32,
}

impl Ordered {
    pub(crate) fn new(start_time: i64, at: u32) -> Ordered {
        let place = if start_time == NOT_STARTED { !at } else { at };
        Ordered { start_time, place, at }
    }
}

/// [`ByImportance`] of a list, kept from the second time on that it is wanted: a list that changes between any two
/// searches is never ordered as a whole.
#[derive(Debug, Default)]
pub(super) struct KeptOrder {
    was_wanted: AtomicBool,
    order: OnceLock<Box<ByImportance>>,
}

impl KeptOrder {
    /// The order, if it is kept by now.
    pub(super) fn of(&self, pods: &[PlacedPod]) -> Option<&ByImportance> {
        if let Some(order) = self.order.get() {
            return Some(order);
        }
        let is_kept = self.was_wanted.swap(true, Ordering::Relaxed);
        is_kept.then(|| &**self.order.get_or_init(|| Box::new(ByImportance::of(pods))))
    }
}
