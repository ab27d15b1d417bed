//! A cluster that does what another one did is like it at every generation, from wherever it begins.

use std::sync::{Arc, Mutex};

use berth_testing::object;
use proptest::prelude::*;
use serde_json::json;

use crate::cluster::Cluster;
use crate::cluster::batch_request::{BatchOutcome, BatchRequest, Gang};
use crate::cluster::change::Change;
use crate::cluster::delta::{ClusterState, Delta};
use crate::cluster::history::RedoError;
use crate::cluster::observer::{Attempt, Observer};
use crate::cluster::reservation::Reservation;
use crate::error::EngineError;
use crate::model::volume::VolumeBindings;
use crate::model::{Object, Pod, PodKey};
use crate::place::decision::{Decision, Outcome};
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::policy::Policy;
use crate::preempt::request::{PreemptOptions, PreemptRequest};
use crate::snapshot::Generation;

/// Everything that a cluster tells.
#[derive(Debug, Default)]
struct Noted {
    changes: Mutex<Vec<(Generation, Vec<Change>)>>,
    attempts: Mutex<Vec<(Generation, Made)>>,
}

/// An attempt, with what it was made from.
#[derive(Debug)]
struct Made {
    pods: Vec<Pod>,
    kind: Kind,
    result: String,
}

#[derive(Copy, Clone, Debug)]
enum Kind {
    Place { assumes: bool },
    Batch { assumes: bool, gang: Option<Gang> },
    Preempt,
}

impl Observer for Noted {
    fn changed(&self, generation: Generation, changes: Vec<Change>) {
        self.changes.lock().unwrap().push((generation, changes));
    }

    fn decided(&self, generation: Generation, attempt: &Attempt<'_>) {
        let made = match *attempt {
            Attempt::Place { request, assumes, result } => Made {
                pods: vec![request.pod.clone()],
                kind: Kind::Place { assumes },
                result: format!("{:?}", result.cloned().map(without_stamp)),
            },
            Attempt::Batch { request, positions, outcome } => Made {
                pods: positions.iter().map(|at| request.pods[*at].clone()).collect(),
                kind: Kind::Batch { assumes: request.assume, gang: request.gang },
                result: batch_text(
                    positions.iter().map(|at| outcome.results[*at].clone()),
                    outcome,
                ),
            },
            Attempt::Preempt { request, result } => Made {
                pods: vec![request.pod.clone()],
                kind: Kind::Preempt,
                result: format!("{result:?}"),
            },
        };
        self.attempts.lock().unwrap().push((generation, made));
    }
}

fn batch_text(
    results: impl Iterator<Item = Result<Decision, EngineError>>,
    outcome: &BatchOutcome,
) -> String {
    let results: Vec<_> = results.map(|result| result.map(without_stamp)).collect();
    format!("{results:?} {:?}", outcome.gang)
}

/// A stamp is a name that the cluster gives an assumption; no decision depends on it.
fn without_stamp(mut decision: Decision) -> Decision {
    if let Outcome::Placed(placement) = &mut decision.outcome {
        placement.stamp = None;
    }
    decision
}

impl Made {
    /// Makes the attempt on another cluster, and returns the answer as text.
    fn again(&self, cluster: &Cluster) -> String {
        let policy = &Policy::default();
        let (tie_break, now, options) = (TieBreak::Lexicographic, None, PreemptOptions::default());
        match self.kind {
            Kind::Place { assumes } => {
                let place = PlaceRequest { pod: &self.pods[0], policy, tie_break, now };
                let result = cluster.place(&place).map(|mut decision| {
                    if let Outcome::Placed(placement) = &mut decision.outcome {
                        placement.assumed = assumes;
                    }
                    decision
                });
                format!("{result:?}")
            }
            Kind::Batch { assumes, gang } => {
                let outcome = cluster.fork().place_batch(&BatchRequest {
                    pods: &self.pods,
                    policy,
                    tie_break,
                    assume: assumes,
                    gang,
                    cancelled: &|| false,
                    now,
                });
                batch_text(outcome.results.iter().cloned(), &outcome)
            }
            Kind::Preempt => {
                let pod = &self.pods[0];
                let cancelled = &|| false;
                let request = PreemptRequest { pod, policy, tie_break, now, options, cancelled };
                format!("{:?}", cluster.preempt(&request))
            }
        }
    }
}

/// Something that a caller or a feed does.
#[derive(Clone, Debug)]
enum Act {
    Node(String),
    DeleteNode(String),
    Report(String),
    DeletePod(String),
    Replace(Vec<String>, Vec<String>),
    Assume(String),
    Gang(Vec<String>),
    AssumeOn(String, String),
    Restore(String, String),
    Preempt(String),
    TakeBack(String, String),
    Withdraw(String, String),
    GiveBack(String),
    Fence(String, bool),
    ForgetContradictions,
}

