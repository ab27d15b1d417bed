//! The baseline's pods, existing and incoming.

use berth_proto::Quantity;
use berth_proto::core_v1::{Container, Pod, PodSpec, ResourceRequirements};
use berth_proto::meta_v1::ObjectMeta;

use super::demand;
use super::kind::Workload;
use super::node::node_name;

/// Existing pod `j`, on node `j` mod `n_nodes`.
///
/// Thresholds that the workload states in nodes (`j` < 1000 of 5,000) scale with `n_nodes`.
pub fn existing(j: usize, n_nodes: usize, workload: Workload) -> Pod {
    let mut pod = plain(format!("ns-{}", j % 10), format!("existing-{j}"), j);
    set_label(&mut pod, "app", &format!("app-{}", j / 10 % 100));
    if let Some(spec) = &mut pod.spec {
        spec.node_name = node_name(j % n_nodes);
    }
    match workload {
        Workload::AntiAffinityHost1000 | Workload::Mixed if j < n_nodes / 5 => green(&mut pod),
        Workload::AntiAffinityHost4000 if j < n_nodes / 5 * 4 => green(&mut pod),
        Workload::PreferredAffinity | Workload::Mixed if j % 10 == 3 => red(&mut pod),
        _ => {}
    }
    pod
}

/// Incoming pod `k`.
pub fn incoming(k: usize, workload: Workload) -> Pod {
    let mut pod = plain(format!("ns-{}", k % 10), format!("incoming-{k}"), k);
    set_label(&mut pod, "app", &format!("app-{}", k % 100));
    match kind(k, workload) {
        Workload::Basic | Workload::Mixed => {}
        Workload::NodeAffinity => {
            if let Some(spec) = &mut pod.spec {
                spec.node_selector.insert("disk".into(), "ssd".into());
                spec.affinity = Some(demand::tier_a_or_b());
            }
        }
        Workload::Taints => {
            if let Some(spec) = &mut pod.spec {
                spec.tolerations = demand::tolerations(k.is_multiple_of(2));
            }
        }
        Workload::SpreadHardZone => {
            relabel(&mut pod, &[("app", "spread")]);
            if let Some(spec) = &mut pod.spec {
                spec.topology_spread_constraints =
                    vec![demand::spread(demand::ZONE, "DoNotSchedule", "spread")];
            }
        }
        Workload::SpreadSoft => {
            relabel(&mut pod, &[("app", "app-7")]);
            if let Some(spec) = &mut pod.spec {
                spec.topology_spread_constraints = [demand::ZONE, demand::HOSTNAME]
                    .map(|key| demand::spread(key, "ScheduleAnyway", "app-7"))
                    .into();
            }
        }
        Workload::SpreadSystemDefaults => relabel(&mut pod, &[("app", "app-7")]),
        Workload::AntiAffinityHost1000 | Workload::AntiAffinityHost4000 => green(&mut pod),
        Workload::AffinityZone => {
            relabel(&mut pod, &[("app", "app-7"), ("color", "blue")]);
            if let Some(spec) = &mut pod.spec {
                spec.affinity = Some(demand::beside_app_7());
            }
        }
        Workload::PreferredAffinity => {
            relabel(&mut pod, &[("app", "app-7")]);
            red(&mut pod);
        }
    }
    pod
}

/// The workload from which incoming pod `k` is taken.
fn kind(k: usize, workload: Workload) -> Workload {
    match (workload, k % 10) {
        (Workload::Mixed, 0..=2) => Workload::Basic,
        (Workload::Mixed, 3) => Workload::NodeAffinity,
        (Workload::Mixed, 4) => Workload::Taints,
        (Workload::Mixed, 5) => Workload::SpreadHardZone,
        (Workload::Mixed, 6) => Workload::SpreadSoft,
        (Workload::Mixed, 7) => Workload::AntiAffinityHost1000,
        (Workload::Mixed, 8) => Workload::AffinityZone,
        (Workload::Mixed, _) => Workload::PreferredAffinity,
        (alone, _) => alone,
    }
}

/// A pod with one label and required anti-affinity to pods with this label on its node.
fn green(pod: &mut Pod) {
    relabel(pod, &[("color", "green")]);
    if let Some(spec) = &mut pod.spec {
        spec.affinity = Some(demand::apart_from_green());
    }
}

/// A pod that prefers the application's zone and a node without similar pods.
fn red(pod: &mut Pod) {
    set_label(pod, "color", "red");
    if let Some(spec) = &mut pod.spec {
        spec.affinity = Some(demand::rather_beside_app_7_and_apart_from_red());
    }
}

/// A pod without labels; requests are those of the baseline's pod `i`.
pub fn plain(namespace: String, name: String, i: usize) -> Pod {
    let requests =
        [("cpu", ["100m", "200m", "300m"][i % 3]), ("memory", ["256Mi", "512Mi"][i % 2])];
    let container = Container {
        name: "main".into(),
        resources: Some(ResourceRequirements {
            requests: requests
                .into_iter()
                .map(|(name, q)| (name.to_owned(), Quantity::new(q)))
                .collect(),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    };
    Pod {
        metadata: Some(ObjectMeta { uid: name.clone(), namespace, name, ..ObjectMeta::default() }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        status: None,
    }
}

/// Moves the pod to `ns-0`, with these labels only.
pub fn relabel(pod: &mut Pod, labels: &[(&str, &str)]) {
    if let Some(metadata) = &mut pod.metadata {
        metadata.namespace = "ns-0".into();
        metadata.labels =
            labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    }
}

/// Sets the request of one resource.
pub fn request(pod: &mut Pod, resource: &str, amount: String) {
    let container = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut());
    if let Some(resources) = container.and_then(|container| container.resources.as_mut()) {
        resources.requests.insert(resource.into(), Quantity::new(amount));
    }
}

/// Adds a label.
pub fn set_label(pod: &mut Pod, key: &str, value: &str) {
    if let Some(metadata) = &mut pod.metadata {
        metadata.labels.insert(key.into(), value.into());
    }
}
