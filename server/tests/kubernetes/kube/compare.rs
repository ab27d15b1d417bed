//! Compares a cluster that was fed by watches with the objects that it should hold.
//!
//! Every stored object is compiled again by the same cluster and compared fact by fact; pods and other objects, but not
//! nodes, with their resource versions. Sums are compared with those of a cluster into which the file feed loads the
//! same objects.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use berth_engine::{Cluster, Node, Snapshot};
use berth_fake_apiserver::Store;
use berth_proto::core_v1;
use berth_server::feed::file::{self, UnknownFields, WrittenObject};
use berth_server::feed::kube::Resource;
use serde_json::{Value, json};

/// Facts of objects, by kind and name.
type Facts = BTreeMap<String, String>;

/// Every object of every kind that is watched.
pub(crate) fn stored(store: &Store) -> Vec<Value> {
    Resource::ALL.into_iter().flat_map(|resource| store.list(resource.kind())).collect()
}

/// Checks that the cluster holds exactly these objects; the error is the first difference.
pub(crate) fn holds(cluster: &Cluster, objects: &[Value]) -> Result<(), String> {
    let (expected, known) = (expected(cluster, objects), known(cluster));
    for (name, facts) in &expected {
        match known.get(name) {
            None => return Err(format!("{name} is missing")),
            Some(other) if other != facts => {
                return Err(format!("{name} is\n{other}\nand not\n{facts}"));
            }
            Some(_) => {}
        }
    }
    if let Some(name) = known.keys().find(|name| !expected.contains_key(*name)) {
        return Err(format!("{name} should be gone"));
    }
    let loaded = loaded(objects);
    let (fed, loaded) = (cluster.snapshot(), loaded.snapshot());
    if fed.nodes() != loaded.nodes() {
        return Err("the sums of the nodes differ".to_owned());
    }
    if counts(&fed) != counts(&loaded) {
        return Err(format!("counts are {:?} and not {:?}", counts(&fed), counts(&loaded)));
    }
    Ok(())
}

fn counts(snapshot: &Snapshot) -> [usize; 4] {
    [snapshot.n_nodes(), snapshot.n_pods(), snapshot.n_pending(), snapshot.n_orphaned()]
}

fn loaded(objects: &[Value]) -> Cluster {
    let cluster = Cluster::new();
    if objects.is_empty() {
        return cluster;
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let report =
        file::load(&cluster, file::parse(&Arc::from("store"), &list, UnknownFields::Warn).unwrap());
    assert_eq!(report.refused, []);
    cluster
}

fn expected(cluster: &Cluster, objects: &[Value]) -> Facts {
    let facts = objects.iter().filter_map(|object| {
        let kind = object["kind"].as_str().unwrap();
        let facts = match kind {
            "Node" => node_text(&cluster.compile_node(&read(object)).unwrap()),
            "Pod" => {
                let pod = cluster.compile_reported_pod(&read::<core_v1::Pod>(object)).unwrap();
                if pod.is_terminal() {
                    return None;
                }
                text(&pod)
            }
            _ => compiled(cluster, kind, object),
        };
        Some((name_of(kind, object), facts))
    });
    facts.collect()
}

fn compiled(cluster: &Cluster, kind: &str, object: &Value) -> String {
    let dump = file::parse(&Arc::from(kind), &object.to_string(), UnknownFields::Warn).unwrap();
    assert_eq!(dump.refused, [], "{object}");
    let written: &WrittenObject = &dump.objects[0].value;
    text(&cluster.compile_object(written.as_wire()).unwrap())
}

fn known(cluster: &Cluster) -> Facts {
    let mut facts = Facts::new();
    let snapshot = cluster.snapshot();
    for resource in Resource::ALL {
        match resource {
            Resource::Nodes => facts.extend(snapshot.nodes().iter().map(|view| {
                let node = snapshot.node_named(&view.name).unwrap();
                (format!("Node /{}", view.name), node_text(node))
            })),
            Resource::Pods => facts.extend(
                cluster
                    .known_pods(|_, _| true)
                    .iter()
                    .map(|pod| (format!("Pod {}", pod.key()), text(pod))),
            ),
            Resource::Objects(kind) => {
                facts.extend(cluster.known_objects(kind).iter().map(|object| {
                    let key = object.key();
                    (format!("{} {}/{}", kind.name(), key.namespace, key.name), text(object))
                }));
            }
        }
    }
    facts
}

/// The facts of a node without its version, because an unchanged node keeps its old version.
fn node_text(node: &Node) -> String {
    let text = text(node);
    text[..text.rfind(", resource_version").unwrap()].to_owned()
}

fn text(facts: &impl Debug) -> String {
    format!("{facts:?}")
}

fn name_of(kind: &str, object: &Value) -> String {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{kind} {}/{}", field("namespace"), field("name"))
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}
