//! Volumes over time: how assuming a pod reserves its claims, how the reservation ends, and that the order of events
//! does not matter.

pub(crate) mod storage;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{
    BatchRequest, Cluster, ClusterState, Decision, Delta, EngineError, ObjectKind, Outcome,
    PlaceRequest, Plugin, Pod, PodKey, Policy, PolicySpec, TieBreak, Verdict, VolumeBindings,
};
use serde_json::json;
use storage::{
    bound_claim, claim, class, csi_node, csi_volume, delete, local_volume, node, object, pod,
    upsert,
};

/// Two nodes and the classes `local`, which has no provisioner, and `csi`; both wait for the first consumer.
fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let nodes = ["n1", "n2"].map(|name| node(&cluster, name));
    cluster.apply(nodes.into());
    upsert(&cluster, &class("local", "kubernetes.io/no-provisioner"));
    upsert(&cluster, &class("csi", "csi.example.com"));
    cluster
}

fn request<'a>(pod: &'a Pod, policy: &'a Policy) -> PlaceRequest<'a> {
    PlaceRequest { pod, policy, tie_break: TieBreak::Lexicographic, now: None }
}

fn assume(cluster: &Cluster, pod: &Pod) -> Result<Decision, EngineError> {
    cluster.assume(&request(pod, &Policy::new(PolicySpec::default()).unwrap()))
}

/// Describes the node and the claims of a decision, for example `n1 c=v` or `n1 +c`; returns the message if there is no
/// node.
fn describe(decision: Result<Decision, EngineError>) -> String {
    match decision.unwrap().outcome {
        Outcome::Placed(placement) => {
            let VolumeBindings { bound, provisioned } = placement.volumes;
            let bound = bound.iter().map(|(claim, volume)| format!(" {claim}={volume}"));
            let provisioned = provisioned.iter().map(|claim| format!(" +{claim}"));
            let bindings: String = bound.chain(provisioned).collect();
            format!("{}{bindings}", placement.node)
        }
        Outcome::Unschedulable(unschedulable) => unschedulable.message,
        gated => panic!("{gated:?}"),
    }
}

fn place(cluster: &Cluster, pod: &Pod) -> String {
    describe(cluster.place(&request(pod, &Policy::new(PolicySpec::default()).unwrap())))
}

const NO_VOLUME: &str =
    "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";

/// S-VLB-9
#[test]
fn an_assumed_pod_takes_its_volume_until_it_is_forgotten() {
    let cluster = cluster();
    upsert(&cluster, &local_volume("v", "n2", "1Gi"));
    for name in ["a", "b"] {
        upsert(&cluster, &claim(name, "local", "1Gi"));
    }
    let [a, b] = ["a", "b"].map(|name| pod(&cluster, name, &[name]));
    assert_eq!(place(&cluster, &b), "n2 b=v", "deciding takes nothing");
    assert_eq!(describe(assume(&cluster, &a)), "n2 a=v");
    assert_eq!(place(&cluster, &b), NO_VOLUME);
    let other = pod(&cluster, "c", &["a"]);
    assert_eq!(place(&cluster, &other), "n2 a=v", "the claim has the volume, whoever uses it");
    delete(&cluster, &a);
    assert_eq!(place(&cluster, &b), "n2 b=v");
}

/// S-VLB-5, S-VLB-9
#[test]
fn an_assumed_pod_selects_the_node_of_its_claims() {
    let cluster = cluster();
    upsert(&cluster, &claim("c", "csi", "1Gi"));
    let [a, b] = ["a", "b"].map(|name| pod(&cluster, name, &["c"]));
    assert_eq!(describe(assume(&cluster, &a)), "n1 +c");
    cluster.apply(vec![Delta::DeleteNode("n1".into())]);
    let message =
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(place(&cluster, &b), message, "bound to a node that is gone");
    cluster.apply(vec![node(&cluster, "n1")]);
    assert_eq!(place(&cluster, &b), "n1 +c");
    delete(&cluster, &a);
    cluster.apply(vec![Delta::DeleteNode("n1".into())]);
    assert_eq!(place(&cluster, &b), "n2 +c");
}

