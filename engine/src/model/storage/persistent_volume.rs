//! PersistentVolume: its properties, the nodes that can use it, and the claim it is bound to (S-VLB-4, S-VLB-6,
//! S-VLZ-2).

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::{Amount, core_v1, meta_v1};
use smallvec::SmallVec;

use super::anchor::anchors;
use super::in_tree;
use super::mode::{AccessModes, VolumeMode};
use crate::model::intern::{Interner, Symbol};
use crate::model::key::{ClaimKey, ObjectKey, VolumeId};
use crate::model::label::{self, Labels};
use crate::model::object::Compile;
use crate::model::selector::NodeSelector;
use crate::model::storage::field::{class_of, storage_of};
use crate::model::{Model, ModelError};

/// Facts of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PersistentVolume {
    pub(crate) name: Arc<str>,
    pub(crate) labels: Labels,
    pub(crate) class: Symbol,
    pub(crate) capacity: Amount,
    pub(crate) access_modes: AccessModes,
    pub(crate) volume_mode: VolumeMode,
    pub(crate) attributes_class: Symbol,
    pub(crate) claim: Option<ClaimReference>,
    /// Whether the phase is `Available`.
    pub(crate) is_available: bool,
    pub(crate) is_deleting: bool,
    /// Selector of the nodes that can use the volume, by their labels; `None` means all.
    pub(crate) node_affinity: Option<NodeSelector>,
    /// Zone and region labels that VolumeZone reads.
    pub(crate) zones: SmallVec<[ZoneLabel; 0]>,
    /// The volume as it counts against a driver's limit; `None` where it does not count.
    pub(crate) counted: Option<VolumeId>,
    /// Whether a CSI driver provisioned the volume: others do not count while they are only attached (S-VLL-5).
    pub(crate) is_csi: bool,
}

/// The claim that a volume is reserved for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClaimReference {
    pub(crate) key: ClaimKey,
    /// The claim's uid; empty where any claim of this name matches.
    pub(crate) uid: Arc<str>,
}

/// A label of a volume that names zones or regions (S-VLZ-2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ZoneLabel {
    pub(crate) key: Symbol,
    /// The newer key that replaces this one on nodes.
    pub(crate) successor: Option<Symbol>,
    pub(crate) values: SmallVec<[Symbol; 2]>,
}

/// Label keys of zones and regions, and the keys that replaced legacy ones (S-VLZ-2, S-VLZ-3).
pub(crate) const ZONE_LABELS: [(&str, Option<&str>); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", Some("topology.kubernetes.io/zone")),
    ("failure-domain.beta.kubernetes.io/region", Some("topology.kubernetes.io/region")),
    ("topology.kubernetes.io/zone", None),
    ("topology.kubernetes.io/region", None),
];

impl Compile for core_v1::PersistentVolume {
    type Facts = PersistentVolume;

    fn compile(
        &self,
        metadata: &meta_v1::ObjectMeta,
        _: &ObjectKey,
        model: &Model,
    ) -> Result<PersistentVolume, ModelError> {
        let names = model.names();
        PersistentVolume::compile(self, metadata, names)
    }
}

impl PersistentVolume {
    pub(crate) fn compile(
        volume: &core_v1::PersistentVolume,
        metadata: &meta_v1::ObjectMeta,
        names: &Interner,
    ) -> Result<PersistentVolume, ModelError> {
        let Some(spec) = &volume.spec else {
            return Err(ModelError::new("spec", "is missing"));
        };
        let source = spec.persistent_volume_source.as_ref();
        let affinity = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        Ok(PersistentVolume {
            name: metadata.name.as_str().into(),
            labels: label::compile(&metadata.labels, names)?,
            class: class_of(metadata, &spec.storage_class_name, names),
            capacity: storage_of(&spec.capacity, "spec.capacity")?.unwrap_or_default(),
            access_modes: AccessModes::compile(&spec.access_modes)?,
            volume_mode: VolumeMode::compile(spec.volume_mode.as_deref())?,
            attributes_class: names
                .intern(spec.volume_attributes_class_name.as_deref().unwrap_or_default()),
            claim: spec.claim_ref.as_ref().map(|claim| ClaimReference {
                key: ClaimKey {
                    namespace: claim.namespace.as_str().into(),
                    name: claim.name.as_str().into(),
                },
                uid: claim.uid.as_str().into(),
            }),
            is_available: volume.status.as_ref().is_some_and(|s| s.phase == "Available"),
            is_deleting: metadata.deletion_timestamp.is_some(),
            node_affinity: affinity.map(|selector| compile_affinity(selector, names)),
            zones: compile_zones(&metadata.labels, names),
            counted: source.and_then(|source| in_tree::persistent_volume(metadata, source, names)),
            is_csi: source.is_some_and(|source| source.csi.is_some()),
        })
    }

