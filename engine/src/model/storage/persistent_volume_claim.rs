//! PersistentVolumeClaim: its request, and the state of its binding (S-VLB-1, S-VLB-2, S-VLB-5, S-VLB-6).

use std::sync::Arc;

use berth_proto::{Amount, core_v1, meta_v1};

use super::mode::{AccessModes, VolumeMode};
use crate::model::intern::{Interner, Symbol};
use crate::model::key::{ClaimKey, ObjectKey};
use crate::model::label_selector::LabelSelector;
use crate::model::object::Compile;
use crate::model::storage::field::{class_of, storage_of};
use crate::model::{Model, ModelError};

/// Facts of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PersistentVolumeClaim {
    pub(crate) key: ClaimKey,
    pub(crate) uid: Arc<str>,
    /// The class; the empty text where the claim names none.
    pub(crate) class: Symbol,
    /// `spec.volumeName`, if it is not empty.
    pub(crate) volume: Option<Arc<str>>,
    /// Whether the binding is complete on both sides.
    pub(crate) is_bind_completed: bool,
    /// The node that a driver is to provision for.
    pub(crate) selected_node: Option<Symbol>,
    /// The requested amount of storage.
    pub(crate) request: Option<Amount>,
    pub(crate) access_modes: AccessModes,
    pub(crate) volume_mode: VolumeMode,
    pub(crate) attributes_class: Symbol,
    /// Selector of the volume's labels; `None` matches any volume.
    pub(crate) selector: Option<LabelSelector>,
    /// Whether the phase is `Lost`.
    pub(crate) is_lost: bool,
    pub(crate) is_deleting: bool,
    /// The uid of the controller that owns it.
    pub(crate) controller: Option<Arc<str>>,
}

impl Compile for core_v1::PersistentVolumeClaim {
    type Facts = PersistentVolumeClaim;

    fn compile(
        &self,
        metadata: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<PersistentVolumeClaim, ModelError> {
        let names = model.names();
        PersistentVolumeClaim::compile(self, metadata, key, names)
    }
}

impl PersistentVolumeClaim {
    pub(crate) fn compile(
        claim: &core_v1::PersistentVolumeClaim,
        metadata: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        names: &Interner,
    ) -> Result<PersistentVolumeClaim, ModelError> {
        let Some(spec) = &claim.spec else {
            return Err(ModelError::new("spec", "is missing"));
        };
        let requests = spec.resources.as_ref().map(|resources| &resources.requests);
        let request =
            requests.map(|list| storage_of(list, "spec.resources.requests")).transpose()?;
        let selector = spec.selector.as_ref();
        let selector = selector
            .map(|selector| LabelSelector::compile(selector, names))
            .transpose()
            .map_err(|error| error.under("spec.selector"))?;
        let annotations = &metadata.annotations;
        let selected_node = annotations.get("volume.kubernetes.io/selected-node");
        let controller = metadata.controller();
        Ok(PersistentVolumeClaim {
            key: ClaimKey { namespace: key.namespace.clone(), name: key.name.clone() },
            uid: metadata.uid.as_str().into(),
            class: class_of(metadata, spec.storage_class_name.as_deref().unwrap_or(""), names),
            volume: Some(spec.volume_name.as_str()).filter(|name| !name.is_empty()).map(Arc::from),
            is_bind_completed: annotations.contains_key("pv.kubernetes.io/bind-completed"),
            selected_node: selected_node.map(|node| names.intern(node)),
            request: request.flatten(),
            access_modes: AccessModes::compile(&spec.access_modes)?,
            volume_mode: VolumeMode::compile(spec.volume_mode.as_deref())?,
            attributes_class: names
                .intern(spec.volume_attributes_class_name.as_deref().unwrap_or_default()),
            selector,
            is_lost: claim.status.as_ref().is_some_and(|status| status.phase == "Lost"),
            is_deleting: metadata.deletion_timestamp.is_some(),
            controller: controller.map(|owner| owner.uid.as_str().into()),
        })
    }

    /// Whether the claim is completely bound to a volume (S-VLB-2).
    pub(crate) fn is_bound(&self) -> bool {
        self.volume.is_some() && self.is_bind_completed
    }

    /// Whether the claim was created for the pod of this uid, as that of a generic ephemeral volume has to be.
    pub(crate) fn is_owned_by(&self, pod_uid: &str) -> bool {
        self.controller.as_deref() == Some(pod_uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    fn compile(json: &str, names: &Interner) -> Result<PersistentVolumeClaim, ModelError> {
        let claim: core_v1::PersistentVolumeClaim = serde_json::from_str(json).unwrap();
        let metadata = claim.metadata.clone().unwrap_or_default();
        let key = ObjectKey::new(ObjectKind::PersistentVolumeClaim, &metadata.namespace, "c");
        PersistentVolumeClaim::compile(&claim, &metadata, &key, names)
    }

    /// S-VLB-2, S-VLB-5
    #[test]
    fn annotations_and_owners() {
        let names = Interner::new();
        let json = r#"{"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n",
            "pv.kubernetes.io/bind-completed": "", "volume.beta.kubernetes.io/storage-class": "old"},
            "ownerReferences": [{"uid": "x"}, {"uid": "u", "controller": true}]},
            "spec": {"storageClassName": "new"}}"#;
        let claim = compile(json, &names).unwrap();
        assert_eq!(claim.selected_node, Some(names.intern("n")));
        assert_eq!(claim.class, names.intern("old"));
        assert!(claim.is_owned_by("u") && !claim.is_owned_by("x"));
        assert!(!claim.is_bound(), "no volume");
        assert_eq!(&*claim.key.namespace, "default");
        let json = r#"{"spec": {"volumeName": "v"}}"#;
        let prebound = compile(json, &names).unwrap();
        assert!(!prebound.is_bound() && !prebound.is_owned_by(""));
        assert_eq!(prebound.class, Symbol::EMPTY);
    }

    #[test]
    fn parse_errors_name_their_field() {
        let names = Interner::new();
        for (json, field) in [
            ("{}", "spec"),
            (
                r#"{"spec": {"resources": {"requests": {"storage": "1X"}}}}"#,
                "spec.resources.requests[storage]",
            ),
            (r#"{"spec": {"accessModes": [""]}}"#, "spec.accessModes[0]"),
            (r#"{"spec": {"volumeMode": "file"}}"#, "spec.volumeMode"),
            (
                r#"{"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}"#,
                "spec.selector.matchExpressions[0].values",
            ),
        ] {
            assert_eq!(compile(json, &names).unwrap_err().field, field, "{json}");
        }
    }
}
