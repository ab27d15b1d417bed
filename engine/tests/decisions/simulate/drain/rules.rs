//! Each rule, and the precedence of any two (S-SD-3).

use berth_engine::{Delta, DrainRules};
use serde_json::{Value, json};

use super::{Ask, NOW, budget, cluster, owner, pod, stays, word};

/// Returns the verdict on one pod of a node while another node has room. `n_allowed` is what a disruption budget
/// allows.
fn ruling(more: &Value, rules: DrainRules, n_allowed: Option<i32>) -> String {
    let namespace = more["namespace"].as_str().unwrap_or("default");
    let more = more["pod"].clone();
    let pod = pod(&format!("p cpu=1 node=n0 namespace={namespace} label:app=x"), more);
    let cluster = cluster(&["n0 cpu=4 pods=10", "n1 cpu=4 pods=10"], &[pod]);
    if let Some(n) = n_allowed {
        let covering = json!({"matchLabels": {"app": "x"}});
        let deltas = vec![budget(&cluster, &format!("{namespace}/b"), covering, n)];
        assert_eq!(cluster.apply(deltas).rejected, []);
    }
    let drained = Ask { rules, ..Ask::of(["n0"]) }.drain(&cluster);
    word(&drained.nodes[0].pods[0])
}

/// Returns the conditions of S-SD-3 in order: name, fields of a pod that meets the condition, and the resulting
/// verdict.
fn conditions() -> Vec<(&'static str, Value, &'static str)> {
    let annotated = |key: &str, value: &str| json!({"annotations": {key: value}});
    let evict = "cluster-autoscaler.kubernetes.io/safe-to-evict";
    let late = json!({"deletionTimestamp": "2026-03-01T11:00:00Z"});
    vec![
        ("mirror", annotated("kubernetes.io/config.mirror", "h"), "mirror"),
        ("late", late, "late"),
        (
            "controller",
            json!({"ownerReferences": [owner("ReplicaSet", "gone")]}),
            "ControllerNotFound",
        ),
        ("daemon", annotated("cluster-autoscaler.kubernetes.io/daemonset-pod", "true"), "daemon"),
        ("safe", annotated(evict, "true"), "n1@1"),
        ("completion", annotated(evict, "on-completion"), "waits"),
        ("bare", json!({"ownerReferences": null}), "NotReplicated"),
        ("system", json!({"namespace": "kube-system"}), "UnmovableKubeSystemPod"),
        ("forbidden", annotated(evict, "false"), "NotSafeToEvictAnnotation"),
        ("storage", json!({"volumes": true}), "LocalStorageRequested"),
        ("budget", json!({"budget": true}), "NotEnoughPdb"),
    ]
}

/// Returns a pod that meets these conditions, with the budget's allowed evictions and whether controllers are checked.
fn case(met: &[&Value]) -> (Value, Option<i32>, bool) {
    let mut pod =
        json!({"metadata": {"annotations": {}, "ownerReferences": [owner("ReplicaSet", "rs")]}});
    let (mut namespace, mut n_allowed, mut checks_controllers) = ("default", None, false);
    for condition in met {
        for (key, value) in condition.as_object().unwrap() {
            match key.as_str() {
                "namespace" => namespace = "kube-system",
                "volumes" => pod["spec"] = json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
                "budget" => n_allowed = Some(0),
                "annotations" => {
                    for (key, value) in value.as_object().unwrap() {
                        pod["metadata"]["annotations"][key] = value.clone();
                    }
                }
                key => {
                    checks_controllers |= key == "ownerReferences" && !value.is_null();
                    pod["metadata"][key] = value.clone();
                }
            }
        }
    }
    pod["metadata"]["creationTimestamp"] = json!("2026-03-01T11:59:00Z");
    (json!({"namespace": namespace, "pod": pod}), n_allowed, checks_controllers)
}

