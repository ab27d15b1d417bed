//! PlacedPod: a pod on a node, as the lists of rows hold it.

use std::hash::BuildHasher;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::stamp::AssumptionStamp;
use crate::model::population::PopulationId;
use crate::model::shape::{Footprint, Shape};
use crate::model::{Pod, PodKey};

/// A pod on a node.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPod {
    pub(crate) pod: Pod,
    /// Shape of the pod; like the following fields a copy from the pod, for scans that read nothing else.
    pub(crate) shape: Arc<Shape>,
    /// Start time of the pod (S-PRE-10).
    pub(crate) start_time: i64,
    pub(crate) population: PopulationId,
    /// Hash of the pod's name.
    key_hash: u32,
    /// Whether the pod's footprint differs from that of its shape because of its status (S-FIT-5).
    is_resized: bool,
    /// Set if the pod was placed by Berth and is not yet confirmed by a feed (S-CCH-1).
    pub(crate) assumed: Option<AssumptionStamp>,
}

impl PlacedPod {
    pub(crate) fn new(pod: Pod, assumed: Option<AssumptionStamp>) -> PlacedPod {
        PlacedPod {
            shape: pod.shape().clone(),
            start_time: pod.facts().preemption.start_time,
            population: pod.population().id,
            key_hash: hash_of(pod.key()),
            is_resized: pod.facts().resized.is_some(),
            pod,
            assumed,
        }
    }

    /// Whether the pod's footprint differs from that of its shape.
    pub(crate) fn is_resized(&self) -> bool {
        self.is_resized
    }

    /// Amounts that the pod adds to the sums of its node.
    pub(crate) fn footprint(&self) -> &Footprint {
        if self.is_resized { self.pod.footprint() } else { &self.shape.facts.footprint }
    }

    /// Whether this is the pod of a name, with its hash.
    pub(super) fn is(&self, key: &PodKey, hash: u32) -> bool {
        self.key_hash == hash && self.pod.key() == key
    }
}

/// Hash of a pod's name, to distinguish nearly all pods of a row without comparing names.
pub(super) fn hash_of(key: &PodKey) -> u32 {
    FxBuildHasher.hash_one(key) as u32
}
