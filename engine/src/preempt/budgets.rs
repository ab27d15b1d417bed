//! Budgets: victims whose eviction violates a PodDisruptionBudget. Rule: S-PRE-13.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::disruption_budget::DisruptionBudget;
use crate::model::intern::Symbol;
use crate::model::population::PopulationId;
use crate::snapshot::Snapshot;
use crate::snapshot::placed_pod::PlacedPod;

/// The budgets of a snapshot, by namespace.
pub(super) struct Budgets<'a> {
    snapshot: &'a Snapshot,
    by_namespace: FxHashMap<Symbol, Vec<Budget<'a>>>,
}

/// A budget with its allowed disruptions, which the first reader works out (S-PDB-1).
struct Budget<'a> {
    facts: &'a DisruptionBudget,
    n_allowed: OnceLock<i64>,
}

/// Covering budgets of the populations looked up so far.
#[derive(Default)]
pub(super) struct Coverage(FxHashMap<PopulationId, Covering>);

/// Positions among the budgets of the namespace.
type Covering = SmallVec<[usize; 1]>;

impl<'a> Budgets<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Budgets<'a> {
        let mut by_namespace: FxHashMap<Symbol, Vec<Budget<'_>>> = FxHashMap::default();
        for facts in snapshot.objects.budgets() {
            let budget = Budget { facts, n_allowed: OnceLock::new() };
            by_namespace.entry(facts.namespace).or_default().push(budget);
        }
        Budgets { snapshot, by_namespace }
    }

    pub(super) fn are_there(&self) -> bool {
        !self.by_namespace.is_empty()
    }

    /// Budgets of the pod's namespace.
    fn around(&self, placed: &PlacedPod) -> &[Budget<'a>] {
        let namespace = placed.pod.population().facts.namespace;
        self.by_namespace.get(&namespace).map_or(&[], |budgets| budgets.as_slice())
    }

    /// Positions of the budgets that cover the pod. Cost: one test for each budget of its namespace when its population
    /// is looked up for the first time.
    fn covering<'c>(&self, placed: &PlacedPod, known: &'c mut Coverage) -> &'c Covering {
        known.0.entry(placed.population).or_insert_with(|| {
            let population = &placed.pod.population().facts;
            let budgets = self.around(placed).iter().enumerate();
            let covering = budgets.filter(|(_, budget)| budget.facts.covers(population));
            covering.map(|(at, _)| at).collect()
        })
    }

    /// Whether any budget covers the pod.
    pub(super) fn covers(&self, placed: &PlacedPod, known: &mut Coverage) -> bool {
        self.are_there() && !self.covering(placed, known).is_empty()
    }

    /// For each of these positions in a list of pods, the most important first, whether evicting that pod after those
    /// before it exceeds a budget.
    pub(super) fn violations(
        &self,
        positions: &[u32],
        pods: &[PlacedPod],
        known: &mut Coverage,
    ) -> Vec<bool> {
        if !self.are_there() {
            return vec![false; positions.len()];
        }
        let mut left: FxHashMap<(Symbol, Symbol), i64> = FxHashMap::default();
        let mut violates = |placed: &PlacedPod| {
            let mut is_violated = false;
            for at in self.covering(placed, known) {
                let Budget { facts, n_allowed } = &self.around(placed)[*at];
                if !facts.has_counted(&placed.pod.key().name) {
                    let n_allowed = || *n_allowed.get_or_init(|| self.snapshot.n_allowed(facts));
                    let left = left.entry((facts.namespace, facts.name)).or_insert_with(n_allowed);
                    *left -= 1;
                    is_violated |= *left < 0;
                }
            }
            is_violated
        };
        positions.iter().map(|position| violates(&pods[*position as usize])).collect()
    }
}
