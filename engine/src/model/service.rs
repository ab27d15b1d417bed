//! Service: its selector, for default spread constraints. Rules: S-PTS-12, W-SEL-5.

use berth_proto::{core_v1, meta_v1};

use super::intern::{Interner, Symbol};
use super::label::Labels;
use super::{Model, ModelError};
use crate::model::key::ObjectKey;
use crate::model::object::Compile;

/// A service's namespace, name and selector.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) namespace: Symbol,
    pub(crate) name: Symbol,
    /// Equalities of the selector, sorted by key. An empty selector has the same effect as none.
    pub(crate) selector: Labels,
}

impl Compile for core_v1::Service {
    type Facts = Service;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<Service, ModelError> {
        let names = model.names();
        Ok(Service::compile(self, key, names))
    }
}

impl Service {
    pub(crate) fn compile(
        service: &core_v1::Service,
        key: &ObjectKey,
        names: &Interner,
    ) -> Service {
        let selector = service.spec.as_ref().map(|spec| &spec.selector);
        let mut selector: Vec<_> = selector
            .into_iter()
            .flatten()
            .map(|(key, value)| (names.intern(key), names.intern(value)))
            .collect();
        selector.sort_unstable();
        Service {
            namespace: names.intern(&key.namespace),
            name: names.intern(&key.name),
            selector: selector.into(),
        }
    }

    /// Whether the service selects a pod with these labels, sorted by key (W-SEL-5).
    pub(crate) fn selects(&self, labels: &[(Symbol, Symbol)]) -> bool {
        self.selector.iter().all(|pair| labels.binary_search(pair).is_ok())
    }
}
