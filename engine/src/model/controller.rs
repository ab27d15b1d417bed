//! Controllers that own pods: read for one thing, the selector of default spread constraints. Rules: S-PTS-12, W-SEL-5,
//! W-SEL-6.

use std::collections::BTreeMap;

use berth_proto::meta_v1;

use super::intern::{Interner, Symbol};
use super::label_selector::LabelSelector;
use super::object::ObjectKind;
use super::selector::{Requirement, Rule};

/// Names a controller: what a pod's owner reference says.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ControllerKey {
    kind: ObjectKind,
    namespace: Symbol,
    name: Symbol,
}

/// A ReplicationController, ReplicaSet or StatefulSet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    /// `None` where it is absent or does not parse, which adds nothing (W-SEL-6).
    pub(crate) selector: Option<LabelSelector>,
}

impl ControllerKey {
    pub(crate) fn new(
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        names: &Interner,
    ) -> ControllerKey {
        ControllerKey { kind, namespace: names.intern(namespace), name: names.intern(name) }
    }

    pub(crate) fn kind(self) -> ObjectKind {
        self.kind
    }

    /// The controller that owns a pod, if it is of a kind that default constraints look at (S-PTS-12).
    pub(crate) fn of_pod(
        metadata: &meta_v1::ObjectMeta,
        namespace: &str,
        names: &Interner,
    ) -> Option<ControllerKey> {
        let owner =
            metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
        let kind = match (owner.kind.as_str(), owner.api_version.as_str()) {
            ("ReplicationController", "v1") => ObjectKind::ReplicationController,
            ("ReplicaSet", "apps/v1") => ObjectKind::ReplicaSet,
            ("StatefulSet", "apps/v1") => ObjectKind::StatefulSet,
            _ => return None,
        };
        Some(ControllerKey::new(kind, namespace, &owner.name, names))
    }
}

impl Controller {
    /// Of a map of equalities, which is not validated (W-SEL-5).
    pub(crate) fn of_map(
        selector: Option<&BTreeMap<String, String>>,
        names: &Interner,
    ) -> Controller {
        let requirements = selector.into_iter().flatten().map(|(key, value)| Requirement {
            key: names.intern(key),
            rule: Rule::In([names.intern(value)].into_iter().collect()),
        });
        Controller { selector: Some(LabelSelector::of(requirements.collect())) }
    }

    /// Of a label selector.
    pub(crate) fn of_selector(
        selector: Option<&meta_v1::LabelSelector>,
        names: &Interner,
    ) -> Controller {
        let compiled = selector.map(|selector| LabelSelector::compile(selector, names));
        Controller { selector: compiled.and_then(Result::ok) }
    }
}
