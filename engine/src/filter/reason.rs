//! Reason: the text and the code of every rejection, once. Texts are kube-scheduler's, byte for byte.

use std::borrow::Cow;

use crate::model::intern::Interner;
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
    /// S-NDF-2
    NodeDeclaredFeatures,
    /// S-PF-6: left out by NodeAffinity's PreFilter result.
    PreFilterNodeAffinity,
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
            Reason::NodeDeclaredFeatures => "node(s) didn't match Pod's required features".into(),
            Reason::PreFilterNodeAffinity => {
                "node(s) didn't satisfy plugin(s) [NodeAffinity]".into()
            }
        }
    }

    /// The code that goes with it. Of several reasons of one node the strongest counts; NodeResourcesFit decides by
    /// the node's size (S-FIT-10).
    pub(crate) fn code(self) -> StatusCode {
        match self {
            Reason::NodePorts | Reason::TooManyPods | Reason::Insufficient(_) => {
                StatusCode::Unschedulable
            }
            Reason::NodeUnschedulable
            | Reason::NodeName
            | Reason::UntoleratedTaint
            | Reason::EnforcedNodeAffinity
            | Reason::NodeAffinity
            | Reason::NodeDeclaredFeatures
            | Reason::PreFilterNodeAffinity => StatusCode::UnschedulableAndUnresolvable,
        }
    }
}
