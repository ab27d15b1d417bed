//! Lists and refusals: recordings 01, 02, 06 and 12.

use serde_json::Value;

use super::replay::{Replay, recording};

fn note(exchange: &Value) -> &str {
    exchange["note"].as_str().unwrap_or_default()
}

fn items(exchange: &Value) -> Vec<Value> {
    let list: Value = serde_json::from_str(exchange["response"]["body"].as_str().unwrap()).unwrap();
    let kind = list["kind"].as_str().unwrap().strip_suffix("List").unwrap();
    let items = list["items"].as_array().unwrap().iter().cloned();
    items
        .map(|mut item| {
            (item["kind"], item["apiVersion"]) = (kind.into(), list["apiVersion"].clone());
            item
        })
        .collect()
}

#[test]
fn paged_list() {
    let Some(exchanges) = recording("01-paged-list.json") else { return };
    let mut replay = Replay::start();
    exchanges.iter().flat_map(items).for_each(|pod| replay.put(pod));
    replay.same_version("256");
    exchanges.iter().for_each(|exchange| replay.exchange(exchange));
    assert_eq!(replay.n_compared, 3);
}

#[test]
fn list_resource_versions() {
    let Some(exchanges) = recording("02-list-resource-versions.json") else { return };
    let mut replay = Replay::start();
    items(&exchanges[1]).into_iter().for_each(|node| replay.put(node));
    replay.same_version("256");
    let current = replay.world.store().version().to_string();
    for exchange in &exchanges {
        replay.exchange_but(exchange, |body| {
            // The message of a 504 contains the server's version.
            if let Some(text) = body["message"].as_str() {
                body["message"] =
                    text.replace("current: 257", &format!("current: {current}")).into();
            }
        });
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

/// The recorded server has snapshots and caches that survive a compaction; this one has none. The comparison therefore
/// covers each form of 410 and the continuation after it.
#[test]
fn gone() {
    let Some(exchanges) = recording("06-gone.json") else { return };
    let mut replay = Replay::start();
    let by_note =
        |text: &str| exchanges.iter().find(|exchange| note(exchange).starts_with(text)).unwrap();
    for item in items(by_note("first page")) {
        replay.put(item);
    }
    replay.same_version("588");
    let first = replay.world.get("/api/v1/pods?limit=2");
    let old = first.json["metadata"]["continue"].as_str().unwrap().to_owned();
    let version = replay.world.store().version();
    replay.world.store().delete("PriorityClass", "", "standard").unwrap();
    replay.world.store().compact();

    let gone = replay.world.get(&format!("/api/v1/pods?limit=2&continue={old}"));
    let recorded: Value = {
        let exchange = by_note("server restarted, no snapshot left");
        assert_eq!(gone.status, exchange["response"]["status"]);
        serde_json::from_str(exchange["response"]["body"].as_str().unwrap()).unwrap()
    };
    assert_eq!(
        (&gone.json["reason"], &gone.json["code"]),
        (&recorded["reason"], &recorded["code"])
    );
    assert!(recorded["metadata"]["continue"].is_string());
    let fresh = gone.json["metadata"]["continue"].as_str().unwrap();
    let rest = replay.world.get(&format!("/api/v1/pods?continue={fresh}"));
    assert_eq!(rest.json["items"].as_array().unwrap().len(), 8, "the rest of ten");

    replay.exchange(by_note("exact version, compacted"));
    replay.exchange(by_note("a continue token that is not one").clone().pointer_mut("").map(|exchange| {
        // The text of Go's decoder about the token's contents is not imitated.
        exchange["response"]["body"] = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "BadRequest", "code": 400,
            "message": "invalid continue token: continue key is not valid",
        }).to_string().into();
        &*exchange
    }).unwrap());
    replay.exchange(by_note("continue together with a resourceVersion"));
    for text in ["watch from a version older", "watch from version 1"] {
        let exchange = by_note(text);
        let mut watch = replay.watch(exchange, 5);
        let (events, end) = watch.rest();
        assert_eq!((events.len(), end), (1, crate::client::Next::End), "{text}");
        assert_eq!(events[0]["type"], "ERROR");
        assert_eq!(events[0]["object"]["reason"], "Expired");
        let message = events[0]["object"]["message"].as_str().unwrap();
        assert!(message.starts_with("too old resource version: "), "{message}");
        assert!(message.ends_with(&format!("({})", version + 1)), "{message}");
    }
    assert_eq!(replay.world.get("/api/v1/pods?resourceVersion=2").status, 200, "not older than");
}

#[test]
fn errors() {
    let Some(exchanges) = recording("12-errors.json") else { return };
    let mut replay = Replay::start();
    replay.put(serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late-1", "namespace": "lab"}, "spec": {},
    }));
    // This server has no users and no schemas, and its versions are recognisable.
    let others = ["unknown field", "fieldValidation", "an Accept"];
    for exchange in &exchanges {
        let target = exchange["request"]["target"].as_str().unwrap();
        let is_users = exchange["request"]["headers"]["Authorization"] != "Bearer <token>";
        if is_users
            || others.iter().any(|other| note(exchange).starts_with(other))
            || target == "/version"
        {
            continue;
        }
        replay.exchange_but(exchange, |body| {
            let message = body["message"].as_str().unwrap_or_default().to_owned();
            // The texts of Go's decoder and of the rule for names differ.
            for end in ["json parse error", "Invalid value: \"Bad_Name\""] {
                if let Some((kept, _)) = message.split_once(end) {
                    body["message"] = kept.into();
                    body.pointer_mut("/details/causes/0/message").map(Value::take);
                }
            }
        });
    }
    assert!(replay.n_compared >= 13, "{}", replay.n_compared);
}
