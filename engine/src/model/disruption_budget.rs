//! PodDisruptionBudget: how many more of a set of pods may be evicted now. Rules: S-PRE-13, S-SD-5.

use berth_proto::{meta_v1, policy_v1};

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::label_selector::LabelSelector;
use super::population::PopulationFacts;
use crate::model::key::ObjectKey;
use crate::model::object::Compile;

/// Fields of a budget that preemption and drains read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisruptionBudget {
    pub(crate) namespace: Symbol,
    pub(crate) name: Symbol,
    /// The selector of its pods; `None` where it is absent or does not parse, and so matches no pod.
    selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub(crate) n_allowed: i64,
    /// Names of pods whose eviction is counted already, sorted.
    disrupted: Box<[String]>,
}

impl Compile for policy_v1::PodDisruptionBudget {
    type Facts = DisruptionBudget;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        names: &Interner,
    ) -> Result<DisruptionBudget, ModelError> {
        Ok(DisruptionBudget::compile(self, key, names))
    }
}

impl DisruptionBudget {
    pub(crate) fn compile(
        budget: &policy_v1::PodDisruptionBudget,
        key: &ObjectKey,
        names: &Interner,
    ) -> DisruptionBudget {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.and_then(|selector| LabelSelector::compile(selector, names).ok());
        let status = budget.status.as_ref();
        let mut disrupted: Vec<String> =
            status.into_iter().flat_map(|status| status.disrupted_pods.keys().cloned()).collect();
        disrupted.sort_unstable();
        DisruptionBudget {
            namespace: names.intern(&key.namespace),
            name: names.intern(&key.name),
            selector,
            n_allowed: status.map_or(0, |status| i64::from(status.disruptions_allowed)),
            disrupted: disrupted.into(),
        }
    }

    /// Whether the budget covers pods of a population for preemption: an empty selector covers no pod, and pods without
    /// labels are never covered.
    pub(crate) fn covers(&self, population: &PopulationFacts) -> bool {
        population.namespace == self.namespace
            && !population.labels.is_empty()
            && self.selector.as_ref().is_some_and(|selector| {
                !selector.is_empty() && selector.matches(&population.labels)
            })
    }

    /// Whether the budget covers pods of a population for drains: an empty selector covers every pod of the namespace
    /// (S-SD-5).
    pub(crate) fn covers_for_drain(&self, population: &PopulationFacts) -> bool {
        population.namespace == self.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&population.labels))
    }

    /// Whether the pod's eviction is counted already, so that evicting it takes no further disruption.
    pub(crate) fn has_counted(&self, pod: &str) -> bool {
        self.disrupted.binary_search_by(|name| (**name).cmp(pod)).is_ok()
    }
}
