//! Tests of forks, commits and gangs on clusters of a few nodes.

use std::cell::Cell;
use std::sync::Arc;

use berth_proto::{core_v1, policy_v1};

use super::Cluster;
use super::batch_request::{BatchOutcome, BatchRequest, Gang};
use super::commit::CommitError;
use super::delta::Delta;
use crate::error::EngineError;
use crate::model::{Pod, PodKey};
use crate::place::basis::Ground;
use crate::place::decision::Outcome;
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::policy::Policy;
use crate::preempt::outcome::{Nomination, PostFilter, PostFilterCode};
use crate::preempt::request::PreemptOptions;
use crate::rows::ROWS;
use berth_testing::object;

fn cluster(nodes: &[&str], pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes.iter().map(|text| node(&cluster, text));
    let deltas = nodes.chain(pods.iter().map(|text| Delta::UpsertPod(pod(&cluster, text))));
    assert_eq!(cluster.apply(deltas.collect()).rejected, []);
    cluster
}

fn node(cluster: &Cluster, text: &str) -> Delta {
    Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap())
}

fn pod(cluster: &Cluster, text: &str) -> Pod {
    cluster.compile_pod(&object::pod(text)).unwrap()
}

fn delete(name: &str) -> Delta {
    Delta::DeletePod { key: PodKey::new("default", name), uid: None }
}

fn assume(cluster: &Cluster, text: &str) -> Arc<str> {
    let (pod, policy) = (pod(cluster, text), Policy::default());
    let tie_break = TieBreak::Lexicographic;
    let decision =
        cluster.assume(&PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None });
    let Outcome::Placed(placement) = decision.unwrap().outcome else { panic!("{text} fits") };
    assert!(placement.assumed);
    placement.node
}

fn nominate(cluster: &Cluster, text: &str, nomination: Nomination) {
    let post_filter = PostFilter {
        code: PostFilterCode::Success,
        message: String::new(),
        nomination,
        chosen: None,
        n_candidates: 0,
        n_best: 0,
        cleared_nominations: Vec::new(),
        given_up: Default::default(),
    };
    cluster.nominate(&pod(cluster, text), &post_filter).unwrap();
}

/// `name@node` of every pod on a node, by name.
fn placed(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.snapshot().pods();
    pods.iter().map(|view| format!("{}@{}", view.pod.key().name, view.node)).collect()
}

/// `name>node` of every nominated pod.
fn promised(cluster: &Cluster) -> Vec<String> {
    let snapshot = cluster.snapshot();
    let names = snapshot.model.names();
    let by_node = snapshot.nominations.iter();
    let nominated = by_node.flat_map(|(node, pods)| {
        pods.iter().map(move |pod| format!("{}>{}", pod.key().name, names.name(node)))
    });
    nominated.collect()
}

