//! Batches: the order of decisions, and gangs, which are placed entirely or not at all.

use std::collections::BTreeMap;

use berth_engine::{Policy, PolicySpec};
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    BatchEntry, Gang, PlaceBatchRequest, PlaceBatchResponse, PlaceMode, PreemptOptions, decision,
};
use berth_proto::core_v1::Pod;
use berth_server::policy::Profiles;
use berth_server::runtime::ServerOptions;
use serde_json::json;
use tonic::{Code, Status};

use crate::grpc::preemption::{prioritised, running};
use crate::grpc::world::{World, entry, key, options, outcome, pod, pod_with, result, violation};

async fn place(
    world: &mut World,
    entries: Vec<BatchEntry>,
    mode: PlaceMode,
    gang: Option<Gang>,
) -> Result<PlaceBatchResponse, Status> {
    let mode = mode as i32;
    let request = PlaceBatchRequest { entries, mode, gang, ..PlaceBatchRequest::default() };
    world.placement.place_batch(request).await.map(tonic::Response::into_inner)
}

/// The node of each pod, in the order of the request.
fn nodes(response: &PlaceBatchResponse) -> Vec<Option<&str>> {
    response.results.iter().map(|r| outcome(result(r).unwrap()).ok()).collect()
}

fn is_assumed(response: &PlaceBatchResponse) -> Vec<bool> {
    let assumed = |r| match &result(r).unwrap().outcome {
        Some(decision::Outcome::Placement(placement)) => placement.assumed,
        _ => false,
    };
    response.results.iter().map(assumed).collect()
}

/// S-Q-3: the more important pod is decided first, wherever it is in the request; results have the order of the
/// request.
#[tokio::test]
async fn a_batch_is_decided_by_priority_then_arrival() {
    for mode in [PlaceMode::DryRun, PlaceMode::Assume] {
        let mut world = World::start().await;
        world.nodes(3, 1).await;
        let entries = vec![
            entry(prioritised("low", "1", 0), 1),
            entry(prioritised("a", "1", 5), 1),
            entry(prioritised("b", "1", 5), 1),
            entry(prioritised("high", "1", 9), 1),
        ];
        let answer = place(&mut world, entries, mode, None).await.unwrap();
        assert_eq!(nodes(&answer), [None, Some("n1"), Some("n2"), Some("n0")]);
        assert_eq!(answer.gang, None);
    }
}

#[tokio::test]
async fn priority_counts_across_profiles() {
    let other = PolicySpec { scheduler_name: "other".into(), ..PolicySpec::default() };
    let profiles = Profiles::from(vec![Policy::default(), Policy::new(other).unwrap()]);
    let mut world = World::with(ServerOptions { profiles, ..options() }).await;
    world.nodes(2, 1).await;
    let of_other = |name: &str, priority: i32| {
        let parts = json!({"spec": {"schedulerName": "other", "priority": priority}});
        entry(pod_with(name, "1", &parts), 1)
    };
    let entries = vec![
        entry(prioritised("a", "1", 1), 1),
        of_other("b", 2),
        entry(prioritised("c", "1", 3), 1),
        entry(Pod::default(), 2),
        of_other("d", 1),
    ];
    let answer = place(&mut world, entries, PlaceMode::Assume, None).await.unwrap();
    let found: Vec<_> = answer
        .results
        .iter()
        .map(|r| result(r).map_or(Err("refused"), |decided| Ok(outcome(decided).ok())))
        .collect();
    let refused = Err("refused");
    assert_eq!(found, [Ok(None), Ok(Some("n1")), Ok(Some("n0")), refused, refused, Ok(None)]);
}

