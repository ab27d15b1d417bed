//! Reason: text, code and plugin of every rejection, in one place. Texts equal kube-scheduler's byte for byte.

use std::borrow::Cow;

use crate::model::intern::{Interner, Symbol};
use crate::model::resources::Resource;
use crate::plugin::{Plugin, StatusCode};

/// Why a plugin refuses a node.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Reason {
    /// The node is cordoned (S-UNS-1).
    NodeUnschedulable,
    /// The node is under a fence of the ledger (S-FNC-1); Berth's own reason.
    Fenced,
    /// The pod names another node (S-NAM-1).
    NodeName,
    /// The node has a taint that the pod does not tolerate (S-TNT-1).
    UntoleratedTaint,
    /// The policy's added affinity does not match the node (S-NAF-3).
    EnforcedNodeAffinity,
    /// The pod's node selector or required affinity does not match the node (S-NAF-4).
    NodeAffinity,
    /// A host port is in use (S-PRT-4).
    NodePorts,
    /// The node has its maximum number of pods (S-FIT-8).
    TooManyPods,
    /// A resource is insufficient (S-FIT-8).
    Insufficient(Resource),
    /// A disk is in use by another pod (S-VLR-4).
    DiskConflict,
    /// A `ReadWriteOncePod` claim is in use by another pod (S-VLR-5).
    ReadWriteOncePodConflict,
    /// A driver's limit of volumes would be exceeded (S-VLL-5).
    MaxVolumeCount,
    /// A driver that the pod's volumes need is not installed (S-137-21, S-137-28).
    MissingDriver(Symbol),
    /// A claim could not be looked up (S-VLL-2); the symbol is the whole text.
    ClaimLookup(Symbol),
    /// A bound volume's affinity does not match the node (S-VLB-8).
    VolumeNodeAffinity,
    /// A claim has no volume to bind on the node (S-VLB-8).
    NoVolumeToBind,
    /// The node has too little storage to provision (S-VLB-8).
    NotEnoughStorage,
    /// A bound volume does not exist (S-VLB-8).
    MissingVolume,
    /// The node is not in a volume's zone or region (S-VLZ-3).
    VolumeZone,
    /// The node lacks the topology key of a spread constraint (S-PTS-7).
    MissingTopologyLabel,
    /// A spread constraint would be violated (S-PTS-7).
    PodTopologySpread,
    /// Required pod affinity is not satisfied (S-IPA-7).
    PodAffinity,
    /// The pod's required anti-affinity is violated (S-IPA-7).
    PodAntiAffinity,
    /// Required anti-affinity of an existing pod is violated (S-IPA-7).
    ExistingAntiAffinity,
    /// No devices satisfy the pod's claims (S-DRA-24).
    NoDevices,
    /// The same, and a pool of devices is invalid (S-DRA-24).
    InvalidResourcePools,
    /// A claim that is allocated cannot be used on the node (S-DRA-25).
    ClaimNotAvailable,
    /// The claim for extended resources is left from an earlier attempt (S-DRA-104).
    ExtendedClaimExists,
    /// Neither the node nor a class of devices provides an extended resource (S-DRA-104).
    ExtendedResource,
    /// The node lacks a required feature (S-NDF-2).
    NodeDeclaredFeatures,
    /// NodeAffinity's PreFilter result leaves the node out (S-PF-6).
    PreFilterNodeAffinity,
    /// No pod on the node has a lower priority (S-PRE-8).
    NoVictims,
    /// Eviction cannot help on the node (S-PRE-17).
    PreemptionNotHelpful,
    /// Eviction would violate a disruption budget, where the request refuses that; Berth's own reason.
    DisruptionBudget,
    /// The filters pass, but nominated pods take the node's room; Berth's own reason.
    NominatedPods,
}

