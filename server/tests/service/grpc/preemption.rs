//! `PreemptionService`: which pods are displaced, and the effect of a nomination on later requests.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    BeginSnapshot, Delta, DeltaBatch, EndSnapshot, ListCandidatesRequest, NominationChange,
    PlaceMode, PostFilterCode, PreemptOptions, PreemptRequest, PreemptResponse, SyncRequest,
    VictimPlacement, decision, elsewhere, sync_request,
};
use berth_proto::core_v1::Pod;
use berth_proto::policy_v1::PodDisruptionBudget;
use serde_json::json;
use tonic::{Code, Status};

use crate::grpc::probes::get;
use crate::grpc::world::{World, bound, key, node, outcome, pod, pod_with, violation};

/// A pending pod with a priority.
pub(crate) fn prioritised(name: &str, cpu: &str, priority: i32) -> Pod {
    pod_with(name, cpu, &json!({"spec": {"priority": priority}}))
}

/// A running pod with a priority and the label `app: NAME`.
pub(crate) fn running(name: &str, cpu: &str, priority: i32, node: &str) -> Change {
    let parts = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"priority": priority, "nodeName": node},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    });
    Change::UpsertPod(pod_with(name, cpu, &parts))
}

fn budget(name: &str, app: &str, disruptions_allowed: i32) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": disruptions_allowed},
    }))
    .unwrap()
}

async fn preempt(world: &mut World, request: PreemptRequest) -> Result<PreemptResponse, Status> {
    world.preemption.preempt(request).await.map(tonic::Response::into_inner)
}

fn asking(pod: Pod) -> PreemptRequest {
    PreemptRequest { pod: Some(pod), ..PreemptRequest::default() }
}

fn victims(response: &PreemptResponse) -> Vec<String> {
    let chosen = response.post_filter.as_ref().and_then(|ran| ran.chosen.as_ref());
    let victims = chosen.map_or(&[][..], |chosen| &chosen.victims);
    victims.iter().map(|victim| victim.pod.as_ref().unwrap().name.clone()).collect()
}

/// Two nodes of two cores: `n0` is full with `low` (priority 1), `n1` with `mid` (priority 5).
async fn two_full_nodes() -> World {
    let mut world = World::start().await;
    world.nodes(2, 2).await;
    let answer = world.apply([running("low", "2", 1, "n0"), running("mid", "2", 5, "n1")]).await;
    assert_eq!(answer.rejections, []);
    world
}

#[tokio::test]
async fn the_least_important_is_displaced_and_nothing_changes() {
    let mut world = two_full_nodes().await;
    let before = world.counts().await.generation;
    let answer = preempt(&mut world, asking(prioritised("p", "1", 10))).await.unwrap();
    let decided = answer.decision.as_ref().unwrap();
    assert_eq!(outcome(decided), Err("0/2 nodes are available: 2 Insufficient cpu.".into()));
    let ran = answer.post_filter.as_ref().unwrap();
    assert_eq!((ran.code(), ran.message.as_str()), (PostFilterCode::Success, ""));
    assert_eq!((ran.nomination(), ran.nominated_node_name.as_str()), (NominationChange::Set, "n0"));
    assert_eq!((ran.n_candidates, ran.n_best), (2, 1));
    let chosen = ran.chosen.as_ref().unwrap();
    assert_eq!((chosen.node_name.as_str(), chosen.n_pdb_violations), ("n0", 0));
    let [victim] = chosen.victims.as_slice() else { panic!("{chosen:?}") };
    let who = victim.pod.as_ref().unwrap();
    assert_eq!((&*who.namespace, &*who.name, &*who.uid), ("default", "low", "uid-low"));
    assert_eq!((victim.priority, victim.is_terminating, &victim.elsewhere), (1, false, &None));
    assert_eq!((answer.nomination_generation, world.counts().await.generation), (None, before));
}

