//! An observer of the feed that records every notification; in the end its state must equal the API server's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use berth_engine::{ClaimChange, NodeDifference, ObjectKey, ObjectKind};
use berth_fake_apiserver::Store;
use berth_proto::core_v1;
use berth_server::feed::kube::{NodeChange, Observer, Resource};
use serde_json::json;

use crate::kube::world::{World, node, options, pod, until};

#[derive(Default)]
pub(crate) struct Books {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Nodes of pods that have not ended, by name and uid.
    pods: BTreeMap<(String, String), String>,
    nodes: BTreeSet<String>,
    objects: BTreeSet<String>,
    said: Vec<String>,
    n_synced: usize,
}

impl Observer for Books {
    fn pod(&self, pod: &core_v1::Pod, gone: bool) {
        let metadata = pod.metadata.as_ref().unwrap();
        let key = (metadata.name.clone(), metadata.uid.clone());
        let node = pod.spec.as_ref().map_or("", |spec| spec.node_name.as_str());
        let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
        let mut inner = self.inner.lock().unwrap();
        inner.said.push(format!(
            "pod {} on `{node}` {phase}{}",
            key.0,
            if gone { "gone" } else { "" }
        ));
        if gone || matches!(phase, "Succeeded" | "Failed") {
            inner.pods.remove(&key);
        } else {
            // The earlier pod with this name is gone, though there may have been no notification.
            inner.pods.retain(|(name, _), _| *name != key.0);
            inner.pods.insert(key, node.to_owned());
        }
    }

    fn node(&self, name: &str, change: NodeChange) {
        let mut inner = self.inner.lock().unwrap();
        inner.said.push(format!("node {name} {change:?}"));
        match change {
            NodeChange::Added => assert!(inner.nodes.insert(name.to_owned()), "{name} came twice"),
            NodeChange::Removed => assert!(inner.nodes.remove(name), "{name} was not there"),
            NodeChange::Updated(_) => assert!(inner.nodes.contains(name), "{name} is not there"),
        }
    }

    fn claim(&self, key: &ObjectKey, change: ClaimChange) {
        let ClaimChange { frees_devices, helps_users } = change;
        let mut inner = self.inner.lock().unwrap();
        inner.said.push(format!("claim {} frees {frees_devices} helps {helps_users}", key.name));
    }

    fn object(&self, key: &ObjectKey, gone: bool) {
        assert_ne!(key.kind, ObjectKind::ResourceClaim, "a claim has a notification of its own");
        let mut inner = self.inner.lock().unwrap();
        match gone {
            true => drop(inner.objects.remove(&key.to_string())),
            false => drop(inner.objects.insert(key.to_string())),
        }
    }

    fn synced(&self) {
        self.inner.lock().unwrap().n_synced += 1;
    }
}

impl Books {
    pub(crate) fn agree(&self, store: &Store) -> Result<(), String> {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let pods = store
            .list("Pod")
            .into_iter()
            .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")));
        let pods: BTreeMap<(String, String), String> = pods
            .map(|pod| {
                let metadata = &pod["metadata"];
                ((text(&metadata["name"]), text(&metadata["uid"])), text(&pod["spec"]["nodeName"]))
            })
            .collect();
        let nodes: BTreeSet<String> =
            store.list("Node").iter().map(|node| text(&node["metadata"]["name"])).collect();
        let others = Resource::ALL.into_iter().filter_map(|resource| match resource {
            // Of a claim only the change is known.
            Resource::Objects(ObjectKind::ResourceClaim) => None,
            Resource::Objects(kind) => Some(kind),
            _ => None,
        });
        let objects: BTreeSet<String> = others
            .flat_map(|kind| {
                store.list(kind.name()).into_iter().map(move |object| {
                    let metadata = &object["metadata"];
                    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
                    ObjectKey::new(kind, &namespace, &name).to_string()
                })
            })
            .collect();
        let inner = self.inner.lock().unwrap();
        if inner.pods != pods {
            return Err(format!("the observer's pods are {:?} and not {pods:?}", inner.pods));
        }
        if inner.nodes != nodes {
            return Err(format!("the observer's nodes are {:?} and not {nodes:?}", inner.nodes));
        }
        if inner.objects != objects {
            return Err(format!(
                "the observer's objects are {:?} and not {objects:?}",
                inner.objects
            ));
        }
        if inner.n_synced != 1 {
            return Err(format!("synced {} times", inner.n_synced));
        }
        Ok(())
    }