impl Reason {
    /// kube-scheduler's text.
    pub(crate) fn text(self, names: &Interner) -> Cow<'static, str> {
        match self {
            Reason::NodeUnschedulable => "node(s) were unschedulable".into(),
            Reason::Fenced => "node(s) were fenced by the ledger".into(),
            Reason::NodeName => "node(s) didn't match the requested node name".into(),
            Reason::UntoleratedTaint => "node(s) had untolerated taint(s)".into(),
            Reason::EnforcedNodeAffinity => {
                "node(s) didn't match scheduler-enforced node affinity".into()
            }
            Reason::NodeAffinity => "node(s) didn't match Pod's node affinity/selector".into(),
            Reason::NodePorts => {
                "node(s) didn't have free ports for the requested pod ports".into()
            }
            Reason::TooManyPods => "Too many pods".into(),
            Reason::Insufficient(resource) => insufficient(resource, names),
            Reason::DiskConflict => "node(s) had no available disk".into(),
            Reason::ReadWriteOncePodConflict => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
                 already in-use by another pod"
                    .into()
            }
            Reason::MaxVolumeCount => "node(s) exceed max volume count".into(),
            Reason::MissingDriver(driver) => {
                format!("{} CSI driver is not installed on the node", names.name(driver)).into()
            }
            Reason::ClaimLookup(text) => names.name(text).to_string().into(),
            Reason::VolumeNodeAffinity => {
                "node(s) didn't match PersistentVolume's node affinity".into()
            }
            Reason::NoVolumeToBind => {
                "node(s) didn't find available persistent volumes to bind".into()
            }
            Reason::NotEnoughStorage => "node(s) did not have enough free storage".into(),
            Reason::MissingVolume => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)".into()
            }
            Reason::VolumeZone => "node(s) had no available volume zone".into(),
            Reason::MissingTopologyLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
                    .into()
            }
            Reason::PodTopologySpread => {
                "node(s) didn't match pod topology spread constraints".into()
            }
            Reason::PodAffinity => "node(s) didn't match pod affinity rules".into(),
            Reason::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules".into(),
            Reason::ExistingAntiAffinity => {
                "node(s) didn't satisfy existing pods anti-affinity rules".into()
            }
            Reason::NoDevices => "cannot allocate all claims".into(),
            Reason::InvalidResourcePools => "invalid resource pools were encountered".into(),
            Reason::ClaimNotAvailable => "resourceclaim not available on the node".into(),
            Reason::ExtendedClaimExists => "cannot schedule extended resource claim".into(),
            Reason::ExtendedResource => "cannot fit resource".into(),
            Reason::NodeDeclaredFeatures => "node(s) didn't match Pod's required features".into(),
            Reason::PreFilterNodeAffinity => {
                "node(s) didn't satisfy plugin(s) [NodeAffinity]".into()
            }
            Reason::NoVictims => "No preemption victims found for incoming pod".into(),
            Reason::PreemptionNotHelpful => "Preemption is not helpful for scheduling".into(),
            Reason::DisruptionBudget => {
                "node(s) where evicting pods would violate a disruption budget".into()
            }
            Reason::NominatedPods => {
                "node(s) had no room beside the pods that are nominated to them".into()
            }
        }
    }

    /// The plugin that gives this reason. For a node that NodeAffinity's PreFilter leaves out, kube-scheduler names no
    /// plugin in the node's status (S-PF-6); the decision is NodeAffinity's.
    pub(crate) fn plugin(self) -> Plugin {
        match self {
            Reason::NodeUnschedulable | Reason::Fenced => Plugin::NodeUnschedulable,
            Reason::NodeName => Plugin::NodeName,
            Reason::UntoleratedTaint => Plugin::TaintToleration,
            Reason::EnforcedNodeAffinity | Reason::NodeAffinity | Reason::PreFilterNodeAffinity => {
                Plugin::NodeAffinity
            }
            Reason::NodePorts => Plugin::NodePorts,
            Reason::TooManyPods | Reason::Insufficient(_) => Plugin::NodeResourcesFit,
            Reason::DiskConflict | Reason::ReadWriteOncePodConflict => Plugin::VolumeRestrictions,
            Reason::MaxVolumeCount | Reason::MissingDriver(_) | Reason::ClaimLookup(_) => {
                Plugin::NodeVolumeLimits
            }
            Reason::VolumeNodeAffinity
            | Reason::NoVolumeToBind
            | Reason::NotEnoughStorage
            | Reason::MissingVolume => Plugin::VolumeBinding,
            Reason::VolumeZone => Plugin::VolumeZone,
            Reason::MissingTopologyLabel | Reason::PodTopologySpread => Plugin::PodTopologySpread,
            Reason::PodAffinity | Reason::PodAntiAffinity | Reason::ExistingAntiAffinity => {
                Plugin::InterPodAffinity
            }
            Reason::NoDevices
            | Reason::InvalidResourcePools
            | Reason::ClaimNotAvailable
            | Reason::ExtendedClaimExists
            | Reason::ExtendedResource => Plugin::DynamicResources,
            Reason::NodeDeclaredFeatures => Plugin::NodeDeclaredFeatures,
            Reason::NoVictims
            | Reason::PreemptionNotHelpful
            | Reason::DisruptionBudget
            | Reason::NominatedPods => Plugin::DefaultPreemption,
        }
    }

    /// The status code of the reason. The strongest code of a node's reasons applies, except that NodeResourcesFit
    /// decides by the node's size (S-FIT-10).
    pub(crate) fn code(self) -> StatusCode {
        match self {
            Reason::NodePorts
            | Reason::TooManyPods
            | Reason::Insufficient(_)
            | Reason::DiskConflict
            | Reason::ReadWriteOncePodConflict
            | Reason::MaxVolumeCount
            | Reason::MissingDriver(_)
            | Reason::PodTopologySpread
            | Reason::PodAntiAffinity
            | Reason::ExistingAntiAffinity
            | Reason::DisruptionBudget
            | Reason::NominatedPods => StatusCode::Unschedulable,
            Reason::NodeUnschedulable
            | Reason::Fenced
            | Reason::NodeName
            | Reason::UntoleratedTaint
            | Reason::EnforcedNodeAffinity
            | Reason::NodeAffinity
            | Reason::ClaimLookup(_)
            | Reason::VolumeNodeAffinity
            | Reason::NoVolumeToBind
            | Reason::NotEnoughStorage
            | Reason::MissingVolume
            | Reason::VolumeZone
            | Reason::MissingTopologyLabel
            | Reason::PodAffinity
            | Reason::NoDevices
            | Reason::InvalidResourcePools
            | Reason::ClaimNotAvailable
            | Reason::ExtendedClaimExists
            | Reason::ExtendedResource
            | Reason::NodeDeclaredFeatures
            | Reason::PreFilterNodeAffinity
            | Reason::NoVictims
            | Reason::PreemptionNotHelpful => StatusCode::UnschedulableAndUnresolvable,
        }
    }
}

