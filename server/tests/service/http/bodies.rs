//! Bodies: bare objects and requests, in JSON and YAML, and everything that is neither.

use berth_server::runtime::{Limits, Server, ServerOptions};
use serde_json::{Value, json};

use crate::http::world::{JSON, YAML, ask, post, server, server_with};

const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}"#;

fn manifest(name: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  uid: uid-of-{name}\nspec:\n  containers:\n  - name: c\n    resources:\n      requests: {{cpu: {cpu}}}\n"
    )
}

fn node_of(decision: &Value) -> &str {
    decision["placement"]["nodeName"].as_str().unwrap_or_else(|| panic!("{decision}"))
}

#[tokio::test]
async fn a_bare_pod_is_placed_in_every_form() {
    let server = server().await;
    let request = json!({"pod": serde_json::from_str::<Value>(POD).unwrap()});
    let list = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{POD}]}}"#);
    let form = "application/x-www-form-urlencoded";
    for (content_type, body) in [
        (JSON, POD),
        (JSON, &request.to_string()),
        (JSON, &list),
        (YAML, &manifest("p", "2")),
        (
            YAML,
            &format!(
                "pod:\n{}",
                manifest("p", "2").lines().map(|line| format!("  {line}\n")).collect::<String>()
            ),
        ),
        ("text/yaml", &manifest("p", "2")),
        (form, POD),
        (form, &manifest("p", "2")),
    ] {
        let reply = post(&server, "/v1/place", content_type, body).await;
        assert_eq!(reply.status, 200, "{content_type}: {body}: {}", reply.body);
        assert!(reply.head.contains("content-type: application/json"), "{}", reply.head);
        let decision = &reply.json()["decision"];
        assert_eq!(node_of(decision), "n1", "{content_type}: {body}");
        assert_eq!(decision["placement"]["assumed"], Value::Null, "{decision}");
    }
}