/// S-ERR-5, S-ERR-6: PostFilter's part of the message is in the response of `Preempt`, not of `Place`.
#[tokio::test]
async fn a_pod_that_preemption_cannot_help_gets_the_reason() {
    let mut world = two_full_nodes().await;
    let check = async |world: &mut World, pod: Pod, change: NominationChange, text: &str| {
        let answer = preempt(world, asking(pod)).await.unwrap();
        let ran = answer.post_filter.as_ref().unwrap();
        assert_eq!((ran.code(), ran.nomination()), (PostFilterCode::Unschedulable, change));
        assert_eq!((&ran.chosen, ran.n_candidates), (&None, 0));
        let message = outcome(answer.decision.as_ref().unwrap()).unwrap_err();
        let post_filter = format!("no new claims to deallocate, preemption: {text}");
        assert_eq!(message, format!("0/2 nodes are available: 2 Insufficient cpu. {post_filter}"));
        assert_eq!(ran.message, post_filter);
    };
    let text = "0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    check(&mut world, prioritised("p", "1", 0), NominationChange::Clear, text).await;
    let never = json!({"spec": {"priority": 10, "preemptionPolicy": "Never"}});
    let never = pod_with("p", "1", &never);
    let text = "not eligible due to preemptionPolicy=Never.";
    check(&mut world, never.clone(), NominationChange::None, text).await;
    let placed = world.place(never, PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&placed), Err("0/2 nodes are available: 2 Insufficient cpu.".into()));
}

#[tokio::test]
async fn who_fits_or_is_gated_displaces_nobody() {
    let mut world = two_full_nodes().await;
    world.apply([Change::UpsertNode(node("free", "4"))]).await;
    let answer = preempt(&mut world, asking(prioritised("p", "1", 10))).await.unwrap();
    assert_eq!(outcome(answer.decision.as_ref().unwrap()), Ok("free"));
    assert_eq!(answer.post_filter, None);
    let gates = json!({"spec": {"priority": 10, "schedulingGates": [{"name": "a"}]}});
    let request = PreemptRequest { nominate: true, ..asking(pod_with("p", "1", &gates)) };
    let answer = preempt(&mut world, request).await.unwrap();
    let decided = answer.decision.unwrap().outcome;
    assert!(matches!(decided, Some(decision::Outcome::Gated(_))), "{decided:?}");
    assert_eq!((answer.post_filter, answer.nomination_generation), (None, None));
}

/// S-PRE-13, S-PRE-19: a budget from `Apply` changes the choice, and its deletion restores it.
#[tokio::test]
async fn a_disruption_budget_spares_its_pods() {
    let mut world = two_full_nodes().await;
    let ask = || asking(prioritised("p", "1", 10));
    world.apply([Change::UpsertPodDisruptionBudget(budget("keep", "low", 0))]).await;
    let answer = preempt(&mut world, ask()).await.unwrap();
    assert_eq!(victims(&answer), ["mid"]);
    // Budgets protect both pods: like kube-scheduler, Berth then evicts the less important one.
    world.apply([Change::UpsertPodDisruptionBudget(budget("keep-mid", "mid", 0))]).await;
    let answer = preempt(&mut world, ask()).await.unwrap();
    assert_eq!(victims(&answer), ["low"]);
    assert_eq!(answer.post_filter.unwrap().chosen.unwrap().n_pdb_violations, 1);
    let refusing = PreemptOptions { refuse_pdb_violations: true, ..PreemptOptions::default() };
    let refused = PreemptRequest { options: Some(refusing), ..ask() };
    let answer = preempt(&mut world, refused.clone()).await.unwrap();
    let ran = answer.post_filter.as_ref().unwrap();
    assert_eq!((ran.code(), &ran.chosen), (PostFilterCode::Unschedulable, &None));
    let gone = berth_proto::berth_v1::ObjectKey {
        kind: "PodDisruptionBudget".into(),
        namespace: String::new(),
        name: "keep".into(),
    };
    world.apply([Change::DeleteObject(gone)]).await;
    assert_eq!(victims(&preempt(&mut world, refused).await.unwrap()), ["low"]);
}

