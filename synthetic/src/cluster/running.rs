//! The running pods of a synthetic cluster: an agent on every node, and replicas of deployments.

use berth_proto::core_v1::{ContainerPort, Node, Pod};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::pool::{GPU_RESOURCE, Pool};
use super::{ClusterSpec, PODS_PER_NODE_ALLOCATABLE, image};
use crate::object::{Requests, pod, toleration, toleration_of_everything};

/// Host port that the agent holds on every node.
pub const AGENT_HOST_PORT: i32 = 9100;

/// CPU requests that deployments choose from, in thousandths of a core.
const CPU_LADDER_MILLI: [i64; 12] = [50, 100, 150, 200, 250, 300, 500, 750, 1000, 2000, 4000, 8000];

/// Memory requests of deployments, in MiB per core.
const MEMORY_MIB_PER_CORE: [i64; 3] = [1024, 2048, 3072];

/// Generates the running pods in the order of their nodes.
///
/// Each node gets a CPU budget of its own around `spec.utilization` and a number of pods around
/// `spec.pods_per_node`; replicas are drawn so that the budget is spent when the last pod is placed.
pub fn pods(spec: &ClusterSpec, pools: &[&Pool], nodes: &[Node], rng: &mut ChaCha8Rng) -> Vec<Pod> {
    let deployments = Deployments::generate(spec, rng);
    let mut pods = Vec::with_capacity(spec.n_nodes * (spec.pods_per_node + 1));
    for (number, (pool, node)) in pools.iter().zip(nodes).enumerate() {
        let node_name = node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
        let mut room = Room::of(pool, spec, rng);
        pods.push(on_node(agent(number), node_name));
        room.take(&AGENT_REQUESTS);
        let n_replicas = n_replicas(spec, rng);
        for left in (1..=n_replicas).rev() {
            let Some(deployment) = deployments.choose(&room, left, rng) else {
                break;
            };
            let requests = Requests { extended: room.gpus(rng), ..deployment.requests() };
            room.take(&requests);
            pods.push(on_node(deployment.replica(pods.len(), pool, requests), node_name));
        }
    }
    pods
}

/// Number of pods besides the agent: the mean varied by up to a third, limited by the pods that a node admits.
fn n_replicas(spec: &ClusterSpec, rng: &mut ChaCha8Rng) -> usize {
    let mean = spec.pods_per_node.saturating_sub(1);
    let spread = mean / 3;
    let admitted = usize::try_from(PODS_PER_NODE_ALLOCATABLE).unwrap_or(usize::MAX) - 1;
    rng.random_range(mean - spread..=mean + spread).min(admitted)
}

fn on_node(mut pod: Pod, node_name: &str) -> Pod {
    if let Some(spec) = pod.spec.as_mut() {
        spec.node_name = node_name.to_owned();
    }
    pod.status.get_or_insert_default().phase = "Running".to_owned();
    pod
}

/// Remaining budget of a node.
struct Room {
    cpu_milli: i64,
    memory_mib: i64,
    n_gpus: i64,
}

impl Room {
    fn of(pool: &Pool, spec: &ClusterSpec, rng: &mut ChaCha8Rng) -> Self {
        let share = (spec.utilization * rng.random_range(0.75..1.25)).min(0.97);
        let of = |amount: i64| (amount as f64 * share) as i64;
        Self {
            cpu_milli: of(pool.allocatable_cpu_milli()),
            // Memory is limited by the node's allocatable amount, not by a budget: its use follows from the pods'
            // shapes.
            memory_mib: pool.allocatable_memory_mib(),
            n_gpus: of(pool.n_gpus),
        }
    }

    fn take(&mut self, requests: &Requests<'_>) {
        self.cpu_milli -= requests.cpu_milli;
        self.memory_mib -= requests.memory_mib;
        self.n_gpus -= requests.extended.map_or(0, |(_, count)| count);
    }

    /// GPUs for the next pod: one or two, sometimes four, while the node has any.
    fn gpus(&self, rng: &mut ChaCha8Rng) -> Option<(&'static str, i64)> {
        let count = *[1, 1, 1, 2, 2, 4].choose(rng)?;
        (self.n_gpus >= count && rng.random_bool(0.4)).then_some((GPU_RESOURCE, count))
    }
}

