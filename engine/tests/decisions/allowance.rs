//! Budgets without a status: their allowed disruptions are computed from the pods they cover. Rules: S-PDB-1 to
//! S-PDB-3, L-PDB-2 to L-PDB-11.

use berth_engine::{
    BudgetFigures, Cluster, CommitError, Delta, Ground, PodKey, Policy, PreemptOptions,
    PreemptRequest, TieBreak,
};
use berth_proto::{apps_v1, core_v1, policy_v1};
use berth_testing::object;
use serde_json::{Value, json};

use crate::simulate::drain::{Ask, owner, words};

/// Builds a pod of `app=x` from words, perhaps ready and owned.
fn pod(words: &str, is_ready: bool, owner: Option<Value>) -> core_v1::Pod {
    let mut pod = object::pod(&format!("{words} label:app=x"));
    if is_ready {
        let ready = json!({"type": "Ready", "status": "True"});
        let status = pod.status.get_or_insert_default();
        status.conditions.push(serde_json::from_value(ready).unwrap());
    }
    let metadata = pod.metadata.get_or_insert_default();
    metadata.owner_references =
        owner.into_iter().map(|owner| serde_json::from_value(owner).unwrap()).collect();
    pod
}

fn upsert(cluster: &Cluster, pod: &core_v1::Pod) {
    let delta = Delta::UpsertPod(cluster.compile_pod(pod).unwrap());
    assert_eq!(cluster.apply(vec![delta]).rejected, []);
}

fn delete(cluster: &Cluster, name: &str) {
    cluster.apply(vec![Delta::DeletePod { key: PodKey::new("default", name), uid: None }]);
}

/// Adds the budget `default/b`, whose `spec` has the selector `app=x` unless it has its own.
fn budget(cluster: &Cluster, mut spec: Value, more: &Value) {
    if spec.get("selector").is_none() {
        spec["selector"] = json!({"matchLabels": {"app": "x"}});
    }
    let mut budget = json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec});
    for (key, value) in more.as_object().into_iter().flatten() {
        if key == "metadata" {
            budget["metadata"]["resourceVersion"] = value["resourceVersion"].clone();
        } else {
            budget[key] = value.clone();
        }
    }
    let budget: policy_v1::PodDisruptionBudget = serde_json::from_value(budget).unwrap();
    cluster.apply(vec![Delta::UpsertObject(cluster.compile_object(&budget).unwrap())]);
}

fn figures(cluster: &Cluster) -> Option<[i64; 4]> {
    let of = |f: BudgetFigures| {
        [f.expected_pods, f.desired_healthy, f.current_healthy, f.disruptions_allowed]
    };
    cluster.snapshot().computed_budget("default", "b").map(of)
}

const NODES: [&str; 2] = ["n0 cpu=40 memory=8Gi pods=99", "n1 cpu=40 memory=8Gi pods=99"];

/// Builds two nodes with this number of pods on `n0`, `p0` and so on, of which the first are ready.
fn cluster(n_pods: usize, n_ready: usize, owner: Option<&Value>) -> Cluster {
    let cluster = Cluster::new();
    let nodes = NODES.iter().map(|n| cluster.compile_node(&object::node(n)).unwrap());
    cluster.apply(nodes.map(Delta::UpsertNode).collect());
    for i in 0..n_pods {
        upsert(&cluster, &pod(&format!("p{i} cpu=1 node=n0"), i < n_ready, owner.cloned()));
    }
    cluster
}

fn replica_set(cluster: &Cluster, n_replicas: Option<i32>) {
    let set = json!({"metadata": {"name": "rs", "namespace": "default"},
        "spec": {"replicas": n_replicas, "selector": {"matchLabels": {"app": "x"}}}});
    let set: apps_v1::ReplicaSet = serde_json::from_value(set).unwrap();
    cluster.apply(vec![Delta::UpsertObject(cluster.compile_object(&set).unwrap())]);
}