#[tokio::test]
async fn a_gang_is_placed_entirely_or_not_at_all() {
    let mut world = World::start().await;
    world.nodes(3, 1).await;
    let before = world.counts().await.generation;
    let all = Some(Gang::default());
    let answer =
        place(&mut world, vec![entry(pod("web", "1"), 4)], PlaceMode::Assume, all).await.unwrap();
    let gang = answer.gang.as_ref().unwrap();
    assert_eq!((gang.placed, gang.n_placed), (false, 3));
    assert_eq!(nodes(&answer), [Some("n0"), Some("n1"), Some("n2"), None], "how far it came");
    assert!(!is_assumed(&answer).contains(&true));
    let counts = world.counts().await;
    assert_eq!((counts.n_assumed_pods, counts.generation), (0, before));

    let dry = place(&mut world, vec![entry(pod("web", "1"), 3)], PlaceMode::DryRun, all).await;
    assert!(dry.unwrap().gang.unwrap().placed);
    assert_eq!(world.counts().await.n_assumed_pods, 0);

    let answer =
        place(&mut world, vec![entry(pod("web", "1"), 3)], PlaceMode::Assume, all).await.unwrap();
    let gang = answer.gang.as_ref().unwrap();
    assert_eq!((gang.placed, gang.n_placed), (true, 3));
    assert_eq!(is_assumed(&answer), [true; 3]);
    let counts = world.counts().await;
    assert_eq!((counts.n_assumed_pods, counts.generation), (3, before + 1), "in one generation");
}

#[tokio::test]
async fn a_gang_may_ask_for_less_than_all() {
    let mut world = World::start().await;
    world.nodes(3, 1).await;
    let gang = |min_count| Some(Gang { min_count, ..Gang::default() });
    let entries = || vec![entry(pod("web", "1"), 5)];
    let answer = place(&mut world, entries(), PlaceMode::Assume, gang(4)).await.unwrap();
    assert!(!answer.gang.unwrap().placed);
    let answer = place(&mut world, entries(), PlaceMode::Assume, gang(3)).await.unwrap();
    assert_eq!(is_assumed(&answer), [true, true, true, false, false]);
    assert_eq!(answer.gang.unwrap().n_placed, 3);
    assert_eq!(world.counts().await.n_assumed_pods, 3);
}

/// S-PRE-21 for each member that preempts: it is nominated to its node, and the other members are assumed with it.
#[tokio::test]
async fn a_gang_may_displace_others() {
    let mut world = World::start().await;
    world.nodes(3, 2).await;
    world.apply([running("low", "2", 1, "n0"), running("high", "2", 90, "n1")]).await;
    let gang = |preempt| Some(Gang { preempt, ..Gang::default() });
    let members = |n| vec![entry(prioritised("web", "2", 10), n)];
    let answer = place(&mut world, members(2), PlaceMode::Assume, gang(false)).await.unwrap();
    assert!(!answer.gang.unwrap().placed);
    let answer = place(&mut world, members(3), PlaceMode::Assume, gang(true)).await.unwrap();
    let reported = answer.gang.unwrap();
    assert_eq!((reported.placed, reported.preemptions), (false, vec![]), "nobody moves `high`");
    assert_eq!(world.counts().await.n_pending_pods, 0);
    let dry = place(&mut world, members(2), PlaceMode::DryRun, gang(true)).await.unwrap();
    assert_eq!(dry.gang.unwrap().preemptions.len(), 1);
    assert_eq!(world.counts().await.n_pending_pods, 0);

    let before = world.counts().await.generation;
    let answer = place(&mut world, members(2), PlaceMode::Assume, gang(true)).await.unwrap();
    assert_eq!(nodes(&answer), [Some("n2"), Some("n0")]);
    assert_eq!(is_assumed(&answer), [true, false]);
    let reported = answer.gang.as_ref().unwrap();
    assert_eq!((reported.placed, reported.n_placed), (true, 2));
    let [preemption] = reported.preemptions.as_slice() else { panic!("{reported:?}") };
    assert_eq!(preemption.index, 1);
    let chosen = preemption.post_filter.as_ref().unwrap().chosen.as_ref().unwrap();
    let victims: Vec<_> = chosen.victims.iter().map(|v| &*v.pod.as_ref().unwrap().name).collect();
    assert_eq!((chosen.node_name.as_str(), victims), ("n0", vec!["low"]));
    let counts = world.counts().await;
    assert_eq!((counts.n_assumed_pods, counts.n_pending_pods), (1, 1));
    assert_eq!(counts.generation, before + 1);
    world.apply([Change::DeletePod(key("low"))]).await;
    let other = world.place(prioritised("other", "1", 10), PlaceMode::DryRun).await.unwrap();
    assert!(outcome(&other).is_err(), "`n0` is promised to `web-1`");
}