const AGENT_REQUESTS: Requests<'static> =
    Requests { cpu_milli: 50, memory_mib: 64, extended: None };

fn agent(number: usize) -> Pod {
    let name = format!("node-agent-{number:05}");
    let mut pod =
        pod("kube-system", &name, &name, "registry.example/node-agent:v1", AGENT_REQUESTS);
    label_app(&mut pod, "node-agent");
    if let Some(spec) = pod.spec.as_mut() {
        spec.tolerations = vec![toleration_of_everything()];
        spec.priority = Some(2_000_001_000);
        if let Some(container) = spec.containers.first_mut() {
            container.ports = vec![host_port(AGENT_HOST_PORT)];
        }
    }
    pod
}

/// A TCP host port on all addresses of the node.
pub fn host_port(port: i32) -> ContainerPort {
    ContainerPort {
        host_port: port,
        container_port: port,
        protocol: "TCP".to_owned(),
        ..ContainerPort::default()
    }
}

/// Sets the label `app`.
pub fn label_app(pod: &mut Pod, app: &str) {
    pod.metadata.get_or_insert_default().labels.insert("app".to_owned(), app.to_owned());
}

struct Deployment {
    namespace: String,
    name: String,
    image: String,
    cpu_milli: i64,
    memory_mib: i64,
    priority: i32,
}

impl Deployment {
    fn requests(&self) -> Requests<'static> {
        Requests { cpu_milli: self.cpu_milli, memory_mib: self.memory_mib, extended: None }
    }

    fn replica(&self, number: usize, pool: &Pool, requests: Requests<'_>) -> Pod {
        let name = format!("{}-{number:06}", self.name);
        let mut pod = pod(&self.namespace, &name, &name, &self.image, requests);
        label_app(&mut pod, &self.name);
        if let Some(spec) = pod.spec.as_mut() {
            spec.priority = Some(self.priority);
            spec.tolerations = pool
                .taint
                .iter()
                .map(|(key, value, effect)| toleration(key, value, effect))
                .collect();
        }
        pod
    }
}

/// Deployments by their CPU request; every request has at least one deployment.
struct Deployments {
    by_step: Vec<Vec<Deployment>>,
}

impl Deployments {
    fn generate(spec: &ClusterSpec, rng: &mut ChaCha8Rng) -> Self {
        let per_step = spec.n_deployments.div_ceil(CPU_LADDER_MILLI.len());
        let by_step = CPU_LADDER_MILLI
            .iter()
            .enumerate()
            .map(|(step, cpu_milli)| {
                (0..per_step)
                    .map(|number| deployment(spec, *cpu_milli, step * per_step + number, rng))
                    .collect()
            })
            .collect();
        Self { by_step }
    }

    /// A deployment whose replica fits `room`, near the size that spends the budget on `n_left` pods.
    fn choose(&self, room: &Room, n_left: usize, rng: &mut ChaCha8Rng) -> Option<&Deployment> {
        let fair_milli = room.cpu_milli / i64::try_from(n_left).unwrap_or(i64::MAX);
        // Half of the fair share and twice the fair share are as likely as the share itself, so that sizes mix on every
        // node.
        let wanted_milli = fair_milli * [1, 2, 2, 4].choose(rng)? / 2;
        let step = CPU_LADDER_MILLI
            .partition_point(|milli| *milli <= wanted_milli.min(room.cpu_milli))
            .checked_sub(1)?;
        let deployment = self.by_step.get(step)?.choose(rng)?;
        (deployment.memory_mib <= room.memory_mib).then_some(deployment)
    }
}

fn deployment(
    spec: &ClusterSpec,
    cpu_milli: i64,
    number: usize,
    rng: &mut ChaCha8Rng,
) -> Deployment {
    let memory_mib_per_core = MEMORY_MIB_PER_CORE.choose(rng).copied().unwrap_or(1024);
    Deployment {
        namespace: format!("team-{}", number % 20),
        name: format!("app-{number}"),
        image: image::name(rng.random_range(0..spec.n_images)),
        cpu_milli,
        memory_mib: (cpu_milli * memory_mib_per_core / 1000 / 64).max(1) * 64,
        priority: [0, 0, 0, 100, 1000].choose(rng).copied().unwrap_or(0),
    }
}
