//! Objects: those other than nodes and pods, by name. Storage objects have an index of their own.

use std::sync::Arc;

use imbl::OrdMap;

use crate::model::controller::{Controller, ControllerKey};
use crate::model::disruption_budget::DisruptionBudget;
use crate::model::intern::Symbol;
use crate::model::label::Labels;
use crate::model::object::ObjectFacts;
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
    namespaces: OrdMap<Symbol, Arc<Labels>>,
    /// Services by namespace and the first label that they select by, then by name.
    services: OrdMap<(Symbol, Symbol, Symbol, Symbol), Arc<Service>>,
    controllers: OrdMap<ControllerKey, Arc<Controller>>,
    /// Disruption budgets by namespace and name.
    budgets: OrdMap<(Symbol, Symbol), Arc<DisruptionBudget>>,
}

impl Objects {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.by_key.get(key)
    }

    /// Every object, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.by_key.values()
    }

    /// Number of objects of a kind.
    pub(crate) fn count(&self, kind: ObjectKind) -> usize {
        self.counts[kind as usize]
    }

    /// The labels of a namespace; `None` for one without an object, which has no labels (S-IPA-3).
    pub(crate) fn namespace(&self, name: Symbol) -> Option<&Labels> {
        self.namespaces.get(&name).map(|labels| &**labels)
    }

    /// Every namespace that has an object.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (Symbol, &Labels)> {
        self.namespaces.iter().map(|(name, labels)| (*name, &**labels))
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

    /// Adds an object or replaces the one of its key.
    pub(crate) fn insert(&mut self, object: &Object, version: u64) {
        match object.facts() {
            ObjectFacts::Namespace(name, labels) => {
                self.namespaces.insert(*name, labels.clone());
            }
            ObjectFacts::Service(service) => {
                if let Some(ObjectFacts::Service(old)) = self.get(object.key()).map(Object::facts) {
                    let old = old.clone();
                    self.forget_service(&old);
                }
                if let Some(key) = service_key(service) {
                    self.services.insert(key, service.clone());
                }
            }
            ObjectFacts::Controller(key, controller) => {
                let old = self.controllers.insert(*key, controller.clone());
                // The desired number of replicas does not affect where pods go.
                if old.is_some_and(|old| old.selector == controller.selector) {
                    return self.renew(object);
                }
            }
            ObjectFacts::Budget(budget) => {
                self.budgets.insert((budget.namespace, budget.name), budget.clone());
            }
            ObjectFacts::Storage(_) => {}
        }
        self.note_change(object, version);
        if self.by_key.insert(object.key().clone(), object.clone()).is_none() {
            self.counts[object.key().kind as usize] += 1;
        }
    }

    /// Replaces the object of its key by one with the same facts, perhaps of a newer version.
    pub(crate) fn renew(&mut self, object: &Object) {
        self.by_key.insert(object.key().clone(), object.clone());
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &ObjectKey, version: u64) -> Option<Object> {
        let object = self.by_key.remove(key)?;
        self.counts[key.kind as usize] -= 1;
        match object.facts() {
            ObjectFacts::Namespace(name, _) => {
                self.namespaces.remove(name);
            }
            ObjectFacts::Service(service) => {
                self.forget_service(service);
            }
            ObjectFacts::Controller(key, _) => {
                self.controllers.remove(key);
            }
            ObjectFacts::Budget(budget) => {
                self.budgets.remove(&(budget.namespace, budget.name));
            }
            ObjectFacts::Storage(_) => {}
        }
        self.note_change(&object, version);
        Some(object)
    }

    fn forget_service(&mut self, service: &Service) {
        if let Some(key) = service_key(service) {
            self.services.remove(&key);
        }
    }

    fn note_change(&mut self, object: &Object, version: u64) {
        match object.facts() {
            ObjectFacts::Storage(_) => {}
            ObjectFacts::Budget(_) => self.budgets_version = version,
            ObjectFacts::Namespace(..) | ObjectFacts::Service(_) | ObjectFacts::Controller(..) => {
                self.version = version;
            }
        }
    }
}

/// The index key of a service; `None` for one without a selector, which adds nothing to any pod's selector.
fn service_key(service: &Service) -> Option<(Symbol, Symbol, Symbol, Symbol)> {
    let (key, value) = service.selector.first()?;
    Some((service.namespace, *key, *value, service.name))
}