/// L-PDB-2 to L-PDB-4, L-PDB-8: numbers and percentages, rounded up.
#[test]
fn shares_are_those_of_the_disruption_controller() {
    let rs = owner("ReplicaSet", "rs");
    let cluster = cluster(6, 5, Some(&rs));
    replica_set(&cluster, Some(7));
    for (spec, expected) in [
        (json!({"minAvailable": 0}), [6, 0, 5, 5]),
        (json!({"minAvailable": 3}), [6, 3, 5, 2]),
        (json!({"minAvailable": 9}), [6, 9, 5, 0]),
        (json!({"minAvailable": "50%"}), [7, 4, 5, 1]),
        (json!({"minAvailable": "0%"}), [7, 0, 5, 5]),
        (json!({"maxUnavailable": 3}), [7, 4, 5, 1]),
        (json!({"maxUnavailable": 9}), [7, 0, 5, 5]),
        (json!({"maxUnavailable": "30%"}), [7, 4, 5, 1]),
        (json!({"maxUnavailable": 0}), [7, 7, 5, 0]),
        (json!({}), [0, 0, 0, 0]),
        (json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "y"}}}), [0, 1, 0, 0]),
        (json!({"minAvailable": 1, "selector": {}}), [6, 1, 5, 4]),
    ] {
        budget(&cluster, spec.clone(), &Value::Null);
        assert_eq!(figures(&cluster), Some(expected), "{spec}");
    }
}

/// L-PDB-5, S-PDB-2: pods that come, go, get ready and are deleted; replicas that are unknown, absent and changed.
#[test]
fn figures_follow_the_pods() {
    let rs = owner("ReplicaSet", "rs");
    let cluster = cluster(3, 3, Some(&rs));
    budget(&cluster, json!({"maxUnavailable": 1}), &Value::Null);
    assert_eq!(figures(&cluster), Some([3, 2, 3, 1]), "the pods stand for an unknown scale");
    replica_set(&cluster, Some(4));
    assert_eq!(figures(&cluster), Some([4, 3, 3, 0]));
    replica_set(&cluster, Some(3));
    assert_eq!(figures(&cluster), Some([3, 2, 3, 1]));
    upsert(&cluster, &pod("p0 cpu=1 node=n0", false, Some(rs.clone())));
    assert_eq!(figures(&cluster), Some([3, 2, 2, 0]), "a pod that is no longer ready");
    upsert(&cluster, &pod("p0 cpu=1 node=n0", true, Some(rs.clone())));
    upsert(&cluster, &pod("p1 cpu=1 node=n0 terminating=true", true, Some(rs.clone())));
    assert_eq!(figures(&cluster), Some([3, 2, 2, 0]), "a pod that is being deleted");
    delete(&cluster, "p1");
    upsert(&cluster, &pod("p3 cpu=1 node=n1", true, Some(rs.clone())));
    assert_eq!(figures(&cluster), Some([3, 2, 3, 1]));
    replica_set(&cluster, None);
    assert_eq!(figures(&cluster), Some([1, 0, 3, 3]), "one replica is the default");
    // L-PDB-9: a pod without a controller is healthy, and is not expected.
    upsert(&cluster, &pod("alone cpu=1 node=n1", true, None));
    assert_eq!(figures(&cluster), Some([1, 0, 4, 4]));
}

/// S-PDB-3: pods on no node count too: a controller whose pods are all pending is expected to have its replicas.
#[test]
fn pending_pods_and_pods_of_missing_nodes_count() {
    let rs = owner("ReplicaSet", "rs");
    let cluster = cluster(2, 2, Some(&rs));
    replica_set(&cluster, Some(2));
    budget(&cluster, json!({"maxUnavailable": 1}), &Value::Null);
    assert_eq!(figures(&cluster), Some([2, 1, 2, 1]));
    upsert(&cluster, &pod("waits cpu=1", false, Some(owner("StatefulSet", "other"))));
    assert_eq!(figures(&cluster), Some([3, 2, 2, 0]));
    delete(&cluster, "waits");
    upsert(&cluster, &pod("orphan cpu=1 node=gone", true, Some(owner("StatefulSet", "other"))));
    assert_eq!(figures(&cluster), Some([3, 2, 3, 1]));
}

