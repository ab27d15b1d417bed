//! Feed: readiness, staleness, refused objects, permissions, and other feeders.

use std::time::Duration;

use berth_engine::{Delta, PlaceRequest, Policy, TieBreak};
use berth_fake_apiserver::Options;
use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::{ApplyRequest, GetClusterRequest};
use serde_json::json;
use tonic::Code;

use crate::kube::compare::{holds, stored};
use crate::kube::world::{World, node, options, pod, until};
use crate::probe::readiness;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_ready_once_every_kind_was_listed() {
    let api = berth_fake_apiserver::FakeApiServer::start(options()).await.unwrap();
    api.faults().only("/poddisruptionbudgets");
    api.faults().refuse(1.0, 503);
    api.store().create(node("n")).unwrap();
    let (server, feed) = crate::kube::world::fed_by(&api.kubeconfig(), None).await;
    let world = World { api, server, feed };
    until(|| match world.server.cluster().snapshot().n_nodes() {
        1 => Ok(()),
        n => Err(n),
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!world.server.freshness().is_complete());
    let answer = world.http("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("waiting for PodDisruptionBudget"), "{answer}");
    assert!(world.server.freshness().check_decidable().is_err());
    world.api.faults().none();
    world.ready().await;
    let answer = world.http("/readyz?verbose").await;
    assert!(answer.contains("[+]feed ok: the API server was last heard of "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn staleness_is_measured_and_shown() {
    let world = World::start(options(), None).await;
    world.ready().await;
    let uri = format!("http://{}", world.server.grpc_address());
    let mut client = ClusterServiceClient::connect(uri).await.unwrap();
    let mut staleness = async || {
        let answer = client.get_cluster(GetClusterRequest::default()).await.unwrap();
        answer.into_inner().staleness_ms.unwrap()
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(staleness().await < 400, "bookmarks count as signs of life");
    world.api.faults().only("/pods");
    world.api.faults().stall(true);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert!(staleness().await > 700, "one silent kind is enough");
    let metrics = world.http("/metrics").await;
    assert!(metrics.contains("berth_feed_staleness_seconds{kind=\"Pod\"} "), "{metrics}");
    let answer = world.http("/readyz?verbose").await;
    assert!(answer.contains("HTTP/1.1 200") && answer.contains("about Pod"), "{answer}");
    world.api.faults().none();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(staleness().await < 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_may_feed() {
    let world = World::start(options(), None).await;
    world.ready().await;
    let uri = format!("http://{}", world.server.grpc_address());
    let mut client = ClusterServiceClient::connect(uri).await.unwrap();
    let error = client.apply(ApplyRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains("`--kube`"), "{}", error.message());
    let error = client.sync(tokio_stream::iter([])).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_pod_costs_no_other_and_keeps_its_last_good_facts() {
    let world = World::start(options(), None).await;
    let store = world.store();
    store.create(node("n")).unwrap();
    let mut known = store.create(pod("known", "n")).unwrap();
    let mut bad = pod("bad", "n");
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("lots");
    store.create(bad).unwrap();
    store.create(pod("good", "n")).unwrap();
    world.ready().await;
    let pods = || -> Vec<String> {
        let pods = world.server.cluster().known_pods(|_, _| true);
        pods.iter().map(|pod| pod.key().name.to_string()).collect()
    };
    let expect = |expected: &'static [&'static str]| {
        let pods = &pods;
        move || if pods() == *expected { Ok(()) } else { Err(format!("{:?}", pods())) }
    };
    until(expect(&["good", "known"])).await;
    known["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("-1");
    store.replace(known).unwrap();
    store.create(pod("later", "n")).unwrap();
    let expect = |expected: &'static [&'static str]| {
        let pods = &pods;
        move || if pods() == *expected { Ok(()) } else { Err(format!("{:?}", pods())) }
    };
    until(expect(&["good", "known", "later"])).await;
    let answer = world.http("/metrics").await;
    assert!(answer.contains("berth_feed_refused_total{kind=\"Pod\"} 2"), "{answer}");
    // When it is listed again, it is refused again, and its last good facts are kept again.
    store.compact();
    world.api.faults().gone(1.0);
    store.create(pod("latest", "n")).unwrap();
    until(expect(&["good", "known", "later", "latest"])).await;
    world.api.faults().none();
    store.delete("Pod", "default", "known").unwrap();
    until(expect(&["good", "later", "latest"])).await;
    assert!(world.server.freshness().check_decidable().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_named() {
    let api = berth_fake_apiserver::FakeApiServer::start(options()).await.unwrap();
    api.faults().only("/csinodes");
    api.faults().refuse(1.0, 403);
    let (server, feed) = crate::kube::world::fed_by(&api.kubeconfig(), None).await;
    let world = World { api, server, feed };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let answer = world.http("/readyz").await;
    assert!(
        answer.contains(
            "cannot list CSINode: the API server answered 403: forbidden: a configured fault; deploy/rbac/reader.yaml \
             has the rights that are needed"
        ),
        "{answer}"
    );
    world.api.faults().none();
    world.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_out_of_sight_makes_the_server_unready_until_it_is_seen_again() {
    let world = World::start(options(), None).await;
    world.ready().await;
    assert!(world.http("/readyz").await.starts_with("HTTP/1.1 200"));
    for (status, message) in [(403, "answered 403"), (401, "credentials"), (503, "answered 503")] {
        let faults = world.api.faults();
        faults.only("/pods");
        faults.refuse(1.0, status);
        faults.cut_now();
        let answer = readiness(&world.server, false).await;
        assert!(answer.contains("cannot watch Pod: the API server "), "{answer}");
        assert!(answer.contains(message), "{answer}");
        faults.none();
        readiness(&world.server, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_the_server_does_not_have_is_not_waited_for() {
    let api = berth_fake_apiserver::FakeApiServer::start(options()).await.unwrap();
    api.faults().only("/csistoragecapacities");
    api.faults().refuse(1.0, 404);
    let (server, feed) = crate::kube::world::fed_by(&api.kubeconfig(), None).await;
    let world = World { api, server, feed };
    world.ready().await;
    let capacity = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": "c", "namespace": "default"}, "storageClassName": "s", "capacity": "1Gi",
    });
    world.store().create(capacity).unwrap();
    world.api.faults().none();
    until(|| holds(world.server.cluster(), &stored(world.store()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_core_kind_is_waited_for() {
    let api = berth_fake_apiserver::FakeApiServer::start(options()).await.unwrap();
    api.faults().only("/services");
    api.faults().refuse(1.0, 404);
    let (server, feed) = crate::kube::world::fed_by(&api.kubeconfig(), None).await;
    let world = World { api, server, feed };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let answer = world.http("/readyz").await;
    assert!(answer.contains("cannot list Service: the API server answered 404"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assumed_pod_stays_until_the_server_says_otherwise() {
    let world = World::start(Options { streaming_lists: false, ..options() }, None).await;
    let store = world.store();
    store.create(node("n")).unwrap();
    for name in ["kept", "deleted"] {
        store.create(pod(name, "")).unwrap();
    }
    world.ready().await;
    let cluster = world.server.cluster();
    until(|| holds(cluster, &stored(store))).await;
    for pod in cluster.known_pods(|_, _| true) {
        let policy = Policy::default();
        let tie_break = TieBreak::Lexicographic;
        cluster.assume(&PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None }).unwrap();
    }
    // Deleted while every watch is stalled, so that only a list can show it.
    world.api.faults().refuse(1.0, 503);
    world.api.faults().cut_now();
    store.delete("Pod", "default", "deleted").unwrap();
    store.compact();
    world.api.faults().none();
    let assumed = || cluster.known_pods(|_, is_assumed| is_assumed);
    until(|| match &assumed()[..] {
        [pod] if &*pod.key().name == "kept" => Ok(()),
        pods => Err(format!("{pods:?}")),
    })
    .await;
    let mut bound = store.get("Pod", "default", "kept").unwrap();
    bound["spec"]["nodeName"] = json!("n");
    store.replace(bound).unwrap();
    until(|| holds(cluster, &stored(store))).await;
    assert_eq!(cluster.snapshot().n_assumed(), 0);
}

/// A bound pod is on another node in the API server than in Berth: a list corrects it, and no contradiction is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_contradiction_is_settled_by_a_list() {
    let world = World::start(options(), None).await;
    let store = world.store();
    for name in ["n", "m"] {
        store.create(node(name)).unwrap();
    }
    let mut moved = store.create(pod("p", "n")).unwrap();
    world.ready().await;
    let cluster = world.server.cluster();
    until(|| holds(cluster, &stored(store))).await;
    moved["spec"]["nodeName"] = json!("m");
    store.replace(moved).unwrap();
    until(|| holds(cluster, &stored(store))).await;
    until(|| match cluster.snapshot().n_contradictions() {
        0 => Ok(()),
        n => Err(n),
    })
    .await;
    let answer = world.http("/metrics").await;
    assert!(
        answer.contains("berth_feed_relists_total{kind=\"Pod\",reason=\"contradicted\"} 1"),
        "{answer}"
    );
}

/// The engine compares the versions of a pod too: a feed never brings back an old version.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_feed_leaves_the_cluster_as_it_is() {
    let World { api, server, feed } = World::start(options(), None).await;
    api.store().create(node("n")).unwrap();
    until(|| holds(server.cluster(), &stored(api.store()))).await;
    drop(feed);
    tokio::time::sleep(Duration::from_millis(100)).await;
    api.store().create(node("m")).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.cluster().snapshot().n_nodes(), 1);
    let applied = server.cluster().apply(vec![Delta::DeleteNode("n".into())]);
    assert_eq!(applied.rejected, []);
}
