//! Controllers that own pods: their selectors, for default spread constraints, and their desired number of pods, for
//! drains. Rules: S-PTS-12, S-SD-3, W-SEL-5, W-SEL-6.

use std::hash::BuildHasher;

use berth_proto::{apps_v1, core_v1, meta_v1};
use rustc_hash::FxBuildHasher;

use super::intern::{Interner, Symbol};
use super::label_selector::LabelSelector;
use super::selector::{Requirement, Rule};
use super::{Model, ModelError};
use crate::model::key::{ObjectKey, ObjectKind};
use crate::model::object::Compile;

/// Key of a controller, as in a pod's owner reference.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ControllerKey {
    kind: ObjectKind,
    namespace: Symbol,
    name: Symbol,
}

/// Identifies a pod's controller of any kind: a hash of the owner reference's uid, or of its kind and name where it has
/// no uid.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ControllerId(u64);

impl ControllerId {
    /// The controller's id; `None` for a pod without a controller.
    pub(crate) fn of_pod(metadata: &meta_v1::ObjectMeta) -> Option<ControllerId> {
        let owner = metadata.controller()?;
        let named = (&metadata.namespace, &owner.kind, &owner.name);
        let hash = FxBuildHasher.hash_one((&owner.uid, owner.uid.is_empty().then_some(named)));
        Some(ControllerId(hash))
    }
}

/// A ReplicationController, ReplicaSet or StatefulSet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    pub(crate) key: ControllerKey,
    /// The selector of its pods; `None` where it is absent or does not parse, which adds nothing (W-SEL-6).
    pub(crate) selector: Option<LabelSelector>,
    /// `spec.replicas`, if set.
    pub(crate) n_replicas: Option<i32>,
}

impl ControllerKey {
    fn new(kind: ObjectKind, namespace: &str, name: &str, names: &Interner) -> ControllerKey {
        ControllerKey { kind, namespace: names.intern(namespace), name: names.intern(name) }
    }

    fn of_object(key: &ObjectKey, names: &Interner) -> ControllerKey {
        ControllerKey::new(key.kind, &key.namespace, &key.name, names)
    }

    pub(crate) fn kind(self) -> ObjectKind {
        self.kind
    }

    pub(crate) fn name(self) -> Symbol {
        self.name
    }

    /// The controller that owns a pod, if it is of a kind that default constraints look at (S-PTS-12).
    pub(crate) fn of_pod(
        metadata: &meta_v1::ObjectMeta,
        namespace: &str,
        names: &Interner,
    ) -> Option<ControllerKey> {
        let owner = metadata.controller()?;
        let kind = match (owner.kind.as_str(), owner.api_version.as_str()) {
            ("ReplicationController", "v1") => ObjectKind::ReplicationController,
            ("ReplicaSet", "apps/v1") => ObjectKind::ReplicaSet,
            ("StatefulSet", "apps/v1") => ObjectKind::StatefulSet,
            _ => return None,
        };
        Some(ControllerKey::new(kind, namespace, &owner.name, names))
    }
}

impl Compile for core_v1::ReplicationController {
    type Facts = Controller;

    /// Compiles the selector too, a map of equalities, which is not validated (W-SEL-5).
    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<Controller, ModelError> {
        let names = model.names();
        let selector = self.spec.as_ref().map(|spec| &spec.selector);
        let requirements = selector.into_iter().flatten().map(|(key, value)| Requirement {
            key: names.intern(key),
            rule: Rule::In([names.intern(value)].into_iter().collect()),
        });
        Ok(Controller {
            key: ControllerKey::of_object(key, names),
            selector: Some(LabelSelector::of(requirements.collect())),
            n_replicas: self.spec.as_ref().and_then(|spec| spec.replicas),
        })
    }
}

impl Compile for apps_v1::ReplicaSet {
    type Facts = Controller;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<Controller, ModelError> {
        let names = model.names();
        let selector = self.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let n_replicas = self.spec.as_ref().and_then(|spec| spec.replicas);
        Ok(Controller::of_selector(selector, n_replicas, key, names))
    }
}

impl Compile for apps_v1::StatefulSet {
    type Facts = Controller;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<Controller, ModelError> {
        let names = model.names();
        let selector = self.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let n_replicas = self.spec.as_ref().and_then(|spec| spec.replicas);
        Ok(Controller::of_selector(selector, n_replicas, key, names))
    }
}

impl Controller {
    /// A controller with a label selector.
    fn of_selector(
        selector: Option<&meta_v1::LabelSelector>,
        n_replicas: Option<i32>,
        key: &ObjectKey,
        names: &Interner,
    ) -> Controller {
        let compiled = selector.map(|selector| LabelSelector::compile(selector, names));
        let key = ControllerKey::of_object(key, names);
        Controller { key, selector: compiled.and_then(Result::ok), n_replicas }
    }
}