#[tokio::test]
async fn several_pods_are_a_batch() {
    let server = server().await;
    let body =
        format!("{}---\n{}---\n{}", manifest("a", "3"), manifest("b", "1"), manifest("c", "9"));
    let reply = post(&server, "/v1/place?mode=assume&gang.minCount=2", YAML, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let answer = reply.json();
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    assert_eq!(node_of(&results[0]["decision"]), "n1");
    assert_eq!(node_of(&results[1]["decision"]), "n0");
    assert_eq!(results[2]["decision"]["unschedulable"]["reasons"][0]["reason"], "Insufficient cpu");
    assert_eq!((&answer["gang"]["placed"], &answer["gang"]["nPlaced"]), (&json!(true), &json!(2)));
    // The room is taken.
    let reply = post(&server, "/v1/place?pretty", YAML, &manifest("d", "2")).await;
    assert!(reply.json()["decision"]["unschedulable"].is_object(), "{}", reply.body);
    assert!(reply.body.contains("\n  \"decision\": {\n"), "{}", reply.body);
}

#[tokio::test]
async fn options_come_as_parameters() {
    let server = server().await;
    let reply =
        post(&server, "/v1/explain?nodeNames=n1&tieBreak=seeded&tieBreak.seed=3", JSON, POD).await;
    let answer = reply.json();
    assert_eq!(answer["nodes"].as_array().unwrap().len(), 1, "{answer}");
    let reply = post(&server, "/v1/headroom?limit=2", JSON, POD).await;
    assert_eq!(reply.json()["nFit"], 2, "{}", reply.body);
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n0}\n";
    let reply = post(&server, "/v1/drain", YAML, node).await;
    assert_eq!(reply.json()["nodes"][0]["nodeName"], "n0", "{}", reply.body);
    let reply = post(&server, "/v1/lifecycle/qos-class", JSON, POD).await;
    assert_eq!(reply.json()["qosClass"], "Burstable", "{}", reply.body);

    for (path, field) in [
        ("/v1/place?mod=assume", "mod"),
        ("/v1/place?mode=later", "mode"),
        ("/v1/place?nodeNames=n1", "nodeNames"),
        ("/v1/headroom?limit=many", "limit"),
        ("/v1/headroom?limit=-1", "limit"),
        ("/v1/place?timeout=soon", "timeout"),
        ("/v1/place?pretty=7", "pretty"),
    ] {
        let reply = post(&server, path, JSON, POD).await;
        let (code, got, message) = reply.error();
        assert_eq!(
            (reply.status, &*code, &*got),
            (400, "INVALID_ARGUMENT", field),
            "{path}: {message}"
        );
        assert!(message.starts_with(&format!("`{field}`: ")), "{message}");
    }
    let reply = post(&server, "/v1/place?mode=assume", JSON, r#"{"pod": {}}"#).await;
    assert_eq!((reply.status, &*reply.error().1), (400, "mode"), "{}", reply.body);
}

/// Checks that a body is refused with this field, and with a message that contains this text.
async fn check_refused(server: &Server, case: (&str, &str, &str, &str, &str)) {
    let (path, content_type, body, field, message) = case;
    let reply = post(server, path, content_type, body).await;
    let (code, got, text) = reply.error();
    assert_eq!((reply.status, &*code), (400, "INVALID_ARGUMENT"), "{path}: {text}");
    assert!(text.contains(message), "{path}: {text}, not {message}");
    assert_eq!(got, field, "{path}: {text}");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_its_place() {
    let server = server().await;
    let nested = format!(r#"{{"pod": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let wrong = r#"{"pod": {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1x"}}}]}}}"#;
    for case in [
        ("/v1/place", JSON, "garbage", "", "the body is no JSON: line 1, column 1: expected value"),
        ("/v1/place", JSON, "{\"pod\":\n", "", "line 2, column 0: EOF while parsing a value"),
        ("/v1/place", JSON, "[]", "", "expected an object (PlaceRequest)"),
        ("/v1/place", JSON, "", "pod", "must be set"),
        ("/v1/place", JSON, "{}", "pod", "must be set"),
        ("/v1/place", JSON, &nested, "pod", "expected an object (Pod)"),
        ("/v1/place", JSON, r#"{"pod": 7}"#, "pod", "expected an object (Pod)"),
        (
            "/v1/place",
            JSON,
            r#"{"pod": {"spec": {"priority": "7"}}}"#,
            "pod.spec.priority",
            "expected a 32-bit integer",
        ),
        (
            "/v1/place",
            JSON,
            wrong,
            "spec.containers[0].resources.requests[cpu]",
            "quantities must match",
        ),
        ("/v1/place", JSON, r#"{"entries": []}"#, "entries", "unknown field"),
        ("/v1/place", JSON, r#"{"metadata": {"name": "p"}}"#, "metadata", "unknown field"),
        (
            "/v1/headroom",
            JSON,
            r#"{"limit": 1.5}"#,
            "limit",
            "expected a 32-bit integer of 0 or more",
        ),
        (
            "/v1/headroom",
            JSON,
            r#"{"limit": "+5"}"#,
            "limit",
            "expected a 32-bit integer of 0 or more",
        ),
    ] {
        check_refused(&server, case).await;
    }
    let reply = ask(server.http_address(), "POST /v1/place", "", b"\xff\xfe").await;
    assert_eq!((reply.status, &*reply.error().2), (400, "the body is not UTF-8"));
}

#[tokio::test]
async fn objects_that_a_call_cannot_take_are_refused() {
    let server = server().await;
    let two = format!("{POD}{POD}");
    for case in [
        ("/v1/explain", JSON, two.as_str(), "", "takes one `Pod`"),
        ("/v1/place", YAML, "a: [1", "", "the body cannot be read: body:1:"),
        ("/v1/place", YAML, "kind: Pod\nkind: Pod\n", "", "twice"),
        (
            "/v1/place",
            YAML,
            "kind: Secret\napiVersion: v1\n",
            "",
            "takes no `Secret`; it takes Pod",
        ),
        ("/v1/drain", JSON, POD, "", "takes no `Pod`; it takes Node"),
        (
            "/v1/scale-up",
            YAML,
            "kind: Node\nmetadata: {name: n}\n",
            "",
            "the body holds no Pod, and no workload",
        ),
        (
            "/v1/place",
            YAML,
            "kind: Pod\nspec:\n  priority: x\n",
            "spec.priority",
            "body:3 (document 0): Pod: ",
        ),
    ] {
        check_refused(&server, case).await;
    }
}

#[tokio::test]
async fn other_types_and_sizes_have_their_statuses() {
    let limits = Limits { max_message_bytes: 10_000, ..Limits::default() };
    let server = server_with(ServerOptions { limits, ..ServerOptions::default() }).await;
    for content_type in ["text/plain", "application/grpc", "multipart/form-data; boundary=x"] {
        let reply = post(&server, "/v1/place", content_type, POD).await;
        assert_eq!((reply.status, &*reply.error().0), (415, "INVALID_ARGUMENT"), "{content_type}");
    }
    let headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    let reply = ask(server.http_address(), "POST /v1/place", headers, POD.as_bytes()).await;
    assert_eq!(reply.status, 415, "{}", reply.body);
    let large = format!("{POD}{}", " ".repeat(10_000));
    let reply = post(&server, "/v1/place", JSON, &large).await;
    let (code, _, message) = reply.error();
    assert_eq!((reply.status, &*code), (413, "RESOURCE_EXHAUSTED"));
    assert!(message.contains("10000 bytes"), "{message}");
    // A body without a length is cut off where it grows too large.
    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let headers = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let request = format!(
        "POST /v1/place HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n{chunk}"
    );
    let reply = crate::http::limits::raw(server.http_address(), request.as_bytes()).await;
    assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
}

#[tokio::test]
async fn misspelt_fields_are_refused_at_any_depth() {
    let server = server().await;
    let pod = |spec: &str| format!(r#"{{"metadata": {{"name": "p"}}, "spec": {spec}}}"#);
    let unread = r#"{"containers": [{"name": "c", "env": [{"name": "A", "valeu": "x"}]}]}"#;
    let read = r#"{"contianers": [{"name": "c"}]}"#;
    for (path, body, field, message) in [
        (
            "/v1/place",
            format!(r#"{{"pod": {}}}"#, pod(read)),
            "pod.spec.contianers",
            "did you mean `containers`?",
        ),
        (
            "/v1/explain",
            format!(r#"{{"pod": {}}}"#, pod(unread)),
            "pod.spec.containers[0].env[0].valeu",
            "unknown field; did you mean `value`?",
        ),
        (
            "/v1/place-batch",
            format!(r#"{{"entries": [{{"pod": {{}}}}, {{"pod": {}}}]}}"#, pod(unread)),
            "entries[1].pod.spec.containers[0].env[0].valeu",
            "unknown field",
        ),
        (
            "/v1/sessions/apply",
            r#"{"deltas": [{"upsertService": {"spec": {"selectors": {}}}}]}"#.to_owned(),
            "deltas[0].upsertService.spec.selectors",
            "did you mean `selector`?",
        ),
        (
            "/v1/lifecycle/qos-class",
            format!(r#"{{"pod": {}}}"#, pod(unread)),
            "pod.spec.containers[0].env[0].valeu",
            "did you mean `value`?",
        ),
        (
            "/v1/lifecycle/qos-class",
            r#"{"pod": {"Spec": {}}}"#.to_owned(),
            "pod.Spec",
            "did you mean `spec`?",
        ),
    ] {
        for content_type in [JSON, YAML] {
            check_refused(&server, (path, content_type, &body, field, message)).await;
        }
        let reply = post(&server, &format!("{path}?lenient"), JSON, &body).await;
        if reply.status == 200 {
            let notes = reply.json()["notes"].clone();
            assert!(notes[0].as_str().unwrap().contains(message), "{path}: {notes}");
        } else {
            assert_ne!(reply.error().1, field, "{path}: {}", reply.body);
        }
    }
    // Fields that Kubernetes knows and Berth does not read are no error.
    let known = r#"{"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}], "stdin": true}], "hostname": "h"}"#;
    let body = format!(r#"{{"pod": {}}}"#, pod(known));
    let reply = post(&server, "/v1/place", JSON, &body).await;
    assert_eq!((reply.status, &reply.json()["notes"]), (200, &Value::Null), "{}", reply.body);
    // Bare objects take the parameter too.
    let bare = format!(r#"{{"apiVersion": "v1", "kind": "Pod", {}"#, &pod(unread)[1..]);
    let field = "spec.containers[0].env[0].valeu";
    check_refused(&server, ("/v1/place", JSON, &bare, field, "did you mean `value`?")).await;
    let reply = post(&server, "/v1/place?lenient=true", JSON, &bare).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let notes = reply.json()["notes"].clone();
    assert!(notes[0].as_str().unwrap().contains("`spec.containers[0].env[0].valeu`"), "{notes}");
    let reply = post(&server, "/v1/lifecycle/qos-class?lenient", JSON, &bare).await;
    assert!(reply.json()["notes"][0].as_str().unwrap().contains("valeu"), "{}", reply.body);
    check_refused(&server, ("/v1/place?lenient=7", JSON, &bare, "lenient", "neither")).await;
}

#[tokio::test]
async fn kubernetes_scalars_are_refused_with_their_field() {
    let server = server().await;
    let request = |field: &str, value: &str| {
        let (quantity, time, port) = match field {
            "cpu" => (value, "null", "null"),
            "time" => ("\"1\"", value, "null"),
            _ => ("\"1\"", "null", value),
        };
        format!(
            r#"{{"pod": {{"metadata": {{"name": "p", "deletionTimestamp": {time}}}, "spec": {{"containers": [{{"name": "c",
                "resources": {{"requests": {{"cpu": {quantity}}}}},
                "livenessProbe": {{"httpGet": {{"port": {port}}}}}}}]}}}}}}"#
        )
    };
    let huge = format!("\"{}\"", "9".repeat(100_000));
    for (field, path) in [
        ("cpu", "spec.containers[0].resources.requests[cpu]"),
        ("time", "pod.metadata.deletionTimestamp"),
        ("port", "pod.spec.containers[0].livenessProbe.httpGet.port"),
    ] {
        for value in ["\"\"", "\"garbage\"", "{}", "[1]", "true", "1e999", "-1.5.2", &huge] {
            // A port may have a name, and an amount is at most the largest that there is.
            let is_port_name = field == "port" && value.starts_with('"');
            if is_port_name || field == "cpu" && value == huge {
                continue;
            }
            let reply = post(&server, "/v1/place", JSON, &request(field, value)).await;
            let (code, got, message) = reply.error();
            let shown = &value[..value.len().min(20)];
            assert_eq!((reply.status, &*code), (400, "INVALID_ARGUMENT"), "{field} {shown}");
            // A number that JSON does not have is no value of any field.
            let is_json = serde_json::from_str::<Value>(value).is_ok();
            assert!(!is_json || got.ends_with(path), "{field} {shown}: `{got}`: {message}");
            assert!(message.len() < 2_000, "{field} {shown}");
        }
        // An amount that is `null` is empty; any other field is absent then.
        let reply = post(&server, "/v1/place", JSON, &request(field, "null")).await;
        let expected = if field == "cpu" { (400, path) } else { (200, "") };
        let got = if reply.status == 200 { String::new() } else { reply.error().1 };
        assert_eq!((reply.status, &*got), expected, "{field}: {}", reply.body);
    }
}
