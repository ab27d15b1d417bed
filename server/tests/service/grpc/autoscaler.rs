//! `AutoscalerService`: its calls as a client makes them, on the live cluster and in a session.

use berth_proto::berth_v1::autoscaler_service_client::AutoscalerServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::headroom_response::Next;
use berth_proto::berth_v1::{
    ChooseScaleInRequest, Delta, FitPod, FitRequest, HeadroomRequest, SessionServiceApplyRequest,
    SessionServiceOpenRequest, fit_result,
};
use berth_proto::meta_v1::LabelSelector;
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;

use crate::grpc::probes::get;
use crate::grpc::world::{World, node, pod, pod_with, violation};

fn client(world: &World) -> AutoscalerServiceClient<Channel> {
    AutoscalerServiceClient::new(world.channel.clone()).max_decoding_message_size(64 << 20)
}

fn headroom(session_id: &str, cpu: &str) -> HeadroomRequest {
    let session_id = session_id.to_owned();
    HeadroomRequest { session_id, pod: Some(pod("web", cpu)), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headroom_of_a_session_is_what_it_supposes() {
    let mut world = World::start().await;
    world.nodes(3, 4).await;
    let mut client = client(&world);
    let session_id =
        world.session.open(SessionServiceOpenRequest {}).await.unwrap().into_inner().session_id;
    let deltas = vec![Delta { change: Some(Change::UpsertNode(node("n3", "8"))) }];
    let request =
        SessionServiceApplyRequest { session_id: session_id.clone(), deltas, ..Default::default() };
    world.session.apply(request).await.unwrap();
    let before = world.counts().await.generation;
    let live = client.headroom(headroom("", "3")).await.unwrap().into_inner();
    assert_eq!((live.n_fit, live.generation, live.nodes.len()), (3, before, 3));
    let Some(Next::Unschedulable(end)) = live.next else { panic!("{:?}", live.next) };
    assert_eq!(end.message, "0/3 nodes are available: 3 Insufficient cpu.");
    let supposed = client.headroom(headroom(&session_id, "3")).await.unwrap().into_inner();
    assert_eq!((supposed.n_fit, supposed.nodes.len()), (5, 4));
    assert_eq!(world.counts().await.generation, before, "nothing was placed");
    let status = client.headroom(headroom("gone", "3")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let status = client.headroom(HeadroomRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), violation(&status).0.as_str()), (Code::InvalidArgument, "pod"));
    let metrics = get(world.server.http_address(), "/metrics").await.1;
    let counted = "berth_place_duration_seconds_count{method=\"Headroom\"} 3";
    assert!(metrics.contains(counted), "{metrics}");
    world.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fit_answers_pod_by_pod() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let one = |name: &str, cpu: &str, replicas| FitPod {
        pod: Some(pod(name, cpu)),
        replicas,
        ..FitPod::default()
    };
    let request = FitRequest {
        pods: vec![one("a", "3", 3), FitPod::default(), one("b", "1", 0)],
        node_names: vec!["n1".to_owned(), "n0".to_owned()],
        max_rejections: 5,
        ..FitRequest::default()
    };
    let answer = client(&world).fit(request).await.unwrap().into_inner();
    let found: Vec<String> = answer
        .results
        .iter()
        .map(|result| match result.result.as_ref().unwrap() {
            fit_result::Result::Placement(placement) => placement.node_name.clone(),
            fit_result::Result::Refusal(refusal) => refusal
                .rejections
                .iter()
                .map(|node| {
                    format!("{}: {}", node.node_name, node.rejection.as_ref().unwrap().plugin)
                })
                .collect::<Vec<_>>()
                .join(", "),
            fit_result::Result::Error(error) => error.field.clone(),
        })
        .collect();
    assert_eq!(found, ["n1", "n0", "n1: NodeResourcesFit, n0: NodeResourcesFit", "pod", "n1"]);
    let huge = FitRequest { pods: vec![one("a", "3", u32::MAX)], ..FitRequest::default() };
    let status = client(&world).fit(huge).await.unwrap_err();
    assert_eq!((status.code(), violation(&status).0.as_str()), (Code::InvalidArgument, "pods"));
    world.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale_in_names_the_pods_that_go() {
    let mut world = World::start().await;
    world.nodes(2, 8).await;
    let replica = |name: &str, node: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
        let metadata = json!({"labels": {"app": "web"}, "ownerReferences": [owner]});
        let status =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let parts = json!({"metadata": metadata, "spec": {"nodeName": node}, "status": status});
        Change::UpsertPod(pod_with(name, "1", &parts))
    };
    let pods = [replica("a", "n0"), replica("b", "n1"), replica("c", "n1"), replica("d", "n1")];
    assert_eq!(world.apply(pods).await.rejections, []);
    let match_labels = [("app".to_owned(), "web".to_owned())].into();
    let selector = Some(LabelSelector { match_labels, ..Default::default() });
    let request = ChooseScaleInRequest { selector, n: 2, ..Default::default() };
    let answer = client(&world).choose_scale_in(request).await.unwrap().into_inner();
    let found: Vec<_> = answer
        .pods
        .iter()
        .map(|pod| {
            let key = pod.pod.as_ref().unwrap();
            (key.name.as_str(), pod.node_name.as_str(), pod.deletion_cost, pod.message.as_str())
        })
        .collect();
    let host = "`kubernetes.io/hostname` `n1` has";
    let messages = [3, 2].map(|n| format!("{host} {n} of them, the most"));
    assert_eq!(found, [("b", "n1", Some(-2), &*messages[0]), ("c", "n1", Some(-1), &*messages[1])]);
    let [zones, hosts] = &answer.spread[..] else { panic!("{answer:?}") };
    assert_eq!((zones.n_domains, hosts.n_domains), (0, 2));
    assert_eq!((hosts.skew_before, hosts.skew_after, answer.n_replicas), (2, 0, 4));
    world.server.shutdown().await;
}
