//! Allowance: how many pods of a budget may be evicted now. Rules: S-PDB-1 to S-PDB-3, L-PDB-2 to L-PDB-11.
//!
//! A budget with a status says so itself. For one without, the number is computed as the disruption controller would,
//! each time it is needed: a change of a pod costs nothing here, and no figure can be outdated.

use rustc_hash::FxHashSet;

use super::Snapshot;
use super::objects::Objects;
use crate::model::Pod;
use crate::model::budget_demand::Demand;
use crate::model::controller::ControllerId;
use crate::model::disruption_budget::{Allowance, DisruptionBudget};
use crate::model::drainability::OwnerKind;

/// The figures of a disruption budget, as a status would have them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetFigures {
    /// Number of healthy pods (L-PDB-5).
    pub current_healthy: i64,
    /// Number of pods that have to be healthy.
    pub desired_healthy: i64,
    /// Number of expected pods (L-PDB-2 to L-PDB-4).
    pub expected_pods: i64,
    /// Number of pods that may be evicted.
    pub disruptions_allowed: i64,
}

impl Snapshot {
    /// Disruptions that a budget allows: those of its status, else computed ones.
    ///
    /// Cost without a status: a step for each population of the namespace, each pod that the budget covers, each pod of
    /// their nodes, and each pod that is on no node.
    pub(crate) fn n_allowed(&self, budget: &DisruptionBudget) -> i64 {
        match budget.allowance {
            Allowance::Stated(n_allowed) => n_allowed,
            Allowance::OfPods(demand) => self.figures(budget, demand).disruptions_allowed,
        }
    }

    /// The figures of a budget without a status, computed from its pods; `None` for a budget that has a status or that
    /// the cluster does not have (S-PDB-1).
    #[must_use]
    pub fn computed_budget(&self, namespace: &str, name: &str) -> Option<BudgetFigures> {
        let names = self.model.names();
        let budget = self.objects.budget(names.get(namespace)?, names.get(name)?)?;
        match budget.allowance {
            Allowance::Stated(_) => None,
            Allowance::OfPods(demand) => Some(self.figures(budget, demand)),
        }
    }

    fn figures(&self, budget: &DisruptionBudget, demand: Demand) -> BudgetFigures {
        let mut tally = Tally::default();
        for population in self.populations.all(Some(budget.namespace)) {
            if !budget.covers_for_drain(&population.facts) {
                continue;
            }
            for (row, _) in self.populations.rows_of(population.id) {
                let pods = self.shards[row.shard()].pods.of(row.row()).iter();
                let pods = pods.filter(|placed| placed.population == population.id);
                pods.for_each(|placed| tally.add(&placed.pod, &self.objects));
            }
        }
        let off_nodes = self.off_nodes.iter();
        let covered = off_nodes.filter(|pod| budget.covers_for_drain(&pod.population().facts));
        covered.for_each(|pod| tally.add(pod, &self.objects));
        tally.figures(demand)
    }
}

/// Whether any computed allowance differs between two points of one history. Budgets themselves are not compared.
pub(crate) fn allowances_differ(then: &Snapshot, now: &Snapshot) -> bool {
    now.objects.has_computed_budgets()
        && now
            .objects
            .budgets()
            .filter(|budget| budget.is_computed())
            .any(|budget| then.n_allowed(budget) != now.n_allowed(budget))
}

/// Counts of the pods that a budget covers. The order in which they are added does not matter.
#[derive(Default)]
struct Tally {
    n_pods: i64,
    n_healthy: i64,
    /// Sum of the scales of the controllers (L-PDB-3).
    scale: i64,
    /// Controllers whose replicas are in that sum.
    counted: FxHashSet<ControllerId>,
    /// Whether a controller has no scale at all (L-PDB-10).
    is_unresolved: bool,
}

impl Tally {
    fn add(&mut self, pod: &Pod, objects: &Objects) {
        let facts = pod.facts();
        self.n_pods += 1;
        self.n_healthy += i64::from(facts.is_ready && !pod.is_terminating());
        // L-PDB-9: a pod without a controller adds nothing to the scale.
        let Some(id) = facts.controller else { return };
        match facts.drainability.owner {
            OwnerKind::Job | OwnerKind::DaemonSet => self.is_unresolved = true,
            OwnerKind::None
            | OwnerKind::ReplicationController
            | OwnerKind::ReplicaSet
            | OwnerKind::StatefulSet
            | OwnerKind::Other => {
                let controller = facts.owner.and_then(|owner| objects.controller(owner));
                match controller {
                    // One replica is the API's default.
                    Some(controller) if self.counted.insert(id) => {
                        self.scale += i64::from(controller.n_replicas.unwrap_or(1));
                    }
                    Some(_) => {}
                    // S-PDB-2: the scale is not known, so the pods stand for it.
                    None => self.scale += 1,
                }
            }
        }
    }

    fn figures(&self, demand: Demand) -> BudgetFigures {
        if demand == Demand::Nothing || demand.expects_scales() && self.is_unresolved {
            return BudgetFigures::default();
        }
        let expected_pods = if demand.expects_scales() { self.scale } else { self.n_pods };
        BudgetFigures {
            current_healthy: self.n_healthy,
            desired_healthy: demand.desired(expected_pods),
            expected_pods,
            disruptions_allowed: demand.allowed(expected_pods, self.n_healthy),
        }
    }
}
