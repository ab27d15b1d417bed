//! Commit: either all decisions of a session, or none.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{PlaceMode, PreemptRequest};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::grpc::preemption::{prioritised, running};
use crate::grpc::probes::get;
use crate::grpc::world::{World, bound, key, node, outcome, pod};

/// Reason and metadata of the status' `ErrorInfo`: `REASON pod=… node=…`.
fn info(status: &Status) -> String {
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no info in {status:?}"));
    assert_eq!(info.domain, "berth.dev");
    let of = |key: &str| info.metadata.get(key).map(|value| format!(" {key}={value}"));
    let parts: String = ["pod", "node"].into_iter().filter_map(of).collect();
    format!("{}{parts}", info.reason)
}

#[tokio::test]
async fn what_was_decided_becomes_real_once() {
    let mut world = World::start().await;
    world.nodes(3, 2).await;
    world.apply([running("low", "2", 1, "n2")]).await;
    let id = world.opened().await;
    for name in ["a", "b"] {
        world.place_in(&id, prioritised(name, "2", 10), PlaceMode::Assume).await.unwrap();
    }
    world.place_in(&id, pod("dry", "0"), PlaceMode::DryRun).await.unwrap();
    let request = PreemptRequest {
        pod: Some(prioritised("c", "2", 10)),
        nominate: true,
        session_id: id.clone(),
        ..PreemptRequest::default()
    };
    world.preemption.preempt(request).await.unwrap();
    let before = world.counts().await;
    assert_eq!((before.n_assumed_pods, before.n_pending_pods), (0, 0));

    let committed = world.commit(&id).await.unwrap();
    assert_eq!((committed.n_assumed_pods, committed.n_nominated_pods), (2, 1));
    let after = world.counts().await;
    assert_eq!((after.n_assumed_pods, after.n_pending_pods), (2, 1));
    assert_eq!((after.generation, after.generation), (committed.generation, before.generation + 1));
    let mut listed: Vec<_> = world
        .list_pods()
        .await
        .into_iter()
        .filter(|pod| pod.assumed)
        .map(|pod| (pod.key.unwrap().name, pod.node_name))
        .collect();
    listed.sort();
    let owned = |name: &str, node: &str| (name.to_owned(), node.to_owned());
    assert_eq!(listed, [owned("a", "n0"), owned("b", "n1")]);
    world.apply([Change::DeletePod(key("low"))]).await;
    let equal = world.place(prioritised("d", "1", 10), PlaceMode::DryRun).await.unwrap();
    assert!(outcome(&equal).is_err(), "`n2` is promised to `c`");

    let status = world.commit(&id).await.unwrap_err();
    assert_eq!(status.message(), "the session was committed already");
    assert_eq!(info(&status), "ALREADY_COMMITTED");
    assert_eq!(world.counts().await.n_assumed_pods, 2);
    world.close(&id).await.unwrap();
    assert_eq!(world.counts().await.n_assumed_pods, 2, "what was committed stays");
    let (_, text) = get(world.server.http_address(), "/metrics").await;
    for line in [
        "berth_session_commits_total{outcome=\"committed\"} 1",
        "berth_session_commits_total{outcome=\"refused\"} 1",
        "berth_sessions_ended_total{reason=\"closed\"} 1",
        "berth_sessions 0",
        "berth_placements_total{outcome=\"assumed\"} 0",
        "berth_placements_total{outcome=\"placed\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}

#[tokio::test]
async fn an_empty_session_commits_nothing() {
    let mut world = World::start().await;
    world.nodes(1, 2).await;
    let id = world.opened().await;
    world.suppose(&id, [Change::UpsertNode(node("new", "8"))]).await.unwrap();
    let committed = world.commit(&id).await.unwrap();
    assert_eq!((committed.n_assumed_pods, committed.n_nominated_pods), (0, 0));
    assert_eq!(world.counts().await.n_nodes, 1, "a supposition never becomes real");
}

#[tokio::test]
async fn what_rests_on_a_supposition_is_not_committed() {
    let mut world = World::start().await;
    world.nodes(1, 2).await;
    let id = world.opened().await;
    world.suppose(&id, [Change::UpsertNode(node("new", "8"))]).await.unwrap();
    let big = world.place_in(&id, pod("big", "7"), PlaceMode::Assume).await.unwrap();
    let small = world.place_in(&id, pod("small", "2"), PlaceMode::Assume).await.unwrap();
    assert_eq!((outcome(&big), outcome(&small)), (Ok("new"), Ok("n0")));
    let status = world.commit(&id).await.unwrap_err();
    assert_eq!(info(&status), "HYPOTHETICAL pod=default/big node=new");
    assert!(status.message().contains("which a delta of the session changed"), "{status:?}");
    let live = world.counts().await;
    assert_eq!((live.n_assumed_pods, live.n_nodes), (0, 1), "not a part of it either");

    let id = world.opened().await;
    world.apply([Change::UpsertPod(bound("there", "2", "n0"))]).await;
    let full = world.opened().await;
    world.suppose(&full, [Change::DeletePod(key("there"))]).await.unwrap();
    let decided = world.place_in(&full, pod("p", "1"), PlaceMode::Assume).await.unwrap();
    assert_eq!(outcome(&decided), Ok("n0"));
    let status = world.commit(&full).await.unwrap_err();
    assert_eq!(info(&status), "HYPOTHETICAL pod=default/p node=n0");
    assert!(world.commit(&id).await.is_ok(), "others' sessions are none of its business");
}

#[tokio::test]
async fn what_changed_in_the_meantime_is_not_committed() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let id = world.opened().await;
    world.place_in(&id, pod("a", "3"), PlaceMode::Assume).await.unwrap();
    world.place_in(&id, pod("b", "3"), PlaceMode::Assume).await.unwrap();
    world.apply([Change::UpsertPod(bound("late", "2", "n1"))]).await;
    let status = world.commit(&id).await.unwrap_err();
    assert_eq!(info(&status), "CHANGED pod=default/b node=n1");
    assert!(status.message().contains("since the session was opened"), "{status:?}");
    assert_eq!(world.counts().await.n_assumed_pods, 0, "`a` is not committed alone");

    // A change of a node that no decision depends on does not prevent the commit.
    let id = world.opened().await;
    world.place_in(&id, pod("a", "3"), PlaceMode::Assume).await.unwrap();
    world.apply([Change::UpsertPod(bound("later", "1", "n1"))]).await;
    assert_eq!(world.commit(&id).await.unwrap().n_assumed_pods, 1);
}

#[tokio::test]
async fn a_pod_that_got_its_node_meanwhile_is_not_committed() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let id = world.opened().await;
    world.place_in(&id, pod("p", "1"), PlaceMode::Assume).await.unwrap();
    world.apply([Change::UpsertPod(bound("p", "1", "n1"))]).await;
    let status = world.commit(&id).await.unwrap_err();
    assert_eq!(info(&status), "ALREADY_PLACED pod=default/p node=n1");
    assert_eq!(status.message(), "pod `default/p` is on node `n1` already");
}

/// One of many sessions that compete for the same room gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_commits_never_overcommit() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    let mut racers = Vec::new();
    for number in 0..8 {
        let mut client = world.connect().await;
        racers.push(tokio::spawn(async move {
            let id = client.opened().await;
            let name = format!("p{number}");
            client.place_in(&id, pod(&name, "3"), PlaceMode::Assume).await.unwrap();
            client.commit(&id).await.map_err(|status| info(&status))
        }));
    }
    let mut n_committed = 0;
    for racer in racers {
        match racer.await.unwrap() {
            Ok(committed) => n_committed += committed.n_assumed_pods,
            Err(info) => assert!(info.starts_with("CHANGED pod=default/p"), "{info}"),
        }
    }
    assert!(n_committed >= 1);
    let counts = world.counts().await;
    assert_eq!(counts.n_assumed_pods, 1, "a later session saw the room taken, and placed nobody");
    assert_eq!(n_committed, 1);
}
