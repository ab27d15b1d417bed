//! Bindings, status, evictions, leases and events: recordings 08 to 11, 15, 17 and 18.

use serde_json::{Value, json};

use super::replay::{Replay, answered, recording};

fn note(exchange: &Value) -> &str {
    exchange["note"].as_str().unwrap_or_default()
}

/// A pod as the recorder created it.
fn pod(name: &str, uid: &str) -> Value {
    let requests = json!({"cpu": "100m", "memory": "64Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "uid": uid, "generation": 1, "labels": {"app": name}},
        "spec": {
            "schedulerName": "berth", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "priority": 1000, "priorityClassName": "standard", "preemptionPolicy": "PreemptLowerPriority",
            "containers": [{"name": "c", "image": "registry.example.com/app:v1", "resources": {"requests": requests}}],
        },
    })
}

/// A pod of the recorder that is bound and ready.
fn ready(name: &str, uid: &str, app: &str) -> Value {
    let mut pod = pod(name, uid);
    pod["metadata"]["labels"] = json!({
        "app": app, "topology.kubernetes.io/zone": "eu-central-a", "topology.kubernetes.io/region": "eu-central",
    });
    pod["spec"]["nodeName"] = "worker-1".into();
    pod["status"] = json!({
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T07:43:28Z"},
        ],
    });
    pod
}