/// S-SD-3: of any two rules that both apply, the first one decides.
#[test]
fn the_first_rule_that_decides_ends_the_list() {
    let conditions = conditions();
    let (plain, ..) = case(&[]);
    assert_eq!(ruling(&plain, DrainRules::default(), None), "n1@1");
    let rules = |checks_controllers| DrainRules {
        require_controllers: checks_controllers,
        ..DrainRules::default()
    };
    for (i, (name, condition, expected)) in conditions.iter().enumerate() {
        let (pod, n_allowed, checks) = case(&[condition]);
        assert_eq!(ruling(&pod, rules(checks), n_allowed), *expected, "{name} alone");
        for (other, later, _) in &conditions[i + 1..] {
            // These pairs cannot be combined: one annotation has one value, a pod has a controller or none, and the
            // system rule looks for a budget.
            let exclude = [
                ("safe", "completion"),
                ("safe", "forbidden"),
                ("completion", "forbidden"),
                ("controller", "bare"),
                ("system", "budget"),
            ];
            if exclude.contains(&(name, other)) {
                continue;
            }
            let (pod, n_allowed, checks) = case(&[condition, later]);
            let expected = match (*name, *other) {
                // The annotation allows the eviction, but the API server does not.
                ("safe", "budget") => "NotEnoughPdb",
                _ => expected,
            };
            assert_eq!(ruling(&pod, rules(checks), n_allowed), expected, "{name} and {other}");
        }
    }
}

