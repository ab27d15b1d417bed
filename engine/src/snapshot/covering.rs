//! Covering: the disruption budgets that cover a pod, as an eviction request reads them. Rules: L-GEN-7, L-PDB-11.

use berth_proto::core_v1;
use berth_proto::policy_v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};

use super::Snapshot;
use super::allowance::BudgetFigures;
use crate::model::ModelError;
use crate::model::label;
use crate::model::population::PopulationFacts;

impl Snapshot {
    /// The budgets that cover a pod of this namespace and these labels, by name. Their selectors are replaced by one
    /// for the whole namespace. The status of a budget that has none is computed from its pods (S-PDB-1).
    ///
    /// Cost: a step for each budget of the cluster, and what a computed status costs.
    ///
    /// # Errors
    /// [`ModelError`] at `pod.metadata.labels` for a label that no pod can have.
    pub fn budgets_over(&self, pod: &core_v1::Pod) -> Result<Vec<PodDisruptionBudget>, ModelError> {
        let names = self.model.names();
        let Some(metadata) = &pod.metadata else { return Ok(Vec::new()) };
        let namespace = match metadata.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        let Some(namespace) = names.get(namespace) else { return Ok(Vec::new()) };
        let mut budgets =
            self.objects.budgets().filter(|budget| budget.namespace == namespace).peekable();
        if budgets.peek().is_none() {
            return Ok(Vec::new());
        }
        let labels = label::compile(&metadata.labels, names).map_err(|error| error.under("pod"))?;
        let population = PopulationFacts { namespace, labels, is_terminating: false };
        let covering = budgets.filter(|budget| budget.covers_for_drain(&population));
        let mut objects: Vec<PodDisruptionBudget> = covering
            .map(|budget| {
                let of = |symbol| names.name(symbol);
                let figures = self.computed_budget(&of(budget.namespace), &of(budget.name));
                budget.eviction_object(names, status(figures.unwrap_or_default()))
            })
            .collect();
        let name = |budget: &PodDisruptionBudget| {
            budget.metadata.as_ref().map(|metadata| metadata.name.clone())
        };
        objects.sort_by_cached_key(name);
        Ok(objects)
    }
}

/// Figures as a status has them.
fn status(figures: BudgetFigures) -> PodDisruptionBudgetStatus {
    let narrow = |figure: i64| i32::try_from(figure).unwrap_or(i32::MAX);
    PodDisruptionBudgetStatus {
        disruptions_allowed: narrow(figures.disruptions_allowed),
        current_healthy: narrow(figures.current_healthy),
        desired_healthy: narrow(figures.desired_healthy),
        expected_pods: narrow(figures.expected_pods),
        ..PodDisruptionBudgetStatus::default()
    }
}
