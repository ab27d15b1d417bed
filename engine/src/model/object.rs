//! Objects other than nodes and pods: how each kind becomes facts.

use std::sync::Arc;

use berth_proto::meta_v1::ObjectMeta;

use super::intern::Lease;
use super::key::{ObjectKey, WireObject};
use super::kinds::object_kinds;
use super::label::check_name;
use super::{Model, ModelError};

/// A compiled object. Cheap to clone: everything behind it is shared.
#[derive(Clone, Debug)]
pub struct Object {
    key: ObjectKey,
    resource_version: Option<u64>,
    facts: ObjectFacts,
    /// The encoded object; `None` where it is not kept.
    encoded: Option<Arc<[u8]>>,
    /// Holds the names that only this object brought; `None` where all are kept.
    _lease: Option<Arc<Lease>>,
}

/// Compiles the objects of one kind. Every message of the list of kinds implements it, in the file of its kind.
pub(crate) trait Compile {
    /// The facts that the rules read of an object of this kind.
    type Facts;

    fn compile(
        &self,
        metadata: &ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<Self::Facts, ModelError>;
}

macro_rules! facts {
    ($($kind:ident($message:ty) { $($rest:tt)* })+) => {
        /// Facts of an object that the rules read.
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) enum ObjectFacts {
            $($kind(Arc<<$message as Compile>::Facts>),)+
        }

        impl ObjectFacts {
            fn compile(
                object: WireObject<'_>,
                metadata: &ObjectMeta,
                key: &ObjectKey,
                model: &Model,
            ) -> Result<ObjectFacts, ModelError> {
                Ok(match object {
                    $(WireObject::$kind(object) => {
                        ObjectFacts::$kind(Arc::new(Compile::compile(object, metadata, key, model)?))
                    })+
                })
            }
        }
    };
}

object_kinds!(facts);

impl Object {
    pub(crate) fn compile(object: WireObject<'_>, model: &Model) -> Result<Object, ModelError> {
        let Some(metadata) = object.metadata() else {
            return Err(ModelError::new("metadata", "is missing"));
        };
        check_name("metadata.name", &metadata.name)?;
        let key = ObjectKey::new(object.kind(), &metadata.namespace, &metadata.name);
        if object.kind().is_namespaced() {
            check_name("metadata.namespace", &key.namespace)?;
        }
        let facts = ObjectFacts::compile(object, metadata, &key, model)?;
        let resource_version = metadata.resource_version.parse().ok();
        let encoded = model.keeps_objects().then(|| object.encode_to_vec().into());
        Ok(Object { key, resource_version, facts, encoded, _lease: model.names().lease() })
    }

    /// An object like this one with another key, and with facts that follow from the key.
    pub(crate) fn copied(&self, key: ObjectKey, facts: ObjectFacts) -> Object {
        Object { key, facts, encoded: None, ..self.clone() }
    }

    /// The encoded object. `None` where it is not kept: see [`Cluster::observed_by`](crate::Cluster::observed_by).
    pub fn encoded(&self) -> Option<&Arc<[u8]>> {
        self.encoded.as_ref()
    }

    /// Kind, namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    pub(crate) fn facts(&self) -> &ObjectFacts {
        &self.facts
    }

    /// `metadata.resourceVersion`, where it is a number.
    pub(crate) fn resource_version(&self) -> Option<u64> {
        self.resource_version
    }
}
