//! Requests that only kubectl makes: lists as tables, OpenAPI documents, and writes with validation of field names.

use serde_json::json;

use crate::client::{Response, World};
use crate::objects::{PODS, node, with_pods};

const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn table(world: &World, target: &str) -> Response {
    world.send("GET", target, &[("Accept", AS_TABLE)], "").unwrap()
}

#[test]
fn lists_and_objects_come_as_tables() {
    let world = with_pods(3);
    let list = table(&world, PODS);
    assert_eq!((list.status, &list.json["kind"]), (200, &json!("Table")));
    let names: Vec<_> =
        list.json["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
    assert_eq!(names, ["p000", "p001", "p002"]);
    assert_eq!(
        list.json["metadata"]["resourceVersion"],
        world.get(PODS).json["metadata"]["resourceVersion"]
    );
    let one = table(&world, &format!("{PODS}/p001"));
    assert_eq!(one.json["rows"][0]["object"]["metadata"]["name"], "p001");
    let wide = one.json["columnDefinitions"].as_array().unwrap();
    assert!(
        wide.iter().any(|column| column["name"] == "Node" && column["priority"] == 1),
        "{wide:?}"
    );
    assert_eq!(table(&world, &format!("{PODS}/gone")).status, 404);
}

#[test]
fn kubectl_is_told_that_the_server_validates() {
    let world = World::start();
    let versions = world.get("/openapi/v3");
    let url = versions.json["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = world.get(url);
    let patch = &document.json["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert!(
        patch["parameters"].as_array().unwrap().iter().any(|it| it["name"] == "fieldValidation")
    );
}

#[test]
fn unknown_fields_are_refused_on_request_and_warned_of_otherwise() {
    let world = World::start();
    let mut node = node("n1");
    node["spec"] = json!({"unschedulabel": true});
    let create = |query: &str| world.post(&format!("/api/v1/nodes{query}"), &node.to_string());
    let strict = create("?fieldValidation=Strict");
    assert_eq!(strict.status, 400);
    let message = strict.json["message"].as_str().unwrap();
    assert!(
        message.ends_with("strict decoding error: unknown field \"spec.unschedulabel\""),
        "{message}"
    );
    assert_eq!(world.get("/api/v1/nodes/n1").status, 404);
    let warned = create("");
    let warning = warned.header("warning").map(str::to_owned);
    assert_eq!(
        (warned.status, warning.as_deref()),
        (201, Some("299 - \"unknown field \\\"spec.unschedulabel\\\"\""))
    );
    let patch = json!({"spec": {"podCIDRx": "a"}}).to_string();
    let patched = world.patch("merge", "/api/v1/nodes/n1?fieldValidation=Strict", &patch);
    assert_eq!(patched.status, 400);
    assert_eq!(create("?fieldValidation=No").status, 400);
}