#[tokio::test]
async fn refused_gangs_name_their_field_and_place_nobody() {
    let other = PolicySpec { scheduler_name: "other".into(), ..PolicySpec::default() };
    let profiles = Profiles::from(vec![Policy::default(), Policy::new(other).unwrap()]);
    let mut world = World::with(ServerOptions { profiles, ..options() }).await;
    world.nodes(2, 4).await;
    let fine = || entry(pod("fine", "1"), 1);
    let check = async |world: &mut World, entries, gang: Gang, field: &str, reason: &str| {
        let status = place(world, entries, PlaceMode::Assume, Some(gang)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(violation(&status), (field.to_owned(), reason.to_owned()));
    };
    let all = Gang::default();
    let bad = pod_with("bad", "1", &json!({"spec": {"preemptionPolicy": "Perhaps"}}));
    let field = "entries[1].pod.spec.preemptionPolicy";
    let reason = "`Perhaps` is not a preemption policy";
    check(&mut world, vec![fine(), entry(bad, 3)], all, field, reason).await;
    let none = BatchEntry::default();
    check(&mut world, vec![fine(), none], all, "entries[1].pod", "must be set").await;
    let other = pod_with("other", "1", &json!({"spec": {"schedulerName": "other"}}));
    let field = "entries[1].pod.spec.schedulerName";
    let reason = "the pods of a gang are of one scheduler name";
    check(&mut world, vec![fine(), entry(other, 1)], all, field, reason).await;
    check(&mut world, vec![], all, "entries", "a gang has at least one pod").await;
    let many = Gang { min_count: 3, ..all };
    let reason = "asks for 3 of 2 pods";
    check(&mut world, vec![entry(pod("web", "1"), 2)], many, "gang.min_count", reason).await;
    let idle = Gang { preempt_options: Some(PreemptOptions::default()), ..all };
    let reason = "has no effect without `gang.preempt`";
    check(&mut world, vec![fine()], idle, "gang.preempt_options", reason).await;
    let options = PreemptOptions { victim_placement: -1, ..PreemptOptions::default() };
    let odd = Gang { preempt: true, preempt_options: Some(options), ..all };
    let field = "gang.preempt_options.victim_placement";
    check(&mut world, vec![fine()], odd, field, "`-1` is no victim placement").await;
    assert_eq!(world.counts().await.n_assumed_pods, 0);
}

/// Gangs and single pods race for room that not all of them can have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_gangs_leave_no_part_of_themselves_behind() {
    const N_GANGS: u32 = 24;
    const N_MEMBERS: u32 = 5;
    let mut world = World::start().await;
    world.nodes(10, 6).await;
    let mut gangs = Vec::new();
    for number in 0..N_GANGS {
        let mut client = world.placement.clone();
        gangs.push(tokio::spawn(async move {
            let is_gang = number % 4 != 3;
            let request = PlaceBatchRequest {
                entries: vec![entry(pod(&format!("g{number}"), "1"), N_MEMBERS)],
                mode: PlaceMode::Assume as i32,
                gang: is_gang.then(Gang::default),
                ..PlaceBatchRequest::default()
            };
            let answer = client.place_batch(request).await.unwrap().into_inner();
            let n_assumed = is_assumed(&answer).iter().filter(|assumed| **assumed).count();
            if let Some(gang) = answer.gang {
                let expected = if gang.placed { N_MEMBERS as usize } else { 0 };
                assert_eq!(n_assumed, expected, "g{number}");
            }
            (format!("g{number}"), n_assumed)
        }));
    }
    let mut answered = BTreeMap::new();
    for gang in gangs {
        let (name, n_assumed) = gang.await.unwrap();
        answered.insert(name, n_assumed);
    }
    let mut listed: BTreeMap<String, usize> =
        answered.keys().map(|name| (name.clone(), 0)).collect();
    for pod in world.list_pods().await {
        let name = pod.key.unwrap().name;
        *listed.get_mut(name.split_once('-').unwrap().0).unwrap() += 1;
    }
    assert_eq!(listed, answered);
    let n_placed: usize = listed.values().sum();
    assert!((56..=60).contains(&n_placed), "sixty cores, and 120 pods that want one: {n_placed}");
    assert!(world.list_nodes().await.iter().all(|node| node.requested["cpu"] <= 6_000));
}
