//! Devices in decisions of many pods: concurrent callers, gangs, sessions, headroom, drains and consolidation never
//! count a device twice, and a pod that moves takes its claims along. Rules: S-DRA-92, S-DRA-93, S-CAS-8.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_engine::{
    BatchRequest, Cluster, CommitError, ConsolidateRequest, Decision, Delta, DrainRules, Gang,
    Ground, HeadroomEnd, HeadroomRequest, NodeGroup, NodePrices, NodeRules, Outcome, PlaceRequest,
    Pod, Policy, ScaleUpRequest, TieBreak,
};
use berth_proto::{core_v1, resource_v1};
use berth_testing::object::node;
use serde_json::{Value, json};

use crate::simulate::drain::{Ask, NOW, cluster, owner, pod, words};

fn upsert_class(cluster: &Cluster) {
    let class: resource_v1::DeviceClass =
        serde_json::from_value(json!({"metadata": {"name": "gpu"}})).unwrap();
    apply(cluster, Delta::UpsertObject(cluster.compile_object(&class).unwrap()));
}

/// A slice of this many devices: a node's own, or one for every node.
fn upsert_slice(cluster: &Cluster, node: Option<&str>, n: usize) {
    apply(cluster, Delta::UpsertObject(cluster.compile_object(&slice(node, n)).unwrap()));
}

fn slice(node: Option<&str>, n: usize) -> resource_v1::ResourceSlice {
    let pool = node.unwrap_or("shared");
    let devices: Vec<Value> = (0..n).map(|i| json!({"name": format!("gpu-{i}")})).collect();
    serde_json::from_value(json!({"metadata": {"name": pool},
        "spec": {"driver": "gpu.example.com", "nodeName": node, "allNodes": node.is_none(),
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, "devices": devices}}))
    .unwrap()
}

/// A claim for one device; `device` of a pool is allocated to it for the pod that owns it.
fn upsert_claim(cluster: &Cluster, name: &str, of: &str, device: Option<(&str, &str)>) {
    let status = device.map(|(pool, device)| {
        json!({"reservedFor": [{"resource": "pods", "name": of, "uid": of}],
            "allocation": {"devices": {"results": [
                {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device}]}}})
    });
    let claim: resource_v1::ResourceClaim = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": of, "uid": of, "controller": true}]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly":
            {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}},
        "status": status}))
    .unwrap();
    apply(cluster, Delta::UpsertObject(cluster.compile_object(&claim).unwrap()));
}

/// A pod of a ReplicaSet, with a claim that was made for it from a template.
fn claiming(text: &str) -> core_v1::Pod {
    let name = text.split(' ').next().unwrap();
    pod(
        text,
        json!({
            "metadata": {"ownerReferences": [owner("ReplicaSet", "rs")]},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
            "status": {"resourceClaimStatuses": [
                {"name": "gpu", "resourceClaimName": format!("{name}-gpu")}]}
        }),
    )
}

fn apply(cluster: &Cluster, delta: Delta) {
    assert_eq!(cluster.apply(vec![delta]).rejected, []);
}

/// Four nodes of four devices.
fn sixteen() -> Cluster {
    let nodes =
        ["n0 cpu=64 pods=99", "n1 cpu=64 pods=99", "n2 cpu=64 pods=99", "n3 cpu=64 pods=99"];
    let cluster = cluster(&nodes, &[]);
    upsert_class(&cluster);
    ["n0", "n1", "n2", "n3"].iter().for_each(|node| upsert_slice(&cluster, Some(node), 4));
    cluster
}

/// Pending pods `p0`, `p1` and so on, each with a claim of its own.
fn pending(cluster: &Cluster, n: usize) -> Vec<Pod> {
    let pods = (0..n).map(|i| {
        let name = format!("p{i}");
        upsert_claim(cluster, &format!("{name}-gpu"), &name, None);
        cluster.compile_pod(&claiming(&format!("{name} cpu=1"))).unwrap()
    });
    pods.collect()
}

/// The devices that a decision gives, as `POOL/DEVICE`.
fn devices(decision: &Decision) -> Vec<String> {
    let Outcome::Placed(placement) = &decision.outcome else { return Vec::new() };
    let claims = placement.devices.iter().flat_map(|devices| &devices.claims);
    let results = claims.flat_map(|own| &own.allocation.devices.as_ref().unwrap().results);
    results.map(|result| format!("{}/{}", result.pool, result.device)).collect()
}

