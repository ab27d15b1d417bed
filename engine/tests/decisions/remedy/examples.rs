//! Each kind of change by example. Rules behind them: S-UNS-1, S-TNT-1, S-NAF-4, S-PRT-3, S-FIT-8, S-PTS-7, S-IPA-7,
//! S-VLL-4.

use berth_engine::{DefaultConstraint, Policy, PolicySpec, SpreadDefaulting, WhenUnsatisfiable};
use berth_proto::core_v1;
use serde_json::json;

use super::world::{World, check_remedies, explain};
use crate::naive::objects::AnyObject;
use berth_testing::object;

/// Returns a world of nodes and pods written as text.
fn world(nodes: &[&str], pods: &[&str]) -> World {
    World {
        nodes: nodes.iter().map(|text| object::node(text)).collect(),
        pods: pods.iter().map(|text| object::pod(text)).collect(),
        ..World::default()
    }
}

/// Returns the offered remedies as `CHANGE → NODE…`, after each was made to the wire objects and had the stated effect.
fn offered(world: &World, pod: &core_v1::Pod, policy: &Policy) -> Vec<String> {
    let explanation = explain(&world.engine(), pod, policy).unwrap();
    check_remedies(world, pod, policy, &explanation);
    let text = |remedy: &berth_engine::Remedy| {
        let examples: Vec<&str> = remedy.examples.iter().map(|name| &**name).collect();
        format!("{} → {}", remedy.change, examples.join(" "))
    };
    explanation.remedies.iter().map(text).collect()
}

#[track_caller]
fn check(nodes: &[&str], pods: &[&str], pod: &str, expected: &[&str]) {
    let offered = offered(&world(nodes, pods), &object::pod(pod), &Policy::default());
    assert_eq!(offered, expected);
}

#[test]
fn taints_are_tolerated_by_key_value_and_effect() {
    check(
        &[
            "a pods=9 taint=dedicated=gpu:NoSchedule",
            "b pods=9 taint=dedicated=gpu:NoSchedule taint=soft=x:PreferNoSchedule",
            "c pods=9 taint=spot=:NoExecute",
            "d pods=9 taint=lost=x:NoSchedule taint=lost=x:NoExecute",
            "e pods=9 taint=one=x:NoSchedule taint=two=x:NoSchedule",
        ],
        &[],
        "p",
        &["tolerate `dedicated=gpu:NoSchedule` → a b", "tolerate `lost=x` → d"],
    );
}

/// A cordon comes with a taint, which is removed with it. No toleration is offered for other taints by which Kubernetes
/// reports a faulty node.
#[test]
fn nodes_are_brought_back() {
    let cordon = "cordoned=true taint=node.kubernetes.io/unschedulable=:NoSchedule";
    let gone = "taint=node.kubernetes.io/unreachable=:NoSchedule taint=node.kubernetes.io/unreachable=:NoExecute";
    check(
        &[&format!("a pods=9 {cordon}"), "b pods=9 cordoned=true", &format!("c pods=9 {gone}")],
        &[],
        "p",
        &[
            "uncordon 2 nodes → a b",
            "clear the taint `node.kubernetes.io/unreachable` of `c` → c",
            "add a node like `a` → new-node",
        ],
    );
}

