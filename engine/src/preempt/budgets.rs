//! Budgets: victims whose eviction violates a PodDisruptionBudget. Rule: S-PRE-13.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::disruption_budget::DisruptionBudget;
use crate::model::intern::Symbol;
use crate::model::population::PopulationId;
use crate::snapshot::Snapshot;
use crate::snapshot::pod_table::PlacedPod;

/// The budgets of a snapshot, by namespace.
pub(super) struct Budgets<'a>(FxHashMap<Symbol, Vec<&'a DisruptionBudget>>);

/// Covering budgets of the populations looked up so far.
#[derive(Default)]
pub(super) struct Coverage(FxHashMap<PopulationId, Covering>);

/// Positions among the budgets of the namespace.
type Covering = SmallVec<[usize; 1]>;

impl<'a> Budgets<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Budgets<'a> {
        let mut budgets: FxHashMap<Symbol, Vec<&DisruptionBudget>> = FxHashMap::default();
        for budget in snapshot.objects.budgets() {
            budgets.entry(budget.namespace).or_default().push(budget);
        }
        Budgets(budgets)
    }

    pub(super) fn are_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// Budgets of the pod's namespace.
    fn around(&self, placed: &PlacedPod) -> &[&'a DisruptionBudget] {
        let namespace = placed.pod.population().facts.namespace;
        self.0.get(&namespace).map_or(&[], |budgets| budgets.as_slice())
    }

    /// Positions of the budgets that cover the pod. Cost: one test for each budget of its namespace when its population
    /// is looked up for the first time.
    fn covering<'c>(&self, placed: &PlacedPod, known: &'c mut Coverage) -> &'c Covering {
        known.0.entry(placed.population).or_insert_with(|| {
            let population = &placed.pod.population().facts;
            let budgets = self.around(placed).iter().enumerate();
            budgets.filter(|(_, budget)| budget.covers(population)).map(|(at, _)| at).collect()
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
                let budget = self.around(placed)[*at];
                if !budget.has_counted(&placed.pod.key().name) {
                    let key = (budget.namespace, budget.name);
                    let left = left.entry(key).or_insert(budget.n_allowed);
                    *left -= 1;
                    is_violated |= *left < 0;
                }
            }
            is_violated
        };
        positions.iter().map(|position| violates(&pods[*position as usize])).collect()
    }
}
