//! Random pods over the vocabulary of the random nodes. A pod here is a template, without name and uid.

use std::collections::BTreeMap;

use berth_proto::{Quantity, core_v1};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::node::resource_list;
use super::{affinity, quantity, relations, volume};

/// Optional fields of a template.
#[derive(Copy, Clone, Debug)]
pub(crate) struct PodTraits {
    /// Ports that pods of one node might share: their history counts because used ports are a set (S-PRT-5).
    pub(crate) has_host_ports: bool,
    /// `spec.nodeName` naming one of the first nodes.
    pub(crate) has_node_name: bool,
    /// Claims and disks.
    pub(crate) has_volumes: bool,
}

/// Generates a pod without a name.
pub(crate) fn template(traits: PodTraits) -> BoxedStrategy<core_v1::Pod> {
    (spec(traits), status(), relations::relations())
        .prop_map(|(spec, status, relations)| {
            let mut pod = core_v1::Pod { spec: Some(spec), status, ..Default::default() };
            name_statuses(&mut pod);
            relations.applied_to(pod)
        })
        .boxed()
}

/// Generates a pod that requests cpu and memory only.
pub(crate) fn plain_template() -> BoxedStrategy<core_v1::Pod> {
    container(false)
        .prop_map(|container| core_v1::Pod {
            spec: Some(core_v1::PodSpec { containers: vec![container], ..Default::default() }),
            ..Default::default()
        })
        .boxed()
}

/// Generates a pod that requests little but depends on the pods around it, and perhaps on volumes.
pub(crate) fn sociable_template(traits: PodTraits) -> BoxedStrategy<core_v1::Pod> {
    let volumes = match traits.has_volumes {
        true => prop_oneof![2 => volume::plain_volumes(), 1 => volume::volumes()].boxed(),
        false => volume::plain_volumes(),
    };
    let requests = prop_oneof![Just("0"), Just("10m"), Just("500m")];
    let tolerations = prop_oneof![2 => Just(Vec::new()), 1 => tolerations()];
    (requests, volumes, tolerations, node_selector(), relations::relations())
        .prop_map(|(cpu, volumes, tolerations, node_selector, relations)| {
            let requests = BTreeMap::from([("cpu".to_owned(), cpu.into())]);
            let container = core_v1::Container {
                name: "c0".to_owned(),
                resources: Some(core_v1::ResourceRequirements { requests, ..Default::default() }),
                ..Default::default()
            };
            let containers = vec![container];
            let spec = core_v1::PodSpec {
                containers,
                volumes,
                tolerations,
                node_selector,
                ..Default::default()
            };
            relations.applied_to(core_v1::Pod { spec: Some(spec), ..Default::default() })
        })
        .boxed()
}

/// Generates a pod that requests a good part of a small node, depends on other pods, and may have a port, a disk or a
/// claim.
pub(crate) fn crowding_template() -> BoxedStrategy<core_v1::Pod> {
    let related = option::weighted(0.5, relations::relations());
    (plain_crowding_template(), volume::few_volumes(), node_selector(), related)
        .prop_map(|(mut pod, volumes, node_selector, related)| {
            let spec = pod.spec.get_or_insert_default();
            (spec.volumes, spec.node_selector) = (volumes, node_selector);
            match related {
                Some(related) => related.applied_to(pod),
                None => pod,
            }
        })
        .boxed()
}

/// Generates a pod that requests a good part of a small node, and may have a port.
pub(crate) fn plain_crowding_template() -> BoxedStrategy<core_v1::Pod> {
    let cpu = select(vec!["0", "250m", "500m", "500m", "1", "1", "2", "3"]);
    let memory = select(vec![None, None, Some("512Mi"), Some("1Gi"), Some("3Gi")]);
    let gpu = select(vec![None, None, None, None, Some("1")]);
    let ports = prop_oneof![3 => Just(Vec::new()), 1 => vec(port(), 1..3)];
    let requests = (cpu, memory, gpu).prop_map(|(cpu, memory, gpu)| {
        resource_list([
            ("cpu", Some(cpu.into())),
            ("memory", memory.map(Into::into)),
            ("example.com/gpu", gpu.map(Into::into)),
        ])
    });
    (requests, ports)
        .prop_map(|(requests, ports)| {
            let container = core_v1::Container {
                name: "c0".to_owned(),
                ports,
                resources: Some(core_v1::ResourceRequirements { requests, ..Default::default() }),
                ..Default::default()
            };
            let spec = core_v1::PodSpec { containers: vec![container], ..Default::default() };
            core_v1::Pod { spec: Some(spec), ..Default::default() }
        })
        .boxed()
}