    /// A set of labels of which every node that can use the volume has at least one; `None` where any node may use it.
    pub(crate) fn anchors(&self) -> Option<Vec<(Symbol, Symbol)>> {
        self.node_affinity.as_ref().and_then(|selector| anchors(&selector.terms))
    }
}

/// Compiles a volume's affinity, which matches labels only: requirements on fields are ignored, but a term that does
/// not parse because of them still matches nothing (S-VLB-4).
fn compile_affinity(selector: &core_v1::NodeSelector, names: &Interner) -> NodeSelector {
    let mut compiled = NodeSelector::compile(selector, names);
    compiled.names = None;
    compiled.terms.iter_mut().for_each(|term| term.fields.clear());
    compiled
}

/// Compiles zone labels. Several zones are written as one text joined by `__`; an empty part invalidates the label
/// (S-VLZ-2).
fn compile_zones(labels: &BTreeMap<String, String>, names: &Interner) -> SmallVec<[ZoneLabel; 0]> {
    let mut zones = SmallVec::new();
    for (key, successor) in ZONE_LABELS {
        let Some(text) = labels.get(key) else { continue };
        let parts = || text.split("__").map(str::trim);
        if parts().any(str::is_empty) {
            continue;
        }
        zones.push(ZoneLabel {
            key: names.intern(key),
            successor: successor.map(|key| names.intern(key)),
            values: parts().map(|zone| names.intern(zone)).collect(),
        });
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::selector::Term;

    fn compile(json: &str, names: &Interner) -> Result<PersistentVolume, ModelError> {
        let volume: core_v1::PersistentVolume = serde_json::from_str(json).unwrap();
        let metadata = volume.metadata.clone().unwrap_or_default();
        PersistentVolume::compile(&volume, &metadata, names)
    }

    /// S-VLZ-2
    #[test]
    fn zones_are_a_set_and_an_empty_part_spoils_it() {
        let names = Interner::new();
        let zones = |value: &str| {
            let json = format!(
                r#"{{"metadata": {{"labels": {{"topology.kubernetes.io/zone": "{value}"}}}}, "spec": {{}}}}"#
            );
            let zones = compile(&json, &names).unwrap().zones;
            zones.iter().flat_map(|label| label.values.clone()).collect::<Vec<_>>()
        };
        let [a, b] = ["a", "b"].map(|name| names.intern(name));
        assert_eq!(zones("a"), [a]);
        assert_eq!(zones("a__b"), [a, b]);
        assert_eq!(zones("a____b"), []);
        assert_eq!(zones(""), []);
    }

    /// S-VLB-4
    #[test]
    fn affinity_knows_no_fields_of_nodes() {
        let names = Interner::new();
        let terms = |operator: &str| {
            let json = format!(
                r#"{{"spec": {{"nodeAffinity": {{"required": {{"nodeSelectorTerms": [
                    {{"matchFields": [{{"key": "metadata.name", "operator": "{operator}", "values": ["n"]}}]}}]}}}}}}}}"#
            );
            compile(&json, &names).unwrap().node_affinity.unwrap().terms
        };
        assert_eq!(terms("In"), [Term::default()], "it holds everywhere");
        assert_eq!(terms("Exists"), []);
        let json = r#"{"spec": {"nodeAffinity": {"required": {}}}}"#;
        let nowhere = compile(json, &names).unwrap();
        assert!(nowhere.node_affinity.as_ref().is_some_and(|selector| selector.terms.is_empty()));
        assert_eq!(nowhere.anchors(), Some(Vec::new()));
        assert_eq!(compile(r#"{"spec": {}}"#, &names).unwrap().anchors(), None);
    }

    #[test]
    fn parse_errors_name_their_field() {
        let names = Interner::new();
        for (json, field) in [
            ("{}", "spec"),
            (r#"{"spec": {"capacity": {"storage": "big"}}}"#, "spec.capacity[storage]"),
            (r#"{"spec": {"capacity": {"storage": "-1"}}}"#, "spec.capacity[storage]"),
            (r#"{"spec": {"accessModes": ["Any"]}}"#, "spec.accessModes[0]"),
            (r#"{"spec": {"volumeMode": "Any"}}"#, "spec.volumeMode"),
            (r#"{"metadata": {"labels": {"a": "-"}}, "spec": {}}"#, "metadata.labels[a]"),
        ] {
            assert_eq!(compile(json, &names).unwrap_err().field, field, "{json}");
        }
    }

    /// S-VLB-2
    #[test]
    fn the_annotation_names_the_class_before_the_field() {
        let names = Interner::new();
        let json = r#"{"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {"storageClassName": "new"}}"#;
        assert_eq!(compile(json, &names).unwrap().class, names.intern("old"));
    }
}