#[tokio::test]
async fn a_snapshot_brings_budgets_and_nominations() {
    let mut world = World::start().await;
    let nominated = json!({"spec": {"priority": 7}, "status": {"nominatedNodeName": "n0"}});
    let deltas = [
        Change::UpsertNode(node("n0", "2")),
        Change::UpsertNode(node("n1", "2")),
        running("low", "2", 1, "n1"),
        Change::UpsertPodDisruptionBudget(budget("keep", "low", 0)),
        Change::UpsertPod(pod_with("promised", "2", &nominated)),
    ];
    let deltas = deltas.map(|change| Delta { change: Some(change) }).to_vec();
    let messages = [
        sync_request::Message::BeginSnapshot(BeginSnapshot {}),
        sync_request::Message::Batch(DeltaBatch { deltas, position: 0 }),
        sync_request::Message::EndSnapshot(EndSnapshot { position: 0 }),
    ];
    let requests = messages.map(|message| SyncRequest { message: Some(message) });
    let answers = world.cluster.sync(tokio_stream::iter(requests)).await.unwrap();
    let mut answers = answers.into_inner();
    while let Some(answer) = answers.message().await.unwrap() {
        assert_eq!(answer.rejections, []);
    }
    let counts = world.counts().await;
    assert_eq!(counts.n_objects["PodDisruptionBudget"], 1);
    let refused = world.place(prioritised("p", "1", 7), PlaceMode::DryRun).await.unwrap();
    assert!(outcome(&refused).is_err(), "`n0` is promised: {refused:?}");
    let above = world.place(prioritised("p", "1", 8), PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&above), Ok("n0"));
    let answer = preempt(&mut world, asking(prioritised("p", "1", 7))).await.unwrap();
    assert_eq!(victims(&answer), ["low"]);
    assert_eq!(answer.post_filter.unwrap().chosen.unwrap().n_pdb_violations, 1);
}

/// S-NOM-1, S-CYC-3, S-PRE-21, S-PRE-24.
#[tokio::test]
async fn a_nomination_holds_the_room_until_the_pod_takes_it() {
    let mut world = two_full_nodes().await;
    let nominate = |pod| PreemptRequest { nominate: true, ..asking(pod) };
    let answer = preempt(&mut world, nominate(prioritised("first", "2", 10))).await.unwrap();
    let counts = world.counts().await;
    assert_eq!(answer.nomination_generation, Some(counts.generation));
    assert_eq!((counts.n_pending_pods, counts.n_pods), (1, 2));

    world.apply([Change::DeletePod(key("low"))]).await;
    let equal = world.place(prioritised("equal", "1", 10), PlaceMode::DryRun).await.unwrap();
    assert!(outcome(&equal).is_err(), "{equal:?}");
    let above = world.place(prioritised("above", "1", 11), PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&above), Ok("n0"), "who is more important is not held up");

    // A more important pod preempts on the same node and takes over the nomination.
    world.apply([running("low", "2", 1, "n0")]).await;
    let answer = preempt(&mut world, nominate(prioritised("second", "2", 20))).await.unwrap();
    let cleared = answer.post_filter.unwrap().cleared_nominations;
    assert_eq!(cleared.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["first"]);
    world.apply([Change::DeletePod(key("low")), Change::UpsertNode(node("n2", "2"))]).await;
    let decided = world.place(prioritised("second", "2", 20), PlaceMode::Assume).await.unwrap();
    let Some(decision::Outcome::Placement(placement)) = &decided.outcome else {
        panic!("{decided:?}")
    };
    assert_eq!(
        (placement.node_name.as_str(), placement.n_feasible_nodes, placement.total_score),
        ("n0", 1, None),
        "its own node is tried first, and no other"
    );
    let first = world.place(prioritised("first", "2", 10), PlaceMode::Assume).await.unwrap();
    assert_eq!(outcome(&first), Ok("n2"));
    assert_eq!(world.counts().await.n_pending_pods, 0);
}

