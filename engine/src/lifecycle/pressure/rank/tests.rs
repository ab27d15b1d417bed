use serde_json::{Value, json};

use super::*;

fn rank(signal: &str, pods: Value) -> Result<RankForEvictionResponse, ModelError> {
    let pods = serde_json::from_value(pods).unwrap();
    let signal = signal.to_owned();
    rank_for_eviction(&RankForEvictionRequest { signal, pods, hard: true, ..Default::default() })
}

/// A pod with a request (`-`: none) and usage of a resource (`-`: unknown).
fn pod(name: &str, resource: &str, request: &str, usage: &str) -> Value {
    let requests = if request == "-" { json!({}) } else { json!({ resource: request }) };
    let usage = if usage == "-" { Value::Null } else { json!({ resource: usage }) };
    json!({
        "pod": {
            "metadata": {"name": name},
            "spec": {"containers": [{"resources": {"requests": requests}}]},
        },
        "usage": usage,
    })
}

fn check(signal: &str, pods: Value, order: &[&str], protected: &[&str]) {
    let answer = rank(signal, pods).unwrap();
    assert_eq!(answer.order, order);
    assert_eq!(answer.protected, protected);
    assert_eq!(answer.victim.is_empty(), protected.len() == order.len());
    assert_eq!(answer.grace_period_seconds.is_some(), !answer.victim.is_empty());
}

/// L-PRESS-9: amounts are exact, fractions of a byte and large ones.
#[test]
fn amounts_are_exact() {
    let of = |name, request, usage| pod(name, "memory", request, usage);
    let pods = json!([of("a", "1", "1001m"), of("b", "1", "1000m"), of("c", "6Ei", "7Ei")]);
    check("memory.available", pods, &["c", "a", "b"], &["b"]);
}

/// L-PRESS-9: overhead counts for pods with a request.
#[test]
fn overhead_is_added_to_a_request() {
    let with_overhead = |mut ranked: Value| {
        ranked["pod"]["spec"]["overhead"] = json!({"memory": "10"});
        ranked
    };
    let pods = json!([
        with_overhead(pod("asks", "memory", "5", "15")),
        with_overhead(pod("asks-not", "memory", "-", "15")),
        with_overhead(pod("asks-zero", "memory", "0", "15")),
    ]);
    check("memory.available", pods, &["asks-not", "asks-zero", "asks"], &["asks"]);
}

/// L-PRESS-10: usage of another resource counts as unknown; priority decides among pods with unknown usage.
#[test]
fn unknown_usage_goes_first() {
    let mut late = pod("late", "memory", "5", "-");
    late["pod"]["spec"]["priority"] = json!(1);
    let other = pod("other", "pids", "-", "9");
    let pods = json!([pod("known", "memory", "5", "6"), late, other]);
    check("memory.available", pods, &["other", "late", "known"], &["late", "other"]);
}

/// L-PRESS-13: inodes are compared with no request, but requested bytes are subtracted; no pod is protected by a
/// request.
#[test]
fn inodes() {
    let of = |name: &str, request: &str, inodes: &str| {
        let mut ranked = pod(name, "ephemeral-storage", request, "0");
        ranked["usage"] = json!({"inodes": inodes});
        ranked
    };
    let pods = json!([of("none", "-", "0"), of("few", "-", "5"), of("many", "9", "10")]);
    check("nodefs.inodesFree", pods, &["few", "many", "none"], &[]);
    let pods = json!([pod("a", "inodes", "-", "-"), pod("b", "inodes", "-", "7")]);
    check("imagefs.inodesFree", pods, &["a", "b"], &[]);
}

/// L-PRESS-11, L-PRESS-13: disk space has requests, processes have none.
#[test]
fn disk_and_processes() {
    let disk = |name, request, usage| pod(name, "ephemeral-storage", request, usage);
    for signal in ["nodefs.available", "imagefs.available", "containerfs.available"] {
        check(signal, json!([disk("a", "9", "9"), disk("b", "1", "2")]), &["b", "a"], &["a"]);
    }
    let pods = json!([pod("a", "pids", "-", "3"), pod("b", "pids", "-", "-")]);
    check("pid.available", pods, &["b", "a"], &[]);
}

/// L-GEN-3, L-PRESS-11: a pod within its request is evicted in the mode `v1.36.2` only; the order is the same.
#[test]
fn modes() {
    let check = |mode: &str, victim: &str, protected: &[&str]| {
        let answer = rank_for_eviction(&RankForEvictionRequest {
            signal: "memory.available".into(),
            mode: mode.into(),
            hard: true,
            pods: vec![serde_json::from_value(pod("a", "memory", "9", "9")).unwrap()],
            ..RankForEvictionRequest::default()
        })
        .unwrap();
        assert_eq!((answer.order, &*answer.victim), (vec!["a".to_owned()], victim), "{mode}");
        assert_eq!(answer.protected, protected, "{mode}");
    };
    check("", "", &["a"]);
    check("Strict", "", &["a"]);
    check("v1.36.2", "a", &[]);
}

/// L-PRESS-12: the edge of critical priority, and static pods.
#[test]
fn critical_pods_keep_their_place() {
    let critical = |name: &str, priority: i64| {
        let mut ranked = pod(name, "pids", "-", "1");
        ranked["pod"]["spec"]["priority"] = json!(priority);
        ranked
    };
    let sourced = |name: &str, source: &str| {
        let mut ranked = pod(name, "pids", "-", "9");
        let annotations = json!({"kubernetes.io/config.source": source});
        ranked["pod"]["metadata"]["annotations"] = annotations;
        ranked
    };
    let pods = json!([
        critical("almost", 1_999_999_999),
        critical("is", 2_000_000_000),
        sourced("api", "api"),
        sourced("file", "file"),
    ]);
    check("pid.available", pods, &["api", "file", "almost", "is"], &["file", "is"]);
}

