//! Sessions are limited in number, in changes and in time; a session that is not open is not found.

use std::time::Duration;

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ExplainRequest, ListCandidatesRequest, ListNodesRequest, ListPodsRequest, PlaceBatchRequest,
    PlaceMode, PreemptRequest,
};
use berth_server::runtime::{Limits, ServerOptions, SessionLimits};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::grpc::preemption::{prioritised, running};
use crate::grpc::probes::get;
use crate::grpc::world::{World, entry, eventually, node, options, pod, violation};

async fn world_with(sessions: SessionLimits) -> World {
    let limits = Limits { sessions, ..Limits::default() };
    let mut world = World::with(ServerOptions { limits, ..options() }).await;
    world.nodes(2, 4).await;
    world
}

/// Checks that methods with a session id return `NOT_FOUND`.
async fn check_gone(world: &mut World, id: &str) {
    let id = || id.to_owned();
    let some = || Some(pod("p", "1"));
    let (cluster, placement) = (&mut world.cluster.clone(), &mut world.placement.clone());
    let preemption = &mut world.preemption.clone();
    let nodes = ListNodesRequest { session_id: id(), ..Default::default() };
    let pods = ListPodsRequest { session_id: id(), ..Default::default() };
    let batch = PlaceBatchRequest { session_id: id(), ..Default::default() };
    let explain = ExplainRequest { pod: some(), session_id: id(), ..Default::default() };
    let preempt = PreemptRequest { pod: some(), session_id: id(), ..Default::default() };
    let candidates = ListCandidatesRequest { pod: some(), session_id: id(), ..Default::default() };
    let statuses: Vec<Status> = vec![
        world.counts_in(&id()).await.unwrap_err(),
        cluster.list_nodes(nodes).await.unwrap_err(),
        cluster.list_pods(pods).await.unwrap_err(),
        world.place_in(&id(), pod("p", "1"), PlaceMode::DryRun).await.unwrap_err(),
        placement.place_batch(batch).await.unwrap_err(),
        placement.explain(explain).await.unwrap_err(),
        preemption.preempt(preempt).await.unwrap_err(),
        preemption.list_candidates(candidates).await.unwrap_err(),
        world.suppose(&id(), []).await.unwrap_err(),
        world.commit(&id()).await.unwrap_err(),
        world.close(&id()).await.unwrap_err(),
    ];
    for (index, status) in statuses.iter().enumerate() {
        assert_eq!(status.code(), Code::NotFound, "{index}: {status:?}");
        let resource = status.get_error_details().resource_info().cloned().unwrap();
        assert_eq!((resource.resource_type.as_str(), resource.resource_name), ("Session", id()));
    }
}

#[tokio::test]
async fn what_is_not_open_is_not_found() {
    let mut world = world_with(SessionLimits::default()).await;
    check_gone(&mut world, "00112233445566778899aabbccddeeff").await;
    let id = world.opened().await;
    world.close(&id).await.unwrap();
    check_gone(&mut world, &id).await;
    let long = "x".repeat(10_000);
    let status = world.commit(&long).await.unwrap_err();
    assert!(status.code() == Code::NotFound && status.message().len() < 1_000, "{status:?}");
    for status in [
        world.suppose("", []).await.unwrap_err(),
        world.commit("").await.unwrap_err(),
        world.close("").await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(violation(&status), ("session_id".into(), "must be set".into()));
    }
}

#[tokio::test]
async fn nothing_is_forked_before_a_feed_has_spoken() {
    let mut world = World::start().await;
    let status = world.open().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "no feed has delivered a cluster yet")
    );
}

#[tokio::test]
async fn an_idle_session_expires_although_nobody_asks_for_it() {
    let idle_timeout = Duration::from_millis(900);
    let mut world = world_with(SessionLimits { idle_timeout, ..SessionLimits::default() }).await;
    let opened = world.open().await.unwrap();
    assert_eq!(opened.idle_timeout_ms, 900);
    let id = opened.session_id;
    // A call restarts the idle time.
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        world.counts_in(&id).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    check_gone(&mut world, &id).await;
    let http = world.server.http_address();
    eventually("the session is dropped", async || {
        let (_, text) = get(http, "/metrics").await;
        text.contains("berth_sessions 0\n")
            && text.contains("berth_sessions_ended_total{reason=\"expired\"} 1\n")
    })
    .await;
}

