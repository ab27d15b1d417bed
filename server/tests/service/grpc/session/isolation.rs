//! Isolation: the changes of a session are visible in that session only.

use std::collections::BTreeMap;

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ExplainRequest, Gang, ListCandidatesRequest, ListPodsRequest, PlaceBatchRequest, PlaceMode,
    PlaceStreamRequest, PreemptRequest,
};
use serde_json::json;
use tonic::Code;

use crate::grpc::preemption::{prioritised, running};
use crate::grpc::world::{World, bound, entry, key, node, node_of, outcome, pod, pod_with, result};

#[tokio::test]
async fn what_is_supposed_is_seen_in_the_session_alone() {
    let mut world = World::start().await;
    world.nodes(1, 2).await;
    world.apply([Change::UpsertPod(bound("there", "2", "n0"))]).await;
    let live = world.counts().await;
    let opened = world.open().await.unwrap();
    assert_eq!(opened.generation, live.generation);
    assert_eq!((opened.idle_timeout_ms, opened.max_changes), (300_000, 100_000));
    let id = opened.session_id;
    let refused = world.place_in(&id, pod("p", "1"), PlaceMode::DryRun).await.unwrap();
    assert!(outcome(&refused).is_err());

    let applied = world
        .suppose(&id, [Change::UpsertNode(node("new", "4")), Change::UpsertNode(node("bad", "x"))])
        .await
        .unwrap();
    assert_eq!(
        applied.rejections.iter().map(|r| (r.index, r.field.as_str())).collect::<Vec<_>>(),
        [(1, "status.allocatable[cpu]")]
    );
    let supposed = world.counts_in(&id).await.unwrap();
    assert_eq!((supposed.n_nodes, supposed.generation), (2, applied.generation));
    let names: Vec<_> = world.nodes_in(&id).await.into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["n0", "new"]);
    let decided = world.place_in(&id, pod("p", "1"), PlaceMode::Assume).await.unwrap();
    assert_eq!(outcome(&decided), Ok("new"));
    assert_eq!(world.nodes_in(&id).await[1].requested["cpu"], 1_000);
    let request = ListPodsRequest { session_id: id.clone(), ..ListPodsRequest::default() };
    let pods = world.cluster.list_pods(request).await.unwrap().into_inner().pods;
    assert_eq!(pods.len(), 2);
    // Two sessions do not see each other's changes.
    let other = world.opened().await;
    world.suppose(&other, [Change::DeletePod(key("there"))]).await.unwrap();
    let decided = world.place_in(&other, pod("q", "1"), PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&decided), Ok("n0"));
    assert_eq!(world.counts_in(&id).await.unwrap().n_pods, 2);

    let now = world.counts().await;
    assert_eq!((now.generation, now.n_nodes, now.n_pods), (live.generation, 1, 1));
    assert_eq!(world.list_nodes().await.len(), 1);
    let refused = world.place(pod("p", "1"), PlaceMode::DryRun).await.unwrap();
    assert!(outcome(&refused).is_err());
}

#[tokio::test]
async fn a_session_stays_as_it_was_opened_whatever_happens_outside() {
    let mut world = World::start().await;
    world.nodes(1, 2).await;
    let id = world.opened().await;
    world.place(pod("live", "2"), PlaceMode::Assume).await.unwrap();
    world.apply([Change::UpsertNode(node("n1", "2"))]).await;
    let supposed = world.counts_in(&id).await.unwrap();
    assert_eq!((supposed.n_nodes, supposed.n_pods), (1, 0));
    let decided = world.place_in(&id, pod("p", "2"), PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&decided), Ok("n0"));
}

