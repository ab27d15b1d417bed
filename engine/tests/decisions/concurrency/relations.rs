//! Rules that involve several nodes: a commit on one node must be seen by other callers before they commit on another
//! node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use berth_engine::{
    Cluster, Delta, Outcome, PlaceRequest, Placement, Policy, Snapshot, TieBreak, VolumeBindings,
};
use berth_proto::{core_v1, storage_v1};
use serde_json::{Value, json};

use berth_testing::object;

const N_CALLERS: usize = 8;
const N_ZONES: usize = 4;

/// Returns a cluster of zones with five nodes each.
fn zones() -> Cluster {
    let cluster = Cluster::new();
    let node = |i: usize| {
        let zone = i % N_ZONES;
        let text = format!("n{i} cpu=64 memory=64Gi pods=110 label:host=n{i} label:zone=z{zone}");
        Delta::UpsertNode(cluster.compile_node(&object::node(&text)).unwrap())
    };
    assert_eq!(cluster.apply((0..5 * N_ZONES).map(node).collect()).rejected, []);
    cluster
}

/// Each caller assumes its share of the pods; returns the placements in any order.
fn assume_all(cluster: &Cluster, pods: &[String]) -> Vec<Placement> {
    let policy = Policy::default();
    let assume = |text: &String, seed: usize| {
        let pod = cluster.compile_pod(&object::pod(text)).unwrap();
        let tie_break = TieBreak::Seeded(seed as u64);
        let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
        match cluster.assume(&request).unwrap().outcome {
            Outcome::Placed(placement) => Some(placement),
            Outcome::Unschedulable(_) => None,
            outcome => panic!("{outcome:?}"),
        }
    };
    thread::scope(|scope| {
        let call = |caller: usize| {
            let share = pods.iter().enumerate().filter(move |(i, _)| i % N_CALLERS == caller);
            scope.spawn(move || share.filter_map(|(i, pod)| assume(pod, i)).collect::<Vec<_>>())
        };
        let callers: Vec<_> = (0..N_CALLERS).map(call).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    })
}

fn zone_of(node: &str) -> usize {
    node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok()).unwrap() % N_ZONES
}

/// S-IPA-7: each zone gets one pod, whichever caller comes first.
#[test]
fn anti_affinity_holds_across_a_zone() {
    for _ in 0..10 {
        let cluster = zones();
        let pods: Vec<_> = (0..40).map(|i| format!("p{i} label:app=x far=zone,app:x")).collect();
        let placed = assume_all(&cluster, &pods);
        let taken: BTreeSet<usize> =
            placed.iter().map(|placement| zone_of(&placement.node)).collect();
        assert_eq!((placed.len(), taken.len()), (N_ZONES, N_ZONES), "{placed:?}");
    }
}

/// S-IPA-7: a term that no pod had when another pod was decided counts nevertheless. A few hermits repel the crowd's
/// pods, which have no terms themselves.
#[test]
fn a_term_that_comes_meanwhile_counts() {
    for _ in 0..40 {
        let cluster = zones();
        let pod = |i: usize| match i % 8 {
            0 => format!("p{i} label:app=hermit far=zone,app:crowd"),
            _ => format!("p{i} label:app=crowd"),
        };
        assume_all(&cluster, &(0..64).map(pod).collect::<Vec<_>>());
        let mut is_in: BTreeMap<usize, BTreeSet<bool>> = BTreeMap::new();
        for view in cluster.snapshot().pods() {
            let number: usize = view.pod.key().name[1..].parse().unwrap();
            is_in.entry(zone_of(&view.node)).or_default().insert(number.is_multiple_of(8));
        }
        assert!(is_in.values().all(|kinds| kinds.len() == 1), "{is_in:?}");
    }
}

/// S-IPA-5: the terms of a pod that was just placed repel other pods, too.
#[test]
fn anti_affinity_of_others_holds_across_a_zone() {
    for _ in 0..10 {
        let cluster = zones();
        let pod = |i: usize| match i % 2 {
            0 => format!("p{i} label:app=a far=zone,app:b"),
            _ => format!("p{i} label:app=b"),
        };
        assume_all(&cluster, &(0..32).map(pod).collect::<Vec<_>>());
        let mut apps: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for view in cluster.snapshot().pods() {
            let number: usize = view.pod.key().name[1..].parse().unwrap();
            apps.entry(zone_of(&view.node)).or_default().insert(number % 2);
        }
        assert!(apps.values().all(|apps| apps.len() == 1), "{apps:?}");
    }
}

/// S-IPA-7: only one pod can be the first of a series; all others are placed in its zone.
#[test]
fn a_series_has_one_first_pod() {
    for _ in 0..10 {
        let cluster = zones();
        let pods: Vec<_> = (0..24).map(|i| format!("p{i} label:app=x near=zone,app:x")).collect();
        let placed = assume_all(&cluster, &pods);
        let taken: BTreeSet<usize> =
            placed.iter().map(|placement| zone_of(&placement.node)).collect();
        assert_eq!((placed.len(), taken.len()), (24, 1), "{taken:?}");
    }
}

/// S-PTS-7: while pods are only added, the zones' skew never exceeds the maximum.
#[test]
fn zones_stay_even() {
    let (cluster, is_done) = (zones(), AtomicBool::new(false));
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                check_skew(&cluster.snapshot());
            }
        });
        let pods: Vec<_> = (0..120)
            .map(|i| format!("p{i} label:app=x spread=zone,1,DoNotSchedule,app:x"))
            .collect();
        assert_eq!(assume_all(&cluster, &pods).len(), 120);
        is_done.store(true, Ordering::Release);
        watcher.join().unwrap();
    });
    check_skew(&cluster.snapshot());
}

