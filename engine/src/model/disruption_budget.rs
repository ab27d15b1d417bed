//! PodDisruptionBudget: how many more of a set of pods may be evicted now. Rules: S-PRE-13, S-SD-5.

use berth_proto::policy_v1;

use super::intern::{Interner, Symbol};
use super::label_selector::LabelSelector;
use super::population::PopulationFacts;
use crate::model::key::ObjectKey;

/// A budget as preemption and drains read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisruptionBudget {
    pub(crate) namespace: Symbol,
    pub(crate) name: Symbol,
    /// `None` where it matches no pod: absent, or not to be parsed.
    selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub(crate) n_allowed: i64,
    /// Names of pods whose eviction is counted already, sorted.
    disrupted: Box<[String]>,
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

    /// Whether it covers pods of a population for preemption: an empty selector covers none, nor does any pods without labels.
    pub(crate) fn covers(&self, population: &PopulationFacts) -> bool {
        population.namespace == self.namespace
            && !population.labels.is_empty()
            && self.selector.as_ref().is_some_and(|selector| {
                !selector.is_empty() && selector.matches(&population.labels)
            })
    }

    /// The same for drains: an empty selector covers every pod of the namespace (S-SD-5).
    pub(crate) fn covers_for_drain(&self, population: &PopulationFacts) -> bool {
        population.namespace == self.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&population.labels))
    }

    /// Whether evicting the pod of this name takes nothing from it any more.
    pub(crate) fn has_counted(&self, pod: &str) -> bool {
        self.disrupted.binary_search_by(|name| (**name).cmp(pod)).is_ok()
    }
}
