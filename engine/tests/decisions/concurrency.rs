//! Many threads that place and delete pods concurrently: no node ever exceeds its capacity, and every answer is
//! correct.
//!
//! Rules: S-CCH-1, S-CCH-2 (a pod is assumed once), S-SNP-2 (a snapshot is consistent), S-FIT-8 (room). Rules that
//! involve several nodes are in `relations`, pods that are placed together in `gangs`.

mod gangs;
mod relations;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use berth_engine::{
    BatchRequest, Cluster, Decision, Delta, EngineError, Generation, Outcome, PlaceRequest, Pod,
    PodKey, Policy, Snapshot, TieBreak,
};
use berth_testing::object;

const N_NODES: usize = 20;
const N_WORKERS: u64 = 6;
const N_ROUNDS: usize = 300;
const SHAPES: [&str; 4] = [
    "cpu=1 memory=1Gi",
    "cpu=700m memory=3Gi",
    "cpu=300m memory=100Mi example.com/gpu=1",
    "memory=1",
];

/// Returns a cluster with room for some 60 to 80 pods, far fewer than are requested.
fn scarce_cluster() -> Cluster {
    let cluster = Cluster::new();
    let nodes = (0..N_NODES).map(|i| {
        let gpus = i % 3;
        let text = format!("n{i} cpu=4 memory=8Gi pods=5 example.com/gpu={gpus}");
        Delta::UpsertNode(cluster.compile_node(&object::node(&text)).unwrap())
    });
    let applied = cluster.apply(nodes.collect());
    assert_eq!(applied.rejected, []);
    cluster
}

#[test]
fn nodes_never_hold_more_than_they_have() {
    let (cluster, is_done) = (scarce_cluster(), AtomicBool::new(false));
    let mut held = BTreeMap::new();
    thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&cluster, || is_done.load(Ordering::Acquire)));
        let work = |id| {
            let worker = Worker::new(&cluster, id);
            scope.spawn(move || worker.run())
        };
        let workers: Vec<_> = (0..N_WORKERS).map(work).collect();
        for worker in workers {
            held.extend(worker.join().unwrap());
        }
        is_done.store(true, Ordering::Release);
        watcher.join().unwrap();
    });
    let snapshot = cluster.snapshot();
    check(&snapshot);
    let found: BTreeMap<String, String> = snapshot
        .pods()
        .iter()
        .map(|view| (view.pod.key().name.to_string(), view.node.to_string()))
        .collect();
    assert_eq!(found, held, "what was answered is what is there");
    assert!(!held.is_empty());
}

/// Checks one snapshot after another, as a reader that never writes.
fn watch(cluster: &Cluster, is_done: impl Fn() -> bool) {
    let mut last = Generation::default();
    while !is_done() {
        last = check_next(cluster, last);
    }
}

/// Checks that generations only grow and that each snapshot is consistent.
fn check_next(cluster: &Cluster, last: Generation) -> Generation {
    let snapshot = cluster.snapshot();
    assert!(snapshot.generation() >= last, "{} after {last}", snapshot.generation());
    if snapshot.generation() > last {
        check(&snapshot);
    }
    snapshot.generation()
}

/// Amounts by resource.
type Sums = BTreeMap<Arc<str>, i64>;

