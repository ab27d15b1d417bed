//! Binding, status, deletion, eviction, leases and events.

use serde_json::{Value, json};

use berth_fake_apiserver::Options;

use crate::client::{Response, World};
use crate::objects::{PODS, bind, bind_body, node, pod, running, with_pods};

fn message(answer: &Response) -> &str {
    answer.json["message"].as_str().unwrap_or_default()
}

#[test]
fn a_pod_is_bound_once() {
    let world = with_pods(2);
    world.store().create(node("n1")).unwrap();
    let before = world.store().version();
    assert_eq!(bind(&world, "p000", "n1"), 201);
    assert_eq!(world.store().version(), before + 1, "one change");
    for node in ["n1", "n2"] {
        let again = world.post(&format!("{PODS}/p000/binding"), &bind_body("p000", node));
        assert_eq!((again.status, &again.json["reason"]), (409, &json!("Conflict")));
        assert!(message(&again).ends_with("pod p000 is already assigned to node \"n1\""));
    }
    let bound = world.store().get("Pod", "lab", "p000").unwrap();
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["labels"]["topology.kubernetes.io/zone"], "z1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(bind(&world, "none", "n1"), 404);
    let bindings = world.store().bindings();
    assert_eq!(bindings.len(), 1);
    assert_eq!((bindings[0].name.as_str(), bindings[0].node.as_str()), ("p000", "n1"));
    assert_eq!(bindings[0].resource_version, before + 1);
    let statuses: Vec<_> = world.store().requests().iter().map(|request| request.status).collect();
    assert_eq!(statuses, [201, 409, 409, 404]);
}

#[test]
fn of_many_bindings_of_one_pod_one_succeeds() {
    let world = with_pods(1);
    let won = std::thread::scope(|scope| {
        let world = &world;
        let threads: Vec<_> =
            (0..8).map(|i| scope.spawn(move || bind(world, "p000", &format!("n{i}")))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|s| *s == 201).count()
    });
    assert_eq!((won, world.store().bindings().len()), (1, 1));
}

