//! Bind with a fake API server: the first request binds the pod, immediately in the snapshot and once in the API
//! server.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::PodView;
use berth_fake_apiserver::{FakeApiServer, Options};
use berth_server::feed::kube::{KubeFeed, Pace};
use berth_server::ledger::EtcdOptions;
use berth_server::runtime::{Server, ServerOptions};
use berth_testing::etcd::Etcd;
use berth_testing::ports::free_address;
use serde_json::{Value, json};

use super::client::{Reply, post};
use super::world::{self, node, pod};

/// A server fed by a fake API server with two nodes.
struct Bound {
    api: Arc<FakeApiServer>,
    server: Server,
    _feed: KubeFeed,
}

async fn start(pods: &[&str]) -> Bound {
    start_with(world::options(), pods).await
}

async fn start_with(options: ServerOptions, pods: &[&str]) -> Bound {
    let api = FakeApiServer::start(Options::default()).await.unwrap();
    let create = |mut object: Value, kind: &str| {
        object["apiVersion"] = "v1".into();
        object["kind"] = kind.into();
        api.store().create(object).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    };
    create(json!({"metadata": {"name": "default"}}), "Namespace");
    ["n0", "n1"].iter().for_each(|name| create(node(name, "4"), "Node"));
    pods.iter().for_each(|name| create(pod(name, "1"), "Pod"));
    fed_by(Arc::new(api), options, pods.len()).await
}

