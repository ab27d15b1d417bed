//! Assumed pods: times to live, `Confirm`, `Extend`, `Release` and `ListAssumed`.

use std::time::Duration;

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    AssumedPod, Assumption, ConfirmRequest, ConfirmResponse, Decision, ExtendRequest, Gang,
    GetClusterRequest, ListAssumedRequest, PlaceBatchRequest, PlaceMode, PlaceRequest,
    PlaceStreamRequest, PodKey, ReleaseRequest, decision,
};
use berth_server::runtime::{Limits, ServerOptions};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::grpc::world::{
    World, bound, entry, eventually, key, limits, options, pod, result, violation,
};

const ASSUME: i32 = PlaceMode::Assume as i32;

fn assumption(decision: &Decision) -> Option<Assumption> {
    match decision.outcome.as_ref().unwrap() {
        decision::Outcome::Placement(placement) => {
            assert!(placement.assumed);
            placement.assumption
        }
        outcome => panic!("{outcome:?}"),
    }
}

/// Assumes a pod; returns its token.
async fn assume(world: &mut World, name: &str, assume_ttl_ms: Option<u64>) -> Assumption {
    let pod = Some(pod(name, "1").into());
    let request = PlaceRequest { pod, mode: ASSUME, assume_ttl_ms, ..PlaceRequest::default() };
    let answer = world.placement.place(request).await.unwrap().into_inner();
    assumption(&answer.decision.unwrap()).unwrap()
}

async fn list(world: &mut World) -> Vec<AssumedPod> {
    let request = ListAssumedRequest::default();
    world.placement.list_assumed(request).await.unwrap().into_inner().pods
}

fn with_uid(name: &str) -> PodKey {
    PodKey { uid: format!("uid-{name}"), ..key(name) }
}

#[tokio::test]
async fn a_pod_that_nobody_confirms_gives_its_room_back() {
    let mut world = World::start().await;
    world.nodes(1, 2).await;
    let short = assume(&mut world, "short", Some(300)).await;
    assert_eq!(short.time_left_ms, Some(300));
    let kept = assume(&mut world, "kept", Some(0)).await;
    assert_eq!(kept.time_left_ms, None);
    assert!(kept.token > short.token);
    let full = world.place(pod("late", "1"), PlaceMode::DryRun).await.unwrap();
    assert!(!matches!(full.outcome, Some(decision::Outcome::Placement(_))));
    let cluster = world.cluster.clone();
    eventually("the room comes back", async || {
        let counts = cluster.clone().get_cluster(GetClusterRequest::default()).await;
        counts.unwrap().into_inner().n_assumed_pods == 1
    })
    .await;
    let late = world.place(pod("late", "1"), PlaceMode::Assume).await.unwrap();
    assert_eq!(assumption(&late).unwrap().time_left_ms, Some(300_000), "the configured time");
    let listed: Vec<String> =
        list(&mut world).await.into_iter().map(|it| it.pod.unwrap().name).collect();
    assert_eq!(listed, ["kept", "late"]);
}

