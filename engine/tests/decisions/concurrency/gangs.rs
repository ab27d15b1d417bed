//! Gangs concurrent with single pods, sessions and a feed: every snapshot has all of a gang's placed members or none,
//! and every session is committed as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use berth_engine::{
    BatchRequest, Cluster, CommitError, Delta, Gang, Outcome, PlaceRequest, Pod, PodKey, Policy,
    PreemptOptions, Snapshot, TieBreak,
};

use super::{check, scarce_cluster};
use berth_testing::object;

const N_WORKERS: u64 = 5;
const N_ROUNDS: usize = 120;

/// Counts of what happened, so that the test can check that the threads really raced.
#[derive(Debug, Default)]
struct Tally {
    placed: AtomicUsize,
    refused: AtomicUsize,
    evicting: AtomicUsize,
    committed: AtomicUsize,
    not_committed: AtomicUsize,
}

/// A caller. Names of pods identify their group: `kind-worker-number-size-index`.
struct Worker<'a> {
    cluster: &'a Cluster,
    tally: &'a Tally,
    id: u64,
    random: u64,
    n_made: usize,
    /// Names of the pods of each group that was placed and not deleted yet.
    held: Vec<Vec<String>>,
    /// Pods that are nominated to a node.
    promised: BTreeSet<String>,
}

impl Tally {
    fn has_all(&self) -> bool {
        let counts =
            [&self.placed, &self.refused, &self.evicting, &self.committed, &self.not_committed];
        counts.iter().all(|n| n.load(Ordering::Relaxed) > 0)
    }
}

/// On a busy machine threads may run one after another, so that an outcome does not occur. Then the run is repeated.
#[test]
fn nothing_is_left_in_parts() {
    let tally = Tally::default();
    let has_raced = (0..20).any(|_| {
        run(&tally);
        tally.has_all()
    });
    assert!(has_raced, "{tally:?}");
}

fn run(tally: &Tally) {
    let (cluster, is_done) = (scarce_cluster(), AtomicBool::new(false));
    // Pods that can be evicted.
    let lesser = (0..20).map(|i| format!("lesser-{i} cpu=1 priority=-5 node=n{i}"));
    let lesser = lesser.map(|text| Delta::UpsertPod(compiled(&cluster, &text)));
    assert_eq!(cluster.apply(lesser.collect()).rejected, []);
    let mut held = BTreeSet::new();
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                let snapshot = cluster.snapshot();
                check(&snapshot);
                check_wholes(&snapshot);
            }
        });
        let feed = scope.spawn(|| {
            let mut turn = 0;
            while !is_done.load(Ordering::Acquire) {
                relabel(&cluster, turn);
                turn += 1;
            }
        });
        let work = |id| {
            let worker = Worker::new(&cluster, tally, id);
            scope.spawn(move || worker.run())
        };
        let workers: Vec<_> = (0..N_WORKERS).map(work).collect();
        for worker in workers {
            held.extend(worker.join().unwrap());
        }
        is_done.store(true, Ordering::Release);
        watcher.join().unwrap();
        feed.join().unwrap();
    });
    let snapshot = cluster.snapshot();
    check(&snapshot);
    check_wholes(&snapshot);
    let found: BTreeSet<String> =
        snapshot.pods().iter().map(|view| view.pod.key().name.to_string()).collect();
    let found: BTreeSet<String> =
        found.into_iter().filter(|name| !name.starts_with("lesser")).collect();
    assert_eq!(found, held, "what was answered is what is there");
}

/// Checks that of each group all members are in the cluster, or none.
fn check_wholes(snapshot: &Snapshot) {
    let mut wholes: BTreeMap<(String, usize), usize> = BTreeMap::new();
    for view in snapshot.pods() {
        let name = &view.pod.key().name;
        if name.starts_with("gang") || name.starts_with("session") {
            let (whole, _) = name.rsplit_once('-').unwrap();
            let size = whole.rsplit('-').next().unwrap().parse().unwrap();
            *wholes.entry((whole.to_owned(), size)).or_default() += 1;
        }
    }
    for ((whole, size), n_there) in wholes {
        assert_eq!(n_there, size, "{n_there} of {whole} are there");
    }
}