fn batch(cluster: &Cluster, pods: &[Pod], gang: Option<Gang>) -> Vec<String> {
    let policy = &Policy::default();
    let outcome = cluster.place_batch(&BatchRequest {
        pods,
        policy,
        tie_break: TieBreak::Seeded(2),
        assume: true,
        gang,
        cancelled: &|| false,
        now: None,
    });
    if outcome.gang.as_ref().is_some_and(|gang| !gang.placed) {
        return Vec::new();
    }
    outcome.results.iter().flatten().flat_map(devices).collect()
}

#[test]
fn concurrent_callers_never_get_one_device() {
    for round in 0..20 {
        let cluster = sixteen();
        let pods = pending(&cluster, 24);
        let placed: Vec<Vec<String>> = std::thread::scope(|scope| {
            let callers: Vec<_> = pods
                .chunks(6)
                .map(|own| {
                    let cluster = &cluster;
                    scope.spawn(move || {
                        let policy = &Policy::default();
                        let tie_break = TieBreak::Seeded(round);
                        let request = |pod| PlaceRequest { pod, policy, tie_break, now: None };
                        let place = |pod| cluster.assume(&request(pod)).unwrap();
                        own.iter().map(|pod| devices(&place(pod))).collect::<Vec<_>>()
                    })
                })
                .collect();
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
        });
        let given: Vec<&String> = placed.iter().flatten().collect();
        assert_eq!(given.len(), 16, "{placed:?}");
        assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 16, "{placed:?}");
    }
}

#[test]
fn a_gang_takes_all_its_devices_or_none() {
    let cluster = sixteen();
    let pods = pending(&cluster, 20);
    let gang = |n| Some(Gang { min_count: n, preempt: None });
    assert_eq!(batch(&cluster, &pods[..17], gang(17)), [] as [String; 0]);
    let twelve = batch(&cluster, &pods[..12], gang(12));
    assert_eq!(twelve.iter().collect::<BTreeSet<_>>().len(), 12, "{twelve:?}");
    assert_eq!(batch(&cluster, &pods[12..17], gang(5)), [] as [String; 0]);
    // What the two refused gangs looked at is free.
    let four = batch(&cluster, &pods[12..17], None);
    assert_eq!(twelve.iter().chain(&four).collect::<BTreeSet<_>>().len(), 16, "{four:?}");
}

#[test]
fn headroom_ends_with_the_devices() {
    let cluster = sixteen();
    let template = &pending(&cluster, 1)[0];
    upsert_claim(&cluster, "taken", "other", Some(("n2", "gpu-1")));
    let headroom = |nodes: Option<&[String]>| {
        let policy = &Policy::default();
        let tie_break = TieBreak::Lexicographic;
        let cancelled = &|| false;
        let request =
            HeadroomRequest { pod: template, policy, tie_break, limit: 99, nodes, cancelled };
        let headroom = cluster.headroom(&request).unwrap();
        let HeadroomEnd::Unschedulable(end) = &headroom.end else { panic!("{headroom:?}") };
        assert!(end.message.contains("cannot allocate all claims"), "{}", end.message);
        headroom.n_fit
    };
    assert_eq!(headroom(None), 15);
    assert_eq!(headroom(Some(&["n2".to_owned()])), 3);
    assert_eq!(headroom(None), 15, "nothing stays of what was asked");
}

#[test]
fn as_many_nodes_go_as_there_are_devices_elsewhere() {
    let running = [claiming("a cpu=1 node=n0"), claiming("b cpu=1 node=n1")];
    let nodes = ["n0 cpu=8 pods=9", "n1 cpu=8 pods=9", "n2 cpu=8 pods=9"];
    let n_gone = |n_free: usize| {
        let cluster = cluster(&nodes, &running);
        upsert_class(&cluster);
        upsert_slice(&cluster, Some("n0"), 1);
        upsert_slice(&cluster, Some("n1"), 1);
        upsert_slice(&cluster, Some("n2"), n_free);
        upsert_claim(&cluster, "a-gpu", "a", Some(("n0", "gpu-0")));
        upsert_claim(&cluster, "b-gpu", "b", Some(("n1", "gpu-0")));
        let candidates: [Arc<str>; 2] = ["n0".into(), "n1".into()];
        let request = ConsolidateRequest {
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            candidates: Some(&candidates),
            node_rules: NodeRules::default(),
            rules: DrainRules::default(),
            together: false,
            max_nodes: usize::MAX,
            prices: NodePrices::default(),
            now: NOW,
            cancelled: &|| false,
        };
        let planned = cluster.consolidate(&request).unwrap();
        assert_eq!(planned.steps.len() + planned.kept.len(), 2, "{planned:?}");
        planned.steps.len()
    };
    assert_eq!([0, 1, 2].map(n_gone), [0, 1, 2]);
}

