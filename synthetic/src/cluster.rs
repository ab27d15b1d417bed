//! Synthetic clusters: nodes in pools and zones, with pods running on them and the Services that select those.
//!
//! Equal [`ClusterSpec`]s give equal objects on every machine. Each part draws from a random stream of its own, so that
//! a change of the taints, for example, does not change the images.

pub mod image;
pub mod pool;
pub mod running;
pub mod service;

use berth_proto::berth_v1::delta::Change;
use berth_proto::core_v1::{ContainerImage, Namespace, Node, NodeSpec, NodeStatus, Pod, Service};
use berth_proto::meta_v1::ObjectMeta;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::object::{count_quantity, cpu_quantity, mebibyte_quantity, taint};
use image::Image;
use pool::{GPU_RESOURCE, POOLS, Pool};

/// Specification of a synthetic cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterSpec {
    /// Number of nodes.
    pub n_nodes: usize,
    /// Number of zones, all in one region; nodes are assigned to them in turn.
    pub n_zones: usize,
    /// Mean number of running pods a node, the node's agent included; nodes vary by a third around it.
    pub pods_per_node: usize,
    /// Mean share of allocatable CPU that running pods request, from 0 to 0.95; nodes vary by a quarter around it.
    pub utilization: f64,
    /// Share of the nodes that are in a pool with a taint, from 0 to 1.
    pub tainted_share: f64,
    /// Share of the nodes that are cordoned, from 0 to 1.
    pub cordoned_share: f64,
    /// Number of different images.
    pub n_images: usize,
    /// Number of images on each node, at most `n_images`.
    pub images_per_node: usize,
    /// Number of deployments of the running pods.
    pub n_deployments: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for ClusterSpec {
    /// 5,000 nodes in three zones with about 150,000 running pods.
    fn default() -> Self {
        Self {
            n_nodes: 5_000,
            n_zones: 3,
            pods_per_node: 30,
            utilization: 0.6,
            tainted_share: 0.2,
            cordoned_share: 0.005,
            n_images: 200,
            images_per_node: 20,
            n_deployments: 1_000,
            seed: 1,
        }
    }
}

/// A field of a specification with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct SpecError {
    /// Name of the field.
    pub field: &'static str,
    /// Reason why the value is refused.
    pub reason: String,
}

impl ClusterSpec {
    /// Refuses invalid values, naming the field.
    pub fn check(&self) -> Result<(), SpecError> {
        let refuse = |field, reason: &str| Err(SpecError { field, reason: reason.to_owned() });
        if self.n_nodes > 1_000_000 {
            return refuse("n_nodes", "must be at most 1,000,000");
        }
        if self.n_zones == 0 {
            return refuse("n_zones", "must be at least 1");
        }
        if !(1..=100).contains(&self.pods_per_node) {
            return refuse("pods_per_node", "must be between 1 and 100");
        }
        if !(0.0..=0.95).contains(&self.utilization) {
            return refuse("utilization", "must be between 0 and 0.95");
        }
        if !(0.0..=1.0).contains(&self.tainted_share) {
            return refuse("tainted_share", "must be between 0 and 1");
        }
        if !(0.0..=1.0).contains(&self.cordoned_share) {
            return refuse("cordoned_share", "must be between 0 and 1");
        }
        if self.n_images == 0 || self.n_images > 100_000 {
            return refuse("n_images", "must be between 1 and 100,000");
        }
        if self.images_per_node > self.n_images {
            return refuse("images_per_node", "must be at most `n_images`");
        }
        if self.n_deployments == 0 || self.n_deployments > 1_000_000 {
            return refuse("n_deployments", "must be between 1 and 1,000,000");
        }
        Ok(())
    }
}

/// Nodes, the pods that run on them, and the Services of those pods.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticCluster {
    /// Nodes in the order of their numbers.
    pub nodes: Vec<Node>,
    /// Namespaces of the pods and Services.
    pub namespaces: Vec<Namespace>,
    /// One Service for each application that has pods, so that pods without spread constraints of their own are spread
    /// by the scheduler's defaults, as in real clusters.
    pub services: Vec<Service>,
    /// Running pods in the order of their nodes; each has `spec.nodeName`.
    pub pods: Vec<Pod>,
}

impl SyntheticCluster {
    /// Builds the cluster. The pods of a node never request more than its allocatable amounts.
    ///
    /// Cost: about 10 µs a pod; the default specification takes some 250 MB as wire objects.
    pub fn generate(spec: &ClusterSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let images = image::catalogue(spec.n_images, &mut stream(spec.seed, 1));
        let pools = deal_pools(spec, &mut stream(spec.seed, 2));
        let mut cordons = stream(spec.seed, 3);
        let mut image_choice = stream(spec.seed, 4);
        let nodes: Vec<Node> = pools
            .iter()
            .enumerate()
            .map(|(number, pool)| {
                let cordoned = cordons.random_bool(spec.cordoned_share);
                let present = images.sample(&mut image_choice, spec.images_per_node);
                node(spec, number, pool, cordoned, present)
            })
            .collect();
        let pods = running::pods(spec, &pools, &nodes, &mut stream(spec.seed, 5));
        let (namespaces, services) = (Vec::new(), Vec::new());
        let mut cluster = Self { nodes, namespaces, services, pods: Vec::new() };
        cluster.add_services_of(&pods);
        cluster.pods = pods;
        Ok(cluster)
    }

