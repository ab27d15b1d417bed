//! Objects: those other than nodes and pods, by name. Storage objects have an index of their own.

use std::sync::Arc;

use imbl::OrdMap;

use super::indexed::Indexed;
use crate::model::controller::{Controller, ControllerKey};
use crate::model::device::template::ResourceClaimTemplate;
use crate::model::disruption_budget::DisruptionBudget;
use crate::model::intern::Symbol;
use crate::model::label::Labels;
use crate::model::limit_range::LimitRange;
use crate::model::namespace::Namespace;
use crate::model::priority_class::PriorityClass;
use crate::model::resource_quota::ResourceQuota;
use crate::model::runtime_class::RuntimeClass;
use crate::model::service::Service;
use crate::model::{Object, ObjectKey, ObjectKind};

/// Every object, with indexes of those that rules look up by symbol. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Version that changes with namespaces, services and controllers: equal versions mean equal content.
    pub(crate) version: u64,
    /// Version that changes with disruption budgets.
    pub(crate) budgets_version: u64,
    by_key: OrdMap<ObjectKey, Object>,
    counts: [usize; ObjectKind::ALL.len()],
    namespaces: OrdMap<Symbol, Arc<Namespace>>,
    /// Services by namespace and the first label that they select by, then by name.
    services: OrdMap<(Symbol, Symbol, Symbol, Symbol), Arc<Service>>,
    controllers: OrdMap<ControllerKey, Arc<Controller>>,
    /// Disruption budgets by namespace and name.
    budgets: OrdMap<(Symbol, Symbol), Arc<DisruptionBudget>>,
    /// Number of budgets whose allowed disruptions are computed from their pods.
    n_computed_budgets: usize,
}

impl Objects {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.by_key.get(key)
    }

    /// Every object, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.by_key.values()
    }

    /// The objects of a kind in a namespace, by name; `namespace` is empty for kinds without namespaces.
    pub(crate) fn of_kind<'a>(
        &'a self,
        kind: ObjectKind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Object> {
        let from = ObjectKey { kind, namespace: namespace.into(), name: Arc::default() };
        self.by_key
            .range(from..)
            .take_while(move |(key, _)| key.kind == kind && *key.namespace == *namespace)
            .map(|(_, object)| object)
    }

    /// Number of objects of a kind.
    pub(crate) fn count(&self, kind: ObjectKind) -> usize {
        self.counts[kind as usize]
    }

    /// The labels of a namespace; `None` for one without an object, which has no labels (S-IPA-3).
    pub(crate) fn namespace(&self, name: Symbol) -> Option<&Labels> {
        self.namespaces.get(&name).map(|namespace| &namespace.labels)
    }

    /// Every namespace that has an object.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (Symbol, &Labels)> {
        self.namespaces.iter().map(|(name, namespace)| (*name, &namespace.labels))
    }

    /// The services of a namespace that select pods with these labels.
    ///
    /// Cost: one lookup a label, and one test for each service that selects by it first.
    pub(crate) fn services_of(
        &self,
        namespace: Symbol,
        labels: &Labels,
    ) -> impl Iterator<Item = &Service> {
        let labels = if self.services.is_empty() { &[] } else { &labels[..] };
        labels.iter().flat_map(move |(key, value)| {
            let from = (namespace, *key, *value, Symbol::EMPTY);
            let services = self.services.range(from..);
            services
                .take_while(move |((n, k, v, _), _)| (n, k, v) == (&namespace, key, value))
                .map(|(_, service)| &**service)
                .filter(move |service| service.selects(labels))
        })
    }

    pub(crate) fn controller(&self, key: ControllerKey) -> Option<&Controller> {
        self.controllers.get(&key).map(|controller| &**controller)
    }

    /// Every disruption budget.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = &DisruptionBudget> {
        self.budgets.values().map(|budget| &**budget)
    }

    /// The disruption budget of this name.
    pub(crate) fn budget(&self, namespace: Symbol, name: Symbol) -> Option<&DisruptionBudget> {
        self.budgets.get(&(namespace, name)).map(|budget| &**budget)
    }

    /// Whether the allowed disruptions of any budget are computed from its pods (S-PDB-1).
    pub(crate) fn has_computed_budgets(&self) -> bool {
        self.n_computed_budgets > 0
    }

    /// Adds an object or replaces the one of its key, which it returns. The indexes stay as they are.
    pub(super) fn insert(&mut self, object: &Object) -> Option<Object> {
        let old = self.by_key.insert(object.key().clone(), object.clone());
        if old.is_none() {
            self.counts[object.key().kind as usize] += 1;
        }
        old
    }

    /// Replaces the object of its key by one with the same facts, perhaps of a newer version.
    pub(crate) fn renew(&mut self, object: &Object) {
        self.by_key.insert(object.key().clone(), object.clone());
    }

    /// Takes an object out and returns it. The indexes stay as they are.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let object = self.by_key.remove(key)?;
        self.counts[key.kind as usize] -= 1;
        Some(object)
    }
}

