//! Eviction: the pods to evict from one node so that the preemptor fits. Rules: S-PRE-8, S-PRE-9, S-PRE-13 to S-PRE-16.

use smallvec::SmallVec;

use super::budgets::{Budgets, Coverage};
use super::importance;
use super::levels::{self, ByLevels, Levels};
use super::rank::Rank;
use super::sizes::{self, Sizes, Summed};
use crate::dry_run::{DryRun, DryRuns, Refused};
use crate::model::Pod;
use crate::plan::counted::Filtering;
use crate::rows::NodeRow;
use crate::snapshot::placed_pod::PlacedPod;
use crate::snapshot::shard::Shard;

/// The pods to evict from one node.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    pub(super) row: NodeRow,
    /// Positions among the node's pods, the most important first; never empty.
    pub(super) victims: SmallVec<[u32; 8]>,
    pub(super) rank: Rank,
    /// Whether victims of equal importance are the ones, and in the order, that kube-scheduler's sort gives; see
    /// [`Search::settle`].
    is_settled: bool,
}

/// The result of a search on one node.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Evicting these pods helps.
    Eviction(Eviction),
    /// Evicting pods helps, but their priority makes it worse than the bound.
    Worse,
    /// No pod on the node has a lower priority.
    NoVictims,
    /// The preemptor does not fit even without all pods of lower priority.
    NoHelp,
    /// The preemptor would fit without any eviction, which cannot be (S-PRE-15).
    NobodyToEvict,
}

/// Finds evictions, node by node.
pub(super) struct Search<'p, 'a> {
    plan: &'p Filtering<'p, 'a>,
    runs: DryRuns<'p, 'a>,
    budgets: Budgets<'a>,
    priority: i32,
}

/// Buffers that are reused for every node of a search.
#[derive(Default)]
pub(super) struct Scratch {
    order: Order,
    sizes: Sizes,
    levels: Levels,
}

/// Buffers for the order in which pods are put back.
#[derive(Default)]
struct Order {
    positions: Vec<u32>,
    keys: Vec<importance::Key>,
    coverage: Coverage,
}

impl<'p, 'a> Search<'p, 'a> {
    pub(super) fn new(plan: &'p Filtering<'p, 'a>) -> Search<'p, 'a> {
        Search {
            plan,
            runs: DryRuns::new(plan),
            budgets: Budgets::of(plan.snapshot()),
            priority: plan.pod().priority(),
        }
    }

    pub(super) fn runs(&self) -> &DryRuns<'p, 'a> {
        &self.runs
    }

    /// Whether the results on a node depend on its row alone: its object and its pods.
    pub(super) fn depends_on_rows_alone(&self) -> bool {
        self.runs.resources_alone().is_some() && !self.budgets.are_there()
    }

    /// Searches a node that passes every filter that does not read pods. With a `bound`, an eviction that is certainly
    /// worse may be returned as [`Found::Worse`].
    pub(super) fn on(
        &self,
        shard: &Shard,
        row: usize,
        bound: Option<&Rank>,
        scratch: &mut Scratch,
    ) -> Found {
        let pods = shard.pods.of(row);
        let is_promised = !self.plan.promised().on(NodeRow::new(shard.index, row)).is_empty();
        let wanted = self.runs.resources_alone().filter(|wanted| sizes::are_few(wanted));
        let Some(wanted) = wanted.filter(|_| !is_promised) else {
            return self.by_dry_run(shard, row, scratch);
        };
        let node = Summed::of(wanted, shard, row, &mut scratch.sizes);
        if self.has_budgets(pods, &mut scratch.order.coverage) {
            return self.one_by_one(node, shard, row, &mut scratch.order);
        }
        let pods = (pods, shard.pods.by_importance(row));
        match levels::evict(node, self.priority, pods, bound, &mut scratch.levels) {
            ByLevels::Victims { is_settled } => {
                let victims = scratch.levels.victims();
                let rank = scratch.levels.rank();
                evicting(shard, row, (victims, rank), 0, is_settled, bound)
            }
            ByLevels::NoVictims => Found::NoVictims,
            ByLevels::NoHelp => Found::NoHelp,
            ByLevels::Worse => Found::Worse,
            ByLevels::Unknown => self.by_dry_run(shard, row, scratch),
        }
    }

    /// The result for a node that a filter refuses whatever its pods are.
    pub(super) fn beyond_help(&self, shard: &Shard, row: usize) -> Found {
        let has_lower = shard.pods.of(row).iter().any(|placed| self.is_lower(placed));
        if has_lower { Found::NoHelp } else { Found::NoVictims }
    }

    /// Replaces an eviction by kube-scheduler's own, which may differ in pods of equal importance.
    pub(super) fn settle(&self, eviction: &mut Eviction) {
        if eviction.is_settled {
            return;
        }
        let (shard, row) = (self.shard(eviction.row), eviction.row.row());
        if let Found::Eviction(settled) = self.by_dry_run(shard, row, &mut Scratch::default()) {
            debug_assert_eq!(settled.rank, eviction.rank);
            *eviction = settled;
        }
    }