#[test]
fn status_and_spec_are_written_separately() {
    let world = with_pods(1);
    let target = format!("{PODS}/p000");
    let status = format!("{target}/status");
    let patched = world.patch(
        "strategic-merge",
        &status,
        r#"{"status":{"nominatedNodeName":"n"},"spec":{"nodeName":"x"},"metadata":{"labels":{"k":"v"}}}"#,
    );
    assert_eq!(patched.json["status"]["nominatedNodeName"], "n");
    assert!(patched.json["spec"]["nodeName"].is_null());
    assert_eq!(patched.json["metadata"]["labels"]["k"], "v");
    let version = patched.json["metadata"]["resourceVersion"].clone();
    for (target, body) in [
        (&target, r#"{"status":{"nominatedNodeName":"other"}}"#),
        (&status, r#"{"status":{"nominatedNodeName":"n"}}"#),
    ] {
        let same = world.patch("merge", target, body);
        assert_eq!((same.status, &same.json["metadata"]["resourceVersion"]), (200, &version));
    }
    let cleared =
        world.patch("strategic-merge", &status, r#"{"status":{"nominatedNodeName":null}}"#);
    assert!(cleared.json["status"]["nominatedNodeName"].is_null());
    let moved = world.patch("merge", &target, r#"{"spec":{"nodeName":"n"}}"#);
    assert_eq!((moved.status, &moved.json["details"]["causes"][0]["field"]), (422, &json!("spec")));
}

#[test]
fn versions_and_uids_in_writes_must_match() {
    let world = with_pods(1);
    let status = format!("{PODS}/p000/status");
    let stale =
        world.patch("merge", &status, r#"{"metadata":{"resourceVersion":"9"},"status":{}}"#);
    assert_eq!((stale.status, &stale.json["reason"]), (409, &json!("Conflict")));
    let wrong = world.patch("merge", &status, r#"{"metadata":{"uid":"x"},"status":{}}"#);
    assert_eq!((wrong.status, &wrong.json["reason"]), (422, &json!("Invalid")));
    let mut whole = world.store().get("Pod", "lab", "p000").unwrap();
    whole["metadata"]["labels"]["new"] = "1".into();
    assert_eq!(world.put(&format!("{PODS}/p000"), &whole.to_string()).status, 200);
    assert_eq!(world.put(&format!("{PODS}/p000"), &whole.to_string()).status, 409, "stale now");
}

#[test]
fn a_pod_is_removed_by_its_kubelet() {
    let world = World::start();
    world.store().create(running("slow", "n")).unwrap();
    world.store().create(pod("pending")).unwrap();
    let marked = world.delete(&format!("{PODS}/slow?gracePeriodSeconds=7"), "");
    assert_eq!(marked.json["metadata"]["deletionGracePeriodSeconds"], 7);
    assert!(marked.json["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(world.get(&format!("{PODS}/slow")).status, 200);
    assert_eq!(world.delete(&format!("{PODS}/pending"), "").status, 200);
    assert_eq!(world.get(&format!("{PODS}/pending")).status, 404, "no kubelet runs it");
    let wrong = r#"{"preconditions":{"uid":"other"}}"#;
    assert_eq!(world.delete(&format!("{PODS}/slow"), wrong).status, 409);
    assert_eq!(world.delete(&format!("{PODS}/slow"), r#"{"gracePeriodSeconds":0}"#).status, 200);
    assert_eq!(world.store().n("Pod"), 0);
    assert_eq!(world.delete(&format!("{PODS}/slow"), "").status, 404);
}

#[test]
fn an_automatic_kubelet_runs_and_ends_pods() {
    let world = with_pods(2);
    bind(&world, "p000", "n");
    world.store().set_auto_kubelet(true);
    bind(&world, "p001", "n");
    for name in ["p000", "p001"] {
        let pod = world.store().get("Pod", "lab", name).unwrap();
        assert_eq!(pod["status"]["phase"], "Running");
        assert!(pod["status"]["startTime"].is_string());
        assert_eq!(world.delete(&format!("{PODS}/{name}"), "").status, 200);
    }
    assert_eq!(world.store().n("Pod"), 0, "grace periods are scaled to nothing");
}

#[test]
fn grace_periods_can_be_scaled() {
    let world = World::start_with(Options { grace_scale: 0.01, ..Options::default() });
    world.store().set_auto_kubelet(true);
    world.store().create(running("slow", "n")).unwrap();
    let mut watch = world.watch(&format!("{PODS}?watch=1&resourceVersion=1"));
    let began = std::time::Instant::now();
    world.delete(&format!("{PODS}/slow?gracePeriodSeconds=30"), "");
    let events = [watch.event_text(), watch.event_text(), watch.event_text()];
    assert_eq!(events, ["MODIFIED slow 2", "MODIFIED slow 3", "DELETED slow 4"].map(String::from));
    assert!(began.elapsed().as_millis() >= 300, "{:?}", began.elapsed());
}

#[test]
fn finalizers_hold_deleted_objects() {
    let world = World::start();
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.store().create(held).unwrap();
    world.delete(&format!("{PODS}/held"), "");
    let bound = world.post(&format!("{PODS}/held/binding"), &bind_body("held", "n"));
    assert_eq!(bound.status, 409);
    assert!(message(&bound).contains("is being deleted"), "{}", message(&bound));
    world.patch("merge", &format!("{PODS}/held"), r#"{"metadata":{"finalizers":null}}"#);
    assert_eq!(world.store().n("Pod"), 0);
}

fn budget(name: &str, allowed: i64) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "lab", "generation": 1},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
        "status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1,
            "expectedPods": 2,
        },
    })
}

fn evict(world: &World, pod: &str, options: &Value) -> Response {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}, "deleteOptions": options,
    });
    world.post(&format!("{PODS}/{pod}/eviction"), &body.to_string())
}

#[test]
fn evictions_spend_a_budget() {
    let world = World::start();
    for name in ["a", "b", "c"] {
        world.store().create(running(name, "n")).unwrap();
    }
    world.store().create(budget("one", 1)).unwrap();
    assert_eq!(evict(&world, "a", &json!({"dryRun": ["All"]})).status, 201);
    assert_eq!(evict(&world, "a", &json!({})).status, 201);
    let marked = world.store().get("Pod", "lab", "a").unwrap();
    assert_eq!(marked["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
    let after = world.store().get("PodDisruptionBudget", "lab", "one").unwrap();
    assert_eq!(after["status"]["disruptionsAllowed"], 0);
    assert!(after["status"]["disruptedPods"]["a"].is_string());
    let refused = evict(&world, "b", &json!({}));
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json["details"]["causes"][0]["reason"], "DisruptionBudget");
    assert_eq!(refused.header("retry-after"), None);
    assert_eq!(evict(&world, "a", &json!({})).status, 201, "it goes anyway");
    world.store().create(budget("two", 1)).unwrap();
    assert_eq!(evict(&world, "c", &json!({})).status, 500, "two budgets");
}

#[test]
fn leases_change_hands_by_version() {
    let world = World::start();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let lease = |holder: &str, version: &str| {
        let time = "2026-11-21T07:40:00.000000Z";
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "berth"},
            "spec": {"holderIdentity": holder, "renewTime": time},
        });
        if !version.is_empty() {
            lease["metadata"]["resourceVersion"] = version.into();
        }
        lease.to_string()
    };
    let target = format!("{leases}/berth");
    assert_eq!(world.get(&target).status, 404);
    assert_eq!(world.post(leases, &lease("a", "")).status, 201);
    let second = world.post(leases, &lease("b", ""));
    assert_eq!((second.status, &second.json["reason"]), (409, &json!("AlreadyExists")));
    assert_eq!(world.put(&target, &lease("b", "")).status, 422);
    assert_eq!(world.put(&target, &lease("a2", "1")).status, 200);
    let late = world.put(&target, &lease("b", "1"));
    assert_eq!((late.status, &late.json["reason"]), (409, &json!("Conflict")));
    let bad = lease("a", "2").replace(".000000Z", "Z");
    assert_eq!(world.put(&target, &bad).status, 400);
    assert_eq!(
        world.patch("merge", &target, r#"{"spec":{"renewTime":"2026-11-21T07:40:00.5Z"}}"#).status,
        422
    );
    assert_eq!(world.get(&target).json["spec"]["holderIdentity"], "a2");
}

#[test]
fn events_are_served_by_two_groups() {
    let world = World::start();
    let events = "/apis/events.k8s.io/v1/namespaces/lab/events";
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "eventTime": "2026-11-21T07:45:00.123456Z", "reportingController": "berth", "reportingInstance": "berth-0",
        "action": "Scheduling", "reason": "FailedScheduling", "type": "Warning", "note": "why",
        "regarding": {"kind": "Pod", "namespace": "lab", "name": "p"},
    });
    assert_eq!(world.post(events, &event.to_string()).status, 201);
    assert_eq!(world.post(events, &event.to_string()).status, 409);
    let series = r#"{"series":{"count":2,"lastObservedTime":"2026-11-21T07:46:00.000000Z"}}"#;
    assert_eq!(world.patch("merge", &format!("{events}/e"), series).status, 200);
    let core = world.get("/api/v1/namespaces/lab/events?fieldSelector=involvedObject.name=p");
    assert_eq!(core.json["items"][0]["message"], "why");
    assert_eq!(core.json["items"][0]["series"]["count"], 2);
    let mut watch = world.watch("/api/v1/events?watch=1&resourceVersion=1");
    assert_eq!(watch.event()["object"]["involvedObject"]["name"], "p");
    let mut late = event;
    late["metadata"]["name"] = "e2".into();
    late["eventTime"] = Value::Null;
    let refused = world.post(events, &late.to_string());
    assert_eq!(refused.json["details"]["causes"][0]["field"], "eventTime");
}

