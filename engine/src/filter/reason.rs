//! Reason: the text and the code of every rejection, once. Texts are kube-scheduler's, byte for byte.

use std::borrow::Cow;

use crate::model::intern::{Interner, Symbol};
use crate::model::resources::Resource;
use crate::plugin::StatusCode;

/// Why a filter refuses a node.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Reason {
    /// S-UNS-1
    NodeUnschedulable,
    /// S-NAM-1
    NodeName,
    /// S-TNT-1
    UntoleratedTaint,
    /// S-NAF-3
    EnforcedNodeAffinity,
    /// S-NAF-4
    NodeAffinity,
    /// S-PRT-4
    NodePorts,
    /// S-FIT-8
    TooManyPods,
    /// S-FIT-8
    Insufficient(Resource),
    /// S-VLR-4
    DiskConflict,
    /// S-VLR-5
    ReadWriteOncePodConflict,
    /// S-VLL-5
    MaxVolumeCount,
    /// S-VLL-2: the whole text.
    ClaimLookup(Symbol),
    /// S-VLB-8
    VolumeNodeAffinity,
    /// S-VLB-8
    NoVolumeToBind,
    /// S-VLB-8
    NotEnoughStorage,
    /// S-VLB-8
    MissingVolume,
    /// S-VLZ-3
    VolumeZone,
    /// S-PTS-7
    MissingTopologyLabel,
    /// S-PTS-7
    PodTopologySpread,
    /// S-IPA-7
    PodAffinity,
    /// S-IPA-7
    PodAntiAffinity,
    /// S-IPA-7
    ExistingAntiAffinity,
    /// S-NDF-2
    NodeDeclaredFeatures,
    /// S-PF-6: left out by NodeAffinity's PreFilter result.
    PreFilterNodeAffinity,
    /// S-PRE-8
    NoVictims,
    /// S-PRE-17
    PreemptionNotHelpful,
    /// Berth's own, where violating a disruption budget is refused.
    DisruptionBudget,
}

impl Reason {
    /// kube-scheduler's text.
    pub(crate) fn text(self, names: &Interner) -> Cow<'static, str> {
        match self {
            Reason::NodeUnschedulable => "node(s) were unschedulable".into(),
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
            Reason::Insufficient(Resource::Cpu) => "Insufficient cpu".into(),
            Reason::Insufficient(Resource::Memory) => "Insufficient memory".into(),
            Reason::Insufficient(Resource::EphemeralStorage) => {
                "Insufficient ephemeral-storage".into()
            }
            Reason::Insufficient(Resource::Scalar(name)) => {
                format!("Insufficient {}", names.name(name)).into()
            }
            Reason::DiskConflict => "node(s) had no available disk".into(),
            Reason::ReadWriteOncePodConflict => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
                 already in-use by another pod"
                    .into()
            }
            Reason::MaxVolumeCount => "node(s) exceed max volume count".into(),
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
            Reason::NodeDeclaredFeatures => "node(s) didn't match Pod's required features".into(),
            Reason::PreFilterNodeAffinity => {
                "node(s) didn't satisfy plugin(s) [NodeAffinity]".into()
            }
            Reason::NoVictims => "No preemption victims found for incoming pod".into(),
            Reason::PreemptionNotHelpful => "Preemption is not helpful for scheduling".into(),
            Reason::DisruptionBudget => {
                "node(s) where evicting pods would violate a disruption budget".into()
            }
        }
    }

    /// The code that goes with it. Of several reasons of one node the strongest counts; NodeResourcesFit decides by
    /// the node's size (S-FIT-10).
    pub(crate) fn code(self) -> StatusCode {
        match self {
            Reason::NodePorts
            | Reason::TooManyPods
            | Reason::Insufficient(_)
            | Reason::DiskConflict
            | Reason::ReadWriteOncePodConflict
            | Reason::MaxVolumeCount
            | Reason::PodTopologySpread
            | Reason::PodAntiAffinity
            | Reason::ExistingAntiAffinity
            | Reason::DisruptionBudget => StatusCode::Unschedulable,
            Reason::NodeUnschedulable
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
            | Reason::NodeDeclaredFeatures
            | Reason::PreFilterNodeAffinity
            | Reason::NoVictims
            | Reason::PreemptionNotHelpful => StatusCode::UnschedulableAndUnresolvable,
        }
    }
}
