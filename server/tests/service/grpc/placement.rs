//! `PlacementService` without its stream.

use std::time::Duration;

use berth_engine::{Policy, PolicySpec};
use berth_proto::Quantity;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ExplainRequest, PlaceBatchRequest, PlaceBatchResponse, PlaceMode, PlaceRequest, TieBreak,
    TieBreakRule, decision,
};
use berth_server::policy::Profiles;
use berth_server::runtime::{Limits, ServerOptions};
use serde_json::json;
use tonic::{Code, Request};

use crate::grpc::world::{
    World, entry, node, node_of, options, outcome, pod, pod_with, result, violation,
};

#[tokio::test]
async fn a_dry_run_changes_nothing_and_an_assume_takes_its_room() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let generation = world.counts().await.generation;
    for _ in 0..2 {
        let decision = world.place(pod("p", "3"), PlaceMode::DryRun).await.unwrap();
        assert_eq!(outcome(&decision), Ok("n0"));
        assert_eq!(decision.generation, generation);
        let Some(decision::Outcome::Placement(placement)) = decision.outcome else {
            unreachable!()
        };
        assert_eq!(
            (placement.n_feasible_nodes, placement.n_best_nodes, placement.assumed),
            (2, 2, false)
        );
        assert!(placement.total_score.is_some());
    }
    let decision = world.place(pod("p", "3"), PlaceMode::Assume).await.unwrap();
    assert_eq!(decision.pod.as_ref().unwrap().uid, "uid-p");
    let Some(decision::Outcome::Placement(placement)) = decision.outcome else { unreachable!() };
    assert!(placement.assumed && placement.node_name == "n0");
    let second = world.place(pod("q", "3"), PlaceMode::Assume).await.unwrap();
    let Some(decision::Outcome::Placement(placement)) = second.outcome else { unreachable!() };
    assert_eq!(
        (placement.node_name.as_str(), placement.total_score),
        ("n1", None),
        "one feasible node is not scored"
    );
    let third = world.place(pod("r", "3"), PlaceMode::Assume).await.unwrap();
    assert_eq!(outcome(&third), Err("0/2 nodes are available: 2 Insufficient cpu.".into()));
    let counts = world.counts().await;
    assert_eq!((counts.n_pods, counts.n_assumed_pods), (2, 2));
    assert!(counts.generation > generation);
}

#[tokio::test]
async fn gated_pods_are_an_answer() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    let gated =
        pod_with("p", "1", &json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}}));
    let decision = world.place(gated, PlaceMode::Assume).await.unwrap();
    assert_eq!(
        outcome(&decision),
        Err("SchedulingGates: waiting for scheduling gates: [a b]".into())
    );
    assert_eq!(world.counts().await.n_assumed_pods, 0);
}

#[tokio::test]
async fn refused_pods_name_their_field() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    let check = async |world: &mut World, pod, field: &str, reason: &str| {
        let status = world.place(pod, PlaceMode::DryRun).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(violation(&status), (field.to_owned(), reason.to_owned()));
    };
    check(
        &mut world,
        pod_with("p", "1", &json!({"spec": {"schedulerName": "mine"}})),
        "spec.schedulerName",
        "no profile is called `mine`; there is `default-scheduler`",
    )
    .await;
    check(
        &mut world,
        pod_with("p", "1", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        "metadata.deletionTimestamp",
        "a pod that is being deleted is not placed",
    )
    .await;
    check(
        &mut world,
        pod_with("p", "1", &json!({"status": {"phase": "Succeeded"}})),
        "status.phase",
        "a pod that is `Succeeded` is not placed",
    )
    .await;
    let bad = pod_with(
        "p",
        "1",
        &json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1x"}}}]}}),
    );
    let status = world.place(bad, PlaceMode::DryRun).await.unwrap_err();
    assert_eq!(violation(&status).0, "spec.containers[0].resources.requests[cpu]");
    // What is left of a quantity that a client could not express (W-PB-10).
    let mut lost = pod("p", "1");
    let container = &mut lost.spec.as_mut().unwrap().containers[0];
    let requests = &mut container.resources.as_mut().unwrap().requests;
    requests.insert("cpu".to_owned(), Quantity::default());
    check(
        &mut world,
        lost,
        "spec.containers[0].resources.requests[cpu]",
        "the quantity has no `string`",
    )
    .await;
}

