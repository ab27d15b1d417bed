//! Endless requests out of a finite workload.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_proto::berth_v1::BatchEntry;
use berth_proto::core_v1::Pod;

use super::LoadSpec;
use crate::workload::renamed;

/// Cuts the pods of a workload into requests, starting over under new names when they run out.
#[derive(Debug)]
pub struct Requests {
    pods: Arc<[Pod]>,
    next: AtomicU64,
    entries_per_request: u64,
    replicas: u32,
}

impl Requests {
    /// Requests of `spec.batch_size` pods in entries of `spec.replicas`; `pods` is not empty.
    pub fn new(pods: Arc<[Pod]>, spec: &LoadSpec) -> Self {
        debug_assert!(!pods.is_empty());
        let entries_per_request = (spec.batch_size / spec.replicas.max(1) as usize).max(1) as u64;
        Self { pods, next: AtomicU64::new(0), entries_per_request, replicas: spec.replicas }
    }

    /// Number of the request, its entries and the pods that they stand for.
    pub fn next(&self) -> (u64, Vec<BatchEntry>, u64) {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let first = sequence * self.entries_per_request;
        let entries: Vec<BatchEntry> =
            (first..first + self.entries_per_request).map(|number| self.entry(number)).collect();
        (sequence, entries, self.entries_per_request * u64::from(self.replicas.max(1)))
    }

    fn entry(&self, number: u64) -> BatchEntry {
        let n_pods = self.pods.len() as u64;
        let (round, position) = (number / n_pods, number % n_pods);
        let pod = &self.pods[position as usize];
        let pod = match round {
            0 => pod.clone(),
            _ => renamed(pod, &format!("{}-r{round}", name(pod))),
        };
        BatchEntry { pod: Some(pod), replicas: self.replicas }
    }
}

fn name(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}