    fn said(&self, line: &str) -> Result<(), String> {
        let inner = self.inner.lock().unwrap();
        if inner.said.iter().any(|said| said == line) {
            return Ok(());
        }
        Err(format!("`{line}` is not among {:#?}", inner.said))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_gets_the_object_and_its_change() {
    let books = Arc::new(Books::default());
    let world = World::start(options(), Some(books.clone())).await;
    world.ready().await;
    let store = world.store();
    let mut changed = store.create(node("n")).unwrap();
    until(|| books.said("node n Added")).await;
    changed["metadata"]["labels"]["zone"] = json!("b");
    changed["status"]["allocatable"]["cpu"] = json!("9");
    store.replace(changed).unwrap();
    let difference =
        NodeDifference { labels: true, allocatable: true, ..NodeDifference::default() };
    until(|| books.said(&format!("node n {:?}", NodeChange::Updated(difference)))).await;
    store.create(pod("p", "n")).unwrap();
    until(|| books.said("pod p on `n` Running")).await;
    store.delete("Pod", "default", "p").unwrap();
    until(|| books.said("pod p on `n` Runninggone")).await;
    store.delete("Node", "", "n").unwrap();
    until(|| books.said("node n Removed")).await;
    until(|| books.agree(store)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_vanished_between_watches_is_reported_gone_with_its_node() {
    let books = Arc::new(Books::default());
    let world = World::start(options(), Some(books.clone())).await;
    let store = world.store();
    store.create(node("n")).unwrap();
    for (name, node) in [("bound", "n"), ("waiting", "")] {
        store.create(pod(name, node)).unwrap();
    }
    let mut odd = pod("odd", "");
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("lots");
    store.create(odd).unwrap();
    world.ready().await;
    until(|| books.agree(store)).await;
    let faults = world.api.faults();
    faults.only("/api/v1/pods");
    faults.refuse(1.0, 503);
    faults.cut_now();
    // Until a request was refused, the watch may still be open, and would tell of the deletions.
    until(|| faults.done().get("refuse").map(drop).ok_or("no request was refused")).await;
    for name in ["bound", "waiting", "odd"] {
        store.delete("Pod", "default", name).unwrap();
    }
    store.compact();
    faults.none();
    until(|| books.said("pod bound on `n` gone")).await;
    until(|| books.said("pod waiting on `` gone")).await;
    until(|| books.said("pod odd on `` gone")).await;
    until(|| books.agree(store)).await;
}

/// S-DRA-128
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_changed_between_watches_are_compared_with_what_was_known() {
    let books = Arc::new(Books::default());
    let world = World::start(options(), Some(books.clone())).await;
    let store = world.store();
    let claim = |name: &str, device: &str| {
        let result = json!({"request": "r", "driver": "x", "pool": "p", "device": device});
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "default", "name": name},
            "status": {"allocation": {"devices": {"results": [result]}}}})
    };
    let taken: Vec<_> = ["gone", "freed", "moved", "kept"]
        .into_iter()
        .map(|name| store.create(claim(name, "a")).unwrap())
        .collect();
    world.ready().await;
    for claim in &taken {
        let name = claim["metadata"]["name"].as_str().unwrap();
        until(|| books.said(&format!("claim {name} frees false helps true"))).await;
    }
    let faults = world.api.faults();
    faults.only("/apis/resource.k8s.io/v1/resourceclaims");
    faults.refuse(1.0, 503);
    faults.cut_now();
    until(|| faults.done().get("refuse").map(drop).ok_or("no request was refused")).await;
    store.delete("ResourceClaim", "default", "gone").unwrap();
    let (mut freed, mut moved) = (taken[1].clone(), taken[2].clone());
    freed["status"] = json!({});
    moved["status"] = claim("moved", "b")["status"].clone();
    store.replace(freed).unwrap();
    store.replace(moved).unwrap();
    store.compact();
    faults.none();
    until(|| books.said("claim gone frees true helps false")).await;
    until(|| books.said("claim freed frees true helps true")).await;
    until(|| books.said("claim moved frees true helps true")).await;
    let of_kept = books
        .inner
        .lock()
        .unwrap()
        .said
        .iter()
        .filter(|line| line.starts_with("claim kept"))
        .count();
    assert_eq!(of_kept, 1, "the list says of it what was known");
}