/// L-PDB-10: the scale of a Job or a DaemonSet cannot be resolved, which matters to all but plain numbers.
#[test]
fn controllers_without_a_scale_allow_nothing() {
    for kind in ["Job", "DaemonSet"] {
        let cluster = cluster(3, 3, Some(&owner(kind, "x")));
        budget(&cluster, json!({"maxUnavailable": 1}), &Value::Null);
        assert_eq!(figures(&cluster), Some([0; 4]), "{kind}");
        budget(&cluster, json!({"minAvailable": 1}), &Value::Null);
        assert_eq!(figures(&cluster), Some([3, 1, 3, 2]), "{kind}");
    }
}

/// S-PDB-1: a status counts as it is, also that of a budget which the API server has just stored.
#[test]
fn a_status_is_kept() {
    let cluster = cluster(3, 3, Some(&owner("ReplicaSet", "rs")));
    let zero = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    for (more, is_computed) in [
        (json!({}), true),
        (json!({"status": {}}), true),
        (json!({"status": zero}), true),
        (json!({"status": zero, "metadata": {"resourceVersion": "7"}}), false),
        (json!({"status": {"disruptionsAllowed": 0, "expectedPods": 3}}), false),
        (json!({"status": {"observedGeneration": 1}}), false),
        (json!({"status": {"disruptionsAllowed": 2}}), false),
    ] {
        budget(&cluster, json!({"minAvailable": 1}), &more);
        assert_eq!(figures(&cluster).is_some(), is_computed, "{more}");
        let drained = words(&Ask::of(["n0"]).drain(&cluster).nodes[0]);
        let n_moved = drained.matches("n1").count();
        let allowed = more["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
        assert_eq!(n_moved > 0, is_computed || allowed > 0, "{more}: {drained}");
    }
    // A spec that is not well formed allows nothing.
    budget(&cluster, json!({"minAvailable": "many"}), &Value::Null);
    assert_eq!(figures(&cluster), None);
    assert!(!words(&Ask::of(["n0"]).drain(&cluster).nodes[0]).contains("n1"));
}

/// S-PDB-1, S-PRE-13: preemption counts violations against the computed number, and decides anew when it changes.
#[test]
fn preemption_reads_computed_budgets() {
    let cluster = cluster(2, 2, Some(&owner("ReplicaSet", "rs")));
    let n_violations = |cluster: &Cluster| {
        let pod = cluster.compile_pod(&object::pod("high cpu=39 priority=9 named=n0")).unwrap();
        let request = PreemptRequest {
            pod: &pod,
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            options: PreemptOptions::default(),
            cancelled: &|| false,
            now: None,
        };
        let preempted = cluster.preempt(&request).unwrap().post_filter.unwrap();
        let n_violations = preempted.chosen.as_ref().unwrap().n_pdb_violations;
        (pod, preempted, n_violations)
    };
    for (spec, expected) in [
        (json!({"minAvailable": 0}), 0),
        (json!({"minAvailable": 1}), 0),
        (json!({"minAvailable": 2}), 1),
        (json!({"maxUnavailable": "50%"}), 0),
    ] {
        budget(&cluster, spec.clone(), &Value::Null);
        assert_eq!(n_violations(&cluster).2, expected, "{spec}");
    }
    // One of the two has to go, and one is allowed to, until the other is no longer ready.
    budget(&cluster, json!({"minAvailable": 1}), &Value::Null);
    let session = cluster.fork();
    let (pod, preempted, _) = n_violations(&session);
    session.nominate(&pod, &preempted).unwrap();
    upsert(&cluster, &pod_of_set("p1 cpu=1 node=n0", false));
    assert_eq!(n_violations(&cluster).2, 1);
    let refused = cluster.commit(&session);
    assert!(
        matches!(&refused, Err(CommitError::Changed { ground: Ground::Budgets, .. })),
        "{refused:?}"
    );
}

fn pod_of_set(words: &str, is_ready: bool) -> core_v1::Pod {
    pod(words, is_ready, Some(owner("ReplicaSet", "rs")))
}
