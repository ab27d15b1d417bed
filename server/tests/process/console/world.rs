//! A small cluster to look at: nodes in three zones, pods of workloads, pods that wait for different reasons, and a record of
//! decisions.

use berth_proto::berth_v1::{BatchEntry, PlaceBatchRequest, PlaceMode};
use berth_testing::object;

use crate::reservations::Client;
use crate::served::{Served, serve};

/// The pod that waits because no node is large enough.
pub(crate) const WAITING: &str = "batch/huge-0";

pub(crate) struct World {
    pub(crate) served: Served,
    _directory: tempfile::TempDir,
}

impl World {
    pub(crate) async fn start() -> World {
        let directory = tempfile::tempdir().unwrap();
        let cluster = directory.path().join("cluster.json");
        std::fs::write(&cluster, cluster_file()).unwrap();
        let journal = directory.path().join("journal");
        let served =
            Served::start(serve().arg("--cluster").arg(&cluster).arg("--journal").arg(&journal));
        served.wait_for("loaded");
        decide(&served).await;
        World { served, _directory: directory }
    }

    pub(crate) fn url(&self, view: &str) -> String {
        format!("http://{}/{view}", self.served.http)
    }
}

/// Has some pods decided.
async fn decide(served: &Served) {
    let mut client = Client::connect(served.url.clone()).await.unwrap();
    let entry = |text: &str, replicas| BatchEntry { pod: Some(object::pod(text).into()), replicas };
    let entries = vec![
        entry("api cpu=500m memory=1Gi namespace=shop label:app=api", 9),
        entry("large cpu=64 namespace=shop", 1),
    ];
    let mode = PlaceMode::Assume.into();
    let request = PlaceBatchRequest { entries, mode, ..Default::default() };
    client.place_batch(request).await.unwrap();
}

fn cluster_file() -> String {
    let mut items = Vec::new();
    for i in 0..12 {
        let (zone, pool) = (["a", "b", "c"][i % 3], if i < 9 { "general" } else { "large" });
        let cpu = if i < 9 { 8 } else { 32 };
        let text = format!(
            "node-{i:02} cpu={cpu} memory=64Gi pods=110 label:topology.kubernetes.io/zone={zone} label:pool={pool}"
        );
        let mut node = serde_json::to_value(object::node(&text)).unwrap();
        node["kind"] = "Node".into();
        node["spec"]["unschedulable"] = (i == 4).into();
        items.push(node);
    }
    for i in 0..48 {
        let node = i % 12;
        let text = format!(
            "web-{i} namespace=shop cpu=250m memory=512Mi node=node-{node:02} label:app=web"
        );
        items.push(pod(&text, "web"));
    }
    for i in 0..3 {
        items.push(pod(
            &format!("huge-{i} namespace=batch cpu=48 memory=8Gi label:app=huge"),
            "huge",
        ));
    }
    let mut lost = pod("lost-0 namespace=batch cpu=1 label:app=lost", "lost");
    lost["spec"]["nodeSelector"] = serde_json::json!({"pool": "gone"});
    items.push(lost);
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// A pod of a ReplicaSet.
fn pod(text: &str, owner: &str) -> serde_json::Value {
    let mut pod = serde_json::to_value(object::pod(text)).unwrap();
    pod["kind"] = "Pod".into();
    pod["metadata"]["ownerReferences"] = serde_json::json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true},
    ]);
    pod
}
