//! Levels: the eviction from a node where only resources decide. Rules: S-PRE-8 to S-PRE-11, S-PRE-14.
//!
//! Pods of lower priority are summed by priority, and a whole level is put back at once if it fits; putting its pods
//! back one by one would give the same result. Only a level that does not fit as a whole has to be sorted.

use std::sync::Arc;

use super::rank::Rank;
use super::sizes::{self, Lanes, Summed};
use super::upstream_sort;
use crate::model::pod::NOT_STARTED;
use crate::snapshot::pod_table::PlacedPod;

/// Buffers that are reused for every node of a search.
#[derive(Default)]
pub(super) struct Levels {
    levels: Vec<Level>,
    /// The pods of a level that is put back one by one.
    pods: Vec<Ordered>,
    victims: Vec<u32>,
}

/// The pods of one priority on a node.
struct Level {
    priority: i32,
    n_pods: i64,
    taken: Lanes,
}

/// On nodes with more priorities than this, sums by priority are not used.
const MAX_LEVELS: usize = 32;

/// The result for one node.
pub(super) enum ByLevels {
    /// Evicting [`Levels::victims`] helps.
    Victims {
        /// Whether the order of replicas that started together is kube-scheduler's.
        is_settled: bool,
    },
    NoVictims,
    NoHelp,
    /// The victims have higher priority than the bound's.
    Worse,
    /// The levels do not decide; a dry run has to.
    Unknown,
}

impl Levels {
    /// Positions among the node's pods, the most important first.
    pub(super) fn victims(&self) -> &[u32] {
        &self.victims
    }

    /// Sums the pods below a priority, highest level first; stops where there are too many levels.
    fn sum_up(&mut self, node: &mut Summed<'_>, below: i32, pods: &[PlacedPod]) {
        let levels = &mut self.levels;
        levels.clear();
        for placed in pods {
            if levels.len() > MAX_LEVELS {
                break;
            }
            let size = node.size(placed);
            if size.priority >= below {
                continue;
            }
            match levels.iter_mut().find(|level| level.priority == size.priority) {
                Some(level) => {
                    level.n_pods += 1;
                    sizes::add(&mut level.taken, &size.taken, 1);
                }
                None => {
                    levels.push(Level { priority: size.priority, n_pods: 1, taken: size.taken })
                }
            }
        }
        levels.sort_unstable_by_key(|level| std::cmp::Reverse(level.priority));
    }

    /// Puts the pods of a level back one by one, the most important first; those that do not fit are victims. `n_all`
    /// is the number of all pods of lower priority: among many, the order of equal ones depends on all of them.
    fn tear(
        &mut self,
        node: &mut Summed<'_>,
        priority: i32,
        pods: &[PlacedPod],
        n_all: i64,
    ) -> Order {
        let order = self.sort(priority, pods, n_all);
        for Ordered { at, .. } in &self.pods {
            let placed = &pods[*at as usize];
            node.change(placed, -1);
            if !node.fits() {
                node.change(placed, 1);
                self.victims.push(*at);
            }
        }
        order
    }

    fn sort(&mut self, priority: i32, pods: &[PlacedPod], n_all: i64) -> Order {
        let of_level = |(_, placed): &(u32, &PlacedPod)| placed.shape.facts.priority == priority;
        let of_level = (0..).zip(pods).filter(of_level);
        self.pods.clear();
        self.pods.extend(of_level.map(|(at, placed)| Ordered::new(placed.start_time, at)));
        self.pods.sort_unstable();
        if n_all <= upstream_sort::FEW as i64 {
            return Order::Exact;
        }
        let mut order = Order::Exact;
        for pair in self.pods.windows(2).filter(|pair| pair[0].start_time == pair[1].start_time) {
            let [a, b] = [pair[0].at, pair[1].at].map(|at| &pods[at as usize]);
            if !Arc::ptr_eq(&a.shape, &b.shape) || a.is_resized() || b.is_resized() {
                return Order::Unknown;
            }
            order = Order::OfReplicas;
        }
        order
    }
}

/// A pod of a level, in the order in which kube-scheduler spares few pods (S-PRE-10, S-PRE-11).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Ordered {
    start_time: i64,
    /// Equal pods keep their order, but those that have not started are reversed.
    place: u32,
    /// Position among the node's pods.
    at: u32,
}

impl Ordered {
    fn new(start_time: i64, at: u32) -> Ordered {
        let place = if start_time == NOT_STARTED { !at } else { at };
        Ordered { start_time, place, at }
    }
}

/// How the order of the pods of one priority relates to their order among all pods.
#[derive(PartialEq, Eq)]
enum Order {
    /// The order is the same.
    Exact,
    /// The order is the same except for replicas that started at the same time.
    OfReplicas,
    /// The order is unknown: different pods started at the same time.
    Unknown,
}

/// Finds the pods to evict from a node for a pod of a priority; with a `bound`, worse evictions need not be found.
pub(super) fn evict(
    mut node: Summed<'_>,
    priority: i32,
    pods: &[PlacedPod],
    bound: Option<&Rank>,
    scratch: &mut Levels,
) -> ByLevels {
    scratch.sum_up(&mut node, priority, pods);
    if scratch.levels.len() > MAX_LEVELS {
        return ByLevels::Unknown;
    }
    if scratch.levels.is_empty() {
        return ByLevels::NoVictims;
    }
    scratch.levels.iter().for_each(|level| node.give(level.n_pods, &level.taken));
    if !node.fits() {
        return ByLevels::NoHelp;
    }
    let n_all = scratch.levels.iter().map(|level| level.n_pods).sum();
    let mut is_settled = true;
    scratch.victims.clear();
    for i in 0..scratch.levels.len() {
        let Level { priority, n_pods, taken } = scratch.levels[i];
        node.give(-n_pods, &taken);
        if node.fits() {
            continue;
        }
        node.give(n_pods, &taken);
        if scratch.victims.is_empty() && bound.is_some_and(|bound| bound.is_below(priority)) {
            return ByLevels::Worse;
        }
        match scratch.tear(&mut node, priority, pods, n_all) {
            Order::Exact => {}
            Order::OfReplicas => is_settled = false,
            Order::Unknown => return ByLevels::Unknown,
        }
    }
    ByLevels::Victims { is_settled }
}
