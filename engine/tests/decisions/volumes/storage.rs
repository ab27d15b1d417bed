//! Storage objects as JSON, and random walks over clusters of them.

use std::collections::BTreeMap;

use berth_engine::{Cluster, ClusterState, Delta, Object, Pod, PodKey};
use serde_json::{Value, json};

/// Builds a node in a zone of the same name.
pub(crate) fn node(cluster: &Cluster, name: &str) -> Delta {
    let wire = json!({
        "metadata": {"name": name, "labels": {"host": name, "topology.kubernetes.io/zone": name}},
        "status": {"allocatable": {"pods": "100"}},
    });
    Delta::UpsertNode(cluster.compile_node(&serde_json::from_value(wire).unwrap()).unwrap())
}

/// Builds a pod of namespace `default` with these claims; its uid is its name.
pub(crate) fn pod(cluster: &Cluster, name: &str, claims: &[&str]) -> Pod {
    let volume = |(i, claim): (usize, &&str)| json!({"name": i.to_string(), "persistentVolumeClaim": {"claimName": claim}});
    let volumes: Vec<Value> = claims.iter().enumerate().map(volume).collect();
    let wire = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [], "volumes": volumes},
    });
    cluster.compile_pod(&serde_json::from_value(wire).unwrap()).unwrap()
}

/// Builds a class that waits for the first consumer.
pub(crate) fn class(name: &str, provisioner: &str) -> Value {
    json!({"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer"})
}

/// Builds an available volume of class `local` on one node.
pub(crate) fn local_volume(name: &str, host: &str, size: &str) -> Value {
    let host = json!({"key": "host", "operator": "In", "values": [host]});
    json!({"kind": "PersistentVolume", "metadata": {"name": name}, "status": {"phase": "Available"},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "local": {"path": "/"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}}})
}

/// Builds a volume of the driver `csi.example.com`.
pub(crate) fn csi_volume(name: &str, handle: &str) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": name}, "status": {"phase": "Bound"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "csi.example.com", "volumeHandle": handle}}})
}

/// Builds a claim without a volume.
pub(crate) fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}}})
}

/// Builds a claim with its volume.
pub(crate) fn bound_claim(name: &str, class: &str, volume: &str) -> Value {
    let mut claim = claim(name, class, "1Gi");
    claim["spec"]["volumeName"] = json!(volume);
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim
}

pub(crate) fn csi_node(name: &str, limits: &[(&str, i32)]) -> Value {
    let driver = |(name, count): &(&str, i32)| json!({"name": name, "nodeID": "id", "allocatable": {"count": count}});
    let drivers: Vec<Value> = limits.iter().map(driver).collect();
    json!({"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}})
}

/// Compiles an object by its kind.
pub(crate) fn object(cluster: &Cluster, wire: &Value) -> Object {
    macro_rules! by_kind {
        ($($kind:literal => $message:ty),+ $(,)?) => {
            match wire["kind"].as_str().unwrap() {
                $($kind => {
                    let message: $message = serde_json::from_value(wire.clone()).unwrap();
                    cluster.compile_object(&message)
                })+
                other => panic!("{other}"),
            }
        };
    }
    use berth_proto::{core_v1, storage_v1};
    by_kind! {
        "PersistentVolume" => core_v1::PersistentVolume,
        "PersistentVolumeClaim" => core_v1::PersistentVolumeClaim,
        "StorageClass" => storage_v1::StorageClass,
        "CSINode" => storage_v1::CsiNode,
        "CSIDriver" => storage_v1::CsiDriver,
        "CSIStorageCapacity" => storage_v1::CsiStorageCapacity,
        "VolumeAttachment" => storage_v1::VolumeAttachment,
    }
    .unwrap_or_else(|error| panic!("{error} of {wire}"))
}

pub(crate) fn upsert(cluster: &Cluster, wire: &Value) {
    let delta = Delta::UpsertObject(object(cluster, wire));
    assert_eq!(cluster.apply(vec![delta]).rejected, []);
}

pub(crate) fn delete(cluster: &Cluster, pod: &Pod) {
    cluster.apply(vec![Delta::DeletePod { key: pod.key().clone(), uid: None }]);
}

/// Pseudorandom numbers that depend only on a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }
}

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const CLAIMS: [&str; 6] = ["c0", "c1", "c2", "c3", "p0-e", "p1-e"];
const VOLUMES: [&str; 5] = ["v0", "v1", "v2", "v3", "v4"];
const PODS: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];
const CLASSES: [&str; 3] = ["local", "csi", "ebs"];
const DRIVERS: [&str; 2] = ["csi.example.com", "ebs.csi.aws.com"];
const SIZES: [&str; 3] = ["1Gi", "2Gi", "4Gi"];