#[test]
fn a_drained_pod_needs_a_device_elsewhere() {
    let running = [claiming("a cpu=1 node=n0"), claiming("b cpu=1 node=n0")];
    let nodes = ["n0 cpu=8 pods=9", "n1 cpu=8 pods=9"];
    let told = |n_there: usize, taken: bool| {
        let cluster = cluster(&nodes, &running);
        upsert_class(&cluster);
        upsert_slice(&cluster, Some("n0"), 2);
        upsert_slice(&cluster, Some("n1"), n_there);
        upsert_claim(&cluster, "a-gpu", "a", Some(("n0", "gpu-0")));
        upsert_claim(&cluster, "b-gpu", "b", Some(("n0", "gpu-1")));
        if taken {
            upsert_claim(&cluster, "c-gpu", "c", Some(("n1", "gpu-0")));
        }
        words(&Ask::of(["n0"]).drain(&cluster).nodes[0])
    };
    assert_eq!(told(2, false), "a=n1@1 b=n1@1");
    assert_eq!(told(3, true), "a=n1@1 b=n1@1");
    assert!(told(2, true).contains("no room"), "{}", told(2, true));
    assert!(told(1, false).contains("no room"), "{}", told(1, false));
}

/// Two devices that every node reaches are enough for two pods that move: what they held is free once they are gone.
#[test]
fn a_drained_pod_gives_its_devices_back() {
    let running = [claiming("a cpu=1 node=n0"), claiming("b cpu=1 node=n0")];
    let cluster = cluster(&["n0 cpu=8 pods=9", "n1 cpu=8 pods=9"], &running);
    upsert_class(&cluster);
    upsert_slice(&cluster, None, 2);
    upsert_claim(&cluster, "a-gpu", "a", Some(("shared", "gpu-0")));
    upsert_claim(&cluster, "b-gpu", "b", Some(("shared", "gpu-1")));
    assert_eq!(words(&Ask::of(["n0"]).drain(&cluster).nodes[0]), "a=n1@1 b=n1@1");
}

/// A copy needs a claim of its own: that of the pod which it is a copy of is another's.
#[test]
fn a_copy_does_not_use_the_claim_of_its_model() {
    let cluster = sixteen();
    upsert_claim(&cluster, "p0-gpu", "p0", Some(("n3", "gpu-0")));
    let model = cluster.compile_pod(&claiming("p0 cpu=1")).unwrap();
    let (policy, tie_break) = (&Policy::default(), TieBreak::Lexicographic);
    let place = |pod: &Pod| {
        let placed = cluster.place(&PlaceRequest { pod, policy, tie_break, now: None }).unwrap();
        (placed.pod.name.clone(), devices(&placed))
    };
    assert_eq!(place(&model), ("p0".into(), Vec::new()), "its claim is allocated");
    let key = berth_engine::PodKey::new("default", "p9");
    let copy: Arc<Pod> = Arc::new(model.with_identity(key, "p9"));
    let (name, given) = place(&copy);
    assert_eq!((&*name, given.len()), ("p9", 1));
}

