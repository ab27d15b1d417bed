//! Disruption budgets for drains, and the waves in which pods leave without exceeding any. Rules: S-SD-5, S-SD-6,
//! S-SD-7.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::outcome::BudgetUse;
use crate::model::disruption_budget::DisruptionBudget;
use crate::model::intern::{Interner, Symbol};
use crate::model::population::PopulationId;
use crate::model::{Pod, PodKey};
use crate::snapshot::Snapshot;

/// Positions of budgets in [`Budgets`].
pub(crate) type Covering = SmallVec<[usize; 1]>;

/// The budgets of a snapshot, and the remaining disruptions of each.
pub(crate) struct Budgets<'a> {
    all: Vec<&'a DisruptionBudget>,
    /// Disruptions that each budget allows before any pod moves.
    allowed: Vec<i64>,
    /// Disruptions that each budget still allows; negative where more pods moved than it allowed at once.
    left: Vec<i64>,
    by_namespace: FxHashMap<Symbol, Vec<usize>>,
    /// Covering budgets of the populations looked up so far.
    covering: FxHashMap<PopulationId, Covering>,
    names: &'a Interner,
}

impl<'a> Budgets<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Budgets<'a> {
        let all: Vec<&DisruptionBudget> = snapshot.objects.budgets().collect();
        let mut by_namespace: FxHashMap<Symbol, Vec<usize>> = FxHashMap::default();
        for (at, budget) in all.iter().enumerate() {
            by_namespace.entry(budget.namespace).or_default().push(at);
        }
        let allowed: Vec<i64> = all.iter().map(|budget| snapshot.n_allowed(budget)).collect();
        let (left, covering) = (allowed.clone(), FxHashMap::default());
        let names = snapshot.model.names();
        Budgets { all, allowed, left, by_namespace, covering, names }
    }

    /// The budgets that cover a pod (S-SD-5). Cost: one test for each budget of its namespace when its population is
    /// looked up for the first time.
    pub(crate) fn covering(&mut self, pod: &Pod) -> Covering {
        let population = pod.population();
        let Budgets { all, by_namespace, covering, .. } = self;
        let covering = covering.entry(population.id).or_insert_with(|| {
            let around = by_namespace.get(&population.facts.namespace);
            let covers = |at: &usize| all[*at].covers_for_drain(&population.facts);
            around.into_iter().flatten().copied().filter(covers).collect()
        });
        covering.clone()
    }

    /// The first of the covering budgets that allows no more disruptions.
    pub(crate) fn exhausted(&self, covering: &Covering) -> Option<usize> {
        covering.iter().copied().find(|at| self.left[*at] < 1)
    }

    /// Charges the budgets for moving pods; `covering` has one item for each pod that moves.
    pub(crate) fn take<'c>(&mut self, covering: impl IntoIterator<Item = &'c Covering>) {
        for at in covering.into_iter().flatten() {
            self.left[*at] -= 1;
        }
    }

    /// Disruptions that moving these pods takes from each budget, in name order.
    pub(crate) fn uses<'c>(
        &self,
        covering: impl IntoIterator<Item = &'c Covering>,
    ) -> Vec<BudgetUse> {
        let mut n_moved: FxHashMap<usize, u32> = FxHashMap::default();
        for at in covering.into_iter().flatten() {
            *n_moved.entry(*at).or_default() += 1;
        }
        let mut uses: Vec<BudgetUse> = n_moved
            .into_iter()
            .map(|(at, n_moved)| BudgetUse {
                namespace: self.names.name(self.all[at].namespace),
                name: self.names.name(self.all[at].name),
                n_moved,
                n_allowed: self.left[at],
            })
            .collect();
        uses.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        uses
    }

    /// Names of the covering budgets, sorted.
    pub(crate) fn names_of(&self, covering: &Covering) -> Vec<Arc<str>> {
        let mut names: Vec<_> =
            covering.iter().map(|at| self.names.name(self.all[*at].name)).collect();
        names.sort_unstable();
        names
    }

    /// Disruptions that a budget allows before any pod moves.
    fn n_allowed(&self, at: usize) -> i64 {
        self.allowed[at]
    }
}

/// Whether more pods move than some budget allows at once (S-SD-7).
pub(crate) fn is_risky(uses: &[BudgetUse]) -> bool {
    uses.iter().any(|used| i64::from(used.n_moved) > used.n_allowed)
}

/// Pods that leave together, wave after wave. A wave begins when all pods of the wave before are ready elsewhere: then
/// every budget again allows as many disruptions as now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waves {
    /// Number of pods of each budget that leave in each wave.
    used: Vec<FxHashMap<usize, i64>>,
    /// Closed waves: no more pods join them.
    n_over: usize,
    /// The wave in which each pod leaves, counted from 1.
    left_in: FxHashMap<PodKey, usize>,
}

impl Waves {
    /// Adds a pod to the first wave in which it may leave with those that joined before, and returns that wave, counted
    /// from 1; `None` where a budget of the pod allows nothing. A pod that leaves a second time does so in a later wave
    /// than the first time.
    pub(crate) fn join(
        &mut self,
        pod: &PodKey,
        covering: &Covering,
        budgets: &Budgets<'_>,
    ) -> Option<u32> {
        if covering.iter().any(|at| budgets.n_allowed(*at) < 1) {
            return None;
        }
        let fits = |used: &FxHashMap<usize, i64>| {
            covering.iter().all(|at| used.get(at).is_none_or(|n| *n < budgets.n_allowed(*at)))
        };
        let n_over = self.n_over.max(self.left_in.get(pod).copied().unwrap_or(0));
        let open = self.used.iter().skip(n_over).position(fits);
        let wave = open.map_or(self.used.len().max(n_over), |open| n_over + open);
        if wave >= self.used.len() {
            self.used.resize_with(wave + 1, FxHashMap::default);
        }
        for at in covering {
            *self.used[wave].entry(*at).or_default() += 1;
        }
        self.left_in.insert(pod.clone(), wave + 1);
        Some(u32::try_from(wave + 1).unwrap_or(u32::MAX))
    }

    /// Closes all waves so far: pods that join later leave after them.
    pub(crate) fn end(&mut self) {
        self.n_over = self.used.len();
    }

    /// The number of waves.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.used.len()).unwrap_or(u32::MAX)
    }
}