fn name(of: &'static str, n: usize) -> impl Strategy<Value = String> {
    (0..n).prop_map(move |i| format!("{of}{i}"))
}

fn node() -> impl Strategy<Value = String> {
    let image = prop::option::of((0..2_u32, 100..102_u32));
    (name("n", 4), 1..5_u32, any::<bool>(), 0..2_u32, image).prop_map(
        |(name, cpu, cordoned, zone, image)| {
            let image = image.map_or(String::new(), |(i, size)| format!(" image=i{i}:1@{size}Mi"));
            format!(
                "{name} cpu={cpu} memory=8Gi pods=4 cordoned={cordoned} label:zone=z{zone}{image}"
            )
        },
    )
}

/// A pod, unscheduled.
fn pod() -> impl Strategy<Value = String> {
    let more = prop_oneof![
        3 => Just(String::new()),
        1 => (0..3_u32).prop_map(|i| format!(" claim=c{i}")),
        1 => Just(" far=zone,app:a".to_owned()),
        1 => Just(" spread=zone,1,DoNotSchedule,app:a".to_owned()),
        1 => Just(" port=80".to_owned()),
        1 => (0..2_u32).prop_map(|i| format!(" image=i{i}:1")),
    ];
    (name("p", 7), 0..2_u32, 1..4_u32, 0..2_u32, more).prop_map(
        |(name, uid, cpu, priority, more)| {
            format!("{name} uid={name}-{uid} cpu={cpu} priority={priority} label:app=a{more}")
        },
    )
}

/// A pod as a feed reports it.
fn reported() -> impl Strategy<Value = String> {
    let place = prop_oneof![
        2 => Just(String::new()),
        4 => name("n", 5).prop_map(|node| format!(" node={node}")),
        1 => name("n", 5).prop_map(|node| format!(" nominated={node}")),
    ];
    (pod(), place, 0..30_u32)
        .prop_map(|(pod, place, version)| format!("{pod}{place} version={version}"))
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => node().prop_map(Act::Node),
        1 => name("n", 4).prop_map(Act::DeleteNode),
        6 => reported().prop_map(Act::Report),
        2 => name("p", 7).prop_map(Act::DeletePod),
        1 => (prop::collection::vec(node(), 1..4), prop::collection::vec(reported(), 0..6))
            .prop_map(|(nodes, pods)| Act::Replace(nodes, pods)),
        4 => pod().prop_map(Act::Assume),
        1 => prop::collection::vec(pod(), 1..4).prop_map(Act::Gang),
        2 => (pod(), name("n", 4)).prop_map(|(pod, node)| Act::AssumeOn(pod, node)),
        1 => (pod(), name("n", 5)).prop_map(|(pod, node)| Act::Restore(pod, node)),
        2 => pod().prop_map(Act::Preempt),
        1 => (name("p", 7), 0..2_u32).prop_map(|(p, uid)| Act::TakeBack(p.clone(), format!("{p}-{uid}"))),
        1 => (name("p", 7), 0..2_u32).prop_map(|(p, uid)| Act::Withdraw(p.clone(), format!("{p}-{uid}"))),
        1 => name("p", 7).prop_map(Act::GiveBack),
        1 => (name("n", 5), any::<bool>()).prop_map(|(node, is_fenced)| Act::Fence(node, is_fenced)),
        1 => Just(Act::ForgetContradictions),
    ]
}

fn compile(cluster: &Cluster, text: &str) -> Pod {
    cluster.compile_kept_pod(&object::pod(text)).unwrap()
}

fn compile_reported(cluster: &Cluster, text: &str) -> Pod {
    cluster.compile_reported_pod(&object::pod(text)).unwrap()
}

fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