#[tokio::test]
async fn candidates_are_listed_with_those_that_are_none() {
    let mut world = World::start().await;
    world.nodes(4, 2).await;
    world
        .apply([
            running("a", "2", 1, "n0"),
            running("b", "2", 1, "n1"),
            running("c", "2", 3, "n2"),
            running("d-high", "1", 50, "n3"),
            running("d-low", "1", 0, "n3"),
        ])
        .await;
    let options = Some(PreemptOptions { sample_seed: Some(3), ..PreemptOptions::default() });
    let pod = Some(prioritised("p", "2", 10));
    let request = ListCandidatesRequest { pod, options, ..ListCandidatesRequest::default() };
    let list = world.preemption.list_candidates(request).await.unwrap().into_inner();
    let names: Vec<&str> = list.candidates.iter().map(|c| c.node_name.as_str()).collect();
    assert_eq!(names, ["n0", "n1", "n2"]);
    assert_eq!(list.candidates[2].victims[0].pod.as_ref().unwrap().name, "c");
    assert_eq!(list.best_node_names, ["n0", "n1"]);
    let ran = list.post_filter.unwrap();
    assert_eq!((ran.n_candidates, ran.n_best), (3, 2));
    assert!(list.best_node_names.contains(&ran.chosen.unwrap().node_name));
    let [not_helped] = list.not_helped.as_slice() else { panic!("{:?}", list.not_helped) };
    let rejection = not_helped.rejection.as_ref().unwrap();
    assert_eq!((not_helped.node_name.as_str(), not_helped.feasible), ("n3", false));
    assert_eq!(
        (rejection.plugin.as_str(), rejection.code.as_str(), &*rejection.reasons),
        ("NodeResourcesFit", "Unschedulable", &["Insufficient cpu".to_owned()][..])
    );
    assert!(outcome(&list.decision.unwrap()).is_err());
    assert_eq!(world.counts().await.n_pods, 5);
}

