//! Replays one recorded case with the naive scheduler. Only recorded effects are applied, never its own choice.

use std::collections::BTreeMap;

use berth_engine::PolicySpec;
use berth_proto::core_v1::{ObjectReference, PersistentVolumeClaim, Pod, PodCondition};
use berth_proto::{Time, apps_v1, core_v1, policy_v1, storage_v1};
use serde_json::Value;

use super::{compare, profile};
use crate::naive::attempt::attempt;
use crate::naive::cluster::NaiveCluster;
use crate::naive::objects::AnyObject;
use crate::naive::pod::{self, key};
use crate::naive::post_filter::post_filter;

/// 2026-01-01T00:00:00Z, at which the pod of step 0 starts.
const EPOCH_UNIX_SECONDS: i64 = 1_767_225_600;

/// Reads a wire object from the JSON value of the expression; with a type, as an object of any kind.
macro_rules! read {
    ($value:expr) => {
        serde_json::from_value($value.clone()).unwrap_or_else(|error| panic!("{error}: {}", $value))
    };
    ($value:expr => $type:ty) => {{
        let object: $type = read!($value);
        AnyObject::from(object)
    }};
}

/// Returns the number of attempts, and every difference from the recording.
pub(crate) fn replay(case: &Value) -> (usize, Vec<String>) {
    let id = case["id"].as_str().expect("an id");
    let mut replay = Replay::start(case);
    let (mut n_attempts, mut differences) = (0, Vec::new());
    for (number, step) in list(&case["steps"]).iter().enumerate() {
        if let Some(names) = step["delete"].as_array() {
            replay.delete(names);
            continue;
        }
        let pod: Pod = match step["retry"].as_str() {
            Some(name) => replay.pending[name].clone(),
            None => read!(&step["pod"]),
        };
        n_attempts += 1;
        replay.cluster.refresh();
        let (cluster, policy) = (&replay.cluster, &replay.policy);
        let attempt = attempt(cluster, policy, &pod);
        let post_filter = post_filter(cluster, policy, &pod, &attempt);
        let got = compare::Got { cluster, pod: &pod, attempt, post_filter };
        let found = compare::differences(case, step, &got);
        differences.extend(found.into_iter().map(|text| format!("{id} step {number}: {text}")));
        replay.apply(number, pod, &step["expect"]);
    }
    (n_attempts, differences)
}

struct Replay {
    cluster: NaiveCluster,
    policy: PolicySpec,
    /// Pods without a node, by `namespace/name`.
    pending: BTreeMap<String, Pod>,
}

impl Replay {
    fn start(case: &Value) -> Replay {
        let mut cluster = NaiveCluster::default();
        let objects = &case["cluster"];
        for node in list(&objects["nodes"]) {
            cluster.upsert_node(&read!(node));
        }
        for kind in objects.as_object().into_iter().flatten().map(|(kind, _)| kind) {
            for object in
                list(&objects[kind]).iter().filter_map(|object| other_object(kind, object))
            {
                cluster.objects.upsert(object);
            }
        }
        let policy = profile::spec(&case["config"]);
        let mut replay = Replay { cluster, policy, pending: BTreeMap::new() };
        for pod in list(&objects["pods"]) {
            replay.add(read!(pod));
        }
        replay
    }

    fn add(&mut self, pod: Pod) {
        let phase = pod.status.as_ref().map_or("", |status| &status.phase);
        let is_terminal = phase == "Succeeded" || phase == "Failed";
        let is_bound = pod.spec.as_ref().is_some_and(|spec| !spec.node_name.is_empty());
        match (is_terminal, is_bound) {
            (true, _) => {}
            (false, true) => self.cluster.add_pod(&pod),
            (false, false) => {
                if let Some(node) = pod::nominated_node(&pod) {
                    self.cluster.nominations.add(&pod, node);
                }
                self.pending.insert(key(&pod), pod);
            }
        }
    }

    fn delete(&mut self, names: &[Value]) {
        for name in names {
            let name = name.as_str().expect("a name");
            let (namespace, pod) = name.split_once('/').expect("namespace/name");
            self.cluster.delete_pod(namespace, pod);
            self.pending.remove(name);
        }
    }

