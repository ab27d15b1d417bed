//! Levels: the eviction from a node where only resources decide. Rules: S-PRE-8 to S-PRE-11, S-PRE-14.
//!
//! Pods of lower priority are summed by priority, and a whole level is put back at once if it fits; putting its pods
//! back one by one would give the same result. Only a level that does not fit as a whole has to be sorted.

use std::sync::Arc;

use super::rank::Rank;
use super::sizes::{self, Lanes, Summed};
use super::upstream_sort;
use crate::snapshot::by_importance::{self, ByImportance, Ordered, Ties};
use crate::snapshot::placed_pod::PlacedPod;

/// Buffers that are reused for every node of a search.
#[derive(Default)]
pub(super) struct Levels {
    levels: Vec<Level>,
    /// The pods of a level that is put back one by one.
    pods: Vec<Ordered>,
    victims: Vec<u32>,
    /// The rank of the victims, where it is known without looking at them.
    rank: Option<Rank>,
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

    /// The rank of [`Levels::victims`], none of which violates a budget; `None` where it takes a look at them.
    pub(super) fn rank(&self) -> Option<Rank> {
        self.rank
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

    /// Sums the pods below a priority, highest level first, from their order of importance: a step for each kind of pods.
    fn sum_up_known(
        &mut self,
        node: &mut Summed<'_>,
        below: i32,
        pods: &[PlacedPod],
        known: &ByImportance,
    ) {
        self.levels.clear();
        for level in known.levels.iter().filter(|level| level.priority < below) {
            let mut taken = Lanes::default();
            for kind in known.kinds(level) {
                let of_each = node.taken_by_each(kind, pods);
                sizes::add(&mut taken, &of_each, i64::from(kind.n_pods));
            }
            let (priority, n_pods) = (level.priority, i64::from(level.n_pods));
            self.levels.push(Level { priority, n_pods, taken });
        }
    }

    /// [`Levels::tear`] for pods that are known by importance: of those with the same amounts as many as fit are put
    /// back at once.
    fn tear_known(
        &mut self,
        node: &mut Summed<'_>,
        level: &by_importance::Level,
        pods: &[PlacedPod],
        (known, n_all): (&ByImportance, i64),
    ) -> Order {
        let order = match level.ties {
            Ties::None => Order::Exact,
            _ if n_all <= upstream_sort::FEW as i64 => Order::Exact,
            Ties::OfReplicas => Order::OfReplicas,
            Ties::OfOthers => return Order::Unknown,
        };
        let (n_before, mut earliest) = (self.victims.len(), i64::MAX);
        for run in known.runs(level) {
            let of_each = node.taken_by_each(run.kind, pods);
            let n_fitting = node.n_fitting(run.positions.len(), &of_each);
            let mut taken = Lanes::default();
            sizes::add(&mut taken, &of_each, n_fitting);
            node.give(-n_fitting, &taken);
            let n_fitting = n_fitting as usize;
            self.victims.extend(&run.positions[n_fitting..]);
            let start_times = &run.start_times[n_fitting..];
            earliest = start_times.iter().copied().fold(earliest, i64::min);
        }
        let n_victims = self.victims.len() - n_before;
        if n_victims > 0 {
            self.rank.get_or_insert_default().add(level.priority, n_victims, earliest);
        }
        order
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

/// Finds the pods to evict from a node for a pod of a priority; with a `bound`, worse evictions need not be found. The
/// pods may be known by importance.
pub(super) fn evict(
    mut node: Summed<'_>,
    priority: i32,
    (pods, known): (&[PlacedPod], Option<&ByImportance>),
    bound: Option<&Rank>,
    scratch: &mut Levels,
) -> ByLevels {
    match known {
        Some(known) => scratch.sum_up_known(&mut node, priority, pods, known),
        None => scratch.sum_up(&mut node, priority, pods),
    }
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
    scratch.rank = None;
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
        let level = known.and_then(|known| {
            let mut levels = known.levels.iter();
            Some((known, levels.find(|level| level.priority == priority)?))
        });
        let order = match level {
            Some((known, level)) => scratch.tear_known(&mut node, level, pods, (known, n_all)),
            None => scratch.tear(&mut node, priority, pods, n_all),
        };
        match order {
            Order::Exact => {}
            Order::OfReplicas => is_settled = false,
            Order::Unknown => return ByLevels::Unknown,
        }
    }
    ByLevels::Victims { is_settled }
}