#[test]
fn binding() {
    let Some(exchanges) = recording("08-binding.json") else { return };
    let mut replay = Replay::start();
    let b_uid = answered(&exchanges, "bound to nowhere")["metadata"]["uid"].clone();
    replay.put(pod("b-ok", "08187198-121b-4b52-8535-c9bdd48ae691"));
    replay.put(pod("b-uid", b_uid.as_str().unwrap()));
    replay.put(pod("b-rv", "rv"));
    replay.same_version("307");
    let mut gated = pod("b-gated", "gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    replay.put(gated);
    let mut deleted = pod("b-del", "del");
    deleted["metadata"]["finalizers"] = json!(["example.com/hold"]);
    replay.put(deleted);
    replay.world.delete("/api/v1/namespaces/lab/pods/b-del", "");
    replay.put(ready("b-dead", "dead", "b-dead"));
    let version = replay.world.store().get("Pod", "lab", "b-rv").unwrap();
    let version = version["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for exchange in &exchanges {
        replay.exchange_but(exchange, |body| {
            let Some(message) = body["message"].as_str() else { return };
            // The pod's version differs, and the real server's text about mutable fields is longer.
            let message = message.replace("object meta: 307", &format!("object meta: {version}"));
            let message = message.split(" may not change").next().unwrap_or_default();
            body["message"] = message.into();
            for cause in body["details"]["causes"].as_array_mut().into_iter().flatten() {
                let message = cause["message"].as_str().unwrap_or_default().to_owned();
                cause["message"] =
                    message.split(" may not change").next().unwrap_or_default().into();
            }
        });
    }
    assert_eq!(replay.n_compared, exchanges.len());
    assert_eq!(replay.world.store().bindings().len(), 3);
}

#[test]
fn pod_status_patch() {
    let Some(exchanges) = recording("09-pod-status-patch.json") else { return };
    let mut replay = Replay::start();
    replay.put(pod("nom-1", "31a0ddad-a123-4f60-be82-6260e7a67378"));
    let mut last_version = String::new();
    for exchange in &exchanges {
        replay.exchange_but(exchange, |body| {
            // The real server lists the immutable uid twice.
            if let Some(causes) = body["details"]["causes"].as_array_mut() {
                causes.dedup();
            }
        });
        let pod = replay.world.store().get("Pod", "lab", "nom-1").unwrap();
        let version = pod["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let unchanged = ["no change", "stale", "wrong uid", "status sent to the main", "pod gone"];
        let expected = unchanged.iter().any(|begin| note(exchange).starts_with(begin));
        assert_eq!(version == last_version, expected, "{}: {version}", note(exchange));
        last_version = version;
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

/// Stores the pods of recordings 10 and 17.
fn evictable(replay: &mut Replay) {
    for (name, uid) in [
        ("ev-0", "ev-0"),
        ("ev-1", "6733b432-f784-4528-a1e4-55832f5f9ebb"),
        ("ev-2", "ev-2"),
        ("ev-3", "b240ee94-bb4c-4f81-aa50-103e06adc099"),
    ] {
        replay.put(ready(name, uid, "ev"));
    }
}

#[test]
fn eviction() {
    let Some(exchanges) = recording("10-eviction.json") else { return };
    let mut replay = Replay::start();
    evictable(&mut replay);
    replay.put(ready("ev-nobudget", "nobudget", "ev-nobudget"));
    for exchange in &exchanges {
        if note(exchange).starts_with("two budgets") {
            let second = json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "ev-too", "namespace": "lab"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "ev"}}},
            });
            replay.put(second);
        }
        replay.exchange(exchange);
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

#[test]
fn eviction_more() {
    let Some(exchanges) = recording("17-eviction-more.json") else { return };
    let mut replay = Replay::start();
    evictable(&mut replay);
    replay.world.store().delete("Pod", "lab", "ev-0").unwrap();
    replay.world.store().delete("Pod", "lab", "ev-3").unwrap();
    let mut slow = ready("ev-slow", "60848f98-52a1-49ed-9678-62a6a3852a47", "ev");
    slow["spec"]["terminationGracePeriodSeconds"] = 60.into();
    replay.put(slow);
    let mut budget = answered(&exchanges, "the refused eviction has spent");
    budget["status"] = status(1, 3, 2);
    replay.put(budget);
    for exchange in &exchanges {
        // The writes of the recorder as controller and kubelet between the exchanges.
        match note(exchange) {
            text if text.starts_with("allowed, pod with a grace period") => {
                write_budget(&replay, &status(1, 3, 2))
            }
            text if text.starts_with("not ready, too few healthy") => {
                write_budget(&replay, &status(0, 2, 3));
                unready(&replay);
            }
            text if text.starts_with("not ready, enough healthy") => {
                write_budget(&replay, &status(0, 3, 3))
            }
            _ => {}
        }
        replay.exchange_but(exchange, |body| {
            // The disrupted pods of recording 10 are not known here.
            let items = body["items"].as_array_mut().into_iter().flatten();
            items.for_each(forget_the_past);
            forget_the_past(body);
        });
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

fn status(allowed: i64, healthy: i64, desired: i64) -> Value {
    json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": 3,
    })
}

fn write_budget(replay: &Replay, status: &Value) {
    let target = "/apis/policy/v1/namespaces/lab/poddisruptionbudgets/ev/status";
    let answer = replay.world.patch("merge", target, &json!({"status": status}).to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn unready(replay: &Replay) {
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let target = "/api/v1/namespaces/lab/pods/ev-2/status";
    assert_eq!(replay.world.patch("strategic-merge", target, &patch.to_string()).status, 200);
}

fn forget_the_past(budget: &mut Value) {
    if let Some(Value::Object(pods)) = budget.pointer_mut("/status/disruptedPods") {
        pods.remove("ev-0");
    }
}

#[test]
fn lease() {
    let Some(exchanges) = recording("11-lease.json") else { return };
    let mut replay = Replay::start();
    for exchange in &exchanges {
        replay.exchange_but(exchange, |body| {
            // The text of a refused patch contains the whole object in the order of Go's fields.
            for text in ["/message", "/details/causes/0/message"] {
                if let Some(Value::String(text)) = body.pointer_mut(text)
                    && text.contains("patch: Invalid value")
                        | text.starts_with("Invalid value: \"{")
                {
                    *text = text.rsplit("parsing time").next().unwrap_or_default().to_owned();
                }
            }
        });
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

#[test]
fn lease_patch() {
    let Some(exchanges) = recording("18-lease-patch.json") else { return };
    let mut replay = Replay::start();
    replay.put(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "berth", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1,
            "acquireTime": "2026-11-21T07:40:22.000001Z", "renewTime": "2026-11-21T07:40:22.000001Z",
        },
    }));
    exchanges.iter().for_each(|exchange| replay.exchange(exchange));
    assert_eq!(replay.n_compared, 2);
}

#[test]
fn events() {
    let Some(exchanges) = recording("15-events.json") else { return };
    let mut replay = Replay::start();
    for exchange in &exchanges {
        replay.exchange_but(exchange, |body| {
            // The real server adds a text about an empty name.
            if let Some(Value::Array(causes)) = body.pointer_mut("/details/causes")
                && causes[0]["field"] == "reportingController"
            {
                causes.truncate(1);
                body["message"] = Value::Null;
            }
            for event in body["items"].as_array_mut().into_iter().flatten() {
                forget_sources(event);
            }
            forget_sources(body);
        });
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

/// Removes the empty source that Go writes for an event without one.
fn forget_sources(event: &mut Value) {
    for name in ["deprecatedSource", "source"] {
        if event[name] == json!({}) {
            event[name] = Value::Null;
        }
    }
}