fn carry_out(cluster: &Cluster, act: Act) {
    let policy = &Policy::default();
    let (tie_break, now) = (TieBreak::Lexicographic, None);
    match act {
        Act::Node(text) => {
            let node = cluster.compile_node(&object::node(&text)).unwrap();
            cluster.apply(vec![Delta::UpsertNode(node)]);
        }
        Act::DeleteNode(name) => drop(cluster.apply(vec![Delta::DeleteNode(name.into())])),
        Act::Report(text) => {
            cluster.apply(vec![Delta::UpsertPod(compile_reported(cluster, &text))]);
        }
        Act::DeletePod(name) => {
            cluster.apply(vec![Delta::DeletePod { key: key(&name), uid: None }]);
        }
        Act::Replace(nodes, pods) => {
            let node = |text: &String| cluster.compile_node(&object::node(text)).unwrap();
            let nodes = nodes.iter().map(node).collect();
            let pods = pods.iter().map(|text| compile_reported(cluster, text)).collect();
            cluster.replace(ClusterState { nodes, objects: storage(cluster), pods });
        }
        Act::Assume(text) => {
            let pod = &compile(cluster, &text);
            drop(cluster.assume(&PlaceRequest { pod, policy, tie_break, now }));
        }
        Act::Gang(texts) => {
            let pods: Vec<Pod> = texts.iter().map(|text| compile(cluster, text)).collect();
            cluster.place_batch(&BatchRequest {
                pods: &pods,
                policy,
                tie_break,
                assume: true,
                gang: Some(Gang { min_count: 1, preempt: Some(PreemptOptions::default()) }),
                cancelled: &|| false,
                now,
            });
        }
        Act::AssumeOn(text, node) => {
            let pod = compile(cluster, &text);
            drop(cluster.assume_on(pod.key(), pod.uid(), &node, Some(&pod)));
        }
        Act::Restore(text, node) => {
            let pod = compile(cluster, &text);
            let (volumes, devices) = (VolumeBindings::default(), None);
            cluster.restore(&[Reservation { pod, node: node.into(), volumes, devices }]);
        }
        Act::Preempt(text) => {
            let pod = &compile(cluster, &text);
            let request = PreemptRequest {
                pod,
                policy,
                tie_break,
                now,
                options: PreemptOptions::default(),
                cancelled: &|| false,
            };
            if let Ok(attempt) = cluster.preempt(&request)
                && let Some(post_filter) = attempt.post_filter
            {
                drop(cluster.nominate(pod, &post_filter));
            }
        }
        Act::TakeBack(name, uid) => drop(cluster.take_back(&[(key(&name), uid.into())])),
        Act::Withdraw(name, uid) => cluster.withdraw_nominations(&[(key(&name), uid.into())]),
        Act::GiveBack(name) => drop(cluster.give_back(&[(key(&name), None)])),
        Act::Fence(node, is_fenced) => drop(cluster.set_fenced(&node, is_fenced)),
        Act::ForgetContradictions => cluster.clear_contradictions(),
    }
}

