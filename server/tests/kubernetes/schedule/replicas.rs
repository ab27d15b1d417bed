//! Several `berth schedule --etcd` and callers of their API on one cluster: the one that commits binds, and nobody gets
//! room that somebody else has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{PlaceMode, PlaceRequest};
use berth_proto::core_v1;
use berth_testing::etcd::Etcd;
use serde_json::json;
use tonic::Request;

use crate::schedule::world::{Instance, World, elected, until};

const N_NODES: usize = 8;
/// CPUs of a node. Each pod, bound or reserved, takes one.
const N_CPUS: u32 = 5;
const N_PODS: usize = 20;

/// Reserves for one pod after another through these replicas, until none fits or it is told to stop; returns the nodes of
/// what was acknowledged.
async fn reserve(
    urls: Vec<String>,
    (stop, n_reserved): (Arc<AtomicBool>, Arc<AtomicUsize>),
) -> BTreeMap<String, String> {
    let mut reserved = BTreeMap::new();
    for n in 0.. {
        let name = format!("reserved-{n}");
        let pod = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")},
            "spec": {
                "schedulerName": "berth",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        });
        let pod: core_v1::Pod = serde_json::from_value(pod).unwrap();
        for attempt in n.. {
            if stop.load(Ordering::Relaxed) {
                return reserved;
            }
            let url = urls[attempt % urls.len()].clone();
            let mut request = Request::new(PlaceRequest {
                pod: Some((&pod).into()),
                mode: PlaceMode::Assume.into(),
                assume_ttl_ms: Some(0),
                ..PlaceRequest::default()
            });
            request.metadata_mut().insert("berth-request-id", name.parse().unwrap());
            // A replica that is gone, or one that does not decide yet: another one is asked under the same name.
            let answered = match PlacementServiceClient::connect(url).await {
                Ok(mut client) => client.place(request).await.ok(),
                Err(_) => None,
            };
            let Some(answered) = answered else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let decision = answered.into_inner().decision.unwrap();
            let Some(Outcome::Placement(placement)) = decision.outcome else { return reserved };
            reserved.insert(name, placement.node_name);
            n_reserved.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(30)).await;
            break;
        }
    }
    reserved
}

fn url(instance: &Instance) -> String {
    format!("http://{}", instance.server.grpc_address())
}

#[tokio::test(flavor = "multi_thread")]
async fn schedulers_and_callers_of_every_replica_never_have_the_same_room() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let world = World::new().await;
    for n in 0..N_NODES {
        world.node(&format!("n{n}"), N_CPUS);
    }
    let mut instances = Vec::new();
    for name in ["a", "b"] {
        instances.push(world.start_replica(&etcd, name, elected(name)).await);
    }
    let commits = |instance: &Instance| instance.scheduler.is_leading();
    until("one leads", || instances.iter().any(commits)).await;
    let (stop, n_reserved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let urls = instances.iter().map(url).collect();
    let reserving = tokio::spawn(reserve(urls, (stop.clone(), n_reserved.clone())));
    for n in 0..N_PODS / 2 {
        world.pod(&format!("early-{n}"), "1");
    }
    until("some are bound", || world.n_bound() >= 3).await;
    until("some is reserved", || n_reserved.load(Ordering::Relaxed) >= 3).await;
    let leader = instances.iter().position(commits).expect("one leads");
    let first = instances.remove(leader);
    assert!(!commits(&instances[0]), "one binds at a time");
    first.server.shutdown().await;
    drop(first.scheduler);
    for n in 0..N_PODS - N_PODS / 2 {
        world.pod(&format!("late-{n}"), "1");
    }
    until("the other leads", || commits(&instances[0])).await;
    until("all are bound, or wait for room", || {
        let counts = instances[0].scheduler.counts();
        world.n_bound() + counts.unschedulable >= N_PODS
    })
    .await;
    until("more is reserved", || n_reserved.load(Ordering::Relaxed) >= 8).await;
    stop.store(true, Ordering::Relaxed);
    let reserved = reserving.await.unwrap();
    world.check_bindings();
    let mut taken = BTreeMap::<String, u32>::new();
    reserved.into_values().for_each(|node| *taken.entry(node).or_default() += 1);
    for pod in world.api.store().list("Pod") {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            *taken.entry(node.to_owned()).or_default() += 1;
        }
    }
    assert!(taken.values().all(|&n| n <= N_CPUS), "{taken:?}");
}