/// Checks one snapshot: no node exceeds its capacity, no pod is there twice, and counts and sums agree with the pods.
fn check(snapshot: &Snapshot) {
    let mut recount: BTreeMap<Arc<str>, (u32, Sums)> = BTreeMap::new();
    let mut names = BTreeSet::new();
    let pods = snapshot.pods();
    for view in &pods {
        assert!(names.insert(view.pod.key().clone()), "{} is there twice", view.pod.key());
        let (n_pods, sums) = recount.entry(view.node.clone()).or_default();
        *n_pods += 1;
        for (resource, amount) in view.pod.requests() {
            *sums.entry(resource).or_default() += amount;
        }
    }
    assert_eq!(snapshot.n_pods(), pods.len());
    assert_eq!(snapshot.n_assumed(), pods.iter().filter(|view| view.assumed).count());
    for node in snapshot.nodes() {
        let (n_pods, sums) = recount.remove(&node.name).unwrap_or_default();
        assert_eq!(node.n_pods, n_pods, "{}", node.name);
        assert_eq!(
            node.requested.iter().cloned().collect::<BTreeMap<_, _>>(),
            sums,
            "{}",
            node.name
        );
        assert!(i64::from(n_pods) <= node.allowed_pods, "{} holds {n_pods} pods", node.name);
        let room: BTreeMap<_, _> = node.allocatable.iter().cloned().collect();
        for (resource, amount) in sums {
            let room = room.get(&resource).copied().unwrap_or(0);
            assert!(amount <= room, "{} holds {amount} {resource} of {room}", node.name);
        }
    }
    assert_eq!(recount.len(), 0);
}

/// A caller that assumes, confirms and deletes its own pods.
struct Worker<'a> {
    cluster: &'a Cluster,
    policy: Policy,
    id: u64,
    random: u64,
    n_pods: usize,
    /// Node by pod name, as the cluster returned it.
    held: BTreeMap<String, String>,
}

impl<'a> Worker<'a> {
    fn new(cluster: &'a Cluster, id: u64) -> Worker<'a> {
        let random = (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Worker { cluster, policy: Policy::default(), id, random, n_pods: 0, held: BTreeMap::new() }
    }

    fn run(mut self) -> BTreeMap<String, String> {
        let mut last = Generation::default();
        for _ in 0..N_ROUNDS {
            match self.below(8) {
                0..=2 => self.assume(),
                3 => self.assume_batch(),
                4 => self.confirm(),
                5 => self.relabel(),
                _ => self.delete(),
            }
            last = check_next(self.cluster, last);
        }
        self.held
    }

    fn assume(&mut self) {
        let pod = self.next_pod();
        let tie_break = TieBreak::Seeded(self.random);
        let decision = self.cluster.assume(&PlaceRequest {
            pod: &pod,
            policy: &self.policy,
            tie_break,
            now: None,
        });
        self.note(&decision.unwrap());
    }

    fn assume_batch(&mut self) {
        let n = 1 + self.below(10);
        let pods: Vec<Pod> = (0..n).map(|_| self.next_pod()).collect();
        let decisions = self
            .cluster
            .place_batch(&BatchRequest {
                pods: &pods,
                policy: &self.policy,
                tie_break: TieBreak::Lexicographic,
                assume: true,
                gang: None,
                cancelled: &|| false,
                now: None,
            })
            .results;
        assert_eq!(decisions.len(), pods.len());
        for decision in decisions {
            self.note(&decision.unwrap());
        }
    }

    fn note(&mut self, decision: &Decision) {
        match &decision.outcome {
            Outcome::Placed(placement) => {
                assert!(placement.assumed);
                self.held.insert(decision.pod.name.to_string(), placement.node.to_string());
            }
            Outcome::Unschedulable(unschedulable) => {
                assert_eq!(unschedulable.n_nodes as usize, N_NODES)
            }
            Outcome::Gated { .. } => panic!("{decision:?}"),
        }
    }

    /// Confirms one of the pods on its assumed node. The confirmation cannot race with a deletion, because the pods are
    /// the worker's own.
    fn confirm(&mut self) {
        let Some((name, node)) = self.one_held() else {
            return;
        };
        let shape = SHAPES[shape_of(&name)];
        let pod = self.compile(&format!("{name} {shape} node={node}"));
        assert_eq!(self.cluster.apply(vec![Delta::UpsertPod(pod)]).rejected, []);
    }

    fn delete(&mut self) {
        let Some((name, _)) = self.one_held() else {
            return;
        };
        self.held.remove(&name);
        let uid = (self.below(2) == 0).then(|| name.as_str().into());
        self.cluster.apply(vec![Delta::DeletePod { key: PodKey::new("default", &name), uid }]);
    }

    /// Changes a node, but not its capacity: commits to its row must notice the change and decide again.
    fn relabel(&mut self) {
        let (i, label) = (self.below(N_NODES), self.below(3));
        let text =
            format!("n{i} cpu=4 memory=8Gi pods=5 example.com/gpu={} label:zone=z{label}", i % 3);
        let node = self.cluster.compile_node(&object::node(&text)).unwrap();
        self.cluster.apply(vec![Delta::UpsertNode(node)]);
    }

    fn one_held(&mut self) -> Option<(String, String)> {
        let at = self.below(self.held.len().max(1));
        self.held.iter().nth(at).map(|(name, node)| (name.clone(), node.clone()))
    }

    /// Returns a pod whose name identifies its shape.
    fn next_pod(&mut self) -> Pod {
        self.n_pods += 1;
        let shape = self.below(SHAPES.len());
        self.compile(&format!("w{}-{}-{shape} {}", self.id, self.n_pods, SHAPES[shape]))
    }

    fn compile(&self, text: &str) -> Pod {
        self.cluster.compile_pod(&object::pod(text)).unwrap()
    }

    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap() % n
    }
}

fn shape_of(name: &str) -> usize {
    name.rsplit('-').next().unwrap().parse().unwrap()
}

/// With twice as many callers as slots, every slot is assigned once, and all other callers are refused.
#[test]
fn every_slot_is_given_away_once() {
    let cluster = Cluster::new();
    let nodes = (0..8).map(|i| object::node(&format!("n{i} cpu=2 memory=8Gi pods=110")));
    cluster
        .apply(nodes.map(|node| Delta::UpsertNode(cluster.compile_node(&node).unwrap())).collect());
    let place = |i: usize| {
        let pod = cluster.compile_pod(&object::pod(&format!("p{i} cpu=1"))).unwrap();
        let policy = Policy::default();
        let request =
            PlaceRequest { pod: &pod, policy: &policy, tie_break: TieBreak::Seeded(3), now: None };
        matches!(cluster.assume(&request).unwrap().outcome, Outcome::Placed(_))
    };
    let n_placed: usize = thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|t| scope.spawn(move || (0..4).filter(|i| place(t * 4 + i)).count()))
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!(n_placed, 16);
    assert_eq!(cluster.snapshot().n_pods(), 16);
    check(&cluster.snapshot());
}

