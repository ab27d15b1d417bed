//! Placement refuses nodes under a fence of the ledger (S-FNC-1), as long as the setting is on.

use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    AdvanceFenceRequest, ExplainRequest, PlaceMode, PlaceRequest, PreemptRequest,
    SessionServiceOpenRequest,
};
use berth_server::runtime::{ServerOptions, Shutdown};

use super::Caller;
use crate::grpc::world::{World, bound, options, outcome, pod, pod_with};

const REASON: &str = "node(s) were fenced by the ledger";

async fn returns(controller: &mut Caller, node: &str) {
    let request = AdvanceFenceRequest {
        rebooted: true,
        no_leftover_processes: true,
        ..controller.fence_request(node, "NodeReturned")
    };
    assert_eq!(controller.fence(request).await.outcome, "Ok");
}

/// Every step of a fence, from the decision to the return of the node, as placement sees it.
#[tokio::test]
async fn a_fenced_node_takes_no_pods() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let mut controller = Caller::of(&world, "controller");
    let dry = async |world: &mut World| {
        let decision = world.place(pod("p", "1"), PlaceMode::DryRun).await.unwrap();
        outcome(&decision).map(str::to_owned)
    };
    assert_eq!(dry(&mut world).await.as_deref(), Ok("n0"));
    let token = controller.decide("n0", "compute").await;
    assert_eq!(dry(&mut world).await.as_deref(), Ok("n1"));
    controller.confirm("n0", token).await;
    assert_eq!(dry(&mut world).await.as_deref(), Ok("n1"));
    let second = controller.decide("n1", "network").await;
    let all = Err(format!("0/2 nodes are available: 2 {REASON}."));
    assert_eq!(dry(&mut world).await, all);

    let request = ExplainRequest { pod: Some(pod("p", "1")), ..ExplainRequest::default() };
    let explained = world.placement.explain(request).await.unwrap().into_inner();
    let text = format!("{explained:?}");
    assert!(text.contains("lift the ledger's fence of 2 nodes"), "{text}");
    let preempt = PreemptRequest {
        pod: Some(pod_with("high", "4", &serde_json::json!({"spec": {"priority": 9}}))),
        ..PreemptRequest::default()
    };
    world.apply([Change::UpsertPod(bound("low", "4", "n0"))]).await;
    let preempted = world.preemption.preempt(preempt).await.unwrap().into_inner();
    assert!(!format!("{preempted:?}").contains("uid-low"), "{preempted:?}");

    // A fence that failed leaves the node as it was; one that is confirmed ends with the node's return.
    let failed =
        AdvanceFenceRequest { token: second, ..controller.fence_request("n1", "FenceFailed") };
    assert_eq!(controller.fence(failed).await.outcome, "Ok");
    assert_eq!(dry(&mut world).await.as_deref(), Ok("n1"));
    returns(&mut controller, "n0").await;
    world.cluster.apply(delete("low")).await.unwrap();
    assert_eq!(dry(&mut world).await.as_deref(), Ok("n0"));
}

fn delete(name: &str) -> berth_proto::berth_v1::ApplyRequest {
    let delta = berth_proto::berth_v1::Delta {
        change: Some(Change::DeletePod(crate::grpc::world::key(name))),
    };
    berth_proto::berth_v1::ApplyRequest { deltas: vec![delta] }
}

/// A node may be fenced before the cluster has it, and a session begins with the cluster's fences.
#[tokio::test]
async fn fences_do_not_depend_on_the_order_of_events() {
    let mut world = World::start().await;
    let mut controller = Caller::of(&world, "controller");
    controller.decide("n0", "compute").await;
    world.nodes(1, 4).await;
    let expected = Err(format!("0/1 nodes are available: 1 {REASON}."));
    let decision = world.place(pod("p", "1"), PlaceMode::Assume).await.unwrap();
    assert_eq!(outcome(&decision).map(str::to_owned), expected);
    let opened = world.session.open(SessionServiceOpenRequest {}).await.unwrap().into_inner();
    let request = PlaceRequest {
        pod: Some(pod("p", "1").into()),
        session_id: opened.session_id,
        ..PlaceRequest::default()
    };
    let decision = world.placement.place(request).await.unwrap().into_inner().decision.unwrap();
    assert!(matches!(decision.outcome, Some(Outcome::Unschedulable(_))), "{decision:?}");
}

/// A restart finds the fences in the file, and the setting turns the check off.
#[tokio::test]
async fn a_restart_keeps_fences_and_a_setting_ignores_them() {
    let directory = tempfile::tempdir().unwrap();
    let with_ledger =
        || ServerOptions { ledger: Some(directory.path().join("ledger")), ..options() };
    let world = World::with(with_ledger()).await;
    Caller::of(&world, "controller").decide("n0", "storage").await;
    let World { server, .. } = world;
    assert_eq!(server.shutdown().await, Shutdown::Drained);
    for (respect_fences, expected) in [(true, "n1"), (false, "n0")] {
        let options = ServerOptions { respect_fences, ..with_ledger() };
        let mut world = loop {
            // The tasks of the last server's connections end a moment after it.
            match berth_server::runtime::Server::start(options.clone()).await {
                Ok(server) => break World::around(server).await,
                Err(error) => {
                    assert!(error.to_string().contains("in use"), "{error}");
                    tokio::task::yield_now().await;
                }
            }
        };
        world.nodes(2, 4).await;
        let decision = world.place(pod("p", "1"), PlaceMode::DryRun).await.unwrap();
        assert_eq!(outcome(&decision), Ok(expected));
        let World { server, .. } = world;
        assert_eq!(server.shutdown().await, Shutdown::Drained);
    }
}
