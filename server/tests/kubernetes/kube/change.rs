//! Random changes of every kind of object, the same for the same seed.

use berth_engine::ObjectKind;
use berth_fake_apiserver::Store;
use serde_json::{Value, json};

use crate::kube::world::{node, pod};

/// Names of objects; only a few, so that they are used again.
const N_NAMES: u64 = 12;

/// xorshift: random enough to choose by, and the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn name(&mut self, prefix: &str) -> String {
        format!("{prefix}-{}", self.below(N_NAMES))
    }
}

/// Makes one random change, unless the drawn change makes no sense.
pub(crate) fn change(store: &Store, random: &mut Random) {
    match random.below(10) {
        0..=4 => change_pod(store, random),
        5..=6 => change_node(store, random),
        _ => change_other(store, random),
    }
}

fn change_pod(store: &Store, random: &mut Random) {
    let name = random.name("p");
    let Some(mut known) = store.get("Pod", "default", &name) else {
        let bound_to = if random.below(3) == 0 { random.name("n") } else { String::new() };
        let mut new = pod(&name, &bound_to);
        new["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
            json!(format!("{}m", 50 * (1 + random.below(8))));
        store.create(new).unwrap();
        return;
    };
    let is_bound = known["spec"]["nodeName"].is_string();
    match random.below(7) {
        0 | 1 if !is_bound => {
            known["spec"]["nodeName"] = json!(random.name("n"));
            known["status"]["phase"] = json!("Running");
        }
        2 if is_bound => known["status"]["phase"] = json!("Succeeded"),
        3 => known["metadata"]["labels"]["app"] = json!(random.name("a")),
        4 if !is_bound => known["status"]["nominatedNodeName"] = json!(random.name("n")),
        5 => known["metadata"]["annotations"] = json!({"said": random.below(1_000).to_string()}),
        _ => return store.delete("Pod", "default", &name).unwrap(),
    }
    store.replace(known).unwrap();
}

fn change_node(store: &Store, random: &mut Random) {
    let name = random.name("n");
    let Some(mut known) = store.get("Node", "", &name) else {
        store.create(node(&name)).unwrap();
        return;
    };
    match random.below(5) {
        0 => known["status"]["allocatable"]["cpu"] = json!((1 + random.below(16)).to_string()),
        1 => known["metadata"]["labels"]["zone"] = json!(random.name("z")),
        2 => known["spec"] = json!({"unschedulable": random.below(2) == 0}),
        3 => known["spec"] = json!({"taints": [{"key": random.name("t"), "effect": "NoSchedule"}]}),
        _ => return store.delete("Node", "", &name).unwrap(),
    }
    store.replace(known).unwrap();
}

/// `apiVersion`, kind, whether it has namespaces, and the fields of an object.
type Other = (&'static str, &'static str, bool, Value);

/// Kinds other than nodes and pods.
fn others(value: &str) -> Vec<Other> {
    let selector = json!({"selector": {"matchLabels": {"app": value}}});
    let mut others = vec![
        ("v1", "Namespace", false, json!({})),
        ("v1", "Service", true, json!({"spec": {"selector": {"app": value}}})),
        ("v1", "ReplicationController", true, json!({"spec": {"selector": {"app": value}}})),
        ("apps/v1", "ReplicaSet", true, json!({"spec": selector})),
        ("apps/v1", "StatefulSet", true, json!({"spec": selector})),
        (
            "v1",
            "PersistentVolume",
            false,
            json!({"spec": {
            "capacity": {"storage": "1Gi"}, "storageClassName": value,
            "csi": {"driver": "d", "volumeHandle": value}}}),
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            true,
            json!({"spec": {
            "storageClassName": value, "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        ("storage.k8s.io/v1", "StorageClass", false, json!({"provisioner": value})),
        (
            "storage.k8s.io/v1",
            "CSINode",
            false,
            json!({"spec": {
            "drivers": [{"name": value, "nodeID": "x", "allocatable": {"count": 3}}]}}),
        ),
        (
            "storage.k8s.io/v1",
            "CSIDriver",
            false,
            json!({"spec": {"storageCapacity": value == "a-1"}}),
        ),
        (
            "storage.k8s.io/v1",
            "CSIStorageCapacity",
            true,
            json!({"storageClassName": value, "capacity": "5Gi"}),
        ),
        (
            "storage.k8s.io/v1",
            "VolumeAttachment",
            false,
            json!({"spec": {
            "attacher": value, "nodeName": "n-1", "source": {"persistentVolumeName": "v"}}}),
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            true,
            json!({"spec": {
            "minAvailable": 1, "selector": {"matchLabels": {"app": value}}}}),
        ),
    ];
    others.extend(of_creation(value));
    others.extend(of_devices(value));
    assert_eq!(others.len(), ObjectKind::ALL.len());
    others
}

/// Kinds that only the creation of a pod reads.
fn of_creation(value: &str) -> [Other; 4] {
    [
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            false,
            json!({"value": value.len(), "description": value}),
        ),
        (
            "v1",
            "LimitRange",
            true,
            json!({"spec": {"limits": [{"type": "Container", "max": {(format!("x.io/{value}")): "1"}}]}}),
        ),
        (
            "node.k8s.io/v1",
            "RuntimeClass",
            false,
            json!({"handler": value, "scheduling": {"nodeSelector": {"app": value}}}),
        ),
        ("v1", "ResourceQuota", true, json!({"spec": {"hard": {(format!("count/{value}")): "1"}}})),
    ]
}

/// Kinds of dynamic resource allocation.
fn of_devices(value: &str) -> [Other; 4] {
    const VERSION: &str = "resource.k8s.io/v1";
    let requests = json!({"requests": [{"name": value}]});
    [
        (VERSION, "DeviceClass", false, json!({"spec": {"extendedResourceName": value}})),
        (
            VERSION,
            "ResourceSlice",
            false,
            json!({"spec": {"driver": value, "devices": [{"name": "d"}],
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
        ),
        (VERSION, "ResourceClaim", true, json!({"spec": {"devices": requests}})),
        (VERSION, "ResourceClaimTemplate", true, json!({"spec": {"spec": {"devices": requests}}})),
    ]
}

fn change_other(store: &Store, random: &mut Random) {
    let value = random.name("a");
    let index = usize::try_from(random.below(ObjectKind::ALL.len() as u64)).unwrap();
    let (api_version, kind, is_namespaced, parts) = others(&value)[index].clone();
    let (name, namespace) = (random.name("o"), if is_namespaced { "default" } else { "" });
    let known = store.get(kind, namespace, &name);
    if known.is_some() && random.below(3) == 0 {
        return store.delete(kind, namespace, &name).unwrap();
    }
    let mut object = known.clone().unwrap_or_else(|| {
        let mut metadata = json!({"name": name});
        if is_namespaced {
            metadata["namespace"] = json!(namespace);
        }
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    });
    object["metadata"]["labels"] = json!({"value": value});
    for (field, part) in parts.as_object().unwrap() {
        object[field] = part.clone();
    }
    match known {
        Some(_) => store.replace(object).unwrap(),
        None => store.create(object).unwrap(),
    };
}
