//! [`DeviceTrial`]: the baseline's cluster with devices, on which single decisions of Berth are timed.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::{Cluster, Delta, Outcome, PlaceRequest, Pod, Policy, TieBreak};
use berth_proto::core_v1;
use berth_proto::resource_v1::ResourceClaim;

use crate::workload::{DeviceWorkload, asking, asking_anew, compiled_asking, device_cluster};

/// Times of one pod, from the wire object to its assumption.
#[derive(Copy, Clone, Debug, Default)]
pub struct PodTimes {
    /// Time for reading the wire objects.
    pub compile: Duration,
    /// Time for the decision.
    pub decide: Duration,
    /// Time for a second decision with everything cached and for publishing the cluster with the pod.
    pub assume: Duration,
}

impl PodTimes {
    /// Total time of the pod.
    pub fn whole(&self) -> Duration {
        self.compile + self.decide + self.assume
    }
}

/// A cluster with devices, and the workload whose pods it takes.
#[derive(Debug)]
pub struct DeviceTrial {
    cluster: Arc<Cluster>,
    workload: DeviceWorkload,
    n_nodes: usize,
    policy: Policy,
    next: usize,
    next_new: usize,
}

impl DeviceTrial {
    /// Builds the workload's cluster.
    pub fn new(workload: DeviceWorkload, n_nodes: usize) -> DeviceTrial {
        DeviceTrial {
            cluster: device_cluster(workload, n_nodes),
            workload,
            n_nodes,
            policy: Policy::default(),
            next: 0,
            next_new: 0,
        }
    }

    /// Reads, decides and assumes the next incoming pod with its claim, which is known to the cluster before.
    pub fn time_next(&mut self) -> PodTimes {
        let wire = asking(self.next, self.n_nodes, self.workload);
        self.next += 1;
        self.time(&wire)
    }

    /// The same for a pod whose claim asks for something new.
    pub fn time_new_shape(&mut self) -> PodTimes {
        let wire = asking_anew(self.next_new, self.workload);
        self.next_new += 1;
        self.time(&wire)
    }

    /// Reads the next incoming pod with its claim, decides and assumes it in one call.
    pub fn time_in_turn(&mut self) -> Duration {
        let wire = asking(self.next, self.n_nodes, self.workload);
        self.next += 1;
        let start = Instant::now();
        let pod = self.read(&wire);
        self.assume(&pod);
        start.elapsed()
    }

    fn read(&self, wire: &(core_v1::Pod, ResourceClaim)) -> Pod {
        let (pod, claim) = compiled_asking(&self.cluster, wire);
        self.cluster.apply(vec![Delta::UpsertObject(claim)]);
        pod
    }

    fn assume(&self, pod: &Pod) {
        let decision = black_box(self.cluster.assume(&self.request(pod)));
        let is_placed = decision.is_ok_and(|it| matches!(it.outcome, Outcome::Placed(_)));
        assert!(is_placed, "the baseline's pods fit");
    }

    fn time(&self, wire: &(core_v1::Pod, ResourceClaim)) -> PodTimes {
        let start = Instant::now();
        let pod = self.read(wire);
        let compile = start.elapsed();
        let request = self.request(&pod);
        let start = Instant::now();
        let decision = black_box(self.cluster.place(&request));
        let decide = start.elapsed();
        assert!(decision.is_ok(), "the baseline's pods are decided");
        let start = Instant::now();
        self.assume(&pod);
        PodTimes { compile, decide, assume: start.elapsed() }
    }

    fn request<'a>(&'a self, pod: &'a Pod) -> PlaceRequest<'a> {
        PlaceRequest { pod, policy: &self.policy, tie_break: TieBreak::Seeded(0), now: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_with_devices_is_placed() {
        for workload in DeviceWorkload::ALL {
            let mut trial = DeviceTrial::new(workload, 40);
            for _ in 0..5 {
                assert!(trial.time_next().whole() > Duration::ZERO, "{workload:?}");
                assert!(trial.time_new_shape().whole() > Duration::ZERO, "{workload:?}");
                assert!(trial.time_in_turn() > Duration::ZERO, "{workload:?}");
            }
            assert_eq!(trial.cluster.snapshot().n_pods(), 40 * 4 + 15, "{workload:?}");
        }
    }
}
