//! Replay of one scenario against one server.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_fake_apiserver::Options;
use berth_testing::recorded;
use serde_json::{Value, json};

use crate::client::{Next, World};

/// Reads the exchanges of a recorded scenario. Returns `None` if the check has to be skipped.
pub(crate) fn recording(file: &str) -> Option<Vec<Value>> {
    let text = recorded::read(&format!("data/apiserver/{file}"))?;
    let scenario: Value = serde_json::from_str(&text).unwrap();
    Some(scenario["exchanges"].as_array().unwrap().clone())
}

pub(crate) struct Replay {
    pub(crate) world: World,
    /// Translation of recorded versions, continue tokens and uids to those of this server.
    versions: BTreeMap<String, String>,
    uids: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
    /// Number of compared exchanges.
    pub(crate) n_compared: usize,
}

impl Replay {
    pub(crate) fn start() -> Replay {
        let options = Options {
            namespaces_must_exist: true,
            priority_classes_must_exist: true,
            bookmark_interval: Duration::from_secs(60),
            ..Options::default()
        };
        let world = World::start_with(options);
        for name in ["lab", "default", "kube-system"] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            world.store().create(namespace).unwrap();
        }
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "standard"},
            "value": 1000, "globalDefault": true,
        });
        world.store().create(class).unwrap();
        for (name, zone) in [("worker-1", "eu-central-a"), ("worker-2", "eu-central-b")] {
            let labels = json!({"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "eu-central"});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
            world.store().create(node).unwrap();
        }
        let (versions, tokens, uids) = Default::default();
        Replay { world, versions, tokens, uids, n_compared: 0 }
    }

    /// Stores a recorded object, or one that a test wrote.
    pub(crate) fn put(&mut self, mut object: Value) {
        let recorded = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        let stored = self.world.store().create(object).unwrap();
        if let Some(recorded) = recorded {
            let ours = stored["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            self.versions.insert(recorded, ours);
        }
    }

    /// Maps a recorded version to the current one.
    pub(crate) fn same_version(&mut self, recorded: &str) {
        self.versions.insert(recorded.to_owned(), self.world.store().version().to_string());
    }

    /// Sends a recorded request and compares the responses.
    pub(crate) fn exchange(&mut self, exchange: &Value) {
        self.exchange_but(exchange, |_| {});
    }

    /// Sends a recorded request and compares the responses after `but` has removed the parts that must differ from
    /// both.
    pub(crate) fn exchange_but(&mut self, exchange: &Value, but: impl Fn(&mut Value)) {
        let request = &exchange["request"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (method, target) =
            (text(&request["method"]), self.translate_target(&text(&request["target"])));
        let headers: Vec<(String, String)> = request["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), text(value)))
            .collect();
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "Authorization" | "Accept-Encoding"))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let body = self.translate_body(&text(&request["body"]));
        let answer = self.world.send(&method, &target, &headers, &body).unwrap();
        let what = format!("{method} {target}: {}", text(&exchange["note"]));
        let recorded = &exchange["response"];
        assert_eq!(answer.status, recorded["status"], "{what}: {}", answer.body);
        let retry_after = recorded["headers"]["Retry-After"].as_str();
        assert_eq!(answer.header("retry-after"), retry_after, "{what}");
        let Ok(mut theirs) = serde_json::from_str::<Value>(&text(&recorded["body"])) else {
            assert_eq!(answer.body, text(&recorded["body"]), "{what}");
            return;
        };
        let mut ours = answer.json;
        self.learn(&theirs, &ours);
        for body in [&mut theirs, &mut ours] {
            but(body);
            mask(body);
        }
        assert_eq!(ours, theirs, "{what}\nours:   {ours}\ntheirs: {theirs}");
        self.n_compared += 1;
    }

    /// Compares the events of a watch in order, and its end.
    pub(crate) fn stream(&mut self, exchange: &Value, stream: &mut crate::client::Stream) {
        let what = exchange["note"].as_str().unwrap_or("the watch").to_owned();
        let theirs = events(exchange);
        let mut last_version = None;
        for (position, mut theirs) in theirs.into_iter().enumerate() {
            let mut ours = match stream.next(Duration::from_secs(20)) {
                Next::Line(line) => serde_json::from_str::<Value>(&line).unwrap(),
                other => panic!("{what}: {other:?} instead of {theirs}"),
            };
            if theirs["type"] != "ERROR" {
                let version = version_of(&ours);
                if theirs["type"] != "ADDED" && theirs["type"] != "BOOKMARK" {
                    assert!(
                        Some(version) > last_version,
                        "{what}: {version} after {last_version:?}"
                    );
                }
                last_version = Some(version);
            }
            self.learn(&theirs["object"], &ours["object"]);
            mask(&mut theirs);
            mask(&mut ours);
            assert_eq!(ours, theirs, "{what}, event {position}\nours:   {ours}\ntheirs: {theirs}");
        }
        let orderly = exchange["response"]["ended"]["how"]
            .as_str()
            .unwrap_or_default()
            .starts_with("server ended");
        let end = stream.next(Duration::from_secs(20));
        assert_eq!(end, if orderly { Next::End } else { Next::Cut }, "{what}");
        self.n_compared += 1;
    }

    /// Starts the recorded watch with a shorter timeout.
    pub(crate) fn watch(
        &mut self,
        exchange: &Value,
        timeout_seconds: u32,
    ) -> crate::client::Stream {
        let target = self.translate_target(exchange["request"]["target"].as_str().unwrap());
        let mut parts: Vec<String> = target.split('&').map(str::to_owned).collect();
        for part in &mut parts {
            if part.starts_with("timeoutSeconds=") {
                *part = format!("timeoutSeconds={timeout_seconds}");
            }
        }
        self.world.watch(&parts.join("&"))
    }

    /// Learns the translation of versions and tokens from values at equal positions.
    fn learn(&mut self, theirs: &Value, ours: &Value) {
        for (map, key) in [
            (&mut self.versions, "resourceVersion"),
            (&mut self.tokens, "continue"),
            (&mut self.uids, "uid"),
        ] {
            let at = |value: &Value| value["metadata"][key].as_str().map(str::to_owned);
            if let (Some(theirs), Some(ours)) = (at(theirs), at(ours)) {
                map.insert(theirs, ours);
            }
        }
    }

    fn translate_target(&self, target: &str) -> String {
        let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
        let parts = query.split('&').map(|part| match part.split_once('=') {
            Some(("resourceVersion", version)) => {
                format!(
                    "resourceVersion={}",
                    self.versions.get(version).map_or(version, |ours| ours)
                )
            }
            Some(("continue", token)) => {
                format!("continue={}", self.tokens.get(token).map_or(token, |ours| ours))
            }
            _ => part.to_owned(),
        });
        format!("{path}?{}", parts.collect::<Vec<_>>().join("&"))
    }

    fn translate_body(&self, body: &str) -> String {
        let mut body = body.to_owned();
        for (theirs, ours) in &self.uids {
            body = body.replace(theirs, ours);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&body) else { return body };
        let Some(version) = value.pointer_mut("/metadata/resourceVersion") else { return body };
        match version.as_str().and_then(|version| self.versions.get(version)) {
            Some(ours) => *version = ours.as_str().into(),
            None => return body,
        }
        value.to_string()
    }
}

/// The events of a recorded stream without periodic bookmarks.
fn events(exchange: &Value) -> Vec<Value> {
    let chunks = exchange["response"]["chunks"].as_array().into_iter().flatten();
    let text: String = chunks.map(|chunk| chunk["data"].as_str().unwrap()).collect();
    let events = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| {
            event["type"] != "BOOKMARK" || event["object"]["metadata"]["annotations"].is_object()
        })
        .collect()
}

fn version_of(event: &Value) -> u64 {
    event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Removes values that differ between two servers, and fields that Go writes without a value, at any depth.
pub(crate) fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["managedFields", "resourceVersion", "continue", "uid"] {
                fields.remove(name);
            }
            fields.retain(|_, value| !value.is_null());
            for (name, value) in fields.iter_mut() {
                let is_time = name.ends_with("Timestamp") || name.ends_with("Time");
                match value {
                    Value::String(text) if is_time && text.len() == 20 => *text = "<time>".into(),
                    Value::Object(pods) if name == "disruptedPods" => {
                        pods.values_mut().for_each(|time| *time = "<time>".into());
                    }
                    other => mask(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// The object in the response of the exchange whose note starts with `note`.
pub(crate) fn answered(exchanges: &[Value], note: &str) -> Value {
    let exchange = exchanges
        .iter()
        .find(|exchange| exchange["note"].as_str().is_some_and(|text| text.starts_with(note)))
        .unwrap_or_else(|| panic!("no exchange is noted `{note}`"));
    serde_json::from_str(exchange["response"]["body"].as_str().unwrap()).unwrap()
}