/// The configured time counts for requests that name none, in every way of assuming.
#[tokio::test]
async fn every_way_of_assuming_has_a_time_to_live() {
    let limits = Limits { assume_ttl: Duration::from_secs(7), ..limits() };
    let mut world = World::with(ServerOptions { limits, ..options() }).await;
    world.nodes(2, 64).await;
    let batch = |name, assume_ttl_ms, gang| PlaceBatchRequest {
        entries: vec![entry(pod(name, "1"), 3)],
        mode: ASSUME,
        assume_ttl_ms,
        gang,
        ..PlaceBatchRequest::default()
    };
    let mut tokens = Vec::new();
    for (name, ttl, gang, expected) in [
        ("batch", None, None, Some(7_000)),
        ("gang", Some(9_000), Some(Gang::default()), Some(9_000)),
        ("endless", Some(0), None, None),
    ] {
        let answer = world.placement.place_batch(batch(name, ttl, gang)).await.unwrap();
        for decided in &answer.into_inner().results {
            let assumption = assumption(result(decided).unwrap()).unwrap();
            assert_eq!(assumption.time_left_ms, expected);
            tokens.push(assumption.token);
        }
    }
    let request = PlaceStreamRequest {
        entries: vec![entry(pod("stream", "1"), 2)],
        mode: ASSUME,
        ..PlaceStreamRequest::default()
    };
    let answers = world.placement.place_stream(tokio_stream::iter([request])).await.unwrap();
    for decided in &answers.into_inner().message().await.unwrap().unwrap().results {
        let assumption = assumption(result(decided).unwrap()).unwrap();
        assert_eq!(assumption.time_left_ms, Some(7_000));
        tokens.push(assumption.token);
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let listed = list(&mut world).await;
    assert_eq!(listed.len(), 11);
    assert!(listed.iter().all(|it| it.user == "anonymous" && it.age_ms.is_some()));
    assert!(listed.iter().all(|it| tokens.contains(&it.assumption.as_ref().unwrap().token)));
}

#[tokio::test]
async fn an_assumption_can_be_confirmed_extended_and_released() {
    let mut world = World::start().await;
    world.nodes(1, 8).await;
    let token = assume(&mut world, "p", Some(60_000)).await.token;
    let extend = |ttl_ms| ExtendRequest { pod: Some(key("p")), token, ttl_ms };
    for (ttl, left) in [(Some(90_000), Some(90_000)), (None, Some(300_000)), (Some(0), None)] {
        let answer = world.placement.extend(extend(ttl)).await.unwrap().into_inner();
        assert_eq!(answer.node_name, "n0");
        assert_eq!(answer.assumption, Some(Assumption { token, time_left_ms: left }));
    }
    let confirm = ConfirmRequest { pod: Some(with_uid("p")), token };
    for _ in 0..2 {
        let answer = world.placement.confirm(confirm.clone()).await.unwrap().into_inner();
        assert_eq!(answer, ConfirmResponse { node_name: "n0".into(), assumed: true });
    }
    let release = || ReleaseRequest { pod: Some(key("p")), token, nomination: false };
    for released in [true, false] {
        let answer = world.placement.release(release()).await.unwrap().into_inner();
        assert_eq!(answer.released, released);
    }
    let status = world.placement.confirm(confirm).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(
        status.message(),
        "pod `default/p` is on no node: its assumption has expired, or was released or deleted"
    );
    assert_eq!(world.counts().await.n_assumed_pods, 0);
}

#[tokio::test]
async fn a_call_about_another_assumption_is_refused() {
    let mut world = World::start().await;
    world.nodes(1, 8).await;
    let token = assume(&mut world, "p", None).await.token;
    let info = |status: tonic::Status| {
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        let details = status.get_error_details();
        (status.message().to_owned(), details.error_info().unwrap().reason.clone())
    };
    let wrong =
        ReleaseRequest { pod: Some(key("p")), token: token + 1, ..ReleaseRequest::default() };
    let (text, reason) = info(world.placement.release(wrong).await.unwrap_err());
    let expected =
        format!("pod `default/p` is not assumed under token {}, but under another", token + 1);
    assert_eq!((text, reason.as_str()), (expected, "ASSUMPTION_TOKEN_MISMATCH"));
    let other = PodKey { uid: "other".into(), ..key("p") };
    let wrong = ConfirmRequest { pod: Some(other), token };
    let (text, reason) = info(world.placement.confirm(wrong).await.unwrap_err());
    let expected = ("pod `default/p` has uid `uid-p`, not `other`", "POD_UID_MISMATCH");
    assert_eq!((text.as_str(), reason.as_str()), expected);
    // A feed confirms the pod: nothing is left to confirm, and nothing of the caller's to release.
    world.apply([Change::UpsertPod(bound("p", "1", "n0"))]).await;
    let confirm = ConfirmRequest { pod: Some(key("p")), token };
    let answer = world.placement.confirm(confirm).await.unwrap().into_inner();
    assert_eq!(answer, ConfirmResponse { node_name: "n0".into(), assumed: false });
    let extend = ExtendRequest { pod: Some(key("p")), token, ttl_ms: Some(1) };
    let answer = world.placement.extend(extend).await.unwrap().into_inner();
    assert_eq!((answer.node_name.as_str(), answer.assumption), ("n0", None));
    let release = ReleaseRequest { pod: Some(key("p")), token, nomination: false };
    let (_, reason) = info(world.placement.release(release).await.unwrap_err());
    assert_eq!(reason, "POD_REPORTED");
    assert_eq!(world.counts().await.n_pods, 1);
}

#[tokio::test]
async fn malformed_calls_name_their_field() {
    let mut world = World::start().await;
    world.nodes(1, 8).await;
    let nameless = || Some(PodKey::default());
    for (pod, token, field) in
        [(None, 1, "pod"), (nameless(), 1, "pod.name"), (Some(key("p")), 0, "token")]
    {
        let request = ReleaseRequest { pod: pod.clone(), token, nomination: false };
        let status = world.placement.release(request).await.unwrap_err();
        assert_eq!(violation(&status).0, field);
        let status = world.placement.confirm(ConfirmRequest { pod, token }).await.unwrap_err();
        assert_eq!(violation(&status).0, field);
    }
    let request = ExtendRequest { pod: Some(key("p")), token: 1, ttl_ms: Some(u64::MAX) };
    let status = world.placement.extend(request).await.unwrap_err();
    let too_long = "must be at most 31622400000 (366 days)";
    assert_eq!(violation(&status), ("ttl_ms".to_owned(), too_long.to_owned()));
    let pod = || Some(pod("p", "1").into());
    let dry = PlaceRequest { pod: pod(), assume_ttl_ms: Some(5), ..PlaceRequest::default() };
    let status = world.placement.place(dry).await.unwrap_err();
    assert_eq!(violation(&status).0, "assume_ttl_ms");
}

#[tokio::test]
async fn assumed_pods_are_listed_in_pages() {
    let mut world = World::start().await;
    world.nodes(2, 8).await;
    for i in 0..5 {
        assume(&mut world, &format!("p{i}"), Some(60_000)).await;
    }
    world.apply([Change::UpsertPod(bound("other", "1", "n0"))]).await;
    let (mut pages, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListAssumedRequest { page_size: 2, page_token, ..Default::default() };
        let page = world.placement.list_assumed(request).await.unwrap().into_inner();
        let left = |it: &AssumedPod| it.assumption.as_ref().unwrap().time_left_ms.unwrap();
        assert!(page.pods.iter().all(|it| (1..=60_000).contains(&left(it))));
        pages.push(page.pods.into_iter().map(|it| it.pod.unwrap().name).collect::<Vec<_>>());
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, [vec!["p0", "p1"], vec!["p2", "p3"], vec!["p4"]]);
    let on = |node_name: &str, namespace: &str| ListAssumedRequest {
        node_name: node_name.to_owned(),
        namespace: namespace.to_owned(),
        ..ListAssumedRequest::default()
    };
    let mut n_pods = async |request| {
        world.placement.list_assumed(request).await.unwrap().into_inner().pods.len()
    };
    assert_eq!(n_pods(on("n0", "")).await + n_pods(on("n1", "default")).await, 5);
    assert_eq!(n_pods(on("", "other")).await, 0);
    let request = ListAssumedRequest { page_token: "zz".into(), ..Default::default() };
    let status = world.placement.list_assumed(request).await.unwrap_err();
    assert_eq!(violation(&status).0, "page_token");
}