    /// The changes that upsert the objects, nodes first and pods last.
    pub fn into_changes(self) -> impl Iterator<Item = Change> + Send + 'static {
        let Self { nodes, namespaces, services, pods } = self;
        nodes
            .into_iter()
            .map(Change::UpsertNode)
            .chain(namespaces.into_iter().map(Change::UpsertNamespace))
            .chain(services.into_iter().map(Change::UpsertService))
            .chain(pods.into_iter().map(Change::UpsertPod))
    }

    /// Number of objects of all kinds.
    pub fn n_objects(&self) -> usize {
        self.nodes.len() + self.namespaces.len() + self.services.len() + self.pods.len()
    }

    /// Adds the missing Services of these pods, with their namespaces.
    pub fn add_services_of(&mut self, pods: &[Pod]) {
        service::add_of(pods, &mut self.namespaces, &mut self.services);
    }
}

/// The random stream for one purpose.
fn stream(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose);
    rng
}

/// Draws a pool for every node, by the pools' weights within the tainted and the open group.
fn deal_pools(spec: &ClusterSpec, rng: &mut ChaCha8Rng) -> Vec<&'static Pool> {
    let (tainted, open): (Vec<&Pool>, Vec<&Pool>) =
        POOLS.iter().partition(|pool| pool.taint.is_some());
    (0..spec.n_nodes)
        .filter_map(|_| {
            let group = if rng.random_bool(spec.tainted_share) { &tainted } else { &open };
            group.choose_weighted(rng, |pool| pool.weight).ok().copied()
        })
        .collect()
}

fn node<'a>(
    spec: &ClusterSpec,
    number: usize,
    pool: &Pool,
    cordoned: bool,
    images: impl Iterator<Item = &'a Image>,
) -> Node {
    let name = format!("{}-{number:05}", pool.name);
    let mut taints: Vec<_> =
        pool.taint.iter().map(|(key, value, effect)| taint(key, value, effect)).collect();
    if cordoned {
        taints.push(taint("node.kubernetes.io/unschedulable", "", "NoSchedule"));
    }
    Node {
        metadata: Some(ObjectMeta {
            uid: format!("node-{number:05}"),
            labels: labels(spec, number, pool, &name),
            name,
            ..ObjectMeta::default()
        }),
        spec: Some(NodeSpec { unschedulable: cordoned, taints, ..NodeSpec::default() }),
        status: Some(status(pool, images)),
    }
}

fn labels<M: FromIterator<(String, String)>>(
    spec: &ClusterSpec,
    number: usize,
    pool: &Pool,
    name: &str,
) -> M {
    let tier = ["a", "b", "c", "d", "e"][number % 5];
    [
        ("kubernetes.io/hostname", name.to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/arch", pool.arch.to_owned()),
        ("node.kubernetes.io/instance-type", pool.instance_type.to_owned()),
        ("topology.kubernetes.io/region", "region-0".to_owned()),
        ("topology.kubernetes.io/zone", zone(number % spec.n_zones)),
        ("pool", pool.name.to_owned()),
        ("disk", pool.disk.to_owned()),
        ("tier", tier.to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// Value of the zone label of zone `number`, from 0.
pub fn zone(number: usize) -> String {
    format!("zone-{number}")
}

/// Pods that a node admits: the kubelet's default.
pub const PODS_PER_NODE_ALLOCATABLE: i64 = 110;

fn status<'a>(pool: &Pool, images: impl Iterator<Item = &'a Image>) -> NodeStatus {
    let mut status = NodeStatus::default();
    let mut resource = |name: &str, capacity, allocatable| {
        status.capacity.insert(name.to_owned(), capacity);
        status.allocatable.insert(name.to_owned(), allocatable);
    };
    resource(
        "cpu",
        cpu_quantity(pool.cpu_cores * 1000),
        cpu_quantity(pool.allocatable_cpu_milli()),
    );
    resource(
        "memory",
        mebibyte_quantity(pool.memory_gib * 1024),
        mebibyte_quantity(pool.allocatable_memory_mib()),
    );
    resource("ephemeral-storage", mebibyte_quantity(200 * 1024), mebibyte_quantity(180 * 1024));
    resource(
        "pods",
        count_quantity(PODS_PER_NODE_ALLOCATABLE),
        count_quantity(PODS_PER_NODE_ALLOCATABLE),
    );
    if pool.n_gpus > 0 {
        resource(GPU_RESOURCE, count_quantity(pool.n_gpus), count_quantity(pool.n_gpus));
    }
    status.images = images
        .map(|image| ContainerImage {
            names: vec![image.digest.clone(), image.name.clone()],
            size_bytes: image.size_bytes,
        })
        .collect();
    status
}

#[cfg(test)]
mod tests;
