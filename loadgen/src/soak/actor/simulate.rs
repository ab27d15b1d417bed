//! Read-only calls: autoscaler simulations, explanations, preemptions, lists, probes.

use berth_proto::berth_v1::{
    BatchEntry, ExplainRequest, FitPod, FitRequest, HeadroomRequest, ListPodsRequest, NodeGroup,
    PreemptRequest, SimulateDrainRequest, SimulateScaleUpRequest,
};
use berth_proto::core_v1::Pod;
use rand::RngExt as _;
use rand::seq::IteratorRandom as _;
use rand_chacha::ChaCha8Rng;

use super::Actor;
use crate::soak::names::{Names, random_stream};
use crate::soak::world::World;

/// The actor of read-only calls.
pub(super) struct Simulate {
    rng: ChaCha8Rng,
    names: Names,
}

impl Simulate {
    pub(super) fn new(seed: u64) -> Simulate {
        Simulate { rng: random_stream(seed, 7), names: Names::new("simulate") }
    }

    fn pod(&mut self, world: &World) -> Option<Pod> {
        Some(self.names.pod(&world.pod_templates, &mut self.rng))
    }

    async fn scale_up(&mut self, world: &World) {
        let entries = (0..3)
            .map(|_| BatchEntry { pod: self.pod(world).map(Into::into), replicas: 3 })
            .collect();
        let template = world.node_templates.iter().choose(&mut self.rng).cloned();
        let group = NodeGroup {
            id: "soak".to_owned(),
            template,
            max_size: Some(20),
            ..NodeGroup::default()
        };
        let request = SimulateScaleUpRequest {
            entries,
            node_groups: vec![group],
            ..SimulateScaleUpRequest::default()
        };
        let mut autoscaler = world.client.autoscaler();
        drop(world.call("SimulateScaleUp", autoscaler.simulate_scale_up(request)).await);
    }

    async fn drain(&mut self, world: &World) {
        let node_names = world.model().nodes.keys().cloned().sample(&mut self.rng, 2);
        let request = SimulateDrainRequest { node_names, ..SimulateDrainRequest::default() };
        let mut autoscaler = world.client.autoscaler();
        drop(world.call("SimulateDrain", autoscaler.simulate_drain(request)).await);
    }

    async fn headroom(&mut self, world: &World) {
        let pod = self.pod(world);
        let request = HeadroomRequest { pod, limit: 50, ..HeadroomRequest::default() };
        let mut autoscaler = world.client.autoscaler();
        drop(world.call("Headroom", autoscaler.headroom(request)).await);
    }

    async fn fit(&mut self, world: &World) {
        let pods = (0..3).map(|_| FitPod { pod: self.pod(world), ..FitPod::default() }).collect();
        let request = FitRequest { pods, ..FitRequest::default() };
        let mut autoscaler = world.client.autoscaler();
        drop(world.call("Fit", autoscaler.fit(request)).await);
    }

    async fn preempt(&mut self, world: &World) {
        let request = PreemptRequest { pod: self.pod(world), ..PreemptRequest::default() };
        let mut preemption = world.client.preemption();
        drop(world.call("Preempt", preemption.preempt(request)).await);
    }

    async fn explain(&mut self, world: &World) {
        let request = ExplainRequest { pod: self.pod(world), ..ExplainRequest::default() };
        let mut placement = world.client.placement(0);
        drop(world.call("Explain", placement.explain(request)).await);
    }

    async fn list(&mut self, world: &World) {
        let request = ListPodsRequest { page_size: 100, ..ListPodsRequest::default() };
        let mut cluster = world.client.cluster();
        drop(world.call("ListPods", cluster.list_pods(request)).await);
    }

    async fn probe(&mut self, world: &World) {
        let Some(http) = &world.http else { return };
        for path in ["/readyz", "/livez", "/metrics"] {
            match http.get(path).await {
                Ok(_) => world.count("probes", 1),
                Err(error) => world.failed(path, "HTTP", &error.to_string()),
            }
        }
    }
}

impl Actor for Simulate {
    fn name(&self) -> &'static str {
        "simulate"
    }

    async fn step(&mut self, world: &World) {
        match self.rng.random_range(0..8) {
            0 => self.scale_up(world).await,
            1 => self.drain(world).await,
            2 => self.headroom(world).await,
            3 => self.fit(world).await,
            4 => self.preempt(world).await,
            5 => self.explain(world).await,
            6 => self.list(world).await,
            _ => self.probe(world).await,
        }
    }
}