#[test]
fn label_requirements_are_dropped_piece_by_piece() {
    let nodes =
        ["a pods=9 label:zone=a label:disk=ssd", "b pods=9 label:zone=b", "c pods=9 label:zone=c"];
    let mut pod = object::pod("p");
    let spec = pod.spec.as_mut().unwrap();
    spec.node_selector.insert("zone".to_owned(), "b".to_owned());
    spec.node_selector.insert("disk".to_owned(), "ssd".to_owned());
    let world = world(&nodes, &[]);
    let expected = [
        "drop `disk=ssd` from the node selector → b",
        "drop `zone=b` from the node selector → a",
        "drop the node selector → a b c",
    ];
    assert_eq!(offered(&world, &pod, &Policy::default()), expected);

    let terms = r#"{"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]},
            {"key": "gpus", "operator": "Gt", "values": ["3"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z", "d"]}]}]}"#;
    let spec = pod.spec.as_mut().unwrap();
    spec.node_selector.clear();
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(serde_json::from_str(terms).unwrap());
    let expected = [
        "drop `zone in (d,z)` from required node affinity → a b c",
        "drop `gpus>3` from required node affinity → a b",
    ];
    assert_eq!(offered(&world, &pod, &Policy::default()), expected);
}

/// A request is reduced by the least amount that makes a node feasible, in convenient units.
#[test]
fn requests_shrink_by_what_is_short() {
    let nodes =
        ["a cpu=4 memory=64Gi pods=9", "b cpu=4 memory=64Gi pods=9", "c cpu=1 memory=1Gi pods=9"];
    let pods = ["q node=a cpu=2500m memory=1Gi", "r node=b cpu=2500m memory=1Gi"];
    check(
        &nodes,
        &pods,
        "p cpu=2 memory=1Gi",
        &["request 500m less cpu → a b", "add a node like `a` → new-node"],
    );
    check(&nodes, &["q node=a memory=60Gi"], "p memory=70Gi", &["request 6Gi less memory → b"]);
    // The request exceeds the room by 16Gi and one byte.
    let wish = format!("p memory={}", (80_i64 << 30) + 1);
    check(&["a memory=64Gi pods=9"], &[], &wish, &["request 17Gi less memory → a"]);
    check(
        &["a example.com/gpu=8 pods=9"],
        &["q node=a example.com/gpu=5"],
        "p example.com/gpu=4",
        &["request 1 less example.com/gpu → a", "add a node like `a` → new-node"],
    );
}

/// A request that would have to shrink to zero is not changed: more nodes are needed.
#[test]
fn requests_are_not_shrunk_to_zero() {
    check(
        &["a example.com/gpu=8 pods=9"],
        &["q node=a example.com/gpu=8"],
        "p example.com/gpu=4",
        &["add a node like `a` → new-node"],
    );
    check(&["a cpu=1 pods=9"], &[], "p example.com/gpu=1", &[]);
}

#[test]
fn full_nodes_allow_one_more_pod() {
    check(
        &["a pods=1", "b pods=1", "c pods=0"],
        &["q node=a", "r node=b"],
        "p",
        &["allow one more pod on 3 nodes → a b c", "add a node like `a` → new-node"],
    );
}

#[test]
fn host_ports_are_given_up_or_freed() {
    check(
        &["a pods=9", "b pods=9"],
        &[
            "q node=a port=80 port=443",
            "r node=b port=80 priority=-1",
            "s node=b port=10.0.0.1/443",
        ],
        "p port=80 port=443",
        &[
            "remove `default/q` from `a`, which holds host ports 443/TCP, 80/TCP → a",
            "add a node like `a` → new-node",
            "do without host ports 443/TCP, 80/TCP → a b",
        ],
    );
    check(
        &["a pods=9", "b pods=9"],
        &["q node=a port=80", "r node=b port=80 priority=-1 terminating=true"],
        "p port=10.0.0.1/80",
        &[
            "do without host port 80/TCP → a b",
            "wait until `default/r` is gone from `b`, which holds host port 80/TCP → b",
            "remove `default/q` from `a`, which holds host port 80/TCP → a",
            "add a node like `a` → new-node",
        ],
    );
}

/// The removed pod frees its resources, not only the port.
#[test]
fn a_pod_that_leaves_makes_room() {
    check(
        &["a pods=1 cpu=1", "b pods=9 cpu=1"],
        &["q node=a port=80", "r node=b port=80 cpu=1 terminating=true"],
        "p port=80 cpu=500m",
        &[
            "remove `default/q` from `a`, which holds host port 80/TCP → a",
            "wait until `default/r` is gone from `b`, which holds host port 80/TCP → b",
            "add a node like `a` → new-node",
        ],
    );
}

#[test]
fn spread_allows_as_much_skew_as_is_needed() {
    let nodes =
        ["a pods=9 label:zone=a cordoned=true", "b pods=9 label:zone=b", "c pods=9 label:zone=c"];
    let pods = ["q node=b label:app=x", "r node=c label:app=x", "s node=c label:app=x"];
    check(
        &nodes,
        &pods,
        "p label:app=x spread=zone,1,DoNotSchedule,app:x",
        &[
            "uncordon `a` → a",
            "raise maxSkew of `zone` from 1 to 2: `b` would be at skew 2 → b",
            "add a node like `a` → new-node",
        ],
    );
    check(
        &nodes[1..],
        &pods[..2],
        "p label:app=x spread=zone,1,DoNotSchedule,app:x,3",
        &[
            "raise maxSkew of `zone` from 1 to 2: `b` would be at skew 2 → b c",
            "lower minDomains of `zone` from 3 to 2, as many as there are → b c",
        ],
    );
}

#[test]
fn spread_by_a_label_that_nobody_has_becomes_soft() {
    check(
        &["a pods=9", "b pods=9"],
        &[],
        "p label:app=x spread=rack,1,DoNotSchedule,app:x",
        &["spread by `rack` with `ScheduleAnyway`: 2 nodes lack the label → a b"],
    );
}

/// No change of the policy's constraints is offered, because they do not belong to the pod.
#[test]
fn default_constraints_stay() {
    let constraint = DefaultConstraint {
        max_skew: 1,
        topology_key: "zone".to_owned(),
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        min_domains: None,
        honors_affinity: true,
        honors_taints: false,
    };
    let mut spec = PolicySpec::default();
    spec.pod_topology_spread.defaulting = SpreadDefaulting::List(vec![constraint]);
    let policy = Policy::new(spec).unwrap();
    let mut world = world(
        &["a pods=9 label:zone=a", "b pods=9 label:zone=b cordoned=true"],
        &["q node=a label:app=x"],
    );
    let service = r#"{"metadata": {"name": "x", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}"#;
    let service: core_v1::Service = serde_json::from_str(service).unwrap();
    world.objects.push(AnyObject::from(service));
    let pod = object::pod("p label:app=x");
    assert_eq!(
        offered(&world, &pod, &policy),
        ["uncordon `b` → b", "add a node like `b` → new-node"]
    );
    // Without a constraint of its own the pod would get the policy's.
    let own = object::pod("p label:app=x spread=rack,1,DoNotSchedule,app:x");
    let soft = "spread by `rack` with `ScheduleAnyway`: `a` lacks the label → a";
    assert_eq!(offered(&world, &own, &policy), [soft]);
}

#[test]
fn affinity_loses_a_term_or_all() {
    let nodes = ["a pods=9 label:zone=a", "b pods=9 label:zone=b"];
    check(
        &nodes,
        &["q node=a label:app=x"],
        "p near=zone,app:x near=zone,app:y",
        &[
            "drop required pod affinity to pods with `app=y` by `zone` → a",
            "drop required pod affinity → a b",
        ],
    );
    check(
        &nodes,
        &[],
        "p near=zone,app:x",
        &["drop required pod affinity to pods with `app=x` by `zone` → a b"],
    );
}

#[test]
fn anti_affinity_loses_a_term_or_the_pod_that_it_refuses() {
    check(
        &["a pods=9 label:zone=a", "b pods=9 label:zone=b"],
        &["q node=a label:app=x", "r node=b label:app=x", "s node=b label:app=x"],
        "p far=zone,app:x",
        &[
            "drop required pod anti-affinity to pods with `app=x` by `zone` → a b",
            "remove `default/q` from `a`, which the pod's anti-affinity refuses → a",
        ],
    );
}

#[test]
fn a_pod_that_refuses_others_leaves() {
    check(
        &["a pods=9 label:zone=a", "a2 pods=9 label:zone=a", "b pods=9 label:zone=b"],
        &["q node=a priority=7 far=zone,app:x", "r node=b far=zone,app:x"],
        "p label:app=x",
        &[
            "remove `default/q` from `a`, whose anti-affinity refuses the pod → a a2",
            "remove `default/r` from `b`, whose anti-affinity refuses the pod → b",
        ],
    );
}

/// For replicas that refuse each other, one change removes both refusals.
#[test]
fn a_replica_leaves_for_another() {
    check(
        &["a pods=9 label:zone=a", "b pods=9 label:zone=b"],
        &["q node=a label:app=x far=zone,app:x", "r node=b label:app=x far=zone,app:x"],
        "p label:app=x far=zone,app:x",
        &[
            "remove `default/q` from `a`, which the pod's anti-affinity refuses → a",
            "remove `default/r` from `b`, which the pod's anti-affinity refuses → b",
        ],
    );
}

/// The smallest sufficient node is offered; a node's taints belong to its kind unless they report a fault.
#[test]
fn one_more_node_of_a_kind() {
    check(
        &[
            "big cpu=64 pods=9 label:kubernetes.io/hostname=big",
            "fit cpu=8 pods=9 label:kubernetes.io/hostname=fit taint=node.kubernetes.io/not-ready=:NoExecute cordoned=true",
            "gpu cpu=8 pods=9 example.com/gpu=1",
            "kept cpu=8 pods=9 taint=dedicated=x:NoSchedule",
            "small cpu=1 pods=9",
        ],
        &["q node=big cpu=63", "r node=gpu cpu=8"],
        "p cpu=2 far=kubernetes.io/hostname,app:x",
        &[
            "request 1 less cpu → big small",
            "tolerate `dedicated=x:NoSchedule` → kept",
            "add a node like `fit` → new-node",
        ],
    );
}

/// S-VLL-4: a new node has the volume limits of the node that it is copied from.
#[test]
fn one_more_node_attaches_as_many_volumes() {
    let mut world = world(&["a pods=9"], &["q node=a claim=c1"]);
    let claim = |i: usize| {
        let claim = format!(
            r#"{{"metadata": {{"name": "c{i}", "namespace": "default", "uid": "c{i}",
                "annotations": {{"pv.kubernetes.io/bind-completed": "yes"}}}},
                "spec": {{"volumeName": "v{i}", "accessModes": ["ReadWriteOnce"]}}, "status": {{"phase": "Bound"}}}}"#
        );
        AnyObject::from(serde_json::from_str::<core_v1::PersistentVolumeClaim>(&claim).unwrap())
    };
    let volume = |i: usize| {
        let volume = format!(
            r#"{{"metadata": {{"name": "v{i}"}}, "spec": {{"accessModes": ["ReadWriteOnce"],
                "csi": {{"driver": "csi.example.com", "volumeHandle": "h{i}"}},
                "claimRef": {{"namespace": "default", "name": "c{i}", "uid": "c{i}"}}}}}}"#
        );
        AnyObject::from(serde_json::from_str::<core_v1::PersistentVolume>(&volume).unwrap())
    };
    world.objects.extend((1..4).flat_map(|i| [claim(i), volume(i)]));
    let limits = r#"{"metadata": {"name": "a"}, "spec": {"drivers": [
        {"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 1}}]}}"#;
    let limits: berth_proto::storage_v1::CsiNode = serde_json::from_str(limits).unwrap();
    world.objects.push(AnyObject::from(limits));
    let policy = Policy::default();
    let one = object::pod("p claim=c2");
    let expected = [
        "remove `default/q` from `a`, which uses volumes of csi.example.com → a",
        "add a node like `a` → new-node",
    ];
    assert_eq!(offered(&world, &one, &policy), expected);
    let two = object::pod("p claim=c2 claim=c3");
    assert_eq!(offered(&world, &two, &policy), [""; 0]);
}