/// S-VLB-9, S-CCH-3
#[test]
fn a_confirmed_pod_keeps_what_was_assumed_until_the_objects_tell() {
    let cluster = cluster();
    upsert(&cluster, &local_volume("v", "n1", "1Gi"));
    for name in ["a", "b"] {
        upsert(&cluster, &claim(name, "local", "1Gi"));
    }
    let [a, b] = ["a", "b"].map(|name| pod(&cluster, name, &[name]));
    assert_eq!(describe(assume(&cluster, &a)), "n1 a=v");
    confirm(&cluster, "a", "n1");
    assert_eq!(cluster.snapshot().n_assumed(), 0);
    assert_eq!(place(&cluster, &b), NO_VOLUME);
    // Other fields of the volume may change meanwhile, and the volume may come again in a new list.
    upsert(&cluster, &local_volume("v", "n1", "2Gi"));
    assert_eq!(place(&cluster, &b), NO_VOLUME);
    // The claim was bound to another volume, so this one is free again.
    upsert(&cluster, &local_volume("w", "n1", "3Gi"));
    upsert(&cluster, &bound_claim("a", "local", "w"));
    assert_eq!(place(&cluster, &b), "n1 b=v");
}

fn confirm(cluster: &Cluster, pod: &str, node: &str) {
    let pod = json!({
        "metadata": {"name": pod, "namespace": "default", "uid": pod},
        "spec": {"nodeName": node, "containers": [],
            "volumes": [{"name": "0", "persistentVolumeClaim": {"claimName": pod}}]},
    });
    let pod = cluster.compile_pod(&serde_json::from_value(pod).unwrap()).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertPod(pod)]).rejected, []);
}

/// S-VLB-9, S-CCH-3
#[test]
fn a_pod_confirmed_elsewhere_gives_its_volume_back() {
    let cluster = cluster();
    upsert(&cluster, &local_volume("v", "n1", "1Gi"));
    for name in ["a", "b"] {
        upsert(&cluster, &claim(name, "local", "1Gi"));
    }
    let [a, b] = ["a", "b"].map(|name| pod(&cluster, name, &[name]));
    assert_eq!(describe(assume(&cluster, &a)), "n1 a=v");
    confirm(&cluster, "a", "n2");
    assert_eq!(place(&cluster, &b), "n1 b=v");
}

/// S-VLB-9
#[test]
fn a_new_listing_leaves_what_was_assumed() {
    let cluster = cluster();
    let listing = |size: &str| ClusterState {
        nodes: vec![],
        objects: [
            class("local", "kubernetes.io/no-provisioner"),
            local_volume("v", "n1", size),
            claim("a", "local", "1Gi"),
            claim("b", "local", "1Gi"),
        ]
        .iter()
        .map(|wire| object(&cluster, wire))
        .collect(),
        pods: vec![],
    };
    let listing = |size: &str| {
        let nodes = ["n1", "n2"].map(|name| match node(&cluster, name) {
            Delta::UpsertNode(node) => node,
            other => panic!("{other:?}"),
        });
        ClusterState { nodes: nodes.into(), ..listing(size) }
    };
    assert_eq!(cluster.replace(listing("1Gi")).rejected, []);
    let [a, b] = ["a", "b"].map(|name| pod(&cluster, name, &[name]));
    assert_eq!(describe(assume(&cluster, &a)), "n1 a=v");
    assert_eq!(cluster.replace(listing("2Gi")).rejected, []);
    assert_eq!(cluster.snapshot().n_objects(ObjectKind::PersistentVolume), 1);
    assert_eq!(place(&cluster, &b), NO_VOLUME);
    delete(&cluster, &a);
    assert_eq!(place(&cluster, &b), "n1 b=v");
}

/// S-VLB-6: each of two claims of a pod gets its own volume, the smaller claim the smaller volume.
#[test]
fn claims_of_one_pod_share_volumes_out() {
    let cluster = cluster();
    for (name, node, size) in [("v1", "n1", "4Gi"), ("v2", "n2", "8Gi"), ("v3", "n2", "2Gi")] {
        upsert(&cluster, &local_volume(name, node, size));
    }
    upsert(&cluster, &claim("big", "local", "2Gi"));
    upsert(&cluster, &claim("small", "local", "1Gi"));
    let both = pod(&cluster, "p", &["big", "small"]);
    assert_eq!(place(&cluster, &both), "n2 big=v2 small=v3");
    upsert(&cluster, &claim("big", "local", "16Gi"));
    assert_eq!(place(&cluster, &both), NO_VOLUME);
}

