//! State of the automatic kubelet: whether it is on, and the pods that it will remove.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Settings and pending removals of the kubelet.
pub(crate) struct KubeletState {
    pub(crate) is_on: bool,
    /// Factor of all grace periods.
    pub(crate) grace_scale: f64,
    /// Pods to remove: time, key and uid.
    pub(crate) due: BinaryHeap<Reverse<(Instant, String, String)>>,
}

impl KubeletState {
    pub(crate) fn new(grace_scale: f64) -> KubeletState {
        KubeletState { is_on: false, grace_scale: grace_scale.max(0.0), due: BinaryHeap::new() }
    }
}