fn refusal(live: &Cluster, fork: &Cluster) -> (String, String, Ground, bool) {
    match live.commit(fork).unwrap_err() {
        CommitError::Changed { pod, node, ground } => {
            (pod.name.to_string(), node.to_string(), ground, false)
        }
        CommitError::Hypothetical { pod, node, ground } => {
            (pod.name.to_string(), node.to_string(), ground, true)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn what_happens_on_a_fork_is_seen_there_only() {
    let live = cluster(&["n1 cpu=4 memory=8Gi pods=10"], &["old cpu=1 node=n1"]);
    let before = live.snapshot().generation();
    let fork = live.fork();
    fork.apply(vec![delete("old"), node(&fork, "n2 cpu=8 memory=8Gi pods=10")]);
    assert_eq!(&*assume(&fork, "new cpu=6"), "n2");
    assert_eq!(placed(&fork), ["new@n2"]);
    assert_eq!(placed(&live), ["old@n1"]);
    assert_eq!((live.snapshot().generation(), live.snapshot().n_nodes()), (before, 1));
    live.apply(vec![delete("old")]);
    assert_eq!(fork.snapshot().n_nodes(), 2);
    let again = fork.fork();
    again.apply(vec![delete("new")]);
    assert_eq!((placed(&fork).len(), placed(&again).len()), (1, 0));
}

#[test]
fn a_commit_makes_placements_and_promises_real_once() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=10", "n2 cpu=4 memory=8Gi pods=10"];
    let live = cluster(&nodes, &[]);
    let fork = live.fork();
    assert_eq!(&*assume(&fork, "a cpu=3"), "n1");
    // This decision rests on `a`, which is committed with it.
    assert_eq!(&*assume(&fork, "b cpu=3"), "n2");
    assert_eq!(&*assume(&fork, "c cpu=1"), "n1");
    nominate(&fork, "d cpu=4 priority=5", Nomination::Node("n2".into()));
    nominate(&fork, "e cpu=4 priority=5", Nomination::Node("n2".into()));
    nominate(&fork, "e cpu=4 priority=5", Nomination::Cleared);
    let committed = live.commit(&fork).unwrap();
    assert_eq!((committed.n_assumed, committed.nominated.len()), (3, 1));
    assert_eq!(committed.generation, live.snapshot().generation());
    assert_eq!(placed(&live), ["a@n1", "b@n2", "c@n1"]);
    assert_eq!((promised(&live), live.snapshot().n_assumed()), (vec!["d>n2".to_owned()], 3));
    assert_eq!(live.commit(&fork), Err(CommitError::AlreadyCommitted));
}

#[test]
fn a_commit_is_refused_whole_when_its_ground_changed() {
    let nodes = ["n1 cpu=2 memory=8Gi pods=10", "n2 cpu=2 memory=8Gi pods=10"];
    let check = |changes: &dyn Fn(&Cluster) -> Vec<Delta>, expected: Option<Ground>| {
        let live = cluster(&nodes, &["old cpu=100m node=n2"]);
        let fork = live.fork();
        assert_eq!(&*assume(&fork, "a cpu=1500m"), "n1");
        assert_eq!(&*assume(&fork, "b cpu=1500m"), "n2");
        assert_eq!(live.apply(changes(&live)).rejected, []);
        let before = (placed(&live), live.snapshot().generation());
        match expected {
            Some(ground) => {
                let expected = ("b".to_owned(), "n2".to_owned(), ground, false);
                let all = ("a".to_owned(), "n1".to_owned(), ground, false);
                let refused = refusal(&live, &fork);
                assert!(refused == expected || refused == all, "{refused:?}");
                assert_eq!((placed(&live), live.snapshot().generation()), before);
            }
            None => assert_eq!(live.commit(&fork).unwrap().n_assumed, 2),
        }
    };
    check(&|_| Vec::new(), None);
    check(&|live| vec![node(live, "n3 cpu=4 memory=8Gi pods=10")], None);
    check(&|_| vec![delete("old")], Some(Ground::Pods));
    check(&|_| vec![Delta::DeleteNode("n2".into())], Some(Ground::Node));
    check(&|live| vec![node(live, "n2 cpu=3 memory=8Gi pods=10")], Some(Ground::Node));
    let nominated = "p cpu=1 priority=9";
    check(
        &|live| {
            nominate(live, nominated, Nomination::Node("n1".into()));
            Vec::new()
        },
        Some(Ground::Nominations),
    );
    let live = cluster(&nodes, &[]);
    let fork = live.fork();
    assume(&fork, "a cpu=1");
    assume(&live, "a cpu=1");
    let refused = live.commit(&fork);
    assert!(matches!(refused, Err(CommitError::AlreadyPlaced { pod, .. }) if &*pod.name == "a"));
    assert_eq!(live.commit(&live), Err(CommitError::NotAFork));
    assert_eq!(cluster(&[], &[]).commit(&live.fork()), Err(CommitError::NotAFork));
    assert_eq!(live.commit(&fork.fork()), Err(CommitError::NotAFork));
}

#[test]
fn what_a_session_supposes_cannot_be_committed() {
    let nodes = ["n1 cpu=2 memory=8Gi pods=10", "n2 cpu=2 memory=8Gi pods=10"];
    let live = cluster(&nodes, &["old cpu=2 node=n1"]);
    let fork = live.fork();
    fork.apply(vec![delete("old")]);
    assert_eq!(&*assume(&fork, "a cpu=1"), "n1");
    assert_eq!(refusal(&live, &fork), ("a".to_owned(), "n1".to_owned(), Ground::Node, true));
    // Once `a` is taken back, no supposition is left in the basis.
    fork.apply(vec![delete("a")]);
    assert_eq!(&*assume(&fork, "b cpu=2"), "n1");
    fork.apply(vec![delete("b")]);
    fork.apply(vec![Delta::UpsertPod(pod(&fork, "old cpu=2 node=n1"))]);
    assert_eq!(&*assume(&fork, "c cpu=1"), "n2");
    let committed = live.commit(&fork).unwrap();
    assert_eq!((committed.n_assumed, placed(&live)), (1, vec!["c@n2".into(), "old@n1".into()]));
}

fn gang(cluster: &Cluster, pods: &[&str], gang: Gang, assume: bool) -> BatchOutcome {
    let pods: Vec<Pod> = pods.iter().map(|text| pod(cluster, text)).collect();
    cluster.place_batch(&BatchRequest {
        pods: &pods,
        policy: &Policy::default(),
        tie_break: TieBreak::Lexicographic,
        assume,
        gang: Some(gang),
        cancelled: &|| false,
        now: None,
    })
}

/// The node of each pod: `node`, `node!` where assumed, `-` where unschedulable.
fn nodes_of(outcome: &BatchOutcome) -> Vec<String> {
    let tell = |result: &Result<crate::Decision, EngineError>| match result {
        Ok(decision) => match &decision.outcome {
            Outcome::Placed(p) if p.assumed => format!("{}!", p.node),
            Outcome::Placed(p) => p.node.to_string(),
            _ => "-".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    outcome.results.iter().map(tell).collect()
}

#[test]
fn a_gang_is_placed_as_a_whole_or_not_at_all() {
    let nodes = ["n1 cpu=2 memory=8Gi pods=10", "n2 cpu=2 memory=8Gi pods=10"];
    let members = ["a cpu=2", "b cpu=2", "c cpu=2"];
    let live = cluster(&nodes, &[]);
    let refused = gang(&live, &members, Gang::default(), true);
    assert_eq!(nodes_of(&refused), ["n1", "n2", "-"]);
    let account = refused.gang.unwrap();
    assert_eq!((account.placed, account.n_placed), (false, 2));
    assert_eq!(live.snapshot().n_pods(), 0);
    let enough = Gang { min_count: 2, preempt: None };
    let dry = gang(&live, &members, enough, false);
    assert!(nodes_of(&dry) == ["n1", "n2", "-"] && dry.gang.unwrap().placed);
    assert_eq!(live.snapshot().n_pods(), 0);
    let placed_now = gang(&live, &members, enough, true);
    assert!(nodes_of(&placed_now) == ["n1!", "n2!", "-"] && placed_now.gang.unwrap().placed);
    assert_eq!(placed(&live), ["a@n1", "b@n2"]);
    let again = gang(&live, &["a cpu=0"], Gang::default(), true);
    assert_eq!(nodes_of(&again), ["pod `default/a` is on node `n1` already"]);
    let thrice = gang(&live, &["d cpu=0", "d cpu=0", "d cpu=0"], Gang::default(), true);
    let is_refused = |text: &String| text.ends_with("already");
    assert!(!thrice.gang.as_ref().unwrap().placed && nodes_of(&thrice)[1..].iter().all(is_refused));
    assert_eq!(live.snapshot().n_pods(), 2);
}

#[test]
fn a_cancelled_gang_is_undone() {
    let live = cluster(&["n1 cpu=8 memory=8Gi pods=10"], &[]);
    let pods: Vec<Pod> = ["a cpu=1", "b cpu=1"].map(|text| pod(&live, text)).into();
    for n_polls in 0..3 {
        let polls = Cell::new(0);
        let outcome = live.place_batch(&BatchRequest {
            pods: &pods,
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            assume: true,
            gang: Some(Gang { min_count: 1, preempt: None }),
            cancelled: &|| polls.replace(polls.get() + 1) >= n_polls,
            now: None,
        });
        assert!(!outcome.gang.unwrap().placed, "cancelled after {n_polls} looks");
        assert_eq!(live.snapshot().n_pods(), 0);
    }
}

/// Cancels at the first, second, third … check, until the call completes; returns the number of checks.
fn n_looks<T>(ask: impl Fn(&dyn Fn() -> bool) -> Result<T, EngineError>) -> u32 {
    let try_with = |n_allowed| {
        let n_looks = Cell::new(0);
        match ask(&|| n_looks.replace(n_looks.get() + 1) >= n_allowed) {
            Ok(_) => Some(n_looks.get()),
            Err(error) => {
                assert_eq!(error, EngineError::Cancelled);
                None
            }
        }
    };
    (0..).find_map(try_with).unwrap()
}

#[test]
fn long_operations_check_for_cancellation() {
    let nodes: Vec<String> =
        (0..2 * ROWS + 1).map(|i| format!("n{i:03} cpu=1 memory=1Gi pods=10")).collect();
    let live = cluster(&nodes.iter().map(String::as_str).collect::<Vec<_>>(), &["p node=n000"]);
    let snapshot = live.snapshot();
    // One check for each of the three shards, and one before sorting.
    assert_eq!(n_looks(|cancelled| snapshot.nodes_unless(cancelled)), 4);
    assert_eq!(n_looks(|cancelled| snapshot.pods_unless(cancelled)), 4);
    let policy = Policy::default();
    let n_looks_for = |text: &str| {
        let pod = pod(&live, text);
        let request = PlaceRequest {
            pod: &pod,
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            now: None,
        };
        n_looks(|cancelled| live.explain_unless(&request, &|_| false, cancelled))
    };
    let n_scores = u32::try_from(policy.spec().score.len()).unwrap();
    assert_eq!(n_looks_for("q cpu=1"), 5 + n_scores);
    // Remedies with smaller requests and larger nodes are tried.
    assert!(n_looks_for("q cpu=2") > 5);
}

#[test]
fn members_are_decided_by_priority_and_answered_in_order() {
    let live = cluster(&["n1 cpu=2 memory=8Gi pods=10"], &[]);
    let enough = Gang { min_count: 1, preempt: None };
    let outcome =
        gang(&live, &["a cpu=2", "b cpu=2 priority=7", "c cpu=2 priority=7"], enough, true);
    assert_eq!(nodes_of(&outcome), ["-", "n1!", "-"]);
}

#[test]
fn members_that_need_room_are_promised_it() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=10", "n2 cpu=1 memory=8Gi pods=10"];
    let running = ["v1 cpu=3 node=n1 priority=1", "v2 cpu=1 node=n1 priority=2"];
    let live = cluster(&nodes, &running);
    let evicting = Gang { min_count: 0, preempt: Some(PreemptOptions::default()) };
    // `a` needs the room of `v1`, `b` gets the rest of that room, `c` needs no eviction.
    let members = ["a cpu=2 priority=9", "b cpu=1 priority=8", "c cpu=1 priority=7"];
    let outcome = gang(&live, &members, evicting, true);
    assert_eq!(nodes_of(&outcome), ["n1", "n1", "n2!"]);
    let account = outcome.gang.unwrap();
    assert!(account.placed && account.n_placed == 3);
    let [evicting_one] = &account.preemptions[..] else { panic!("{account:?}") };
    assert_eq!(evicting_one.index, 0);
    let chosen = evicting_one.post_filter.chosen.as_ref().unwrap();
    let victims: Vec<&str> = chosen.victims.iter().map(|victim| &*victim.pod.name).collect();
    assert_eq!(victims, ["v1"]);
    assert_eq!(placed(&live), ["c@n2", "v1@n1", "v2@n1"]);
    assert_eq!(promised(&live), ["a>n1", "b>n1"]);
    // Nothing of a gang is applied that does not fit even with evictions.
    let live = cluster(&nodes, &running);
    let too_many = ["a cpu=4 priority=9", "b cpu=4 priority=9"];
    let outcome = gang(&live, &too_many, evicting, true);
    assert_eq!(nodes_of(&outcome), ["n1", "-"]);
    let account = outcome.gang.unwrap();
    assert!(!account.placed && account.preemptions.is_empty());
    assert_eq!((placed(&live).len(), promised(&live).len()), (2, 0));
}

#[test]
fn members_never_evict_each_other() {
    // `low` runs already and belongs to the gang; only its eviction could make room.
    let live = cluster(&["n1 cpu=4 memory=8Gi pods=10"], &["low cpu=3 node=n1 priority=1"]);
    let evicting = Gang { min_count: 1, preempt: Some(PreemptOptions::default()) };
    let members = ["high cpu=3 priority=9", "low cpu=3 priority=1"];
    let outcome = gang(&live, &members, evicting, true);
    assert_eq!(nodes_of(&outcome), ["-", "pod `default/low` is on node `n1` already"]);
    assert!(!outcome.gang.unwrap().placed && promised(&live).is_empty());
    // Nor does a member evict one that was decided earlier.
    let outcome = gang(&live, &["x cpu=1 priority=3", "y cpu=2 priority=2"], evicting, true);
    assert_eq!(nodes_of(&outcome), ["n1!", "n1"]);
    let victims = &outcome.gang.unwrap().preemptions[0].post_filter;
    assert_eq!(&*victims.chosen.as_ref().unwrap().victims[0].pod.name, "low");
}

#[test]
fn a_gang_on_a_session_is_committed_with_it() {
    let live = cluster(&["n1 cpu=4 memory=8Gi pods=10"], &["v cpu=4 node=n1 priority=1"]);
    let fork = live.fork();
    let evicting = Gang { min_count: 0, preempt: Some(PreemptOptions::default()) };
    let outcome = gang(&fork, &["a cpu=2 priority=9", "b cpu=2 priority=9"], evicting, true);
    assert_eq!(
        (nodes_of(&outcome), placed(&live)),
        (vec!["n1".into(), "n1".into()], vec!["v@n1".into()])
    );
    assert_eq!(promised(&live), Vec::<String>::new());
    let committed = live.commit(&fork).unwrap();
    assert_eq!((committed.n_assumed, committed.nominated.len()), (0, 2));
    assert_eq!(promised(&live), ["a>n1", "b>n1"]);
}

/// A namespace whose pods run on the same node as pods with anti-affinity to those of team `a`.
fn kept_away() -> Cluster {
    let live = cluster(&["n1 cpu=4 memory=8Gi pods=10 label:host=n1"], &[]);
    let wants_distance = serde_json::from_str(
        r#"{"metadata": {"name": "x", "namespace": "default", "uid": "x"}, "spec": {"nodeName": "n1", "affinity": {"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}},
             "namespaceSelector": {"matchLabels": {"team": "a"}}}]}}}}"#,
    );
    let pod = live.compile_pod(&wants_distance.unwrap()).unwrap();
    live.apply(vec![team(&live, "a"), Delta::UpsertPod(pod)]);
    live
}

