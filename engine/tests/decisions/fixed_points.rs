//! Recorded pods are fixed points of admission (A-DEF-2): what an API server stored is not changed by admitting it
//! again, not even as if it were new.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::{AdmissionContext, Cluster, Delta, admit_pod};
use berth_proto::core_v1::Pod;
use berth_proto::{node_v1, scheduling_v1};
use berth_testing::recorded;
use serde_json::Value;

/// The objects of a dump, or the items and objects in the bodies of recorded exchanges.
fn objects(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(fields) => {
            let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
            match (kind, fields.get("items")) {
                ("Pod" | "PriorityClass", None) => found.push(value.clone()),
                ("PodList", Some(Value::Array(items))) => {
                    // Items of a typed list have no kind.
                    found.extend(items.iter().map(|item| {
                        let mut item = item.clone();
                        item["kind"] = "Pod".into();
                        item
                    }));
                }
                _ => fields.values().for_each(|value| objects(value, found)),
            }
        }
        Value::Array(values) => values.iter().for_each(|value| objects(value, found)),
        _ => {}
    }
}

/// A cluster with the classes among the objects, and one for each name that pods have and the objects lack.
fn cluster(objects: &[Value]) -> Cluster {
    let cluster = Cluster::new();
    let mut known = BTreeSet::new();
    let mut overheads: BTreeMap<String, Value> = BTreeMap::new();
    for object in objects {
        if object["kind"] == "PriorityClass" {
            let class: scheduling_v1::PriorityClass =
                serde_json::from_value(object.clone()).unwrap();
            let compiled = cluster.compile_object(&class).unwrap();
            cluster.apply(vec![Delta::UpsertObject(compiled)]);
            known.insert(class.metadata.unwrap().name);
        } else if let Some(name) = object["spec"]["runtimeClassName"].as_str() {
            overheads.insert(name.to_owned(), object["spec"]["overhead"].clone());
        }
    }
    // Recordings of exchanges have pods without their classes.
    for object in objects.iter().filter(|object| object["kind"] == "Pod") {
        let spec = &object["spec"];
        if let Some(name) = spec["priorityClassName"].as_str()
            && known.insert(name.to_owned())
        {
            let json = serde_json::json!({
                "metadata": {"name": name}, "value": spec["priority"],
                "preemptionPolicy": spec["preemptionPolicy"],
            });
            let class: scheduling_v1::PriorityClass = serde_json::from_value(json).unwrap();
            let compiled = cluster.compile_object(&class).unwrap();
            cluster.apply(vec![Delta::UpsertObject(compiled)]);
        }
    }
    for (name, overhead) in overheads {
        let json = serde_json::json!({
            "metadata": {"name": name}, "handler": "x", "overhead": {"podFixed": overhead},
        });
        let class: node_v1::RuntimeClass = serde_json::from_value(json).unwrap();
        let compiled = cluster.compile_object(&class).unwrap();
        cluster.apply(vec![Delta::UpsertObject(compiled)]);
    }
    cluster
}

/// Admits each pod as it was stored, and as if it were new; returns how many there are. `off` are plugins that the
/// recorded API server did not run.
fn check(origin: &str, objects: &[Value], off: &[&str]) -> usize {
    let cluster = cluster(objects);
    let snapshot = cluster.snapshot();
    let context = AdmissionContext { snapshot: &snapshot, position: 0, n_replicas: 1 };
    let mut n_pods = 0;
    for object in objects.iter().filter(|object| object["kind"] == "Pod") {
        let stored: Pod = serde_json::from_value(object.clone()).unwrap();
        let Some(metadata) = &stored.metadata else { continue }; // a reference to a pod
        if metadata.uid.is_empty()
            || stored.spec.as_ref().is_none_or(|spec| spec.containers.is_empty())
        {
            continue; // the body of a request, or the skeleton of a bookmark
        }
        n_pods += 1;
        let mut new = stored.clone();
        new.metadata.as_mut().unwrap().resource_version.clear();
        for pod in [stored, new] {
            let mut admitted = pod.clone();
            let name = &pod.metadata.as_ref().unwrap().name;
            match admit_pod(&mut admitted, context) {
                Ok(changes) => {
                    let mut filled = changes.filled;
                    filled.retain(|filled| !off.contains(&&*filled.source));
                    assert_eq!(filled, [], "{origin}: {name}");
                    assert_eq!(changes.warnings, [], "{origin}: {name}");
                }
                Err(error) => panic!("{origin}: {name}: {error}"),
            }
            let is_stored = !pod.metadata.as_ref().unwrap().resource_version.is_empty();
            if off.is_empty() || is_stored {
                assert_eq!(admitted, pod, "{origin}: {name}");
            }
        }
    }
    n_pods
}

#[test]
fn the_pods_of_the_dumps() {
    for (file, expected) in [("small.yaml", 25), ("mid.json.gz", 3_425), ("large.json.gz", 29_999)]
    {
        let Some(text) = recorded::read(&format!("data/cluster-dump/{file}")) else { continue };
        let mut found = Vec::new();
        let dump: Value = match file.ends_with(".yaml") {
            true => serde_saphyr::from_str(&text).unwrap(),
            false => serde_json::from_str(&text).unwrap(),
        };
        objects(&dump, &mut found);
        assert_eq!(check(file, &found, &[]), expected, "{file}");
    }
}

#[test]
fn the_pods_of_recorded_exchanges() {
    let Some(folder) = recorded::find("data/apiserver") else { return };
    let mut n_pods = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !(name.ends_with(".json") || name.ends_with(".json.gz")) {
            continue;
        }
        let text = recorded::text(&path).unwrap();
        let mut found = Vec::new();
        collect(&serde_json::from_str(&text).unwrap(), &mut found);
        n_pods += check(&name, &found, &["ServiceAccount", "DefaultTolerationSeconds"]);
    }
    assert!(n_pods > 200, "{n_pods} pods");
}

/// Objects in a recording: bodies and the chunks of a stream are texts of JSON.
fn collect(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(fields) if fields.contains_key("response") => {
            let response = &fields["response"];
            let mut text = response["body"].as_str().unwrap_or_default().to_owned();
            for chunk in response["chunks"].as_array().into_iter().flatten() {
                text.push_str(chunk["data"].as_str().unwrap_or_default());
            }
            let stream = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            for body in stream.map_while(Result::ok) {
                objects(&body, found);
            }
        }
        Value::Object(fields) if fields.contains_key("kind") => objects(value, found),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}