#[tokio::test]
async fn victims_say_where_they_could_go() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    world
        .apply([
            running("movable", "1", 2, "n0"),
            running("high", "3", 50, "n0"),
            running("stuck", "3", 1, "n1"),
            running("other", "1", 50, "n1"),
            Change::UpsertNode(node("small", "1")),
            Change::UpsertPod(pod_with("full", "0", &json!({"spec": {"nodeName": "small"}}))),
        ])
        .await;
    // `p` fits on no node; on `n0` and `n1` it does once the less important pod there is gone.
    let pinned =
        json!({"spec": {"priority": 10, "nodeSelector": {"kubernetes.io/hostname": "n0"}}});
    let mut check = async |placement: VictimPlacement, parts, expected: &str| {
        let options = PreemptOptions { victim_placement: placement.into(), ..Default::default() };
        let pod = pod_with("p", "1", parts);
        let request = PreemptRequest { options: Some(options), ..asking(pod) };
        let answer = preempt(&mut world, request).await.unwrap();
        let victim = answer.post_filter.unwrap().chosen.unwrap().victims.remove(0);
        let elsewhere = victim.elsewhere.map(|elsewhere| match elsewhere.outcome.unwrap() {
            elsewhere::Outcome::NodeName(node) => node,
            elsewhere::Outcome::UnschedulableMessage(message) => message,
        });
        let found = format!("{}: {}", victim.pod.unwrap().name, elsewhere.unwrap_or_default());
        assert_eq!(found, expected);
    };
    check(VictimPlacement::Ignore, &pinned, "movable: ").await;
    check(VictimPlacement::Report, &pinned, "movable: small").await;
    let anywhere = json!({"spec": {"priority": 10, "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["small"]}]}]}}}}});
    let nowhere = "stuck: 0/3 nodes are available: 3 Insufficient cpu.";
    check(VictimPlacement::Report, &anywhere, nowhere).await;
    check(VictimPlacement::Prefer, &anywhere, "movable: small").await;
}

#[tokio::test]
async fn refused_requests_name_their_field() {
    let mut world = two_full_nodes().await;
    let check = async |world: &mut World, request: PreemptRequest, field: &str, reason: &str| {
        let expected = (field.to_owned(), reason.to_owned());
        let PreemptRequest { pod, tie_break, options, session_id, .. } = request.clone();
        let status = preempt(world, request).await.unwrap_err();
        assert_eq!((status.code(), violation(&status)), (Code::InvalidArgument, expected.clone()));
        let request =
            ListCandidatesRequest { pod, tie_break, options, session_id, admit: false, key: None };
        let status = world.preemption.list_candidates(request).await.unwrap_err();
        assert_eq!((status.code(), violation(&status)), (Code::InvalidArgument, expected));
    };
    check(
        &mut world,
        PreemptRequest::default(),
        "pod",
        "must be set, or `key`: exactly one of `pod` and `key`",
    )
    .await;
    let odd = pod_with("p", "1", &json!({"spec": {"preemptionPolicy": "Sometimes"}}));
    let reason = "`Sometimes` is not a preemption policy";
    check(&mut world, asking(odd), "spec.preemptionPolicy", reason).await;
    let other = pod_with("p", "1", &json!({"spec": {"schedulerName": "mine"}}));
    let reason = "no profile is called `mine`; there is `default-scheduler`";
    check(&mut world, asking(other), "spec.schedulerName", reason).await;
    let options = Some(PreemptOptions { victim_placement: 9, ..PreemptOptions::default() });
    let request = PreemptRequest { options, ..asking(pod("p", "1")) };
    check(&mut world, request, "options.victim_placement", "`9` is no victim placement").await;
    let tie_break = Some(berth_proto::berth_v1::TieBreak { rule: 9, seed: 0 });
    let request = PreemptRequest { tie_break, ..asking(pod("p", "1")) };
    check(&mut world, request, "tie_break.rule", "`9` is no tie-break rule").await;
    let odd = pod_with("p", "1", &json!({"spec": {"preemptionPolicy": "Sometimes"}}));
    let status = world.place(odd, PlaceMode::DryRun).await.unwrap_err();
    assert_eq!(violation(&status).0, "spec.preemptionPolicy");
}

#[tokio::test]
async fn failures_have_the_documented_codes() {
    let mut world = World::start().await;
    let status = preempt(&mut world, asking(pod("p", "1"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let request =
        ListCandidatesRequest { pod: Some(pod("p", "1")), ..ListCandidatesRequest::default() };
    let status = world.preemption.list_candidates(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);

    world.nodes(1, 2).await;
    let session_id = "f00".to_owned();
    let unknown = PreemptRequest { session_id: session_id.clone(), ..asking(pod("p", "1")) };
    assert_eq!(preempt(&mut world, unknown).await.unwrap_err().code(), Code::NotFound);
    let unknown = ListCandidatesRequest { session_id, ..request };
    let status = world.preemption.list_candidates(unknown).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);

    world.apply([running("low", "1", 1, "n0"), Change::UpsertPod(bound("p", "1", "n0"))]).await;
    let nominated = PreemptRequest { nominate: true, ..asking(prioritised("p", "2", 10)) };
    let status = preempt(&mut world, nominated).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::AlreadyExists, "pod `default/p` is on node `n0` already")
    );
}

#[tokio::test]
async fn attempts_are_counted() {
    let mut world = two_full_nodes().await;
    preempt(&mut world, asking(prioritised("a", "1", 10))).await.unwrap();
    preempt(&mut world, asking(prioritised("b", "1", 0))).await.unwrap();
    preempt(&mut world, asking(prioritised("c", "0", 0))).await.unwrap();
    preempt(&mut world, PreemptRequest::default()).await.unwrap_err();
    let request = ListCandidatesRequest {
        pod: Some(prioritised("a", "1", 10)),
        ..ListCandidatesRequest::default()
    };
    world.preemption.list_candidates(request).await.unwrap();
    let (_, text) = get(world.server.http_address(), "/metrics").await;
    for line in [
        "berth_preemptions_total{outcome=\"success\"} 2",
        "berth_preemptions_total{outcome=\"unschedulable\"} 1",
        "berth_preemptions_total{outcome=\"error\"} 0",
        "berth_placements_total{outcome=\"placed\"} 1",
        "berth_placements_total{outcome=\"unschedulable\"} 3",
        "berth_placements_total{outcome=\"refused\"} 1",
        "berth_place_duration_seconds_count{method=\"Preempt\"} 3",
        "berth_place_duration_seconds_count{method=\"ListCandidates\"} 1",
        "berth_grpc_calls_total{method=\"/berth.v1.PreemptionService/Preempt\",code=\"OK\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}
