//! PodDisruptionBudget: how many more of a set of pods may be evicted now. Rules: S-PRE-13, S-SD-5, S-PDB-1.

use berth_proto::policy_v1::PodDisruptionBudgetStatus;
use berth_proto::{Time, meta_v1, policy_v1};

use super::budget_demand::{Demand, demand};
use super::intern::{Interner, Symbol};
use super::label_selector::LabelSelector;
use super::population::PopulationFacts;
use super::{Model, ModelError};
use crate::model::key::ObjectKey;
use crate::model::object::Compile;

/// Fields of a budget that preemption and drains read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisruptionBudget {
    pub(crate) namespace: Symbol,
    pub(crate) name: Symbol,
    /// The selector of its pods; `None` where it is absent or does not parse, and so matches no pod.
    selector: Option<LabelSelector>,
    pub(crate) allowance: Allowance,
    /// Names of pods whose eviction is counted already, sorted.
    disrupted: Box<[String]>,
    eviction: EvictionFacts,
}

/// Fields of a budget that only the eviction request reads (L-PDB-13, L-PDB-16).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EvictionFacts {
    generation: i64,
    observed_generation: i64,
    current_healthy: i32,
    desired_healthy: i32,
    expected_pods: i32,
    unhealthy_policy: Option<Box<str>>,
}

impl EvictionFacts {
    fn of(
        budget: &policy_v1::PodDisruptionBudget,
        metadata: &meta_v1::ObjectMeta,
    ) -> EvictionFacts {
        let policy =
            budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        let status = budget.status.as_ref();
        let figure = |read: fn(&PodDisruptionBudgetStatus) -> i32| status.map_or(0, read);
        EvictionFacts {
            generation: metadata.generation,
            observed_generation: status.map_or(0, |status| status.observed_generation),
            current_healthy: figure(|status| status.current_healthy),
            desired_healthy: figure(|status| status.desired_healthy),
            expected_pods: figure(|status| status.expected_pods),
            unhealthy_policy: policy.map(Into::into),
        }
    }
}

/// Where the number of allowed disruptions comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// `status.disruptionsAllowed`.
    Stated(i64),
    /// The budget has no status, so the number follows from its pods.
    OfPods(Demand),
}

impl Compile for policy_v1::PodDisruptionBudget {
    type Facts = DisruptionBudget;

    fn compile(
        &self,
        metadata: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<DisruptionBudget, ModelError> {
        let names = model.names();
        Ok(DisruptionBudget::compile(self, metadata, key, names))
    }
}

impl DisruptionBudget {
    pub(crate) fn compile(
        budget: &policy_v1::PodDisruptionBudget,
        metadata: &meta_v1::ObjectMeta,
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
            allowance: Allowance::of(budget, metadata),
            disrupted: disrupted.into(),
            eviction: EvictionFacts::of(budget, metadata),
        }
    }

    /// The budget as an object that covers every pod of its namespace, with the fields that an eviction request reads.
    /// `computed` is the status of a budget that has none.
    pub(crate) fn eviction_object(
        &self,
        names: &Interner,
        computed: PodDisruptionBudgetStatus,
    ) -> policy_v1::PodDisruptionBudget {
        let disrupted = self.disrupted.iter().map(|pod| (pod.clone(), Time::default())).collect();
        let (generation, status) = match self.allowance {
            Allowance::Stated(n_allowed) => {
                let status = PodDisruptionBudgetStatus {
                    observed_generation: self.eviction.observed_generation,
                    // The counts were read from 32 bits, so they fit.
                    disruptions_allowed: i32::try_from(n_allowed).unwrap_or(i32::MAX),
                    current_healthy: self.eviction.current_healthy,
                    desired_healthy: self.eviction.desired_healthy,
                    expected_pods: self.eviction.expected_pods,
                    ..PodDisruptionBudgetStatus::default()
                };
                (self.eviction.generation, status)
            }
            Allowance::OfPods(_) => (0, computed),
        };
        policy_v1::PodDisruptionBudget {
            metadata: Some(meta_v1::ObjectMeta {
                namespace: names.name(self.namespace).to_string(),
                name: names.name(self.name).to_string(),
                generation,
                ..meta_v1::ObjectMeta::default()
            }),
            spec: Some(policy_v1::PodDisruptionBudgetSpec {
                selector: Some(meta_v1::LabelSelector::default()),
                unhealthy_pod_eviction_policy: self
                    .eviction
                    .unhealthy_policy
                    .as_deref()
                    .map(ToOwned::to_owned),
                ..policy_v1::PodDisruptionBudgetSpec::default()
            }),
            status: Some(PodDisruptionBudgetStatus { disrupted_pods: disrupted, ..status }),
        }
    }

    /// Whether the number of allowed disruptions has to be computed.
    pub(crate) fn is_computed(&self) -> bool {
        matches!(self.allowance, Allowance::OfPods(_))
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

    /// Whether the budget covers pods of a population for drains and for its own figures: an empty selector covers every
    /// pod of the namespace (S-SD-5, L-PDB-11).
    pub(crate) fn covers_for_drain(&self, population: &PopulationFacts) -> bool {
        population.namespace == self.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&population.labels))
    }

    /// Whether the pod's eviction is counted already, so that evicting it takes no further disruption.
    pub(crate) fn has_counted(&self, pod: &str) -> bool {
        self.disrupted.binary_search_by(|name| (**name).cmp(pod)).is_ok()
    }
}

impl Allowance {
    /// S-PDB-1: a status counts as it is. A budget that no API server stored and whose status is absent or empty has
    /// none. A spec that is not well formed allows nothing, since the disruption controller cannot work it out.
    fn of(budget: &policy_v1::PodDisruptionBudget, metadata: &meta_v1::ObjectMeta) -> Allowance {
        let is_stored = !metadata.resource_version.is_empty();
        if let Some(status) = &budget.status
            && (is_stored || *status != policy_v1::PodDisruptionBudgetStatus::default())
        {
            return Allowance::Stated(i64::from(status.disruptions_allowed));
        }
        let spec = budget.spec.as_ref();
        spec.map_or(Ok(Demand::Nothing), demand).map_or(Allowance::Stated(0), Allowance::OfPods)
    }
}