/// Generates a small pod of which a node has dozens, or one that needs the room of many.
pub(crate) fn replica_template() -> BoxedStrategy<core_v1::Pod> {
    let cpu = select(vec!["100m", "250m", "250m", "500m", "3", "6"]);
    let memory = select(vec![None, None, Some("256Mi"), Some("4Gi")]);
    let labels = option::weighted(0.5, super::labels::pod_labels());
    (cpu, memory, labels)
        .prop_map(|(cpu, memory, labels)| {
            let requests =
                resource_list([("cpu", Some(cpu.into())), ("memory", memory.map(Into::into))]);
            let container = core_v1::Container {
                name: "c0".to_owned(),
                resources: Some(core_v1::ResourceRequirements { requests, ..Default::default() }),
                ..Default::default()
            };
            let spec = core_v1::PodSpec { containers: vec![container], ..Default::default() };
            let mut pod = core_v1::Pod { spec: Some(spec), ..Default::default() };
            pod.metadata.get_or_insert_default().labels = labels.unwrap_or_default();
            pod
        })
        .boxed()
}

/// Generates a pod that requests little besides volumes.
pub(crate) fn stored_template() -> BoxedStrategy<core_v1::Pod> {
    (volume::volumes(), tolerations())
        .prop_map(|(volumes, tolerations)| {
            let container = core_v1::Container { name: "c0".to_owned(), ..Default::default() };
            let containers = vec![container];
            let spec = core_v1::PodSpec { containers, volumes, tolerations, ..Default::default() };
            core_v1::Pod { spec: Some(spec), ..Default::default() }
        })
        .boxed()
}

fn spec(traits: PodTraits) -> BoxedStrategy<core_v1::PodSpec> {
    let containers = (vec(container(traits.has_host_ports), 1..4), init_containers(traits));
    let level = option::weighted(0.15, requests());
    let overhead = option::weighted(0.15, requests());
    let placement =
        (node_selector(), option::weighted(0.5, affinity::node_affinity()), tolerations());
    let node_name = match traits.has_node_name {
        true => option::weighted(0.03, 0..6_usize).boxed(),
        false => Just(None).boxed(),
    };
    let volumes = match traits.has_volumes {
        true => prop_oneof![4 => volume::plain_volumes(), 1 => volume::volumes()].boxed(),
        false => volume::plain_volumes(),
    };
    let rest = (gates(), host(), volumes, node_name);
    (containers, level, overhead, placement, rest)
        .prop_map(
            |(
                (containers, init_containers),
                level,
                overhead,
                (node_selector, node_affinity, tolerations),
                (scheduling_gates, (host_network, host_users), volumes, node_name),
            )| core_v1::PodSpec {
                containers: named(containers, "c"),
                init_containers: named(init_containers, "i"),
                resources: level.map(|requests| core_v1::ResourceRequirements {
                    requests,
                    ..Default::default()
                }),
                overhead: overhead.unwrap_or_default(),
                node_selector,
                affinity: node_affinity.map(|affinity| core_v1::Affinity {
                    node_affinity: Some(affinity),
                    ..Default::default()
                }),
                tolerations,
                scheduling_gates,
                host_network,
                host_users,
                volumes,
                node_name: node_name.map(|node| format!("node-{node}")).unwrap_or_default(),
                ..Default::default()
            },
        )
        .boxed()
}

fn named(mut containers: Vec<core_v1::Container>, prefix: &str) -> Vec<core_v1::Container> {
    for (i, container) in containers.iter_mut().enumerate() {
        container.name = format!("{prefix}{i}");
    }
    containers
}

fn init_containers(traits: PodTraits) -> BoxedStrategy<Vec<core_v1::Container>> {
    let one = (container(traits.has_host_ports), any::<bool>()).prop_map(
        |(mut container, is_sidecar)| {
            container.restart_policy = is_sidecar.then(|| "Always".to_owned());
            container
        },
    );
    prop_oneof![2 => Just(Vec::new()), 1 => vec(one, 1..4)].boxed()
}

fn container(has_host_ports: bool) -> BoxedStrategy<core_v1::Container> {
    let image = select(vec![
        "nginx",
        "nginx:1",
        "registry.example.com:5000/app",
        "registry.example.com:5000/app:v1",
        "tool@sha256:00",
        "a/b",
        "",
    ]);
    let ports = if has_host_ports { vec(port(), 0..3).boxed() } else { Just(Vec::new()).boxed() };
    let rule = prop::bool::weighted(0.03);
    (image, option::weighted(0.8, requests()), ports, rule)
        .prop_map(|(image, requests, ports, restarts_all)| {
            core_v1::Container {
                image: image.to_owned(),
                ports,
                // Limits do not count (S-FIT-2).
                resources: requests.map(|requests| core_v1::ResourceRequirements {
                    requests,
                    limits: BTreeMap::from([("cpu".to_owned(), "1k".into())]),
                    ..Default::default()
                }),
                restart_policy_rules: restarts_all
                    .then(|| core_v1::ContainerRestartRule {
                        action: "RestartAllContainers".to_owned(),
                        ..Default::default()
                    })
                    .into_iter()
                    .collect(),
                ..Default::default()
            }
        })
        .boxed()
}