/// Objects of a cluster, by kind and name.
type Held = BTreeMap<(String, String), Value>;

/// Returns a cluster after many random events, and one that received the final objects at once.
pub(crate) fn walk(seed: u64) -> (Cluster, Cluster) {
    let (cluster, mut dice, mut held) = (Cluster::new(), Dice(seed), Held::new());
    for _ in 0..200 {
        let deltas = (0..=dice.roll(3)).flat_map(|_| event(&cluster, &mut dice, &mut held));
        assert_eq!(cluster.apply(deltas.collect()).rejected, []);
    }
    let expected = Cluster::new();
    let mut state = ClusterState::default();
    for wire in held.values() {
        match upsert_of(&expected, wire) {
            Delta::UpsertNode(node) => state.nodes.push(node),
            Delta::UpsertPod(pod) => state.pods.push(pod),
            Delta::UpsertObject(object) => state.objects.push(object),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(expected.replace(state).rejected, []);
    (cluster, expected)
}

/// Returns pods that request the storage of the walks.
pub(crate) fn probes(cluster: &Cluster) -> Vec<Pod> {
    let mut dice = Dice(7);
    let probe = |i: usize| {
        let name = format!("probe{i}");
        compile_pod(cluster, &random_pod(&mut dice, &name, None))
    };
    (0..24).map(probe).collect()
}

fn event(cluster: &Cluster, dice: &mut Dice, held: &mut Held) -> Vec<Delta> {
    let wire = match dice.roll(9) {
        0 => json!({"kind": "Node", "metadata": {"name": dice.pick(&NODES)}}),
        1 | 2 => {
            let (name, node) = (dice.pick(&PODS), dice.pick(&NODES));
            random_pod(dice, name, Some(node))
        }
        3 => random_volume(dice),
        4 | 5 => random_claim(dice),
        6 => class(dice.pick(&CLASSES), dice.pick(&PROVISIONERS)),
        7 => {
            let limits = [(DRIVERS[0], dice.roll(3)), (DRIVERS[1], dice.roll(3))];
            let limits = limits.map(|(driver, limit)| (driver, limit as i32));
            csi_node(dice.pick(&NODES), &limits[..dice.roll(3)])
        }
        _ => match dice.roll(3) {
            0 => {
                json!({"kind": "VolumeAttachment", "metadata": {"name": format!("a{}", dice.roll(3))},
                "spec": {"attacher": dice.pick(&DRIVERS), "nodeName": dice.pick(&NODES),
                    "source": {"persistentVolumeName": dice.pick(&VOLUMES)}}})
            }
            1 => json!({"kind": "CSIDriver", "metadata": {"name": DRIVERS[0]},
                "spec": {"storageCapacity": dice.roll(2) == 0}}),
            _ => json!({"kind": "CSIStorageCapacity",
                "metadata": {"name": format!("s{}", dice.roll(3)), "namespace": "default"},
                "storageClassName": dice.pick(&CLASSES), "capacity": dice.pick(&SIZES),
                "nodeTopology": {"matchLabels": {"host": dice.pick(&NODES)}}}),
        },
    };
    let key = |part: &Value| part.as_str().unwrap().to_owned();
    let key = (key(&wire["kind"]), key(&wire["metadata"]["name"]));
    let mut deltas = Vec::new();
    // A bound pod never changes its node: it is deleted, and another one of its name is added.
    let goes = dice.roll(4) == 0;
    if goes || key.0 == "Pod" {
        deltas.push(delete_of(cluster, &wire));
        held.remove(&key);
    }
    if !goes {
        deltas.push(upsert_of(cluster, &wire));
        held.insert(key, wire);
    }
    deltas
}

const PROVISIONERS: [&str; 3] =
    ["kubernetes.io/no-provisioner", "csi.example.com", "kubernetes.io/aws-ebs"];

/// Returns a pod with random volumes; probes have no node.
fn random_pod(dice: &mut Dice, name: &str, node: Option<&str>) -> Value {
    let volumes: Vec<Value> = (0..1 + dice.roll(2))
        .map(|i| match dice.roll(6) {
            0 => json!({"name": "e", "ephemeral": {}}),
            1 => json!({"name": "i", "awsElasticBlockStore": {"volumeID": dice.pick(&VOLUMES)}}),
            2 => json!({"name": "d", "gcePersistentDisk":
                {"pdName": dice.pick(&VOLUMES), "readOnly": dice.roll(2) == 0}}),
            _ => json!({"name": i.to_string(),
                "persistentVolumeClaim": {"claimName": dice.pick(&CLAIMS)}}),
        })
        .collect();
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [], "volumes": volumes, "nodeName": node.unwrap_or_default()}})
}

