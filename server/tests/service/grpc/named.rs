//! Questions by the key of a pod, and `Watch`.

use berth_proto::berth_v1::autoscaler_service_client::AutoscalerServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::watch_response::Event;
use berth_proto::berth_v1::{
    ExplainPodRequest, ExplainRequest, GetPodRequest, HeadroomRequest, ListCandidatesRequest,
    ListPendingRequest, PlaceRequest, PreemptRequest, WatchRequest,
};
use berth_proto::{Time, core_v1};
use tonic::Code;

use crate::grpc::world::{World, bound, key, outcome, pod};

/// Two nodes of two cores; `p` runs on `n0`, `big` fits nowhere.
async fn world() -> World {
    let mut world = World::start().await;
    world.nodes(2, 2).await;
    let changes = [bound("p", "2", "n0"), pod("big", "8")].map(Change::UpsertPod);
    assert_eq!(world.apply(changes).await.rejections, []);
    world
}

#[tokio::test]
async fn a_pod_is_asked_about_by_its_key() {
    let mut world = world().await;
    let (named, given) = (Some(key("p")), Some(pod("p", "1")));
    let request = ExplainRequest { key: named.clone(), ..Default::default() };
    let answer = world.placement.explain(request).await.unwrap().into_inner();
    assert!(outcome(answer.decision.as_ref().unwrap()).is_ok());
    let feasible = answer.nodes.iter().filter(|node| node.feasible).count();
    assert_eq!(feasible, 2, "the pod takes no room of its own node");
    let request = PreemptRequest { key: Some(key("big")), ..Default::default() };
    let answer = world.preemption.preempt(request).await.unwrap().into_inner();
    assert!(outcome(answer.decision.as_ref().unwrap()).is_err());
    let request = ListCandidatesRequest { key: Some(key("big")), ..Default::default() };
    assert!(world.preemption.list_candidates(request).await.is_ok());
    let mut autoscaler = AutoscalerServiceClient::new(world.channel.clone());
    let request = HeadroomRequest { key: named.clone(), ..Default::default() };
    let answer = autoscaler.headroom(request).await.unwrap().into_inner();
    assert_eq!(answer.n_fit, 1, "the pod stays on its node");
    let mut lifecycle = LifecycleServiceClient::new(world.channel.clone());
    let now = Some(Time::from_unix_seconds(1_000));
    let request = ExplainPodRequest { key: named.clone(), now, ..Default::default() };
    let answer = lifecycle.explain_pod(request).await.unwrap().into_inner();
    let taken = answer.evaluation.unwrap().taken.unwrap();
    assert_eq!((taken.node.as_str(), taken.pod.unwrap().name.as_str()), ("n0", "p"));
    let request = GetPodRequest { key: named.clone(), ..Default::default() };
    let found = world.cluster.get_pod(request).await.unwrap().into_inner();
    let node = |pod: core_v1::Pod| pod.spec.unwrap().node_name;
    assert_eq!((node(found.pod.unwrap()), found.node.is_some()), ("n0".to_owned(), true));

    let both = ExplainRequest { pod: given, key: named, ..Default::default() };
    for (request, code) in [
        (both, Code::InvalidArgument),
        (ExplainRequest::default(), Code::InvalidArgument),
        (ExplainRequest { key: Some(key("nobody")), ..Default::default() }, Code::NotFound),
    ] {
        let status = world.placement.explain(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        if code == Code::InvalidArgument {
            assert!(status.message().contains("exactly one of `pod` and `key`"), "{status:?}");
        }
    }
}

#[tokio::test]
async fn watching_tells_of_decisions_and_of_pending_pods() {
    let mut world = world().await;
    let pending = world.cluster.list_pending(ListPendingRequest::default()).await.unwrap();
    assert_eq!(pending.into_inner().groups[0].cause, "Insufficient cpu");
    let nothing = world.cluster.watch(WatchRequest::default()).await.unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);
    let request = WatchRequest { decisions: true, pending: true, namespace: String::new() };
    let mut events = world.cluster.watch(request).await.unwrap().into_inner();
    let Some(Event::Pending(list)) = events.message().await.unwrap().unwrap().event else {
        panic!("the pending pods come first");
    };
    assert_eq!((list.n_pods, list.groups.len()), (1, 1));
    let request = PlaceRequest { pod: Some(pod("q", "1").into()), ..Default::default() };
    world.placement.place(request).await.unwrap();
    let Some(Event::Decision(told)) = events.message().await.unwrap().unwrap().event else {
        panic!("no decision");
    };
    assert_eq!(told.pod.unwrap().name, "q");
    world.apply([Change::UpsertPod(pod("huge", "9"))]).await;
    let Some(Event::Pending(list)) = events.message().await.unwrap().unwrap().event else {
        panic!("no pending pods");
    };
    assert_eq!((list.n_pods, list.groups.len()), (2, 1));
}