/// Two changes are offered together only if neither helps alone.
#[test]
fn two_changes_where_one_is_not_enough() {
    check(
        &["a cpu=2 pods=9 cordoned=true", "b cpu=2 memory=1Gi pods=9 taint=k=v:NoSchedule"],
        &[],
        "p cpu=3 memory=1Gi",
        &["tolerate `k=v:NoSchedule` and request 1 less cpu → b"],
    );
}

/// A pod that names its nodes is not offered changes that move it elsewhere.
#[test]
fn a_pinned_pod_is_fixed_where_it_is() {
    check(&["a pods=9 cordoned=true", "b pods=9"], &[], "p named=a", &["uncordon `a` → a"]);
    check(&["a pods=9", "b pods=9"], &[], "p node=c", &[]);
}

/// A preference that does not parse fails an attempt that reaches scoring, so an attempt with two feasible nodes fails.
#[test]
fn what_would_fail_is_not_offered() {
    check(
        &[
            "a pods=9 taint=x=y:NoSchedule",
            "b pods=9 taint=v=w:NoSchedule",
            "c pods=9 taint=v=w:NoSchedule",
        ],
        &[],
        "p prefer=5,zone,In",
        &["tolerate `x=y:NoSchedule` → a"],
    );
}

/// Tolerating the taint of nodes with resources that the pod does not ask for comes last.
#[test]
fn nodes_with_other_resources_are_the_last_resort() {
    check(
        &[
            "gpu-1 cpu=8 pods=9 example.com/gpu=4 taint=gpu=present:NoSchedule",
            "gpu-2 cpu=8 pods=9 example.com/gpu=4 taint=gpu=present:NoSchedule",
            "small cpu=2 pods=9",
        ],
        &[],
        "p cpu=3",
        &["request 1 less cpu → small", "tolerate `gpu=present:NoSchedule` → gpu-1 gpu-2"],
    );
    check(
        &[
            "gpu-1 cpu=8 pods=9 example.com/gpu=4 taint=gpu=present:NoSchedule",
            "small cpu=2 pods=9",
        ],
        &[],
        "p cpu=1 example.com/gpu=1",
        &["tolerate `gpu=present:NoSchedule` → gpu-1"],
    );
}