fn random_volume(dice: &mut Dice) -> Value {
    let name = dice.pick(&VOLUMES);
    match dice.roll(3) {
        0 => {
            let mut volume = csi_volume(name, dice.pick(&VOLUMES));
            volume["metadata"]["labels"] =
                json!({"topology.kubernetes.io/zone": format!("{}__n3", dice.pick(&NODES))});
            volume
        }
        1 => json!({"kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"awsElasticBlockStore": {"volumeID": dice.pick(&VOLUMES)}}}),
        _ => {
            let mut volume = local_volume(name, dice.pick(&NODES), dice.pick(&SIZES));
            volume["spec"]["storageClassName"] = json!(dice.pick(&CLASSES));
            if dice.roll(3) == 0 {
                volume["spec"]["claimRef"] =
                    json!({"namespace": "default", "name": dice.pick(&CLAIMS)});
            }
            volume
        }
    }
}

fn random_claim(dice: &mut Dice) -> Value {
    let name = dice.pick(&CLAIMS);
    let mut claim = match dice.roll(2) {
        0 => bound_claim(name, dice.pick(&CLASSES), dice.pick(&VOLUMES)),
        _ => claim(name, dice.pick(&CLASSES), dice.pick(&SIZES)),
    };
    if dice.roll(4) == 0 {
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    }
    claim["metadata"]["ownerReferences"] = json!([{"uid": dice.pick(&PODS), "controller": true}]);
    claim
}

fn upsert_of(cluster: &Cluster, wire: &Value) -> Delta {
    match wire["kind"].as_str().unwrap() {
        "Node" => node(cluster, wire["metadata"]["name"].as_str().unwrap()),
        "Pod" => Delta::UpsertPod(compile_pod(cluster, wire)),
        _ => Delta::UpsertObject(object(cluster, wire)),
    }
}

fn delete_of(cluster: &Cluster, wire: &Value) -> Delta {
    let name = wire["metadata"]["name"].as_str().unwrap();
    match wire["kind"].as_str().unwrap() {
        "Node" => Delta::DeleteNode(name.into()),
        "Pod" => Delta::DeletePod { key: PodKey::new("default", name), uid: None },
        _ => Delta::DeleteObject(object(cluster, wire).key().clone()),
    }
}

fn compile_pod(cluster: &Cluster, wire: &Value) -> Pod {
    cluster.compile_pod(&serde_json::from_value(wire.clone()).unwrap()).unwrap()
}