#[tokio::test]
async fn sessions_are_bounded_in_number() {
    let mut world = world_with(SessionLimits { max_sessions: 2, ..SessionLimits::default() }).await;
    let first = world.opened().await;
    let second = world.opened().await;
    assert_ne!(first, second);
    let status = world.open().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, "session limit of 2 reached")
    );
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["max_sessions"], "2");
    world.close(&first).await.unwrap();
    world.opened().await;
    let (_, text) = get(world.server.http_address(), "/metrics").await;
    assert!(text.contains("berth_sessions 2\n"), "{text}");
}

#[tokio::test]
async fn sessions_are_bounded_in_changes() {
    let mut world = world_with(SessionLimits { max_changes: 6, ..SessionLimits::default() }).await;
    let opened = world.open().await.unwrap();
    assert_eq!(opened.max_changes, 6);
    let id = opened.session_id;
    let check = |status: Status| {
        assert_eq!(
            (status.code(), status.message()),
            (Code::ResourceExhausted, "the session would hold more than 6 changes")
        );
        let info = status.get_error_details().error_info().cloned().unwrap();
        assert_eq!(
            (info.reason.as_str(), info.metadata["max_changes"].as_str()),
            ("SESSION_TOO_LARGE", "6")
        );
    };
    let nodes = |n: usize| (0..n).map(|i| Change::UpsertNode(node(&format!("x{i}"), "0")));
    check(world.suppose(&id, nodes(7)).await.unwrap_err());
    assert_eq!(world.counts_in(&id).await.unwrap().n_nodes, 2, "nothing was applied");
    // Refused objects, a pod that fits on no node and a dry run do not count as changes.
    let refused = (0..6).map(|_| Change::DeleteNode(String::new()));
    assert_eq!(world.suppose(&id, refused).await.unwrap().rejections.len(), 6);
    world.place_in(&id, pod("big", "9"), PlaceMode::Assume).await.unwrap();
    world.place_in(&id, pod("dry", "1"), PlaceMode::DryRun).await.unwrap();
    world.suppose(&id, [running("low", "4", 1, "n0"), running("mid", "3", 2, "n1")]).await.unwrap();
    let batch = |replicas| PlaceBatchRequest {
        entries: vec![entry(pod("web", "1"), replicas)],
        mode: PlaceMode::Assume as i32,
        session_id: id.clone(),
        ..PlaceBatchRequest::default()
    };
    check(world.placement.place_batch(batch(5)).await.unwrap_err());
    // One of four pods fits; the share of the others is free again.
    world.placement.place_batch(batch(4)).await.unwrap();
    assert_eq!(world.counts_in(&id).await.unwrap().n_assumed_pods, 1);
    let preempt = |name: &str| PreemptRequest {
        pod: Some(prioritised(name, "3", 10)),
        nominate: true,
        session_id: id.clone(),
        ..PreemptRequest::default()
    };
    world.preemption.preempt(preempt("first")).await.unwrap();
    world.suppose(&id, nodes(2)).await.unwrap();
    check(world.preemption.preempt(preempt("second")).await.unwrap_err());
    check(world.place_in(&id, pod("tiny", "0"), PlaceMode::Assume).await.unwrap_err());
    world.place_in(&id, pod("tiny", "0"), PlaceMode::DryRun).await.unwrap();
    world.place(pod("tiny", "0"), PlaceMode::Assume).await.unwrap();
}

/// A placement is undone if the client does not get its response, in a session as in the live cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_a_batch_in_a_session_too() {
    let mut world = World::start().await;
    world.nodes(1_000, 1_000).await;
    let id = world.opened().await;
    let mut request = Request::new(PlaceBatchRequest {
        entries: vec![entry(pod("web", "1m"), 90_000)],
        mode: PlaceMode::Assume as i32,
        session_id: id.clone(),
        ..PlaceBatchRequest::default()
    });
    request.set_timeout(Duration::from_millis(30));
    let status = world.placement.place_batch(request).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    let cluster = world.cluster.clone();
    let n_assumed = async || {
        let session_id = id.clone();
        let request = berth_proto::berth_v1::GetClusterRequest { session_id };
        cluster.clone().get_cluster(request).await.unwrap().into_inner().n_assumed_pods
    };
    let mut n_calm = 0;
    for _ in 0..500 {
        n_calm = if n_assumed().await == 0 { n_calm + 1 } else { 0 };
        if n_calm == 10 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(n_calm, 10, "{} pods are still assumed", n_assumed().await);
    assert_eq!(world.commit(&id).await.unwrap().n_assumed_pods, 0);
}