/// S-VLB-9: a dry run assigns volumes as assuming would, and reserves nothing.
#[test]
fn a_dry_run_of_many_pods_gives_no_volume_twice() {
    let cluster = cluster();
    let pods: Vec<Pod> = (0..4)
        .map(|i| {
            upsert(&cluster, &claim(&format!("c{i}"), "local", "1Gi"));
            pod(&cluster, &format!("p{i}"), &[&format!("c{i}")])
        })
        .collect();
    for (name, node) in [("v0", "n1"), ("v1", "n1"), ("v2", "n2")] {
        upsert(&cluster, &local_volume(name, node, "1Gi"));
    }
    let policy = Policy::new(PolicySpec::default()).unwrap();
    let batch = |assume| -> Vec<String> {
        let decisions = cluster
            .place_batch(&BatchRequest {
                pods: &pods,
                policy: &policy,
                tie_break: TieBreak::Lexicographic,
                assume,
                gang: None,
                cancelled: &|| false,
                now: None,
            })
            .results;
        decisions.into_iter().map(describe).collect()
    };
    let expected = batch(false);
    assert_eq!(expected[3], NO_VOLUME);
    let mut volumes: Vec<_> =
        expected[..3].iter().map(|text| text.split_once('=').unwrap().1).collect();
    volumes.sort_unstable();
    assert_eq!(volumes, ["v0", "v1", "v2"]);
    assert_eq!(batch(false), expected);
    assert_eq!(batch(true), expected);
}

/// S-VLB-9: a volume goes to one claim only, even with concurrent callers.
#[test]
fn callers_at_the_same_time_never_get_the_same_volume() {
    const VOLUMES: usize = 24;
    let cluster = Arc::new(cluster());
    for i in 0..VOLUMES {
        upsert(&cluster, &local_volume(&format!("v{i:02}"), ["n1", "n2"][i % 2], "1Gi"));
        upsert(&cluster, &claim(&format!("c{i:02}"), "local", "1Gi"));
        upsert(&cluster, &claim(&format!("d{i:02}"), "local", "1Gi"));
    }
    let mut found: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = ["c", "d"]
            .map(|claims| {
                let cluster = cluster.clone();
                scope.spawn(move || -> Vec<String> {
                    let names = (0..VOLUMES).map(|i| format!("{claims}{i:02}"));
                    let pods: Vec<Pod> = names.map(|name| pod(&cluster, &name, &[&name])).collect();
                    pods.iter().map(|pod| describe(assume(&cluster, pod))).collect()
                })
            })
            .into();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    found.retain(|text| text != NO_VOLUME);
    let mut volumes: Vec<_> = found.iter().map(|text| text.split_once('=').unwrap().1).collect();
    volumes.sort_unstable();
    let expected: Vec<String> = (0..VOLUMES).map(|i| format!("v{i:02}")).collect();
    assert_eq!(volumes, expected);
}