/// Every method that decides accepts a session and answers from it: the session has one more node, and different room
/// on `n0`.
#[tokio::test]
async fn every_deciding_call_can_be_asked_what_if() {
    let mut world = World::start().await;
    world.nodes(1, 2).await;
    world.apply([running("low", "2", 1, "n0")]).await;
    let session_id = world.opened().await;
    let tainted = node_of(json!({
        "metadata": {"name": "new"},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}},
    }));
    world.suppose(&session_id, [Change::UpsertNode(tainted)]).await.unwrap();
    world.suppose(&session_id, [running("low", "1", 1, "n0")]).await.unwrap();
    let id = || session_id.clone();

    let pod = Some(prioritised("p", "2", 10));
    let request = ExplainRequest { pod, session_id: id(), ..ExplainRequest::default() };
    let account = world.placement.explain(request.clone()).await.unwrap().into_inner();
    assert_eq!(account.nodes.len(), 2);
    let live = ExplainRequest { session_id: String::new(), ..request };
    assert_eq!(world.placement.explain(live).await.unwrap().into_inner().nodes.len(), 1);

    let entries = vec![entry(pod_with("web", "1", &json!({})), 2)];
    let request = PlaceBatchRequest { entries, session_id: id(), ..PlaceBatchRequest::default() };
    let answer = world.placement.place_batch(request.clone()).await.unwrap().into_inner();
    let nodes: Vec<_> = answer.results.iter().map(|r| outcome(result(r).unwrap()).ok()).collect();
    assert_eq!(nodes, [Some("n0"), None]);
    let gang = PlaceBatchRequest { gang: Some(Gang::default()), ..request.clone() };
    let answer = world.placement.place_batch(gang).await.unwrap().into_inner();
    assert_eq!(answer.gang.map(|gang| (gang.placed, gang.n_placed)), Some((false, 1)));

    let streamed = |sequence, session_id| PlaceStreamRequest {
        sequence,
        entries: request.entries.clone(),
        session_id,
        ..PlaceStreamRequest::default()
    };
    // One stream may use several clusters; an unknown session fails only its own request.
    let requests = [streamed(0, id()), streamed(1, String::new()), streamed(2, "gone".into())];
    let answers = world.placement.place_stream(tokio_stream::iter(requests)).await.unwrap();
    let mut answers = answers.into_inner();
    let mut found = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        found.push(match result(&answer.results[0]) {
            Ok(decided) => outcome(decided).is_ok().to_string(),
            Err(error) => error.message.clone(),
        });
    }
    let gone = "session `gone` not found: it was never opened, was closed or has expired";
    assert_eq!(found, ["true", "false", gone]);

    let pod = Some(prioritised("p", "2", 10));
    let request = PreemptRequest { pod: pod.clone(), session_id: id(), ..Default::default() };
    let nominate = PreemptRequest { nominate: true, ..request };
    let answer = world.preemption.preempt(nominate).await.unwrap().into_inner();
    let message = outcome(answer.decision.as_ref().unwrap()).unwrap_err();
    assert!(message.starts_with("0/2 nodes are available: "), "{message}");
    assert_eq!(answer.post_filter.unwrap().nominated_node_name, "n0");
    assert_eq!(world.counts_in(&session_id).await.unwrap().n_pending_pods, 1);
    let request = ListCandidatesRequest { pod, session_id: id(), ..Default::default() };
    let list = world.preemption.list_candidates(request).await.unwrap().into_inner();
    assert_eq!(list.candidates.len(), 1);
    let live = world.counts().await;
    assert_eq!((live.n_nodes, live.n_pending_pods, live.n_assumed_pods), (1, 0, 0));
}

/// Many sessions place pods and change objects while pods are placed on the live cluster: in the end the live cluster
/// holds exactly what was placed on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_never_leak_into_the_live_cluster() {
    let mut world = World::start().await;
    world.nodes(20, 8).await;
    let mut sessions = Vec::new();
    for number in 0..6_usize {
        let mut client = world.connect().await;
        sessions.push(tokio::spawn(async move {
            for round in 0..4 {
                let id = client.opened().await;
                for step in 0..15_usize {
                    let name = format!("s{number}-{round}-{step}");
                    let at = format!("n{}", (number * 7 + step) % 20);
                    match step % 4 {
                        0 => drop(client.suppose(&id, [Change::DeleteNode(at)]).await.unwrap()),
                        1 => {
                            let more = [
                                Change::UpsertNode(node(&format!("x{step}"), "8")),
                                Change::UpsertPod(bound(&name, "1", &at)),
                            ];
                            drop(client.suppose(&id, more).await.unwrap());
                        }
                        _ => drop(
                            client.place_in(&id, pod(&name, "2"), PlaceMode::Assume).await.unwrap(),
                        ),
                    }
                }
                assert!(client.counts_in(&id).await.unwrap().n_pods > 0);
                client.close(&id).await.unwrap();
            }
        }));
    }
    let mut placed = BTreeMap::new();
    for i in 0..100 {
        let name = format!("live-{i}");
        let decided = world.place(pod(&name, "1"), PlaceMode::Assume).await.unwrap();
        placed.insert(name, outcome(&decided).unwrap().to_owned());
    }
    for session in sessions {
        session.await.unwrap();
    }
    let listed: BTreeMap<_, _> =
        world.list_pods().await.into_iter().map(|p| (p.key.unwrap().name, p.node_name)).collect();
    assert_eq!(listed, placed);
    let n_requested: i64 =
        world.list_nodes().await.iter().filter_map(|node| node.requested.get("cpu")).sum();
    assert_eq!(n_requested, 100_000);
    assert_eq!(world.counts().await.n_nodes, 20);
}

#[tokio::test]
async fn a_pod_is_assumed_once_in_a_session_too() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    let id = world.opened().await;
    world.place_in(&id, pod("p", "1"), PlaceMode::Assume).await.unwrap();
    let status = world.place_in(&id, pod("p", "1"), PlaceMode::Assume).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    world.place(pod("p", "1"), PlaceMode::Assume).await.unwrap();
}