    /// The first filter that refuses a node without its pods of lower priority.
    pub(super) fn refusal(&self, row: NodeRow) -> Option<Refused> {
        let shard = self.shard(row);
        let mut run = self.runs.on(shard, row.row());
        let lower = shard.pods.of(row.row()).iter().filter(|placed| self.is_lower(placed));
        lower.for_each(|placed| run.remove(&placed.pod));
        run.refusal(self.plan.promised().on(row))
    }

    fn shard(&self, row: NodeRow) -> &'a Shard {
        &self.plan.snapshot().shards[row.shard()]
    }

    fn is_lower(&self, placed: &PlacedPod) -> bool {
        placed.shape.facts.priority < self.priority
    }

    fn has_budgets(&self, pods: &[PlacedPod], known: &mut Coverage) -> bool {
        let mut lower = pods.iter().filter(|placed| self.is_lower(placed));
        self.budgets.are_there() && lower.any(|placed| self.budgets.covers(placed, known))
    }

    /// Searches with dry runs of all filters that read pods.
    fn by_dry_run(&self, shard: &Shard, row: usize, scratch: &mut Scratch) -> Found {
        let promised = self.plan.promised().on(NodeRow::new(shard.index, row));
        let node = Filtered { run: self.runs.on(shard, row), promised };
        self.one_by_one(node, shard, row, &mut scratch.order)
    }

    /// Removes every pod of lower priority, then puts back those without which the preemptor still fits.
    fn one_by_one(
        &self,
        mut node: impl Node,
        shard: &Shard,
        row: usize,
        order: &mut Order,
    ) -> Found {
        let pods = shard.pods.of(row);
        let Order { positions, keys, coverage } = order;
        positions.clear();
        positions.extend((0..pods.len() as u32).filter(|at| self.is_lower(&pods[*at as usize])));
        if positions.is_empty() {
            return Found::NoVictims;
        }
        positions.iter().for_each(|at| node.remove(&pods[*at as usize]));
        if !node.fits() {
            return Found::NoHelp;
        }
        importance::sort(positions, pods, keys);
        let violations = self.budgets.violations(positions, pods, coverage);
        let mut victims: SmallVec<[u32; 8]> = SmallVec::new();
        let mut n_violations = 0;
        for is_violating in [true, false] {
            for (at, _) in positions.iter().zip(&violations).filter(|(_, v)| **v == is_violating) {
                let placed = &pods[*at as usize];
                node.add(placed);
                if !node.fits() {
                    node.remove(placed);
                    victims.push(*at);
                    n_violations += u32::from(is_violating);
                }
            }
        }
        if violations.contains(&true) && violations.contains(&false) {
            importance::sort(&mut victims, pods, keys);
        }
        evicting(shard, row, (&victims, None), n_violations, true, None)
    }
}

/// A node from which pods are removed and to which they are added again.
trait Node {
    fn add(&mut self, placed: &PlacedPod);
    fn remove(&mut self, placed: &PlacedPod);
    /// Whether the preemptor fits.
    fn fits(&mut self) -> bool;
}

/// A node on which every filter that reads pods is run.
struct Filtered<'s, 'p, 'a> {
    run: DryRun<'p, 'a>,
    promised: &'s [&'s Pod],
}

impl Node for Filtered<'_, '_, '_> {
    fn add(&mut self, placed: &PlacedPod) {
        self.run.add(&placed.pod);
    }

    fn remove(&mut self, placed: &PlacedPod) {
        self.run.remove(&placed.pod);
    }

    fn fits(&mut self) -> bool {
        self.run.passes(self.promised)
    }
}

/// A node on which only resources decide.
impl Node for Summed<'_> {
    fn add(&mut self, placed: &PlacedPod) {
        self.change(placed, -1);
    }

    fn remove(&mut self, placed: &PlacedPod) {
        self.change(placed, 1);
    }

    fn fits(&mut self) -> bool {
        Summed::fits(self)
    }
}

/// The eviction of these pods, the most important first, with its rank if that is known.
fn evicting(
    shard: &Shard,
    row: usize,
    (victims, rank): (&[u32], Option<Rank>),
    n_violations: u32,
    is_settled: bool,
    bound: Option<&Rank>,
) -> Found {
    if victims.is_empty() {
        return Found::NobodyToEvict;
    }
    let of_victims = || Rank::of(victims, shard.pods.of(row), n_violations);
    debug_assert!(rank.is_none_or(|rank| rank == of_victims()), "known and looked up");
    let rank = rank.unwrap_or_else(of_victims);
    if n_violations == 0 && bound.is_some_and(|bound| *bound < rank) {
        return Found::Worse;
    }
    let (row, victims) = (NodeRow::new(shard.index, row), victims.into());
    Found::Eviction(Eviction { row, victims, rank, is_settled })
}