/// S-VLR-2, S-VLR-5: a claim that only one pod may use is requested concurrently on two nodes.
#[test]
fn callers_at_the_same_time_never_share_an_exclusive_claim() {
    for _ in 0..20 {
        let cluster = Arc::new(cluster());
        let mut exclusive = bound_claim("c", "csi", "v");
        exclusive["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        upsert(&cluster, &exclusive);
        upsert(&cluster, &csi_volume("v", "h"));
        let n_placed: usize = std::thread::scope(|scope| {
            let threads = ["a", "b"].map(|name| {
                let cluster = cluster.clone();
                scope.spawn(move || {
                    let outcome = assume(&cluster, &pod(&cluster, name, &["c"])).unwrap().outcome;
                    usize::from(matches!(outcome, Outcome::Placed(_)))
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(n_placed, 1);
    }
}

/// S-VLL-3, S-VLL-5: a volume counts by its present object, not by the one at the time of its pod's arrival. A node
/// need not have the driver (S-VLL-6).
#[test]
fn volumes_in_use_follow_their_objects() {
    let cluster = cluster();
    upsert(&cluster, &csi_node("n1", &[("csi.example.com", 1)]));
    upsert(&cluster, &csi_node("n2", &[("csi.example.com", 0)]));
    upsert(&cluster, &bound_claim("c", "", "v"));
    confirm(&cluster, "c", "n1");
    upsert(&cluster, &bound_claim("d", "", "w"));
    upsert(&cluster, &csi_volume("w", "w"));
    let next = pod(&cluster, "p", &["d"]);
    let full = "0/2 nodes are available: 2 node(s) exceed max volume count.";
    assert_eq!(place(&cluster, &next), "n1", "the volume of the other claim is not known");
    upsert(&cluster, &csi_volume("v", "v"));
    assert_eq!(place(&cluster, &next), full);
    upsert(&cluster, &csi_volume("v", "w"));
    assert_eq!(place(&cluster, &next), "n1", "it is the same volume");
    // Without an object the volume counts under its claim's class, if the claim has one.
    let delta = Delta::DeleteObject(object(&cluster, &csi_volume("v", "w")).key().clone());
    cluster.apply(vec![delta]);
    assert_eq!(place(&cluster, &next), "n1");
    upsert(&cluster, &bound_claim("c", "csi", "v"));
    assert_eq!(place(&cluster, &next), full);
    upsert(&cluster, &class("csi", "another.example.com"));
    assert_eq!(place(&cluster, &next), "n1");
    upsert(&cluster, &csi_node("n1", &[("csi.example.com", 0)]));
    assert_eq!(place(&cluster, &next), full);
    upsert(&cluster, &csi_node("n2", &[]));
    assert_eq!(place(&cluster, &next), "n2");
}

/// S-VLL-2: an ephemeral claim that belongs to another pod, and a pod without its ephemeral claim.
#[test]
fn replicas_have_ephemeral_claims_of_their_own() {
    let cluster = cluster();
    let wire = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [], "volumes": [{"name": "v", "ephemeral": {}}]},
    });
    let first = cluster.compile_pod(&serde_json::from_value(wire).unwrap()).unwrap();
    let second = first.with_identity(PodKey::new("default", "q"), "w");
    let waits = |claim: &str| {
        format!(
            "0/2 nodes are available: waiting for ephemeral volume controller to create the \
             persistentvolumeclaim \"{claim}\"."
        )
    };
    assert_eq!(place(&cluster, &first), waits("p-v"));
    assert_eq!(place(&cluster, &second), waits("q-v"));
    let mut owned = claim("q-v", "csi", "1Gi");
    owned["metadata"]["ownerReferences"] = json!([{"uid": "u", "controller": true}]);
    upsert(&cluster, &owned);
    assert_eq!(
        place(&cluster, &second),
        "0/2 nodes are available: PVC default/q-v was not created for pod default/q (pod is not owner)."
    );
    owned["metadata"]["ownerReferences"][0]["uid"] = json!("w");
    upsert(&cluster, &owned);
    assert_eq!(place(&cluster, &second), "n1 +q-v");
}

/// S-VLB-2, S-VLB-8, S-VLL-2, S-VLZ-1: cases that PreFilters of other plugins hide in the default profile.
#[test]
fn plugins_alone() {
    let cluster = cluster();
    let alone = |plugin: Plugin, pod: &Pod| {
        let spec =
            PolicySpec { pre_filter: vec![plugin], filter: vec![plugin], ..PolicySpec::default() };
        let decision = cluster.place(&request(pod, &Policy::new(spec).unwrap()));
        if let Ok(Decision { outcome: Outcome::Unschedulable(unschedulable), .. }) = &decision {
            let of_nodes = unschedulable.reasons.iter().map(|reason| reason.plugin);
            let of_pod = unschedulable.pre_filter.iter().map(|(plugin, ..)| *plugin);
            assert_eq!(of_nodes.chain(of_pod).collect::<Vec<_>>(), [plugin], "{unschedulable:?}");
        }
        match decision {
            Err(error) => error.to_string(),
            decision => describe(decision),
        }
    };
    let missing = pod(&cluster, "p", &["none"]);
    let looking_up = "0/2 nodes are available: 2 looking up PVC default/none: persistentvolumeclaim \"none\" not found.";
    assert_eq!(alone(Plugin::NodeVolumeLimits, &missing), looking_up);
    let not_found = "0/2 nodes are available: persistentvolumeclaim \"none\" not found.";
    for plugin in [Plugin::VolumeRestrictions, Plugin::VolumeBinding, Plugin::VolumeZone] {
        assert_eq!(alone(plugin, &missing), not_found);
    }
    upsert(&cluster, &bound_claim("bound", "csi", "gone"));
    let bound = pod(&cluster, "p", &["bound"]);
    assert_eq!(
        alone(Plugin::VolumeBinding, &bound),
        "0/2 nodes are available: 2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."
    );
    let zone = |claim: serde_json::Value, expected: &str| {
        upsert(&cluster, &claim);
        let message = alone(Plugin::VolumeZone, &pod(&cluster, "p", &["c"]));
        assert_eq!(message, format!("0/2 nodes are available: {expected}."));
    };
    zone(claim("c", "", "1Gi"), "PersistentVolumeClaim had no pv name and storageClass name");
    zone(claim("c", "no", "1Gi"), "storageclass.storage.k8s.io \"no\" not found");
    upsert(
        &cluster,
        &json!({"kind": "StorageClass", "metadata": {"name": "odd"}, "provisioner": "p"}),
    );
    zone(claim("c", "odd", "1Gi"), "VolumeBindingMode not set for StorageClass \"odd\"");
    let odd = pod(&cluster, "p", &["c"]);
    let open = pod(&cluster, "p", &["open"]);
    upsert(&cluster, &claim("open", "csi", "1Gi"));
    assert_eq!(alone(Plugin::VolumeBinding, &open), "n1 +open");
    assert_eq!(alone(Plugin::VolumeZone, &open), "n1", "only VolumeBinding binds");
    let failed = alone(Plugin::VolumeBinding, &odd);
    assert!(failed.contains("VolumeBindingMode not set for StorageClass \"odd\""), "{failed}");
    let failed = assume(&cluster, &odd).unwrap_err().to_string();
    assert!(failed.contains("running PreFilter plugin \"VolumeBinding\""), "{failed}");
    let mut immediate = class("now", "p");
    immediate["volumeBindingMode"] = json!("Immediate");
    upsert(&cluster, &immediate);
    zone(claim("c", "now", "1Gi"), "PersistentVolume had no name");
    upsert(&cluster, &bound_claim("c", "now", "gone"));
    zone(bound_claim("c", "now", "gone"), "persistentvolume \"gone\" not found");
}

/// The state of a cluster does not depend on the order of events: objects that were added and removed leave no trace.
/// VolumeBinding never scores (S-VS-1).
#[test]
fn no_order_of_events_matters() {
    let mut n_refusals = BTreeMap::new();
    for seed in 0..60 {
        let (cluster, expected) = storage::walk(seed);
        let policy = Policy::new(PolicySpec::default()).unwrap();
        // Symbols belong to one cluster, and so do compiled pods.
        let probes = storage::probes(&cluster).into_iter().zip(storage::probes(&expected));
        for (probe, same) in probes {
            let account = |cluster: &Cluster, probe: &Pod| {
                cluster.explain(&request(probe, &policy)).map(|explanation| {
                    let Decision { outcome, .. } = explanation.decision;
                    (outcome, explanation.nodes)
                })
            };
            let (found, expected) = (account(&cluster, &probe), account(&expected, &same));
            assert_eq!(found, expected, "seed {seed}, {}", probe.key());
            for node in found.unwrap().1 {
                match node.verdict {
                    Verdict::Feasible { scores, .. } => {
                        assert!(scores.iter().all(|score| score.plugin != Plugin::VolumeBinding));
                    }
                    Verdict::Rejected { reasons, .. } => reasons
                        .into_iter()
                        .for_each(|reason| *n_refusals.entry(reason).or_insert(0) += 1),
                }
            }
        }
    }
    for reason in [
        "node(s) had no available disk",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
         another pod",
        "node(s) exceed max volume count",
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "node(s) had no available volume zone",
    ] {
        assert!(n_refusals.get(reason).is_some_and(|n| *n >= 10), "{reason}: {n_refusals:?}");
    }
}
