//! kube-scheduler's four extender verbs, from the body of the request to the response.

use std::collections::HashSet;

use berth_server::in_process::CollectedResponse;
use serde_json::Value;

use crate::served;

const VERBS: [&str; 4] =
    ["/extender/filter", "/extender/prioritize", "/extender/preempt", "/extender/bind"];

/// Checks a call: the first byte chooses the verb, the rest is the body.
pub fn run(data: &[u8]) {
    let Some((verb, body)) = data.split_first() else { return };
    let path = VERBS[usize::from(*verb) % VERBS.len()];
    let answer = served::post(path, body);
    let json = check_form(path, &answer);
    if path.ends_with("bind") {
        return;
    }
    let again = served::post(path, body);
    assert_eq!((again.status, &again.body), (answer.status, &answer.body), "{path} asked again");
    if let (200, Ok(Value::Object(requested))) = (answer.status, serde_json::from_slice(body)) {
        let requested = requested_names(&requested);
        for name in answered_names(&json) {
            assert!(requested.contains(&name), "{path}: `{name}` was not asked about");
        }
    }
}

/// Checks that a response is JSON, that its status says whose fault an error is, and that an error has a reason.
fn check_form(path: &str, answer: &CollectedResponse) -> Value {
    let json: Value = serde_json::from_slice(&answer.body).expect("an answer is JSON");
    match (answer.status, path) {
        (200, "/extender/prioritize") => check_scores(&json),
        (200, _) => {
            assert!(json.is_object(), "{path}: {json}");
            // The error becomes an event of the pod.
            assert!(text(&json["Error"]).len() < 2 << 10, "{path}: {json}");
        }
        (400 | 413 | 422, _) => {
            let reason = json["Error"].as_str().unwrap_or_default();
            assert!(!reason.is_empty() && reason.len() < 2 << 10, "{path}: {json}");
        }
        (status, _) => panic!("{path}: status {status}: {json}"),
    }
    json
}

/// Checks that each host appears once, with a score from 0 to 10.
fn check_scores(json: &Value) {
    let list = json.as_array().expect("a list");
    let hosts: HashSet<&str> = list.iter().map(|host| host["Host"].as_str().unwrap()).collect();
    assert_eq!(hosts.len(), list.len(), "{json}");
    let is_score = |score: &Value| score.as_i64().is_some_and(|score| (0..=10).contains(&score));
    assert!(list.iter().all(|host| is_score(&host["Score"])), "{json}");
}

/// The names of all nodes of a request, in any form and letter case.
fn requested_names(request: &serde_json::Map<String, Value>) -> HashSet<String> {
    let mut names = HashSet::new();
    for (key, value) in request {
        match (&*key.to_ascii_lowercase(), value) {
            ("nodenames", Value::Array(listed)) => names.extend(listed.iter().map(text)),
            ("nodes", Value::Object(list)) => {
                let lists = list.iter().filter(|(key, _)| key.eq_ignore_ascii_case("items"));
                let items = lists.filter_map(|(_, items)| items.as_array()).flatten();
                names.extend(items.map(|node| text(&node["metadata"]["name"])));
            }
            ("nodenametovictims" | "nodenametometavictims", Value::Object(map)) => {
                names.extend(map.keys().cloned());
            }
            _ => {}
        }
    }
    names
}

/// The text of a value; `null` is an empty name, as in Go.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The names of all nodes of a response.
fn answered_names(answer: &Value) -> Vec<String> {
    if let Value::Array(hosts) = answer {
        return hosts.iter().map(|host| text(&host["Host"])).collect();
    }
    let lists = [&answer["NodeNames"], &answer["Nodes"]["items"]];
    let listed =
        lists.into_iter().filter_map(Value::as_array).flatten().map(|node| {
            if node.is_string() { text(node) } else { text(&node["metadata"]["name"]) }
        });
    let maps = ["FailedNodes", "FailedAndUnresolvableNodes", "NodeNameToMetaVictims"];
    let maps = maps.iter().filter_map(|name| answer[name].as_object());
    listed.chain(maps.flat_map(|map| map.keys().cloned())).collect()
}