/// A device that every node reaches: sessions and the live cluster put their pods onto different nodes, and only one of
/// them gets it.
#[test]
fn a_session_never_commits_a_device_that_another_took() {
    let (policy, tie_break) = (&Policy::default(), TieBreak::Lexicographic);
    let assume = |cluster: &Cluster, pod: &Pod| {
        cluster.assume(&PlaceRequest { pod, policy, tie_break, now: None }).unwrap()
    };
    for is_disturbed in [false, true] {
        let cluster = cluster(&["n0 cpu=1 pods=9", "n1 cpu=2 pods=9"], &[]);
        upsert_class(&cluster);
        upsert_slice(&cluster, None, 1);
        upsert_claim(&cluster, "small-gpu", "small", None);
        upsert_claim(&cluster, "large-gpu", "large", None);
        let compile = |text: &str| cluster.compile_pod(&claiming(text)).unwrap();
        let (small, large) = (compile("small cpu=1 named=n0"), compile("large cpu=2"));
        let session = cluster.fork();
        assert_eq!(devices(&assume(&session, &small)), ["shared/gpu-0"]);
        if is_disturbed {
            assert_eq!(devices(&assume(&cluster, &large)), ["shared/gpu-0"]);
            let refused = cluster.commit(&session).unwrap_err();
            let CommitError::Changed { ground, .. } = &refused else { panic!("{refused:?}") };
            assert_eq!(*ground, Ground::Devices);
        } else {
            assert_eq!(cluster.commit(&session).unwrap().n_assumed, 1);
            assert_eq!(devices(&assume(&cluster, &large)), [] as [String; 0], "it is taken");
        }
    }
}

/// S-DRA-50: a search that cannot end well ends soon.
#[test]
fn a_device_more_than_there_are_is_refused() {
    let cluster = cluster(&["n0 cpu=64 pods=99"], &[]);
    upsert_class(&cluster);
    upsert_slice(&cluster, None, 30);
    let claim: resource_v1::ResourceClaim = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "p-gpu", "uid": "p-gpu", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}]},
        "spec": {"devices": {"requests": [
            {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount",
                "count": 1}},
            {"name": "most", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount",
                "count": 30}}]}}}))
    .unwrap();
    apply(&cluster, Delta::UpsertObject(cluster.compile_object(&claim).unwrap()));
    let pod = cluster.compile_pod(&claiming("p cpu=1")).unwrap();
    let policy = Policy::default();
    let tie_break = TieBreak::Lexicographic;
    let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
    let decision = cluster.place(&request).unwrap();
    let Outcome::Unschedulable(unschedulable) = decision.outcome else { panic!("placed") };
    let expected = "0/1 nodes are available: 1 cannot allocate all claims.";
    assert!(unschedulable.message.starts_with(expected), "{}", unschedulable.message);
}

/// Each added node has devices of its own, as many as the template has (S-CAS-6); the cluster gets none of them.
#[test]
fn a_scale_up_counts_the_devices_of_its_nodes() {
    let cluster = cluster(&["n0 cpu=64 pods=99"], &[]);
    upsert_class(&cluster);
    let pods = pending(&cluster, 5);
    let check = |slice: &_| cluster.check_template_slice(slice, "template");
    let simulate = |slices: &[resource_v1::ResourceSlice]| {
        let checked = slices.iter().map(|slice| check(slice).unwrap());
        let group = NodeGroup {
            id: "g".into(),
            template: cluster.compile_node(&node("template cpu=64 pods=99")).unwrap(),
            template_pods: Vec::new(),
            template_slices: checked.collect(),
            size: 0,
            max_size: None,
            startup_taints: Vec::new(),
        };
        let (policy, never) = (Policy::default(), || false);
        let groups = std::slice::from_ref(&group);
        let request = ScaleUpRequest::new(&pods, &policy, groups, &never);
        let option = cluster.simulate_scale_up(&request).unwrap().options.remove(0);
        let sizes: Vec<usize> = option.nodes.iter().map(|node| node.pods.len()).collect();
        (sizes, option.left.iter().map(|left| left.pods.len()).sum::<usize>())
    };
    let own = slice(Some("template"), 2);
    assert_eq!(simulate(std::slice::from_ref(&own)), (vec![2, 2, 1], 0));
    assert_eq!(simulate(&[]), (vec![], 5));
    // A second pool of each node.
    let mut other = own.clone();
    other.metadata.as_mut().unwrap().name = "other".into();
    other.spec.as_mut().unwrap().pool.as_mut().unwrap().name = "other".into();
    assert_eq!(simulate(&[own, other]), (vec![4, 1], 0));
    assert_eq!(simulate(&[]), (vec![], 5), "the devices are gone with the question");
    for (node, found) in [(None, "is not set"), (Some("n0"), "is `n0`")] {
        let error = check(&slice(node, 2)).unwrap_err();
        assert_eq!(error.field, "spec.nodeName");
        let expected =
            format!("{found}, and the template is `template`: its own devices are copied");
        assert_eq!(error.reason, expected);
    }
}