fn volume(json: &serde_json::Value) -> AnyObject {
    AnyObject::from(serde_json::from_value::<core_v1::PersistentVolume>(json.clone()).unwrap())
}

fn claim(name: &str, class: &str, mode: &str, volume: Option<&str>) -> AnyObject {
    let annotations = volume.map(|_| json!({"pv.kubernetes.io/bind-completed": "yes"}));
    let claim = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name,
            "annotations": annotations.unwrap_or_else(|| json!({})),
        },
        "spec": {
            "storageClassName": class, "accessModes": [mode],
            "volumeName": volume.unwrap_or_default(),
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    AnyObject::from(serde_json::from_value::<core_v1::PersistentVolumeClaim>(claim).unwrap())
}

/// S-VLB-1, S-VLB-3, S-VLR-1: a pod that is refused as a whole.
#[test]
fn claims_are_created_or_bound() {
    let world = world(&["a pods=9"], &[]);
    let policy = Policy::default();
    let of = |world: &World, pod: &str| offered(world, &object::pod(pod), &policy);
    assert_eq!(of(&world, "p claim=c"), ["create the claim `c` → a"]);
    let both = "create the claim `c` and create the claim `d` → a";
    assert_eq!(of(&world, "p claim=c claim=d"), [both]);
    let mut world = world;
    world.objects.push(claim("c", "fast", "ReadWriteOnce", None));
    assert_eq!(of(&world, "p claim=c"), ["bind the claim `c` or create its class `fast` → a"]);
}