/// A class whose claims are bound once their pod has a node, claims of it, and volumes for them.
fn storage(cluster: &Cluster) -> Vec<Object> {
    let class = json!({"metadata": {"name": "wait"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"});
    let class: berth_proto::storage_v1::StorageClass = serde_json::from_value(class).unwrap();
    let mut objects = vec![cluster.compile_object(&class).unwrap()];
    for i in 0..3 {
        let spec = json!({"storageClassName": "wait", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}});
        let claim =
            json!({"metadata": {"name": format!("c{i}"), "namespace": "default"}, "spec": spec});
        let claim: berth_proto::core_v1::PersistentVolumeClaim =
            serde_json::from_value(claim).unwrap();
        objects.push(cluster.compile_object(&claim).unwrap());
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": [format!("z{}", i % 2)]}]}]);
        let spec = json!({"storageClassName": "wait", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": format!("{}Gi", i + 1)}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
        let volume = json!({"metadata": {"name": format!("v{i}")}, "spec": spec});
        let volume: berth_proto::core_v1::PersistentVolume =
            serde_json::from_value(volume).unwrap();
        objects.push(cluster.compile_object(&volume).unwrap());
    }
    objects
}

/// Everything that can be asked of a cluster, and what it decides for some pods.
fn account(cluster: &Cluster) -> String {
    let snapshot = cluster.snapshot();
    let names = snapshot.model.names();
    let policy = &Policy::default();
    let (tie_break, now) = (TieBreak::Lexicographic, None);
    let decisions: Vec<String> = [
        "q1 cpu=1 priority=1",
        "q2 cpu=3 priority=1 label:app=a far=zone,app:a",
        "q3 cpu=1 claim=c0",
        "q4 cpu=1 port=80",
        "q5 cpu=1 image=i0:1",
    ]
    .iter()
    .map(|text| {
        let pod = &compile(cluster, text);
        let options = PreemptOptions::default();
        let request = PreemptRequest { pod, policy, tie_break, now, options, cancelled: &|| false };
        format!("{:?}", cluster.preempt(&request))
    })
    .collect();
    let writer = cluster.writer();
    let mut pods: Vec<String> = writer
        .known_pods()
        .map(|known| {
            let (pod, facts) = (known.pod, known.pod.facts());
            let nominated = snapshot.nominations.of(pod.key()).map(|node| names.name(node));
            let is_by_nomination = writer.is_by_nomination(pod.key());
            let bindings = writer.draft.bindings_of(pod.key());
            format!(
                "{} {} on {:?}, assumed {}, at {:?}, nominated to {nominated:?} ({is_by_nomination}) and by its status to {:?}, {bindings:?}, reported {}",
                pod.key(), pod.uid(), facts.node_name, known.is_assumed(), facts.resource_version, pod.nominated_node_name(), facts.is_reported
            )
        })
        .collect();
    pods.sort_unstable();
    let mut nodes: Vec<String> = writer
        .nodes_as_seen()
        .iter()
        .map(|node| format!("{} {:?} {:?}", node.name(), node.resource_version(), node.capacity()))
        .collect();
    nodes.sort_unstable();
    let mut rows: Vec<String> = writer
        .nodes_by_row()
        .map(|(row, node)| {
            let shard = &snapshot.shards[row.shard()];
            let pods: Vec<String> =
                shard.pods.of(row.row()).iter().map(|it| it.pod.key().to_string()).collect();
            let images = node.facts().images.iter();
            let images: Vec<_> =
                images.map(|(name, _)| shard.nodes.image(row.row(), *name)).collect();
            let ports =
                shard.usage.ports.iter().filter(|(_, rows)| rows.contains(row.row())).count();
            format!("{} {pods:?} {images:?} {ports} ports", node.name())
        })
        .collect();
    rows.sort_unstable();
    format!(
        "{}\n{:?}\n{nodes:#?}\n{pods:#?}\n{rows:#?}\n{:?}\n{decisions:#?}",
        snapshot.generation(),
        snapshot.counts,
        snapshot.fences
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_cluster_that_does_what_another_did_is_like_it(
        before in prop::collection::vec(act(), 0..40),
        after in prop::collection::vec(act(), 1..25),
    ) {
        let noted = Arc::new(Noted::default());
        let cluster = Cluster::observed_by(noted.clone());
        cluster.apply(storage(&cluster).into_iter().map(Delta::UpsertObject).collect());
        before.into_iter().for_each(|act| carry_out(&cluster, act));
        noted.changes.lock().unwrap().clear();
        let beginning = cluster.beginning();
        let copy = Cluster::of_model(cluster.kernels(), cluster.model.clone());
        copy.redo(beginning.generation(), beginning.changes()).unwrap();
        prop_assert_eq!(account(&copy), account(&cluster));
        for act in after {
            noted.attempts.lock().unwrap().clear();
            carry_out(&cluster, act);
            for (generation, made) in std::mem::take(&mut *noted.attempts.lock().unwrap()) {
                prop_assert_eq!(generation, copy.snapshot().generation());
                prop_assert_eq!(&made.again(&copy), &made.result);
            }
            for (generation, changes) in std::mem::take(&mut *noted.changes.lock().unwrap()) {
                copy.redo(generation, changes).unwrap();
            }
            prop_assert_eq!(account(&copy), account(&cluster));
        }
    }
}

#[test]
fn what_does_not_follow_is_refused() {
    let noted = Arc::new(Noted::default());
    let cluster = Cluster::observed_by(noted.clone());
    carry_out(&cluster, Act::Node("n0 cpu=4 memory=8Gi pods=4".to_owned()));
    carry_out(&cluster, Act::Assume("p cpu=1".to_owned()));
    let (generation, changes) = noted.changes.lock().unwrap().pop().unwrap();
    assert_eq!((generation, changes.len()), (cluster.snapshot().generation(), 1));
    let again = cluster.redo(generation, changes.clone()).unwrap_err();
    assert_eq!(again, RedoError::Order { generation, published: generation });
    let next = Generation(generation.0 + 1);
    let again = cluster.redo(next, changes).unwrap_err();
    assert_eq!(again, RedoError::AlreadyPlaced { pod: key("p"), node: "n0".into() });
}

/// Everything that is told can be written down: each object keeps its encoding.
#[test]
fn what_is_told_keeps_its_objects() {
    let noted = Arc::new(Noted::default());
    let cluster = Cluster::observed_by(noted.clone());
    let nodes = vec!["n0 cpu=4 memory=8Gi pods=4".to_owned()];
    carry_out(&cluster, Act::Replace(nodes, vec!["p cpu=1".to_owned()]));
    let pod = cluster.compile_pod(&object::pod("q cpu=1")).unwrap();
    let fork = cluster.fork();
    fork.compile_node(&object::node("n1 cpu=4 memory=8Gi pods=4")).unwrap();
    let (_, changes) = noted.changes.lock().unwrap().pop().unwrap();
    let [Change::Replaced(state)] = changes.as_slice() else { panic!("{changes:?}") };
    assert!(state.nodes.iter().all(|node| node.encoded().is_some()));
    assert!(state.objects.iter().all(|object| object.encoded().is_some()));
    assert!(state.pods.iter().chain([&pod]).all(|pod| pod.encoded().is_some()));
}
