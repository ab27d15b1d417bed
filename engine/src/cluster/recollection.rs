//! Recollection: what decisions read of a cluster's past, and what no object that is there now tells. Rules: S-PRE-12 (order
//! of a node's pods), S-PRT-5 (used ports), S-IL-4 (size of an image), S-IL-5 (nodes that have an image).

use std::sync::Arc;

use crate::model::PodKey;

/// Something of a cluster's past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recollection {
    /// Number of contradictions of a feed.
    Contradictions(u64),
    /// Images whose size is not that of the first node that reports them now, with their size in bytes.
    ImageSizes(Vec<(Arc<str>, i64)>),
    /// The images of a node as its last change found them.
    Images {
        /// The node.
        node: Arc<str>,
        /// The images.
        images: Vec<SeenImage>,
    },
    /// The pods of a node in the order in which preemption takes them, or those of a node that is not there in the order
    /// in which it gets them.
    PodOrder {
        /// The node.
        node: Arc<str>,
        /// The pods, all of the node.
        pods: Vec<PodKey>,
    },
    /// Host ports that pods of a node have, and which count as free since another pod that had them left.
    FreedPorts {
        /// The node.
        node: Arc<str>,
        /// The ports.
        ports: Vec<FreedPort>,
    },
}

/// An image as a node's last change found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenImage {
    /// Name of the image.
    pub name: Arc<str>,
    /// Its size in bytes.
    pub size_bytes: i64,
    /// Number of nodes that had it.
    pub n_nodes: u32,
}

/// A host port that counts as free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreedPort {
    /// `protocol` of the container's port.
    pub protocol: Arc<str>,
    /// `hostIP` of the container's port.
    pub ip: Arc<str>,
    /// `hostPort` of the container's port.
    pub port: i32,
}
