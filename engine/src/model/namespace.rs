//! Namespace: read for its labels, which the namespace selectors of pod affinity match. Rule: S-IPA-3.

use berth_proto::{core_v1, meta_v1};

use super::intern::Symbol;
use super::key::ObjectKey;
use super::label::{self, Labels};
use super::object::Compile;
use super::{Model, ModelError};

/// A namespace's name and labels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) name: Symbol,
    pub(crate) labels: Labels,
}

impl Compile for core_v1::Namespace {
    type Facts = Namespace;

    fn compile(
        &self,
        metadata: &meta_v1::ObjectMeta,
        _: &ObjectKey,
        model: &Model,
    ) -> Result<Namespace, ModelError> {
        let names = model.names();
        let name = names.intern(&metadata.name);
        Ok(Namespace { name, labels: label::compile(&metadata.labels, names)? })
    }
}