#[test]
fn requests_that_are_not_served_are_refused() {
    let world = with_pods(1);
    let send = |method: &str, target: &str, accept: &str, media_type: &str, body: &str| {
        let headers = [("Accept", accept), ("Content-Type", media_type)];
        world.send(method, target, &headers, body).unwrap().status
    };
    let json = "application/json";
    for (method, target, accept, media_type, body, expected) in [
        ("GET", "/api/v1/widgets", json, "", "", 404),
        ("GET", "/apis/apps/v9/deployments", json, "", "", 404),
        ("GET", PODS, "text/html", "", "", 406),
        ("GET", PODS, "application/vnd.kubernetes.protobuf", "", "", 406),
        ("GET", PODS, "application/vnd.kubernetes.protobuf,application/json", "", "", 200),
        ("GET", PODS, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "", "", 200),
        ("PUT", PODS, json, json, "{}", 405),
        ("POST", PODS, json, "application/yaml", "a: b", 415),
        ("PATCH", &format!("{PODS}/p000"), json, json, "{}", 415),
        ("POST", PODS, json, json, "{\"kind\":\"Pod\",", 400),
        ("POST", PODS, json, json, "[]", 400),
        ("POST", PODS, json, json, r#"{"metadata":{"name":"Bad_Name"}}"#, 422),
        ("POST", PODS, json, json, r#"{"metadata":{"name":"x","namespace":"y"}}"#, 400),
        ("POST", PODS, json, json, "{}", 422),
        ("GET", "/version", json, "", "", 200),
        ("GET", "/readyz", "text/plain", "", "", 200),
        ("GET", "/apis", json, "", "", 200),
    ] {
        assert_eq!(
            send(method, target, accept, media_type, body),
            expected,
            "{method} {target} {body}"
        );
    }
}

#[test]
fn the_store_refuses_objects_without_kind_or_name() {
    let world = with_pods(1);
    let store = world.store();
    assert_eq!(store.create(pod("p000")).unwrap_err().reason, "AlreadyExists");
    assert_eq!(store.replace(pod("none")).unwrap_err().code, 404);
    assert_eq!(store.delete("Pod", "lab", "none").unwrap_err().code, 404);
    let unknown = json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(store.create(unknown).unwrap_err().code, 400);
    assert_eq!(store.create(json!({"apiVersion": "v1", "kind": "Node"})).unwrap_err().code, 422);
    assert!(store.get("Widget", "", "w").is_none() && store.list("Widget").is_empty());
}