fn insufficient(resource: Resource, names: &Interner) -> Cow<'static, str> {
    match resource {
        Resource::Cpu => "Insufficient cpu".into(),
        Resource::Memory => "Insufficient memory".into(),
        Resource::EphemeralStorage => "Insufficient ephemeral-storage".into(),
        Resource::Scalar(name) => format!("Insufficient {}", names.name(name)).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::filter::table::FILTERS;
    use crate::filter::{Account, Filter};

    /// The following reason; a new reason does not compile until it is added here.
    fn next(reason: Reason) -> Option<Reason> {
        Some(match reason {
            Reason::NodeUnschedulable => Reason::Fenced,
            Reason::Fenced => Reason::NodeName,
            Reason::NodeName => Reason::UntoleratedTaint,
            Reason::UntoleratedTaint => Reason::EnforcedNodeAffinity,
            Reason::EnforcedNodeAffinity => Reason::NodeAffinity,
            Reason::NodeAffinity => Reason::NodePorts,
            Reason::NodePorts => Reason::TooManyPods,
            Reason::TooManyPods => Reason::Insufficient(Resource::Cpu),
            Reason::Insufficient(Resource::Cpu) => Reason::Insufficient(Resource::Memory),
            Reason::Insufficient(Resource::Memory) => {
                Reason::Insufficient(Resource::EphemeralStorage)
            }
            Reason::Insufficient(Resource::EphemeralStorage) => {
                Reason::Insufficient(Resource::Scalar(Symbol::HOSTNAME))
            }
            Reason::Insufficient(Resource::Scalar(_)) => Reason::DiskConflict,
            Reason::DiskConflict => Reason::ReadWriteOncePodConflict,
            Reason::ReadWriteOncePodConflict => Reason::MaxVolumeCount,
            Reason::MaxVolumeCount => Reason::MissingDriver(Symbol::HOSTNAME),
            Reason::MissingDriver(_) => Reason::ClaimLookup(Symbol::HOSTNAME),
            Reason::ClaimLookup(_) => Reason::VolumeNodeAffinity,
            Reason::VolumeNodeAffinity => Reason::NoVolumeToBind,
            Reason::NoVolumeToBind => Reason::NotEnoughStorage,
            Reason::NotEnoughStorage => Reason::MissingVolume,
            Reason::MissingVolume => Reason::VolumeZone,
            Reason::VolumeZone => Reason::MissingTopologyLabel,
            Reason::MissingTopologyLabel => Reason::PodTopologySpread,
            Reason::PodTopologySpread => Reason::PodAffinity,
            Reason::PodAffinity => Reason::PodAntiAffinity,
            Reason::PodAntiAffinity => Reason::ExistingAntiAffinity,
            Reason::ExistingAntiAffinity => Reason::NoDevices,
            Reason::NoDevices => Reason::InvalidResourcePools,
            Reason::InvalidResourcePools => Reason::ClaimNotAvailable,
            Reason::ClaimNotAvailable => Reason::ExtendedClaimExists,
            Reason::ExtendedClaimExists => Reason::ExtendedResource,
            Reason::ExtendedResource => Reason::NodeDeclaredFeatures,
            Reason::NodeDeclaredFeatures => Reason::PreFilterNodeAffinity,
            Reason::PreFilterNodeAffinity => Reason::NoVictims,
            Reason::NoVictims => Reason::PreemptionNotHelpful,
            Reason::PreemptionNotHelpful => Reason::DisruptionBudget,
            Reason::DisruptionBudget => Reason::NominatedPods,
            Reason::NominatedPods => return None,
        })
    }

    fn every() -> Vec<Reason> {
        std::iter::successors(Some(Reason::NodeUnschedulable), |reason| next(*reason)).collect()
    }

    #[test]
    fn every_reason_is_a_filters_or_preemptions_and_every_filter_has_one() {
        let names = Interner::new();
        let mut texts = BTreeSet::new();
        for reason in every() {
            let plugin = reason.plugin();
            let is_known = Filter::of(plugin).is_some() || plugin == Plugin::DefaultPreemption;
            assert!(is_known, "{reason:?}: {plugin}");
            assert!(texts.insert(reason.text(&names)), "{reason:?} has the text of another reason");
        }
        for filter in &FILTERS {
            assert!(every().iter().any(|reason| reason.plugin() == filter.plugin));
            if let Account::Always(reason) = filter.account {
                assert_eq!(reason.plugin(), filter.plugin);
            }
        }
    }

    /// Every reason that was recorded from kube-scheduler belongs to the same plugin here, for all filters but those of
    /// DynamicResources, which has recordings of its own.
    #[test]
    fn recorded_reasons_belong_to_the_recorded_plugins() {
        let names = Interner::new();
        let known = every().into_iter().map(|reason| (reason.text(&names), reason.plugin()));
        let known: BTreeMap<_, _> = known.collect();
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/data/conformance");
        let mut plugins = BTreeSet::new();
        for file in Path::new(directory).read_dir().unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                for line in std::fs::read_to_string(&path).unwrap().lines() {
                    check(&serde_json::from_str(line).unwrap(), &known, &mut plugins);
                }
            }
        }
        let others = FILTERS.iter().filter(|filter| filter.plugin != Plugin::DynamicResources);
        assert_eq!(plugins.len(), others.count(), "{plugins:?}");
    }

    fn check(
        value: &Value,
        known: &BTreeMap<Cow<'static, str>, Plugin>,
        plugins: &mut BTreeSet<Plugin>,
    ) {
        let given = value["plugin"].as_str().and_then(Plugin::from_name);
        for reason in value["reasons"].as_array().into_iter().flatten() {
            let reason = reason.as_str().unwrap();
            // PreFilter texts are not in the table.
            if let (Some(given), Some(plugin)) = (given, known.get(reason)) {
                assert_eq!(*plugin, given, "{reason}");
                plugins.insert(given);
            }
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| check(item, known, plugins)),
            Value::Object(fields) => {
                fields.values().for_each(|field| check(field, known, plugins));
            }
            _ => {}
        }
    }
}