/// A server fed by an API server that has so many pods.
async fn fed_by(api: Arc<FakeApiServer>, options: ServerOptions, n_pods: usize) -> Bound {
    let config = kube::Config::new(api.url().parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let server = Server::start(options).await.unwrap();
    let feed = server.start_kube_feed(Pace::default(), client, None);
    let is_fed = || {
        let snapshot = server.cluster().snapshot();
        server.freshness().check_decidable().is_ok() && snapshot.n_pending() == n_pods
    };
    eventually("the feed has everything", is_fed).await;
    Bound { api, server, _feed: feed }
}

async fn eventually(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came true: {what}");
}

impl Bound {
    fn uid(&self, name: &str) -> String {
        let pod = self.api.store().get("Pod", "default", name).unwrap();
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    fn request(&self, name: &str, node: &str) -> String {
        let (namespace, uid) = ("default", self.uid(name));
        json!({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node}).to_string()
    }

    async fn bind(&self, name: &str, node: &str) -> Reply {
        post(self.server.http_address(), "bind", self.request(name, node).as_bytes()).await
    }

    /// Pods on nodes in the snapshot: name, node, and whether the pod is only assumed.
    fn pods(&self) -> Vec<(String, String, bool)> {
        let view =
            |view: PodView| (view.pod.key().name.to_string(), view.node.to_string(), view.assumed);
        self.server.cluster().snapshot().pods().into_iter().map(view).collect()
    }

    fn on(&self, name: &str) -> Option<String> {
        let pod = self.api.store().get("Pod", "default", name).unwrap();
        pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned)
    }
}

/// Access to the port of probes and metrics must not be enough to bind pods with Berth's rights.
#[tokio::test]
async fn a_server_binds_nothing_unless_it_is_configured_to() {
    let world = start_with(ServerOptions::default(), &["p"]).await;
    let reply = world.bind("p", "n1").await;
    assert_eq!(reply.status, 200);
    let error = reply.error();
    assert!(error.contains("`extender: {bind: true}`"), "{error}");
    assert_eq!(
        (world.api.store().bindings().len(), world.pods(), world.on("p")),
        (0, vec![], None)
    );
}

/// S-EXT-14
#[tokio::test]
async fn a_pod_is_bound_once() {
    let world = start(&["p"]).await;
    let reply = world.bind("p", "n1").await;
    assert_eq!((reply.status, &*reply.error()), (200, ""));
    // The snapshot has the pod immediately, whether or not the feed has delivered it.
    let pods = world.pods();
    assert_eq!((&*pods[0].0, &*pods[0].1, pods.len()), ("p", "n1", 1));
    assert_eq!(world.on("p").as_deref(), Some("n1"));
    for node in ["n0", "n1"] {
        let reply = world.bind("p", node).await;
        assert_eq!(
            (reply.status, &*reply.error()),
            (200, "pod `default/p` is on node `n1` already")
        );
    }
    eventually("the feed confirms it", || world.pods()[0] == ("p".into(), "n1".into(), false))
        .await;
    assert_eq!(world.api.store().bindings().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_bind_a_pod_one_does() {
    let names: Vec<String> = (0..4).map(|i| format!("p{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = Arc::new(start(&names).await);
    world.api.faults().latency(Duration::from_millis(30));
    for name in names {
        let calls: Vec<_> = (0..12)
            .map(|i| {
                let (world, name) = (world.clone(), name.to_owned());
                tokio::spawn(async move { world.bind(&name, ["n0", "n1"][i % 2]).await.error() })
            })
            .collect();
        let mut errors = Vec::new();
        for call in calls {
            errors.push(call.await.unwrap());
        }
        let on = world.on(name).unwrap();
        assert_eq!(errors.iter().filter(|error| error.is_empty()).count(), 1, "{errors:?}");
        let expected = format!("pod `default/{name}` is on node `{on}` already");
        assert!(errors.iter().all(|error| error.is_empty() || *error == expected), "{errors:?}");
    }
    assert_eq!(world.api.store().bindings().len(), 4);
}

/// A binding that the API server refuses takes no room, and the pod stays pending.
#[tokio::test]
async fn a_refused_binding_is_taken_back() {
    let world = start(&["p"]).await;
    world.api.faults().only("binding");
    world.api.faults().refuse(1.0, 500);
    let error = world.bind("p", "n0").await.error();
    assert!(error.starts_with("pod `default/p` was not bound to node `n0`: "), "{error}");
    let snapshot = world.server.cluster().snapshot();
    assert_eq!((world.pods(), snapshot.n_pending(), snapshot.n_assumed()), (vec![], 1, 0));
    world.api.faults().none();
    assert_eq!(world.bind("p", "n0").await.error(), "");
    assert_eq!(world.on("p").as_deref(), Some("n0"));
}

/// A lost answer does not fail the bind, because Berth reads the pod.
#[tokio::test]
async fn a_lost_answer_is_looked_up() {
    let world = start(&["p"]).await;
    world.api.faults().only("binding");
    world.api.faults().lose_answer(1.0);
    assert_eq!(world.bind("p", "n0").await.error(), "");
    assert_eq!((world.on("p").as_deref(), world.pods()[0].1.as_str()), (Some("n0"), "n0"));
    assert_eq!(world.api.store().bindings().len(), 1);
}

/// A bind is completed even if its caller gives up.
#[tokio::test]
async fn a_caller_that_leaves_is_carried_out() {
    let world = start(&["p"]).await;
    world.api.faults().latency(Duration::from_millis(200));
    let asking = world.bind("p", "n1");
    assert!(tokio::time::timeout(Duration::from_millis(60), asking).await.is_err());
    eventually("it is bound", || world.on("p").is_some()).await;
    eventually("the snapshot has it", || world.pods() == [("p".into(), "n1".into(), false)]).await;
}

#[tokio::test]
async fn what_cannot_be_bound_says_why() {
    let world = start(&["p"]).await;
    assert_eq!(world.bind("p", "ghost").await.error(), "no node is called `ghost`");
    let other = json!({"PodName": "p", "PodNamespace": "default", "PodUID": "other", "Node": "n0"});
    let address = world.server.http_address();
    let error = post(address, "bind", other.to_string().as_bytes()).await.error();
    assert_eq!(error, format!("pod `default/p` has uid `{}`, not `other`", world.uid("p")));
    let gone = json!({"PodName": "gone", "PodNamespace": "default", "PodUID": "u", "Node": "n0"});
    let error = post(address, "bind", gone.to_string().as_bytes()).await.error();
    assert_eq!(error, "pod `default/gone` was not bound to node `n0`: the pod is gone");
    assert_eq!((world.api.store().bindings().len(), world.pods()), (0, vec![]));
}

/// A server without a connection to an API server binds nothing, and its error says what to do.
#[tokio::test]
async fn without_an_api_server_nothing_is_bound() {
    let server = world::with(&[node("n0", "4")], &[pod("p", "1")]).await;
    let request =
        json!({"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n0"});
    let reply = post(server.http_address(), "bind", request.to_string().as_bytes()).await;
    assert!(reply.error().contains("start it with `--kube`, or leave `bindVerb` out"));
    assert_eq!(server.cluster().snapshot().n_pending(), 1);
}

/// A bind may arrive before the feed has the pod: the pod of the filter call is used.
#[tokio::test]
async fn a_pod_that_the_feed_lacks_takes_the_room_of_its_filter_call() {
    let world = start(&[]).await;
    world.api.faults().only("watch");
    world.api.faults().stall(true);
    let mut object = pod("late", "3");
    object["apiVersion"] = "v1".into();
    object["kind"] = "Pod".into();
    let created = world.api.store().create(object).unwrap();
    let request = json!({"Pod": created, "NodeNames": ["n0", "n1"]}).to_string();
    let address = world.server.http_address();
    let answer = post(address, "filter", request.as_bytes()).await.json();
    assert_eq!(answer["NodeNames"], json!(["n0", "n1"]));
    assert_eq!(world.bind("late", "n0").await.error(), "");
    assert_eq!(world.pods()[0].1, "n0");
    let next = json!({"Pod": pod("next", "3"), "NodeNames": ["n0", "n1"]}).to_string();
    let answer = post(address, "filter", next.as_bytes()).await.json();
    assert_eq!(
        (&answer["NodeNames"], &answer["FailedNodes"]),
        (&json!(["n1"]), &json!({"n0": "Insufficient cpu"}))
    );
}

/// Options of a replica.
fn replica(etcd: &Etcd, name: &str) -> ServerOptions {
    let grpc_address = free_address();
    let (endpoints, address) = (etcd.endpoints(), format!("http://{grpc_address}"));
    let etcd = EtcdOptions { endpoints, name: name.to_owned(), address, ..EtcdOptions::default() };
    ServerOptions { grpc_address, etcd: Some(etcd), ..world::options() }
}

/// Each node has room for four of the pods.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_bind_no_two_pods_to_the_same_room() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let names: Vec<String> = (0..12).map(|i| format!("p{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let one = Arc::new(start_with(replica(&etcd, "one"), &names).await);
    let other = fed_by(one.api.clone(), replica(&etcd, "other"), names.len()).await;
    let replicas = [one.clone(), Arc::new(other)];
    // Refused until one of them commits.
    for _ in 0..1000 {
        if replicas[0].bind(names[0], "n0").await.error().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    one.api.faults().latency(Duration::from_millis(30));
    let calls: Vec<_> = (1..names.len())
        .map(|i| {
            let (replica, name) = (replicas[i % 2].clone(), names[i].to_owned());
            tokio::spawn(async move { replica.bind(&name, "n0").await.error() })
        })
        .collect();
    let mut refused = Vec::new();
    for call in calls {
        let error = call.await.unwrap();
        if !error.is_empty() {
            refused.push(error);
        }
    }
    assert_eq!((refused.len(), one.api.store().bindings().len()), (8, 4), "{refused:?}");
    assert!(refused.iter().all(|error| error.contains("Insufficient cpu")), "{refused:?}");
}