#[tokio::test]
async fn refused_requests_name_their_field() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    let check = async |world: &mut World, request: PlaceRequest, field: &str| {
        let status = world.placement.place(request).await.unwrap_err();
        assert_eq!((status.code(), violation(&status).0.as_str()), (Code::InvalidArgument, field));
    };
    let request = PlaceRequest { pod: Some(pod("p", "1").into()), ..PlaceRequest::default() };
    check(&mut world, PlaceRequest { pod: None, ..request.clone() }, "pod").await;
    check(&mut world, PlaceRequest { mode: 7, ..request.clone() }, "mode").await;
    let tie_break = Some(TieBreak { rule: 9, seed: 0 });
    check(&mut world, PlaceRequest { tie_break, ..request }, "tie_break.rule").await;
}

#[tokio::test]
async fn a_pod_is_assumed_once() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    world.place(pod("p", "1"), PlaceMode::Assume).await.unwrap();
    let status = world.place(pod("p", "1"), PlaceMode::Assume).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::AlreadyExists, "pod `default/p` is on node `n0` already")
    );
}

/// S-DRA-13, S-Q-7
#[tokio::test]
async fn a_pod_whose_claim_is_not_there_is_gated() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let asks = pod_with("p", "1", &json!({"spec": {"resourceClaims": claims}}));
    let decided = world.place(asks, PlaceMode::DryRun).await.unwrap();
    let Some(decision::Outcome::Gated(gated)) = decided.outcome else { panic!("{decided:?}") };
    assert_eq!(gated.plugin, "DynamicResources");
    assert_eq!(gated.reasons, ["could not find ResourceClaim \"default/gpu\""]);
}

/// Rules of one plugin each, over the wire: the nodes that remain, and the message if none does.
#[tokio::test]
async fn spread_and_affinity_are_decided() {
    let mut world = World::start().await;
    let zoned = |name: &str, zone: &str| {
        let mut node = node(name, "4");
        let labels = &mut node.metadata.as_mut().unwrap().labels;
        labels.insert("zone".to_owned(), zone.to_owned());
        Change::UpsertNode(node)
    };
    world.apply([zoned("a", "one"), zoned("b", "two")]).await;
    let app = json!({"app": "x"});
    let there = json!({"metadata": {"labels": app}, "spec": {"nodeName": "a"}});
    world.apply([Change::UpsertPod(pod_with("there", "1", &there))]).await;
    let selector = json!({"matchLabels": app});
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
    });
    let term = json!({"topologyKey": "zone", "labelSelector": selector});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (name, spec, expected) in [
        ("spread", json!({"topologySpreadConstraints": [constraint]}), "b"),
        ("near", json!({"affinity": {"podAffinity": {required: [term]}}}), "a"),
        ("away", json!({"affinity": {"podAntiAffinity": {required: [term]}}}), "b"),
    ] {
        let asks = pod_with(name, "1", &json!({"metadata": {"labels": app}, "spec": spec}));
        let decision = world.place(asks, PlaceMode::DryRun).await.unwrap();
        assert_eq!(outcome(&decision), Ok(expected), "{name}");
    }
}

#[tokio::test]
async fn ties_are_broken_as_asked() {
    let mut world = World::start().await;
    world.nodes(50, 4).await;
    let mut place = async |rule: TieBreakRule, seed: u64, name: &str| {
        let tie_break = Some(TieBreak { rule: rule as i32, seed });
        let request =
            PlaceRequest { pod: Some(pod(name, "1").into()), tie_break, ..PlaceRequest::default() };
        let decision = world.placement.place(request).await.unwrap().into_inner().decision.unwrap();
        outcome(&decision).unwrap().to_owned()
    };
    assert_eq!(place(TieBreakRule::Lexicographic, 0, "p").await, "n0");
    let seeded = place(TieBreakRule::Seeded, 1, "p").await;
    assert_eq!(place(TieBreakRule::Seeded, 1, "p").await, seeded, "one seed, one answer");
    let mut nodes = std::collections::BTreeSet::new();
    for i in 0..20 {
        nodes.insert(place(TieBreakRule::Seeded, 1, &format!("p{i}")).await);
    }
    assert!(nodes.len() > 5, "pods spread out: {nodes:?}");
}