/// Generates the resource list of a pod, with some untracked names (S-FIT-6).
fn requests() -> BoxedStrategy<BTreeMap<String, Quantity>> {
    let counts = (quantity::count_request(), quantity::count_request(), quantity::count_request());
    let ignored = (quantity::count_request(), quantity::count_request());
    let storage = prop_oneof![3 => Just(None), 1 => quantity::bytes_request()];
    (quantity::cpu_request(), quantity::bytes_request(), storage, counts, ignored)
        .prop_map(|(cpu, memory, storage, (gpu, pages, volumes), (bare, pods))| {
            resource_list([
                ("cpu", cpu),
                ("memory", memory),
                ("ephemeral-storage", storage),
                ("example.com/gpu", gpu),
                ("hugepages-2Mi", pages),
                ("attachable-volumes-disk", volumes),
                ("bare", bare),
                ("pods", pods),
            ])
        })
        .boxed()
}

fn port() -> BoxedStrategy<core_v1::ContainerPort> {
    let ip = select(vec!["", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"]);
    let protocol = select(vec!["", "TCP", "UDP"]);
    (ip, protocol, select(vec![0, 0, 80, 443]))
        .prop_map(|(ip, protocol, host_port)| core_v1::ContainerPort {
            host_ip: ip.to_owned(),
            protocol: protocol.to_owned(),
            host_port,
            container_port: 80,
            ..Default::default()
        })
        .boxed()
}

fn node_selector() -> BoxedStrategy<BTreeMap<String, String>> {
    let pair = (
        select(vec!["topology.kubernetes.io/zone", "example.com/pool"]),
        select(vec!["a", "b", "web", "nowhere", "not a label!"]),
    );
    let one = pair.prop_map(|(key, value)| BTreeMap::from([(key.to_owned(), value.to_owned())]));
    prop_oneof![5 => Just(BTreeMap::new()), 1 => one].boxed()
}

fn tolerations() -> BoxedStrategy<Vec<core_v1::Toleration>> {
    let one = (
        select(vec!["dedicated", "spot", "node.kubernetes.io/unschedulable", ""]),
        select(vec!["", "Equal", "Exists", "Exists", "Lt", "Gt"]),
        select(vec!["", "a", "5"]),
        select(vec!["", "", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    );
    let one = one.prop_map(|(key, operator, value, effect)| core_v1::Toleration {
        key: key.to_owned(),
        operator: operator.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        ..Default::default()
    });
    prop_oneof![1 => Just(Vec::new()), 1 => vec(one, 1..4)].boxed()
}

fn gates() -> BoxedStrategy<Vec<core_v1::PodSchedulingGate>> {
    let gate = |name: &str| core_v1::PodSchedulingGate { name: name.to_owned() };
    prop_oneof![
        40 => Just(Vec::new()),
        1 => Just(vec![gate("example.com/b"), gate("example.com/a")]),
    ]
    .boxed()
}

fn host() -> BoxedStrategy<(bool, Option<bool>)> {
    (prop::bool::weighted(0.1), option::weighted(0.5, any::<bool>())).boxed()
}

/// Generates the status of a pod that is being resized (S-FIT-5). Container statuses get their names later.
fn status() -> BoxedStrategy<Option<core_v1::PodStatus>> {
    let container = (option::weighted(0.8, requests()), requests()).prop_map(
        |(actual, allocated_resources)| {
            let resources = actual
                .map(|requests| core_v1::ResourceRequirements { requests, ..Default::default() });
            core_v1::ContainerStatus { resources, allocated_resources, ..Default::default() }
        },
    );
    let container = container.boxed();
    let level = option::weighted(0.5, (requests(), requests()));
    let status = (vec(container.clone(), 0..3), vec(container, 0..3), level, any::<bool>());
    let status =
        status.prop_map(|(container_statuses, init_container_statuses, level, is_infeasible)| {
            let (actual, allocated_resources) =
                level.map_or((None, BTreeMap::new()), |(a, b)| (Some(a), b));
            let condition = core_v1::PodCondition {
                r#type: "PodResizePending".to_owned(),
                reason: if is_infeasible { "Infeasible" } else { "Deferred" }.to_owned(),
                ..Default::default()
            };
            core_v1::PodStatus {
                container_statuses,
                init_container_statuses,
                conditions: vec![condition],
                resources: actual.map(|requests| core_v1::ResourceRequirements {
                    requests,
                    ..Default::default()
                }),
                allocated_resources,
                ..Default::default()
            }
        });
    option::weighted(0.15, status).boxed()
}

fn name_statuses(pod: &mut core_v1::Pod) {
    let Some(status) = &mut pod.status else {
        return;
    };
    for (statuses, prefix) in
        [(&mut status.container_statuses, "c"), (&mut status.init_container_statuses, "i")]
    {
        for (i, status) in statuses.iter_mut().enumerate() {
            status.name = format!("{prefix}{i}");
        }
    }
}