/// S-SD-3
#[test]
fn options_let_pods_go() {
    let conditions = conditions();
    let met = |name: &str| {
        let (_, condition, _) = conditions.iter().find(|(other, ..)| *other == name).unwrap();
        case(&[condition]).0
    };
    let none = DrainRules::default();
    let all = DrainRules {
        move_unreplicated: true,
        move_system_pods: true,
        move_local_storage: true,
        move_not_safe_to_evict: true,
        ..none
    };
    for name in ["bare", "system", "forbidden", "storage"] {
        assert_eq!(ruling(&met(name), all, None), "n1@1", "{name}");
        let but_this = DrainRules {
            move_unreplicated: name != "bare",
            move_system_pods: name != "system",
            move_local_storage: name != "storage",
            move_not_safe_to_evict: name != "forbidden",
            ..all
        };
        assert_ne!(ruling(&met(name), but_this, None), "n1@1", "{name}");
    }
    // A pod of the system is movable if a budget covers it, or if it is older than the timeout; it is 60 seconds old.
    let system = met("system");
    assert_eq!(ruling(&system, none, Some(1)), "n1@1");
    let timeout = |system_pod_timeout_seconds| DrainRules { system_pod_timeout_seconds, ..none };
    assert_eq!(ruling(&system, timeout(59), None), "n1@1");
    assert_eq!(ruling(&system, timeout(60), None), "UnmovableKubeSystemPod");
    let mut undated = system;
    undated["pod"]["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(ruling(&undated, timeout(0), None), "UnmovableKubeSystemPod");
}

/// S-SD-3: a terminating pod is moved as others are until 30 seconds after its grace period.
#[test]
fn terminating_pods_count_until_they_are_late() {
    let check = |seconds_ago: i64, grace: Value, expected: &str| {
        let time = berth_proto::Time::from_unix_seconds(NOW - seconds_ago);
        let pod = json!({"pod": {
            "metadata": {"deletionTimestamp": time, "ownerReferences": [owner("ReplicaSet", "rs")]},
            "spec": {"terminationGracePeriodSeconds": grace}
        }});
        assert_eq!(ruling(&pod, DrainRules::default(), None), expected, "{seconds_ago} {grace}");
    };
    check(-10, Value::Null, "n1@1");
    check(60, Value::Null, "n1@1");
    check(61, Value::Null, "late");
    check(30, json!(0), "n1@1");
    check(31, json!(0), "late");
    check(331, json!(300), "late");
    check(330, json!(300), "n1@1");
    // A grace period beyond the range of times never ends.
    check(1_000_000, json!(i64::MAX), "n1@1");
}

/// S-SD-3: with the option, a controller of a known kind must exist and, for some kinds, have enough replicas.
#[test]
fn controllers_are_looked_for_where_they_are_known() {
    let check = |kind: &str, replicas: Option<i32>, min_replicas: i32, expected: &str| {
        let more = json!({"metadata": {"ownerReferences": [owner(kind, "c")]}});
        let cluster =
            cluster(&["n0 cpu=4 pods=10", "n1 cpu=4 pods=10"], &[pod("p cpu=1 node=n0", more)]);
        if let Some(replicas) = replicas {
            let object = json!({
                "metadata": {"namespace": "default", "name": "c"}, "spec": {"replicas": replicas}
            });
            macro_rules! compile {
                ($type:ty) => {{
                    let object: $type = serde_json::from_value(object).unwrap();
                    cluster.compile_object(&object).unwrap()
                }};
            }
            let object = match kind {
                "ReplicaSet" => compile!(berth_proto::apps_v1::ReplicaSet),
                "StatefulSet" => compile!(berth_proto::apps_v1::StatefulSet),
                _ => compile!(berth_proto::core_v1::ReplicationController),
            };
            assert_eq!(cluster.apply(vec![Delta::UpsertObject(object)]).rejected, []);
        }
        let rules = DrainRules { require_controllers: true, min_replicas, ..DrainRules::default() };
        let drained = Ask { rules, ..Ask::of(["n0"]) }.drain(&cluster);
        assert_eq!(word(&drained.nodes[0].pods[0]), expected, "{kind} {replicas:?}");
        assert_eq!(stays(&drained.nodes[0]).is_none(), expected == "n1@1");
        // Controllers are looked up only on request.
        let drained = Ask::of(["n0"]).drain(&cluster);
        assert_eq!(word(&drained.nodes[0].pods[0]), "n1@1", "{kind} {replicas:?}");
    };
    for kind in ["ReplicaSet", "ReplicationController", "StatefulSet"] {
        check(kind, None, 0, "ControllerNotFound");
        check(kind, Some(1), 0, "n1@1");
        check(kind, Some(2), 2, "n1@1");
    }
    check("ReplicaSet", Some(1), 2, "MinReplicasReached");
    check("ReplicationController", Some(1), 2, "MinReplicasReached");
    check("StatefulSet", Some(1), 2, "n1@1");
    check("Job", None, 2, "n1@1");
    check("CloneSet", None, 0, "NotReplicated");
}

/// A controller's new number of replicas is used by the next drain, and changes no placement.
#[test]
fn a_new_number_of_replicas_is_used() {
    let more = json!({"metadata": {"ownerReferences": [owner("ReplicaSet", "c")]}});
    let cluster =
        cluster(&["n0 cpu=4 pods=10", "n1 cpu=4 pods=10"], &[pod("p cpu=1 node=n0", more)]);
    let rules = DrainRules { require_controllers: true, min_replicas: 2, ..DrainRules::default() };
    for (replicas, expected) in [(1, "MinReplicasReached"), (2, "n1@1"), (0, "MinReplicasReached")]
    {
        let set: berth_proto::apps_v1::ReplicaSet = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "c"}, "spec": {"replicas": replicas}
        }))
        .unwrap();
        let object = cluster.compile_object(&set).unwrap();
        assert_eq!(cluster.apply(vec![Delta::UpsertObject(object)]).rejected, []);
        let drained = Ask { rules, ..Ask::of(["n0"]) }.drain(&cluster);
        assert_eq!(word(&drained.nodes[0].pods[0]), expected, "{replicas}");
    }
}

/// An annotation that comes to a running pod counts at once, with a resource version and without.
#[test]
fn a_new_annotation_is_used() {
    for version in ["", "7"] {
        let annotated = |value: Value, version: &str| {
            let annotations = json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": value});
            pod(
                "p cpu=1 node=n0",
                json!({"metadata": {
                    "annotations": annotations, "ownerReferences": [owner("ReplicaSet", "c")],
                    "resourceVersion": version
                }}),
            )
        };
        let cluster = cluster(
            &["n0 cpu=4 pods=10", "n1 cpu=4 pods=10"],
            &[annotated(json!("true"), version)],
        );
        for (value, expected) in [("false", "NotSafeToEvictAnnotation"), ("true", "n1@1")] {
            let version = if version.is_empty() { "" } else { "8" };
            let compiled = cluster.compile_pod(&annotated(json!(value), version)).unwrap();
            assert_eq!(cluster.apply(vec![Delta::UpsertPod(compiled)]).rejected, []);
            let drained = Ask::of(["n0"]).drain(&cluster);
            assert_eq!(word(&drained.nodes[0].pods[0]), expected);
        }
    }
}