impl Indexed for Namespace {
    type Index = Objects;

    fn replace(
        index: &mut Objects,
        old: Option<&Arc<Namespace>>,
        new: Option<&Arc<Namespace>>,
        version: u64,
    ) {
        index.version = version;
        match (old, new) {
            (_, Some(new)) => drop(index.namespaces.insert(new.name, new.clone())),
            (Some(old), None) => drop(index.namespaces.remove(&old.name)),
            (None, None) => {}
        }
    }
}

impl Indexed for Service {
    type Index = Objects;

    fn replace(
        index: &mut Objects,
        old: Option<&Arc<Service>>,
        new: Option<&Arc<Service>>,
        version: u64,
    ) {
        index.version = version;
        if let Some(key) = old.and_then(|service| service_key(service)) {
            index.services.remove(&key);
        }
        if let Some((key, service)) = new.and_then(|service| Some((service_key(service)?, service)))
        {
            index.services.insert(key, service.clone());
        }
    }
}

impl Indexed for Controller {
    type Index = Objects;

    fn replace(
        index: &mut Objects,
        old: Option<&Arc<Controller>>,
        new: Option<&Arc<Controller>>,
        version: u64,
    ) {
        match (old, new) {
            (_, Some(new)) => drop(index.controllers.insert(new.key, new.clone())),
            (Some(old), None) => drop(index.controllers.remove(&old.key)),
            (None, None) => {}
        }
        // How many pods it is to have tells nothing of where they go.
        let is_alike = old.zip(new).is_some_and(|(old, new)| old.selector == new.selector);
        if !is_alike {
            index.version = version;
        }
    }
}

impl Indexed for DisruptionBudget {
    type Index = Objects;

    fn replace(
        index: &mut Objects,
        old: Option<&Arc<DisruptionBudget>>,
        new: Option<&Arc<DisruptionBudget>>,
        version: u64,
    ) {
        index.budgets_version = version;
        let n_computed = |budget: Option<&Arc<DisruptionBudget>>| {
            usize::from(budget.is_some_and(|budget| budget.is_computed()))
        };
        index.n_computed_budgets += n_computed(new);
        index.n_computed_budgets -= n_computed(old);
        match (old, new) {
            (_, Some(new)) => drop(index.budgets.insert((new.namespace, new.name), new.clone())),
            (Some(old), None) => drop(index.budgets.remove(&(old.namespace, old.name))),
            (None, None) => {}
        }
    }
}

/// Kinds that only the creation of a pod or claim reads, and templates. They are few and found by key, so they have no other index.
macro_rules! found_by_key {
    ($($facts:ty),+) => {
        $(impl Indexed for $facts {
            type Index = Objects;

            fn replace(_: &mut Objects, _: Option<&Arc<Self>>, _: Option<&Arc<Self>>, _: u64) {}
        })+
    };
}

found_by_key!(PriorityClass, LimitRange, RuntimeClass, ResourceQuota, ResourceClaimTemplate);

/// The index key of a service; `None` for one without a selector, which adds nothing to any pod's selector.
fn service_key(service: &Service) -> Option<(Symbol, Symbol, Symbol, Symbol)> {
    let (key, value) = service.selector.first()?;
    Some((service.namespace, *key, *value, service.name))
}