    fn apply(&mut self, number: usize, mut pod: Pod, expect: &Value) {
        let now = Time::from_unix_seconds(EPOCH_UNIX_SECONDS + i64::try_from(number).expect("few"));
        self.delete(list(&expect["evict"]));
        for name in list(&expect["terminate"]) {
            self.terminate(name.as_str().expect("a name"), now);
        }
        for name in list(&expect["clearNominations"]) {
            self.clear_nomination(name.as_str().expect("a name"));
        }
        if let Some(node) = expect["nominate"].as_str() {
            pod.status.get_or_insert_default().nominated_node_name = node.to_owned();
            self.cluster.nominations.add(&pod, node);
            self.pending.insert(key(&pod), pod.clone());
        }
        let Some(node) = expect["bind"].as_str() else {
            return;
        };
        self.pending.remove(&key(&pod));
        self.bind_volumes(node, &expect["volumes"]);
        pod.spec.get_or_insert_default().node_name = node.to_owned();
        let status = pod.status.get_or_insert_default();
        status.start_time = Some(now);
        status.nominated_node_name.clear();
        self.cluster.add_pod(&pod);
    }

    fn terminate(&mut self, name: &str, now: Time) {
        let (namespace, pod) = name.split_once('/').expect("namespace/name");
        let Some(mut victim) = self.cluster.placed_pod(namespace, pod).cloned() else {
            return;
        };
        self.cluster.delete_pod(namespace, pod);
        victim.metadata.get_or_insert_default().deletion_timestamp.get_or_insert(now);
        let conditions = &mut victim.status.get_or_insert_default().conditions;
        conditions.retain(|condition| condition.r#type != "DisruptionTarget");
        conditions.push(PodCondition {
            r#type: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: "PreemptionByScheduler".to_owned(),
            ..PodCondition::default()
        });
        self.cluster.add_pod(&victim);
    }

    fn clear_nomination(&mut self, name: &str) {
        let pod = self.pending.get_mut(name).expect("a pending pod");
        self.cluster.nominations.remove(pod::namespace(pod), pod::name(pod));
        pod.status.get_or_insert_default().nominated_node_name.clear();
    }

    fn bind_volumes(&mut self, node: &str, volumes: &Value) {
        for (claim, volume) in volumes["static"].as_object().into_iter().flatten() {
            let metadata = self.claim(claim).metadata.unwrap_or_default();
            let volume = volume.as_str().and_then(|name| self.cluster.objects.volume(name));
            let mut volume = volume.expect("a volume").clone();
            volume.spec.get_or_insert_default().claim_ref = Some(ObjectReference {
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
                ..ObjectReference::default()
            });
            self.cluster.objects.upsert(AnyObject::from(volume));
        }
        for claim in list(&volumes["provision"]) {
            let mut claim = self.claim(claim.as_str().expect("a name"));
            let annotations = &mut claim.metadata.get_or_insert_default().annotations;
            annotations.insert("volume.kubernetes.io/selected-node".to_owned(), node.to_owned());
            self.cluster.objects.upsert(AnyObject::from(claim));
        }
    }

    fn claim(&self, name: &str) -> PersistentVolumeClaim {
        let (namespace, claim) = name.split_once('/').expect("namespace/name");
        self.cluster.objects.claim(namespace, claim).expect("a claim").clone()
    }
}

/// Returns an object from one of the lists of the case's cluster; `None` for nodes and pods.
fn other_object(list: &str, object: &Value) -> Option<AnyObject> {
    Some(match list {
        "namespaces" => read!(object => core_v1::Namespace),
        "services" => read!(object => core_v1::Service),
        "replicationControllers" => read!(object => core_v1::ReplicationController),
        "replicaSets" => read!(object => apps_v1::ReplicaSet),
        "statefulSets" => read!(object => apps_v1::StatefulSet),
        "persistentVolumes" => read!(object => core_v1::PersistentVolume),
        "persistentVolumeClaims" => read!(object => core_v1::PersistentVolumeClaim),
        "storageClasses" => read!(object => storage_v1::StorageClass),
        "csiNodes" => read!(object => storage_v1::CsiNode),
        "csiDrivers" => read!(object => storage_v1::CsiDriver),
        "csiStorageCapacities" => read!(object => storage_v1::CsiStorageCapacity),
        "volumeAttachments" => read!(object => storage_v1::VolumeAttachment),
        "podDisruptionBudgets" => read!(object => policy_v1::PodDisruptionBudget),
        "nodes" | "pods" => return None,
        other => panic!("`{other}` is no list of objects"),
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