async fn batch(world: &mut World, request: PlaceBatchRequest) -> PlaceBatchResponse {
    world.placement.place_batch(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_batch_sees_its_own_placements_and_answers_pod_by_pod() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let entries = vec![
        entry(pod("web", "2"), 3),
        entry(pod_with("bad", "1", &json!({"spec": {"schedulerName": "x"}})), 2),
        entry(pod("big", "3"), 0),
        entry(pod("last", "1"), 1),
    ];
    for (mode, n_assumed) in [(PlaceMode::DryRun, 0), (PlaceMode::Assume, 4)] {
        let request = PlaceBatchRequest {
            entries: entries.clone(),
            mode: mode as i32,
            ..PlaceBatchRequest::default()
        };
        let results = batch(&mut world, request).await.results;
        assert_eq!(results.len(), 7);
        let nodes: Vec<_> =
            results[..3].iter().map(|r| outcome(result(r).unwrap()).unwrap()).collect();
        assert_eq!(nodes, ["n0", "n1", "n0"]);
        let first = result(&results[0]).unwrap().pod.as_ref().unwrap();
        assert_eq!((first.name.as_str(), first.uid.as_str()), ("web-0", "uid-web-0"));
        for refused in &results[3..5] {
            let error = result(refused).unwrap_err();
            assert_eq!(
                (error.code, error.field.as_str()),
                (Code::InvalidArgument as i32, "spec.schedulerName")
            );
        }
        assert!(outcome(result(&results[5]).unwrap()).unwrap_err().contains("Insufficient cpu"));
        assert_eq!(outcome(result(&results[6]).unwrap()), Ok("n1"));
        assert_eq!(world.counts().await.n_assumed_pods, n_assumed);
    }
}

#[tokio::test]
async fn every_pod_is_decided_by_its_own_profile() {
    let other = PolicySpec { scheduler_name: "other".into(), ..PolicySpec::default() };
    let profiles = Profiles::from(vec![Policy::default(), Policy::new(other).unwrap()]);
    let mut world = World::with(ServerOptions { profiles, ..options() }).await;
    world.nodes(2, 4).await;
    let named = |name: &str| pod_with(name, "3", &json!({"spec": {"schedulerName": "other"}}));
    let entries = vec![
        entry(pod("a", "3"), 1),
        entry(named("b"), 1),
        entry(pod("c", "3"), 1),
        entry(named("d"), 1),
    ];
    for (mode, n_assumed) in [(PlaceMode::DryRun, 0), (PlaceMode::Assume, 2)] {
        let (entries, mode) = (entries.clone(), mode as i32);
        let request = PlaceBatchRequest { entries, mode, ..PlaceBatchRequest::default() };
        let results = batch(&mut world, request).await.results;
        let nodes: Vec<_> = results.iter().map(|r| outcome(result(r).unwrap()).ok()).collect();
        assert_eq!(nodes, [Some("n0"), Some("n1"), None, None]);
        assert_eq!(world.counts().await.n_assumed_pods, n_assumed);
    }
}

#[tokio::test]
async fn a_batch_beyond_its_bound_is_refused_as_a_whole() {
    let limits = Limits { max_pods_per_request: 10, ..Limits::default() };
    let mut world = World::with(ServerOptions { limits, ..options() }).await;
    world.nodes(1, 4).await;
    let entries = vec![entry(pod("a", "1"), 5), entry(pod("b", "1"), 6)];
    let status = world
        .placement
        .place_batch(PlaceBatchRequest { entries, ..PlaceBatchRequest::default() })
        .await
        .unwrap_err();
    assert_eq!(
        violation(&status),
        ("entries".into(), "asks for 11 pods, more than the limit of 10".into())
    );
    let entries = vec![entry(pod("a", "1"), u32::MAX), entry(pod("b", "1"), u32::MAX)];
    let status = world
        .placement
        .place_batch(PlaceBatchRequest { entries, ..PlaceBatchRequest::default() })
        .await
        .unwrap_err();
    assert_eq!(violation(&status).0, "entries");
    assert_eq!(batch(&mut world, PlaceBatchRequest::default()).await.results, []);
}

#[tokio::test]
async fn a_batch_of_thousands_fills_the_cluster_to_the_brim() {
    let mut world = World::start().await;
    world.nodes(40, 100).await;
    let request = PlaceBatchRequest {
        entries: vec![entry(pod("web", "1"), 5_000)],
        mode: 2,
        ..PlaceBatchRequest::default()
    };
    let results = batch(&mut world, request).await.results;
    let placed = results.iter().filter(|r| outcome(result(r).unwrap()).is_ok()).count();
    assert_eq!((results.len(), placed), (5_000, 4_000));
    assert!(world.list_nodes().await.iter().all(|node| node.requested["cpu"] == 100_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_a_batch_and_gives_back_what_it_took() {
    let mut world = World::start().await;
    world.nodes(1_000, 1_000).await;
    let entries = vec![entry(pod("web", "1m"), 90_000)];
    let mut request = Request::new(PlaceBatchRequest {
        entries,
        mode: PlaceMode::Assume as i32,
        ..PlaceBatchRequest::default()
    });
    request.set_timeout(Duration::from_millis(30));
    let status = world.placement.place_batch(request).await.unwrap_err();
    // Client and server give up at the same instant; whichever ends the call, the room must be given back.
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    for _ in 0..500 {
        if world.counts().await.n_assumed_pods == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if world.counts().await.n_assumed_pods == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} pods are still assumed", world.counts().await.n_assumed_pods);
}

#[tokio::test]
async fn an_explanation_has_every_nodes_verdict() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let tainted = node_of(json!({
        "metadata": {"name": "tainted"},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}},
    }));
    world.apply([Change::UpsertNode(tainted)]).await;
    let request = ExplainRequest { pod: Some(pod("p", "1")), ..ExplainRequest::default() };
    let account = world.placement.explain(request.clone()).await.unwrap().into_inner();
    assert_eq!(outcome(account.decision.as_ref().unwrap()), Ok("n0"));
    let names: Vec<&str> = account.nodes.iter().map(|verdict| verdict.node_name.as_str()).collect();
    assert_eq!(names, ["n0", "n1", "tainted"]);
    let n0 = &account.nodes[0];
    assert!(n0.feasible && n0.rejection.is_none());
    assert_eq!(n0.scores.iter().map(|score| score.weighted).sum::<i64>(), n0.total_score);
    assert!(n0.scores.iter().any(|score| score.plugin == "NodeResourcesFit"));
    let rejection = account.nodes[2].rejection.as_ref().unwrap();
    assert_eq!(
        (rejection.plugin.as_str(), rejection.code.as_str()),
        ("TaintToleration", "UnschedulableAndUnresolvable")
    );
    assert_eq!(rejection.reasons, ["node(s) had untolerated taint(s)"]);

    let only =
        ExplainRequest { node_names: vec!["tainted".into(), "n1".into()], ..request.clone() };
    let account = world.placement.explain(only).await.unwrap().into_inner();
    let names: Vec<&str> = account.nodes.iter().map(|verdict| verdict.node_name.as_str()).collect();
    assert_eq!(names, ["n1", "tainted"]);
    let unknown = ExplainRequest { node_names: vec!["n1".into(), "n9".into()], ..request };
    let status = world.placement.explain(unknown).await.unwrap_err();
    assert_eq!(violation(&status), ("node_names[1]".into(), "the cluster has no node `n9`".into()));

    let hungry = ExplainRequest { pod: Some(pod("p", "5")), ..ExplainRequest::default() };
    let account = world.placement.explain(hungry).await.unwrap().into_inner();
    assert!(outcome(account.decision.as_ref().unwrap()).is_err());
    assert!(!account.remedies.is_empty());
    assert_eq!(world.counts().await.n_assumed_pods, 0);
}
