//! Budgets: which victims a PodDisruptionBudget would keep. Rule: S-PRE-13.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::disruption_budget::DisruptionBudget;
use crate::model::population::{Population, PopulationId};
use crate::snapshot::Snapshot;
use crate::snapshot::pod_table::PlacedPod;

/// The budgets of a snapshot, and whom each covers.
pub(super) struct Budgets<'a> {
    budgets: Vec<&'a DisruptionBudget>,
    /// Positions of the budgets that cover a population; absent where none does.
    covering: FxHashMap<PopulationId, SmallVec<[usize; 1]>>,
}

impl<'a> Budgets<'a> {
    /// Cost: one test for each population that is in the namespace of a budget.
    pub(super) fn of(snapshot: &'a Snapshot) -> Budgets<'a> {
        let budgets: Vec<&DisruptionBudget> = snapshot.objects.budgets().collect();
        let mut covering: FxHashMap<PopulationId, SmallVec<[usize; 1]>> = FxHashMap::default();
        for (i, budget) in budgets.iter().enumerate() {
            let populations = snapshot.populations.all(Some(budget.namespace));
            let covered =
                |population: &&std::sync::Arc<Population>| budget.covers(&population.facts);
            for population in populations.filter(covered) {
                covering.entry(population.id).or_default().push(i);
            }
        }
        Budgets { budgets, covering }
    }

    /// Whether any covers the pod.
    pub(super) fn covers(&self, placed: &PlacedPod) -> bool {
        !self.covering.is_empty() && self.covering.contains_key(&placed.population)
    }

    /// For each of these positions in a list of pods, the most important first, whether evicting it takes more than a budget
    /// allows once those before it are evicted.
    pub(super) fn violations(&self, positions: &[u32], pods: &[PlacedPod]) -> Vec<bool> {
        let mut left: FxHashMap<usize, i64> = FxHashMap::default();
        let mut violates = |placed: &PlacedPod| {
            let mut is_violated = false;
            for i in self.covering.get(&placed.population).into_iter().flatten() {
                let budget = self.budgets[*i];
                if !budget.has_counted(&placed.pod.key().name) {
                    let left = left.entry(*i).or_insert(budget.n_allowed);
                    *left -= 1;
                    is_violated |= *left < 0;
                }
            }
            is_violated
        };
        positions.iter().map(|position| violates(&pods[*position as usize])).collect()
    }
}
