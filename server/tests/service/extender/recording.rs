//! Recorded exchanges of a real kube-scheduler with an extender: `data/extender` of the recorded data.

use std::collections::BTreeMap;

use berth_testing::recorded;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::Reply;

/// A recorded exchange.
#[derive(Deserialize)]
pub(crate) struct Recording {
    #[serde(skip)]
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) verb: String,
    /// Whether the caller was nodeCacheCapable.
    #[serde(skip)]
    pub(crate) is_capable: bool,
    pub(crate) scenario: String,
    extender_config: Value,
    request: Request,
    response: Response,
    pub(crate) seen_afterwards: Value,
}

#[derive(Deserialize)]
struct Request {
    path: String,
    body: Box<RawValue>,
}

#[derive(Deserialize)]
struct Response {
    answered_after_s: f64,
    status: u16,
    body: Value,
}

impl Recording {
    /// Returns the request, byte for byte as in the file.
    pub(crate) fn request(&self) -> &str {
        self.request.body.get()
    }

    pub(crate) fn request_json(&self) -> Value {
        serde_json::from_str(self.request()).unwrap()
    }

    /// Returns the response of the recording extender, as text if it is not JSON.
    pub(crate) fn reply(&self) -> Reply {
        let body = match &self.response.body {
            Value::String(text) => text.clone().into_bytes(),
            value => serde_json::to_vec(value).unwrap(),
        };
        Reply { status: self.response.status, body }
    }

    pub(crate) fn answered_after_s(&self) -> f64 {
        self.response.answered_after_s
    }

    /// The extender that was called, of two where there were.
    pub(crate) fn config(&self) -> &Value {
        let of = |config: &&Value| {
            let path = config["urlPrefix"].as_str().unwrap().rsplit_once('/').unwrap().1;
            self.request.path.starts_with(&format!("/{path}/"))
        };
        match &self.extender_config {
            Value::Array(list) => list.iter().find(of).unwrap(),
            one => one,
        }
    }

    pub(crate) fn is_ignorable(&self) -> bool {
        self.config()["ignorable"] == true
    }

    pub(crate) fn url(&self) -> String {
        let prefix = self.config()["urlPrefix"].as_str().unwrap();
        let verb = self.request.path.rsplit_once('/').unwrap().1;
        format!("{prefix}/{verb}")
    }

    /// The pod's events: reason and message of each.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let events = self.seen_afterwards["events"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
    }

    /// The pod's node half a second later.
    pub(crate) fn node(&self) -> Option<&str> {
        self.seen_afterwards["nodeName"].as_str()
    }
}

/// Returns every recording, unless they are missing.
pub(crate) fn recordings() -> Option<Vec<Recording>> {
    let root = recorded::find("data/extender")?;
    let mut list = Vec::new();
    for is_capable in [true, false] {
        let directory = root.join(format!("nodeCacheCapable-{is_capable}"));
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let (_, verb) = name.rsplit_once('.').unwrap();
            let verb = verb.trim_end_matches(char::is_numeric).to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let read: Recording = serde_json::from_str(&text).unwrap();
            list.push(Recording { name, verb, is_capable, ..read });
        }
    }
    list.sort_by(|a, b| (a.is_capable, &a.name).cmp(&(b.is_capable, &b.name)));
    assert!(list.len() > 150, "{} recordings", list.len());
    Some(list)
}

/// The six nodes of the recordings by name, from a request with whole nodes.
pub(crate) fn nodes(recordings: &[Recording]) -> BTreeMap<String, Value> {
    let happy = recordings.iter().find(|r| !r.is_capable && r.name == "01-happy.filter").unwrap();
    let body = happy.request_json();
    let items = body["Nodes"]["items"].as_array().unwrap();
    let nodes: BTreeMap<String, Value> = items
        .iter()
        .map(|node| (node["metadata"]["name"].as_str().unwrap().to_owned(), node.clone()))
        .collect();
    assert_eq!(nodes.len(), 6);
    nodes
}

/// The pods on nodes when the request was sent, as far as the recording shows them: the candidates' victims, the second
/// pod of each node in the two scenarios that have two, and the load in the scenario about load.
pub(crate) fn running_pods(recording: &Recording) -> Vec<Value> {
    let body = recording.request_json();
    let mut pods = Vec::new();
    let has_two = recording.name.starts_with("73") || recording.name.starts_with("74");
    let cpu = if has_two { "14" } else { "20" };
    let low = |uid: &str, node: &str| {
        json!({
            "metadata": {"name": format!("low-{uid}"), "namespace": "default", "uid": uid, "labels": {"app": "low"}},
            "spec": {
                "nodeName": node, "priority": 100,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}],
            },
        })
    };
    for (node, victims) in body["NodeNameToVictims"].as_object().into_iter().flatten() {
        pods.extend(victims["Pods"].as_array().unwrap().iter().cloned());
        pods.extend(has_two.then(|| low(&format!("other-{node}"), node)));
    }
    for (node, victims) in body["NodeNameToMetaVictims"].as_object().into_iter().flatten() {
        for victim in victims["Pods"].as_array().unwrap() {
            pods.push(low(victim["UID"].as_str().unwrap(), node));
        }
        pods.extend(has_two.then(|| low(&format!("other-{node}"), node)));
    }
    if recording.scenario == "scoring-sees-load" {
        pods.push(json!({
            "metadata": {"name": "load", "namespace": "default", "uid": "load"},
            "spec": {
                "nodeName": "small-1",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "28", "memory": "220Gi"}}}],
            },
        }));
    }
    pods
}