/// S-VLB-4: the volume of a claim is elsewhere. S-VLR-2: another pod has the claim.
#[test]
fn volumes_are_provided_or_freed() {
    let policy = Policy::default();
    let bound = volume(&json!({
        "metadata": {"name": "v"},
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "c", "uid": "c"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}},
        },
    }));
    let mut far = world(&["a pods=9 label:zone=y"], &[]);
    far.objects = vec![bound, claim("c", "fast", "ReadWriteOnce", Some("v"))];
    let expected = ["give the claim `c` a volume that more nodes can use than `v` → a"];
    assert_eq!(offered(&far, &object::pod("p claim=c"), &policy), expected);
    let bound = volume(&json!({
        "metadata": {"name": "v"},
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOncePod"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "c", "uid": "c"},
        },
    }));
    let mut taken = world(&["a pods=9", "b pods=9"], &["q node=b claim=c"]);
    taken.objects = vec![bound, claim("c", "fast", "ReadWriteOncePod", Some("v"))];
    let expected = ["remove `default/q` from `b`, which uses the claim `c` → a b"];
    assert_eq!(offered(&taken, &object::pod("p claim=c"), &policy), expected);
    let disk = world(&["a pods=9"], &["q node=a disk=d"]);
    let expected = [
        "remove `default/q` from `a`, which uses the disk gcePersistentDisk d → a",
        "add a node like `a` → new-node",
    ];
    assert_eq!(offered(&disk, &object::pod("p disk=d"), &policy), expected);
}

/// S-NAF-2: the terms of required node affinity name no common node.
#[test]
fn affinity_to_no_common_node_is_dropped() {
    let world = world(&["a pods=9", "b pods=9"], &[]);
    let mut pod = object::pod("p named=a");
    let affinity = pod.spec.as_mut().and_then(|spec| spec.affinity.as_mut());
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_mut())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_mut());
    for term in &mut required.unwrap().node_selector_terms {
        let mut other = term.match_fields[0].clone();
        other.values = vec!["b".to_owned()];
        term.match_fields.push(other);
    }
    let expected = ["drop required node affinity, whose terms name no common node → a b"];
    assert_eq!(offered(&world, &pod, &Policy::default()), expected);
}