/// Pods with anti-affinity by zone: gangs and sessions of two pods fit twice in four zones, each as a whole (S-IPA-7).
#[test]
fn anti_affinity_holds_between_wholes() {
    for round in 0..10 {
        let cluster = Cluster::new();
        let node = |i: usize| {
            let text = format!("n{i} cpu=64 memory=64Gi pods=110 label:zone=z{}", i % 4);
            Delta::UpsertNode(cluster.compile_node(&object::node(&text)).unwrap())
        };
        assert_eq!(cluster.apply((0..12).map(node).collect()).rejected, []);
        let tally = Tally::default();
        thread::scope(|scope| {
            let (cluster, tally) = (&cluster, &tally);
            for id in 0..6 {
                scope.spawn(move || Worker::new(cluster, tally, 6 * round + id).pair(id % 2 == 0));
            }
        });
        let snapshot = cluster.snapshot();
        check_wholes(&snapshot);
        let zone = |node: &str| node[1..].parse::<usize>().unwrap() % 4;
        let zones: BTreeSet<usize> = snapshot.pods().iter().map(|view| zone(&view.node)).collect();
        assert_eq!((snapshot.n_pods(), zones.len()), (4, 4));
    }
}

/// Changes a node, but not its capacity.
fn relabel(cluster: &Cluster, turn: usize) {
    let i = turn % 20;
    let gpus = i % 3;
    let text =
        format!("n{i} cpu=4 memory=8Gi pods=5 example.com/gpu={gpus} label:turn=t{}", turn % 7);
    let node = cluster.compile_node(&object::node(&text)).unwrap();
    cluster.apply(vec![Delta::UpsertNode(node)]);
}

fn compiled(cluster: &Cluster, text: &str) -> Pod {
    cluster.compile_pod(&object::pod(text)).unwrap()
}

impl<'a> Worker<'a> {
    fn new(cluster: &'a Cluster, tally: &'a Tally, id: u64) -> Worker<'a> {
        let random = (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (held, promised) = (Vec::new(), BTreeSet::new());
        Worker { cluster, tally, id, random, n_made: 0, held, promised }
    }

    fn run(mut self) -> Vec<String> {
        for _ in 0..N_ROUNDS {
            match self.below(8) {
                0..=2 => self.gang(),
                3 => self.evicting_gang(),
                4 | 5 => self.session(),
                6 => self.single(),
                _ => self.delete(),
            }
        }
        self.held.into_iter().flatten().collect()
    }