fn team(cluster: &Cluster, team: &str) -> Delta {
    let json = format!(r#"{{"metadata": {{"name": "ns", "labels": {{"team": "{team}"}}}}}}"#);
    let namespace: core_v1::Namespace = serde_json::from_str(&json).unwrap();
    Delta::UpsertObject(cluster.compile_object(&namespace).unwrap())
}

fn of_namespace(cluster: &Cluster) -> Pod {
    let pod = r#"{"metadata": {"name": "p", "namespace": "ns", "uid": "p", "labels": {"app": "x"}}, "spec": {}}"#;
    cluster.compile_pod(&serde_json::from_str(pod).unwrap()).unwrap()
}

/// A pod without terms of its own still rests on its namespace: terms of others may select that.
#[test]
fn a_relabelled_namespace_keeps_a_commit_back() {
    let live = kept_away();
    let fork = live.fork();
    fork.apply(vec![team(&fork, "b")]);
    let (pod, policy) = (of_namespace(&fork), Policy::default());
    let tie_break = TieBreak::Lexicographic;
    let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
    let is_placed =
        |cluster: &Cluster| matches!(cluster.assume(&request).unwrap().outcome, Outcome::Placed(_));
    assert!(is_placed(&fork) && !is_placed(&live));
    assert_eq!(refusal(&live, &fork), ("p".into(), "n1".into(), Ground::Objects, true));
    live.apply(vec![team(&live, "b")]);
    let fork = live.fork();
    assert!(is_placed(&fork));
    live.apply(vec![team(&live, "a")]);
    assert_eq!(refusal(&live, &fork), ("p".into(), "n1".into(), Ground::Objects, false));
}

/// A nomination never binds a pod, whatever its spec says, and is never given to another pod of the same name.
#[test]
fn a_nomination_applies_to_the_decided_pod_only() {
    let live = cluster(&["n1 cpu=4 memory=8Gi pods=10"], &["p uid=old cpu=1"]);
    nominate(&live, "p uid=new cpu=4 priority=9 node=n1", Nomination::Node("n1".into()));
    let snapshot = live.snapshot();
    assert_eq!((snapshot.n_pods(), snapshot.n_pending()), (0, 1));
    assert_eq!(promised(&live), ["p>n1"]);
    let (other, policy) = (pod(&live, "q cpu=1 priority=8"), Policy::default());
    let tie_break = TieBreak::Lexicographic;
    let outcome =
        live.place(&PlaceRequest { pod: &other, policy: &policy, tie_break, now: None }).unwrap();
    assert!(matches!(outcome.outcome, Outcome::Unschedulable(_)), "the new pod holds the room");
}

/// A commit applies to the decided pod only: not if it was deleted, nor over one that replaced it.
#[test]
fn a_pod_that_is_gone_is_not_committed() {
    for successor in [None, Some("p uid=new cpu=1")] {
        let live = cluster(&["n1 cpu=4 memory=8Gi pods=10"], &["p uid=old cpu=1"]);
        let fork = live.fork();
        assume(&fork, "p uid=old cpu=1");
        live.apply(vec![delete("p")]);
        live.apply(successor.map(|text| Delta::UpsertPod(pod(&live, text))).into_iter().collect());
        assert_eq!(refusal(&live, &fork), ("p".into(), "n1".into(), Ground::Pod, false));
        assert_eq!(live.snapshot().n_pending(), usize::from(successor.is_some()));
    }
}

/// A nomination rests on the disruption budgets, and clearing one because nothing helps rests on everything.
#[test]
fn suppositions_do_not_make_or_break_promises() {
    let live = cluster(&["n1 cpu=4 memory=8Gi pods=10"], &["l cpu=1 nominated=n1"]);
    let budget =
        r#"{"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}}"#;
    let budget: policy_v1::PodDisruptionBudget = serde_json::from_str(budget).unwrap();
    let budget = || Delta::UpsertObject(live.compile_object(&budget).unwrap());
    let fork = live.fork();
    fork.apply(vec![budget()]);
    nominate(&fork, "p cpu=1", Nomination::Node("n1".into()));
    assert_eq!(refusal(&live, &fork), ("p".into(), "n1".into(), Ground::Budgets, true));
    let fork = live.fork();
    nominate(&fork, "p cpu=1", Nomination::Node("n1".into()));
    live.apply(vec![budget()]);
    assert_eq!(refusal(&live, &fork), ("p".into(), "n1".into(), Ground::Budgets, false));
    let fork = live.fork();
    fork.apply(vec![Delta::DeleteNode("n1".into())]);
    nominate(&fork, "l cpu=1", Nomination::Cleared);
    assert_eq!(refusal(&live, &fork), ("l".into(), "n1".into(), Ground::OtherNodes, true));
    assert_eq!(promised(&live), ["l>n1"]);
}

/// A pod that is taken back counts as never decided: the rest of the session can be committed.
#[test]
fn taking_back_supposes_nothing() {
    let live = cluster(&["n1 cpu=4 memory=8Gi pods=10"], &["low cpu=1 nominated=n1"]);
    let fork = live.fork();
    assume(&fork, "a cpu=1");
    assume(&fork, "b cpu=1");
    let post_filter = PostFilter {
        code: PostFilterCode::Success,
        message: String::new(),
        nomination: Nomination::Node("n1".into()),
        chosen: None,
        n_candidates: 1,
        n_best: 1,
        cleared_nominations: vec![PodKey::new("default", "low")],
        given_up: Default::default(),
    };
    let preemptor = pod(&fork, "p cpu=1 priority=9");
    fork.nominate(&preemptor, &post_filter).unwrap();
    let of = |name: &str| (PodKey::new("default", name), Arc::from(name));
    fork.take_back(&[of("b"), of("p"), (PodKey::new("default", "a"), "another".into())]);
    assert_eq!((placed(&fork), promised(&fork)), (vec!["a@n1".to_owned()], Vec::new()));
    let committed = live.commit(&fork).unwrap();
    assert_eq!((committed.n_assumed, committed.nominated.len()), (1, 0));
    assert_eq!(
        (placed(&live), promised(&live)),
        (vec!["a@n1".to_owned()], vec!["low>n1".to_owned()])
    );
}

/// Questions name labels, topology keys, resources and namespaces that nobody has: what stays of them is bounded.
#[test]
fn what_dry_runs_name_leaves_no_trace() {
    let cluster = cluster(&["n cpu=4"], &[]);
    let (n_before, policy) = (cluster.model.names().len(), Policy::default());
    let ask = |i: usize| {
        let asked: core_v1::Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": format!("space-{i}"), "labels": {format!("label-{i}"): "x"}},
            "spec": {
                "nodeSelector": {format!("selected-{i}"): format!("value-{i}")},
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": format!("key-{i}"), "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {format!("label-{i}"): "x"}}}],
                "containers": [{"name": "c", "resources": {"requests": {format!("example.com/r-{i}"): "1"}}}]}
        }))
        .unwrap();
        let pod = cluster.compile_pod(&asked).unwrap();
        let tie_break = TieBreak::Lexicographic;
        cluster.place(&PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None }).unwrap();
    };
    (0..20_000).for_each(ask);
    let n_names = cluster.model.names().len() - n_before;
    assert!(n_names < 20_000, "{n_names} of 120,000 names stayed");
    // A fork forgets everything that it brought.
    let fork = cluster.fork();
    let n_before = cluster.model.names().len();
    let node = object::node("guest cpu=4 label:zone=nowhere");
    fork.apply(vec![Delta::UpsertNode(fork.compile_node(&node).unwrap())]);
    assert!(cluster.model.names().len() > n_before);
    drop(fork);
    assert_eq!(cluster.model.names().len(), n_before);
}