/// L-PRESS-14: the grace period, phase and reasons of the victim; a negative period of its own counts as 1 (L-TERM-2),
/// and the default is 30.
#[test]
fn the_outcome_for_the_victim() {
    let check = |hard: bool, own: Value, expected: i64| {
        let mut ranked = pod("a", "memory", "-", "1");
        ranked["pod"]["metadata"]["uid"] = json!("u");
        ranked["pod"]["metadata"]["namespace"] = json!("n");
        ranked["pod"]["spec"]["terminationGracePeriodSeconds"] = own;
        let answer = rank_for_eviction(&RankForEvictionRequest {
            signal: "memory.available".into(),
            hard,
            max_pod_grace_period_seconds: Some(60),
            pods: vec![serde_json::from_value(ranked).unwrap()],
            ..RankForEvictionRequest::default()
        })
        .unwrap();
        assert_eq!(answer.grace_period_seconds, Some(expected));
        assert_eq!((&*answer.victim_namespace, &*answer.victim_uid), ("n", "u"));
        let outcome = (&*answer.phase, &*answer.reason, &*answer.disruption_reason);
        assert_eq!(outcome, ("Failed", "Evicted", "TerminationByKubelet"));
    };
    check(true, json!(99), 1);
    check(false, json!(99), 60);
    check(false, Value::Null, 30);
    check(false, json!(i64::MIN), 1);
    check(false, json!(0), 1);
}

/// L-PRESS-9: pods of equal names are listed with their namespaces, in the order and among the protected.
#[test]
fn equal_names_have_their_namespaces_beside_them() {
    let of = |namespace: &str, name: &str, usage: &str| {
        let mut ranked = pod(name, "memory", "10", usage);
        ranked["pod"]["metadata"]["namespace"] = json!(namespace);
        ranked
    };
    let pods = json!([of("b", "web", "9"), of("a", "web", "20"), of("", "web", "8")]);
    let answer = rank("memory.available", pods).unwrap();
    assert_eq!(answer.order, ["web", "web", "web"]);
    assert_eq!(answer.order_namespaces, ["a", "b", "default"]);
    assert_eq!((&*answer.victim, &*answer.victim_namespace), ("web", "a"));
    assert_eq!(answer.protected, ["web", "web"]);
    assert_eq!(answer.protected_namespaces, ["b", "default"]);
}

/// L-PRESS-15: the QoS class has no effect: here a guaranteed pod goes before a best-effort one.
#[test]
fn classes_have_no_effect() {
    let mut guaranteed = pod("guaranteed", "memory", "10", "30");
    let amounts = json!({"cpu": "1", "memory": "10"});
    let resources = json!({"requests": amounts, "limits": amounts});
    guaranteed["pod"]["spec"]["containers"][0]["resources"] = resources;
    let pods = json!([pod("best-effort", "memory", "-", "19"), guaranteed]);
    check("memory.available", pods, &["guaranteed", "best-effort"], &[]);
}

#[test]
fn bad_input_is_refused_with_its_field() {
    let refused = |signal, pods| rank(signal, pods).unwrap_err().to_string();
    let unknown = refused("memory", json!([]));
    assert!(unknown.starts_with("`signal`: unknown value `memory`: not one of `memory.available`"));
    let pods = json!([pod("a", "memory", "-", "-1")]);
    assert_eq!(refused("memory.available", pods), "`pods[0].usage.memory`: `-1` is negative");
    let pods = json!([pod("a", "ephemeral-storage", "-", "x")]);
    let error = refused("nodefs.available", pods);
    assert!(error.starts_with("`pods[0].usage.ephemeral-storage`: "), "{error}");
    let pods = json!([pod("a", "memory", "-1", "1")]);
    assert_eq!(
        refused("memory.available", pods),
        "`pods[0].pod.spec.containers[0].resources.requests[memory]`: `-1` is negative"
    );
    let pods = json!([pod("a", "memory", "-", "1"), pod("a", "memory", "-", "2")]);
    assert_eq!(
        refused("memory.available", pods),
        "`pods[1].pod.metadata.name`: `default/a` is a duplicate of `pods[0]`"
    );
    assert_eq!(refused("memory.available", json!([{}])), "`pods[0].pod`: required");
    let mut ended = pod("a", "memory", "-", "3Gi");
    ended["pod"]["status"] = json!({"phase": "Succeeded"});
    assert_eq!(
        refused("memory.available", json!([ended])),
        "`pods[0].pod.status.phase`: `Succeeded` has ended already"
    );
    let with_most = |most| {
        let request = RankForEvictionRequest {
            signal: "pid.available".into(),
            max_pod_grace_period_seconds: most,
            ..RankForEvictionRequest::default()
        };
        rank_for_eviction(&request).unwrap_err().to_string()
    };
    assert_eq!(with_most(Some(-1)), "`maxPodGracePeriodSeconds`: `-1` is negative");
    // L-GEN-4: an absent limit does not shorten a victim's grace period.
    assert_eq!(with_most(None), "`maxPodGracePeriodSeconds`: required for a soft threshold");
}