/// Many callers assume one pod: one of them succeeds, and the others get its node (S-CCH-2).
#[test]
fn a_pod_is_assumed_once() {
    let cluster = scarce_cluster();
    let (policy, n_callers) = (Policy::default(), 8);
    for round in 0..20 {
        let pod = cluster.compile_pod(&object::pod(&format!("p{round} memory=1"))).unwrap();
        let answers: Vec<Result<Decision, EngineError>> = thread::scope(|scope| {
            let call = |seed| {
                let (cluster, pod, policy) = (&cluster, &pod, &policy);
                scope.spawn(move || {
                    cluster.assume(&PlaceRequest {
                        pod,
                        policy,
                        tie_break: TieBreak::Seeded(seed),
                        now: None,
                    })
                })
            };
            let callers: Vec<_> = (0..n_callers).map(call).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        let placed: Vec<_> =
            answers.iter().filter_map(|answer| node_of(answer.as_ref().ok()?)).collect();
        assert_eq!(placed.len(), 1, "{answers:?}");
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            let expected =
                EngineError::AlreadyPlaced { pod: pod.key().clone(), node: placed[0].clone() };
            assert_eq!(*error, expected);
        }
        assert_eq!(cluster.snapshot().n_pods(), round + 1);
    }
}

fn node_of(decision: &Decision) -> Option<Arc<str>> {
    match &decision.outcome {
        Outcome::Placed(placement) => Some(placement.node.clone()),
        Outcome::Unschedulable(_) | Outcome::Gated { .. } => None,
    }
}