    fn gang(&mut self) {
        let members = self.members("gang", "cpu=1 memory=1Gi");
        let pods: Vec<Pod> = members.iter().map(|text| compiled(self.cluster, text)).collect();
        let outcome = self.place(&pods, Gang::default());
        let gang = outcome.gang.unwrap();
        if gang.placed {
            assert!(outcome.results.iter().all(|result| matches!(
                &result.as_ref().unwrap().outcome,
                Outcome::Placed(placement) if placement.assumed
            )));
            self.tally.placed.fetch_add(1, Ordering::Relaxed);
            self.hold(&members);
        } else {
            self.tally.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Places a gang with preemption: members that need victims are nominated to a node, the others are assumed.
    fn evicting_gang(&mut self) {
        let members = self.members("evicting", "cpu=2 priority=7");
        let pods: Vec<Pod> = members.iter().map(|text| compiled(self.cluster, text)).collect();
        let gang = Gang { min_count: 0, preempt: Some(PreemptOptions::default()) };
        let outcome = self.place(&pods, gang);
        let gang = outcome.gang.unwrap();
        let mut assumed = Vec::new();
        for (pod, result) in pods.iter().zip(&outcome.results) {
            if let Outcome::Placed(placement) = &result.as_ref().unwrap().outcome {
                assert!(gang.placed || !placement.assumed);
                if placement.assumed {
                    assumed.push(pod.key().name.to_string());
                } else if gang.placed {
                    self.promised.insert(pod.key().name.to_string());
                }
            }
        }
        self.tally.evicting.fetch_add(gang.preemptions.len(), Ordering::Relaxed);
        if !assumed.is_empty() {
            self.held.push(assumed);
        }
        // The caller gives up the nominations, and no pod is evicted.
        let deltas = std::mem::take(&mut self.promised).into_iter().map(|name| delete(&name));
        self.cluster.apply(deltas.collect());
    }

    fn session(&mut self) {
        let members = self.members("session", "cpu=500m memory=1Gi");
        let fork = self.cluster.fork();
        for text in &members {
            let (pod, policy) = (&compiled(&fork, text), &Policy::default());
            let tie_break = TieBreak::Seeded(self.random);
            let decision =
                fork.assume(&PlaceRequest { pod, policy, tie_break, now: None }).unwrap();
            if !matches!(decision.outcome, Outcome::Placed(_)) {
                return;
            }
        }
        match self.cluster.commit(&fork) {
            Ok(committed) => {
                assert_eq!(committed.n_assumed, members.len());
                self.tally.committed.fetch_add(1, Ordering::Relaxed);
                self.hold(&members);
            }
            Err(CommitError::Changed { .. }) => {
                self.tally.not_committed.fetch_add(1, Ordering::Relaxed);
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Places pairs of pods with anti-affinity to each other, as gangs or in sessions, until there is no room.
    fn pair(&mut self, as_gang: bool) {
        const WANTS: &str = "cpu=1 label:app=x far=zone,app:x";
        let kind = if as_gang { "gang" } else { "session" };
        let whole = format!("{kind}-{}-0-2", self.id);
        let pair: Vec<Pod> =
            (0..2).map(|i| compiled(self.cluster, &format!("{whole}-{i} {WANTS}"))).collect();
        if as_gang {
            self.place(&pair, Gang::default());
            return;
        }
        loop {
            let fork = self.cluster.fork();
            let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(self.id));
            let assume =
                |pod| fork.assume(&PlaceRequest { pod, policy, tie_break, now: None }).unwrap();
            let is_placed = |pod| matches!(assume(pod).outcome, Outcome::Placed(_));
            if !pair.iter().all(is_placed) || self.cluster.commit(&fork).is_ok() {
                return;
            }
        }
    }

    fn single(&mut self) {
        let text = &self.members("single", "cpu=700m")[0];
        let (pod, policy) = (&compiled(self.cluster, text), &Policy::default());
        let tie_break = TieBreak::Seeded(self.random);
        let decision =
            self.cluster.assume(&PlaceRequest { pod, policy, tie_break, now: None }).unwrap();
        if matches!(decision.outcome, Outcome::Placed(_)) {
            self.hold(std::slice::from_ref(text));
        }
    }

    /// Deletes all members of a group together.
    fn delete(&mut self) {
        for _ in 0..3 {
            if self.held.is_empty() {
                return;
            }
            let at = self.below(self.held.len());
            let gone = self.held.swap_remove(at);
            self.cluster.apply(gone.iter().map(|name| delete(name)).collect());
        }
    }

    fn place(&mut self, pods: &[Pod], gang: Gang) -> berth_engine::BatchOutcome {
        self.cluster.place_batch(&BatchRequest {
            pods,
            policy: &Policy::default(),
            tie_break: TieBreak::Seeded(self.random),
            assume: true,
            gang: Some(gang),
            cancelled: &|| false,
            now: None,
        })
    }

    fn members(&mut self, kind: &str, requests: &str) -> Vec<String> {
        self.n_made += 1;
        let size = 2 + self.below(4);
        let whole = format!("{kind}-{}-{}-{size}", self.id, self.n_made);
        (0..size).map(|i| format!("{whole}-{i} {requests}")).collect()
    }

    fn hold(&mut self, members: &[String]) {
        let names = members.iter().filter_map(|text| text.split(' ').next());
        self.held.push(names.map(str::to_owned).collect());
    }

    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap() % n
    }
}

fn delete(name: &str) -> Delta {
    Delta::DeletePod { key: PodKey::new("default", name), uid: None }
}
