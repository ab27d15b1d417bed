//! Namespace: read for its labels, which the namespace selectors of pod affinity match. Rule: S-IPA-3.

use berth_proto::{core_v1, meta_v1};

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::key::ObjectKey;
use super::label::{self, Labels};
use super::object::Compile;

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
        names: &Interner,
    ) -> Result<Namespace, ModelError> {
        let name = names.intern(&metadata.name);
        Ok(Namespace { name, labels: label::compile(&metadata.labels, names)? })
    }
}