fn check_skew(snapshot: &Snapshot) {
    let mut counts = [0; N_ZONES];
    for view in snapshot.pods() {
        counts[zone_of(&view.node)] += 1;
    }
    let skew = counts.iter().max().unwrap() - counts.iter().min().unwrap();
    assert!(skew <= 1, "{counts:?}");
}

fn upsert(cluster: &Cluster, kind: &str, object: Value) {
    let compiled = match kind {
        "StorageClass" => {
            let object: storage_v1::StorageClass = serde_json::from_value(object).unwrap();
            cluster.compile_object(&object)
        }
        "PersistentVolume" => {
            let object: core_v1::PersistentVolume = serde_json::from_value(object).unwrap();
            cluster.compile_object(&object)
        }
        "PersistentVolumeClaim" => {
            let object: core_v1::PersistentVolumeClaim = serde_json::from_value(object).unwrap();
            cluster.compile_object(&object)
        }
        _ => {
            let object: storage_v1::CsiNode = serde_json::from_value(object).unwrap();
            cluster.compile_object(&object)
        }
    };
    assert_eq!(cluster.apply(vec![Delta::UpsertObject(compiled.unwrap())]).rejected, []);
}

fn claim(cluster: &Cluster, name: &str, class: &str, access_mode: &str) {
    let requests = json!({"requests": {"storage": "1Gi"}});
    let spec =
        json!({"accessModes": [access_mode], "storageClassName": class, "resources": requests});
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    upsert(cluster, "PersistentVolumeClaim", json!({"metadata": metadata, "spec": spec}));
}

fn class(cluster: &Cluster, name: &str, provisioner: &str) {
    upsert(
        cluster,
        "StorageClass",
        json!({
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    );
}

/// S-VLB-9: every volume is assigned once, and is free again after its pod is deleted.
#[test]
fn every_volume_is_given_away_once() {
    let cluster = zones();
    class(&cluster, "local", "kubernetes.io/no-provisioner");
    for i in 0..10 {
        upsert(
            &cluster,
            "PersistentVolume",
            json!({
                "metadata": {"name": format!("v{i}")},
                "spec": {
                    "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                },
                "status": {"phase": "Available"},
            }),
        );
    }
    let pods: Vec<_> = (0..40).map(|i| format!("p{i} claim=c{i}")).collect();
    (0..40).for_each(|i| claim(&cluster, &format!("c{i}"), "local", "ReadWriteOnce"));
    let placed = assume_all(&cluster, &pods);
    let bound = |volumes: &VolumeBindings| volumes.bound[0].1.to_string();
    let given: BTreeSet<_> = placed.iter().map(|placement| bound(&placement.volumes)).collect();
    assert_eq!((placed.len(), given.len()), (10, 10), "{placed:?}");
    let gone = cluster.snapshot().pods()[0].pod.key().clone();
    cluster.apply(vec![Delta::DeletePod { key: gone, uid: None }]);
    claim(&cluster, "late", "local", "ReadWriteOnce");
    assert_eq!(assume_all(&cluster, &["late claim=late".to_owned()]).len(), 1);
}

/// S-VLR-5: a claim that only one pod may use has one pod.
#[test]
fn a_claim_of_one_pod_has_one_pod() {
    for _ in 0..10 {
        let cluster = zones();
        class(&cluster, "wait", "d");
        claim(&cluster, "c", "wait", "ReadWriteOncePod");
        let pods: Vec<_> = (0..24).map(|i| format!("p{i} claim=c")).collect();
        assert_eq!(assume_all(&cluster, &pods).len(), 1);
    }
}

/// S-VLB-5: pods that share a claim to be provisioned all get the node of the first one.
#[test]
fn pods_of_one_claim_share_a_node() {
    for _ in 0..10 {
        let cluster = zones();
        class(&cluster, "wait", "d");
        claim(&cluster, "c", "wait", "ReadWriteOnce");
        let pods: Vec<_> = (0..24).map(|i| format!("p{i} claim=c")).collect();
        let placed = assume_all(&cluster, &pods);
        let nodes: BTreeSet<_> = placed.iter().map(|placement| placement.node.clone()).collect();
        assert_eq!((placed.len(), nodes.len()), (24, 1), "{nodes:?}");
    }
}

/// S-VLL-5: no node has more volumes than it can attach.
#[test]
fn attach_limits_hold() {
    let cluster = zones();
    class(&cluster, "wait", "d");
    for i in 0..5 * N_ZONES {
        let driver = json!({"name": "d", "nodeID": "x", "allocatable": {"count": 2}});
        let csi_node =
            json!({"metadata": {"name": format!("n{i}")}, "spec": {"drivers": [driver]}});
        upsert(&cluster, "CSINode", csi_node);
    }
    (0..80).for_each(|i| claim(&cluster, &format!("c{i}"), "wait", "ReadWriteOnce"));
    let pods: Vec<_> = (0..80).map(|i| format!("p{i} claim=c{i}")).collect();
    let placed = assume_all(&cluster, &pods);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for placement in &placed {
        *counts.entry(placement.node.to_string()).or_default() += 1;
    }
    assert_eq!(placed.len(), 2 * 5 * N_ZONES);
    assert!(counts.values().all(|n| *n == 2), "{counts:?}");
}
