//! A session belongs to its user: to others it does not exist.

use berth_proto::berth_v1::autoscaler_service_client::AutoscalerServiceClient;
use berth_proto::berth_v1::{
    BatchEntry, ChooseScaleInRequest, ConsolidateRequest, ExplainRequest, FitRequest,
    GetClusterRequest, GetPodRequest, HeadroomRequest, ListCandidatesRequest, ListNodesRequest,
    ListPendingRequest, ListPodsRequest, PlaceBatchRequest, PlaceMode, PlaceStreamRequest,
    PreemptRequest, SessionServiceApplyRequest, SessionServiceCloseRequest,
    SessionServiceCommitRequest, SessionServiceOpenRequest, SimulateDrainRequest,
    SimulateScaleUpRequest, place_result,
};
use tonic::{Code, Status};

use crate::roles::world::{World, by, pod};

async fn open(world: &World, user: &str) -> String {
    let open = by(user, SessionServiceOpenRequest {});
    world.session().open(open).await.unwrap().into_inner().session_id
}

/// Outcome of each method that takes a session when `user` calls it, by the method's name.
async fn ask_all(world: &World, user: &str, id: &str) -> Vec<(&'static str, Result<(), Status>)> {
    let session_id = || id.to_owned();
    let mut autoscaler = AutoscalerServiceClient::new(world.channel.clone());
    macro_rules! ask {
        ($client:expr, $method:ident, $request:ident { $($field:ident: $value:expr),* }) => {{
            #[allow(clippy::needless_update, reason = "some have no other field")]
            let request = $request { session_id: session_id(), $($field: $value,)* ..$request::default() };
            let answer = $client.$method(by(user, request)).await;
            (stringify!($method), answer.map(|_| ()))
        }};
    }
    vec![
        ("place", world.place(user, "p", PlaceMode::DryRun, id).await),
        ask!(world.placement(), place_batch, PlaceBatchRequest {}),
        ask!(world.placement(), explain, ExplainRequest { pod: Some(pod("p")) }),
        ask!(world.preemption(), preempt, PreemptRequest { pod: Some(pod("p")) }),
        ask!(world.preemption(), list_candidates, ListCandidatesRequest { pod: Some(pod("p")) }),
        ask!(world.cluster(), get_cluster, GetClusterRequest {}),
        ask!(world.cluster(), list_nodes, ListNodesRequest {}),
        ask!(world.cluster(), list_pods, ListPodsRequest {}),
        ask!(world.cluster(), get_pod, GetPodRequest {}),
        ask!(world.cluster(), list_pending, ListPendingRequest {}),
        ask!(autoscaler, simulate_scale_up, SimulateScaleUpRequest {}),
        ask!(autoscaler, simulate_drain, SimulateDrainRequest {}),
        ask!(autoscaler, headroom, HeadroomRequest {}),
        ask!(autoscaler, consolidate, ConsolidateRequest {}),
        ask!(autoscaler, choose_scale_in, ChooseScaleInRequest {}),
        ask!(autoscaler, fit, FitRequest {}),
        ask!(world.session(), apply, SessionServiceApplyRequest {}),
        ask!(world.session(), commit, SessionServiceCommitRequest {}),
        ask!(world.session(), close, SessionServiceCloseRequest {}),
    ]
}

#[tokio::test]
async fn another_users_session_looks_as_if_it_were_not_there() {
    let world = World::with_nodes().await;
    let id = open(&world, "jane").await;
    for (method, answer) in ask_all(&world, "joe", &id).await {
        let status = answer.expect_err(method);
        assert_eq!(status.code(), Code::NotFound, "{method}: {status:?}");
        let unknown =
            format!("session `{id}` not found: it was never opened, was closed or has expired");
        assert_eq!(status.message(), unknown, "{method}");
    }
    // None of these calls has closed the session either.
    for user in ["jane", "admin"] {
        for (method, answer) in ask_all(&world, user, &open(&world, "jane").await).await {
            let is_found = answer.err().is_none_or(|status| status.code() != Code::NotFound);
            assert!(is_found, "{method} by {user}");
        }
    }
    assert!(world.place("jane", "p", PlaceMode::DryRun, &id).await.is_ok());
}

#[tokio::test]
async fn another_users_session_is_not_found_by_a_stream() {
    let world = World::with_nodes().await;
    let session_id = open(&world, "jane").await;
    for (user, is_found) in [("joe", false), ("jane", true), ("admin", true)] {
        let request = PlaceStreamRequest {
            entries: vec![BatchEntry { pod: Some(pod("p").into()), replicas: 1 }],
            session_id: session_id.clone(),
            ..PlaceStreamRequest::default()
        };
        let stream = by(user, tokio_stream::iter([request]));
        let mut answers = world.placement().place_stream(stream).await.unwrap().into_inner();
        let answer = answers.message().await.unwrap().unwrap();
        match (answer.results[0].result.as_ref().unwrap(), is_found) {
            (place_result::Result::Decision(_), true) => {}
            (place_result::Result::Error(error), false) => {
                assert_eq!(error.code, Code::NotFound as i32);
            }
            (answer, _) => panic!("{user}: {answer:?}"),
        }
    }
}
