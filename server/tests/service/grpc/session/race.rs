//! Race: many clients open sessions, change them, place pods in them, and commit, close or leave them, all at a time on
//! the same nodes. Whatever comes of each commit, no node is overcommitted, no commit is half done, and the server has
//! exactly the pods that it acknowledged.
//!
//! `BERTH_SESSION_COMMITS=10000` makes it long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ApplyRequest, Delta, PlaceMode, PlaceRequest, SessionServiceCommitRequest, TieBreak,
    TieBreakRule, decision,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tonic::Code;

use crate::grpc::world::{Client, World, key, node, pod};

const N_CLIENTS: usize = 32;
const N_NODES: usize = 40;
/// CPU of a node, and of a pod, in milli-units.
const NODE_CPU: i64 = 4_000;
const POD_CPU: i64 = 500;

/// Names and nodes of the pods of each commit that was acknowledged.
type Committed = Arc<Mutex<BTreeMap<String, Vec<(String, String)>>>>;

struct Racer {
    client: Client,
    rng: ChaCha8Rng,
    id: usize,
    n_sessions: usize,
    committed: Committed,
}

impl Racer {
    /// Opens a session, places a few pods in it, and ends it in a random way. Returns whether a commit succeeded.
    async fn race(&mut self) -> bool {
        let Ok(opened) = self.client.open().await else { return false };
        let id = opened.session_id;
        self.n_sessions += 1;
        if self.rng.random_bool(0.2) {
            let gone = format!("n{}", self.rng.random_range(0..N_NODES));
            self.client.suppose(&id, [Change::DeleteNode(gone)]).await.unwrap();
        }
        let mut placed = Vec::new();
        for n in 0..self.rng.random_range(1..=4) {
            let name = format!("r{}-{}-{n}", self.id, self.n_sessions);
            if let Some(node) = self.place(&id, &name).await {
                placed.push((name, node));
            }
        }
        if self.rng.random_bool(0.05) {
            self.client.close(&id).await.unwrap();
            return false;
        }
        let request =
            SessionServiceCommitRequest { session_id: id.clone(), assume_ttl_ms: Some(0) };
        let n_expected = placed.len();
        match self.client.session.commit(request).await {
            Ok(answer) => {
                assert_eq!(answer.into_inner().n_assumed_pods as usize, n_expected);
                let name = format!("{}-{}", self.id, self.n_sessions);
                self.committed.lock().unwrap().insert(name, placed);
            }
            Err(status) => {
                assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
                self.client.close(&id).await.unwrap();
                return false;
            }
        }
        if self.rng.random_bool(0.1) {
            let again = self.client.commit(&id).await;
            assert!(again.is_err() || again.is_ok_and(|again| again.n_assumed_pods == 0));
        }
        // A commit may have ended the session.
        drop(self.client.close(&id).await);
        true
    }

    async fn place(&mut self, session_id: &str, name: &str) -> Option<String> {
        let rule = TieBreakRule::Seeded as i32;
        let request = PlaceRequest {
            pod: Some(pod(name, &format!("{POD_CPU}m")).into()),
            mode: PlaceMode::Assume as i32,
            session_id: session_id.to_owned(),
            tie_break: Some(TieBreak { rule, seed: self.rng.random() }),
            ..PlaceRequest::default()
        };
        let answer = self.client.placement.place(request).await.unwrap().into_inner();
        match answer.decision.unwrap().outcome.unwrap() {
            decision::Outcome::Placement(placement) => Some(placement.node_name),
            decision::Outcome::Unschedulable(_) | decision::Outcome::Gated(_) => None,
        }
    }

    /// Deletes the pods of a commit of anybody, so that there is room for others.
    async fn make_room(&mut self) {
        let gone = {
            let mut committed = self.committed.lock().unwrap();
            let n_pods: usize = committed.values().map(Vec::len).sum();
            if n_pods * 2 < N_NODES * usize::try_from(NODE_CPU / POD_CPU).unwrap() {
                return;
            }
            committed.pop_first()
        };
        let names = gone.into_iter().flat_map(|(_, pods)| pods);
        let change =
            |(name, _): (String, String)| Delta { change: Some(Change::DeletePod(key(&name))) };
        let deltas = names.map(change).collect();
        self.client.cluster.apply(ApplyRequest { deltas }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_many_clients_neither_overcommit_nor_halve() {
    let n_wanted = std::env::var("BERTH_SESSION_COMMITS").ok().and_then(|n| n.parse().ok());
    let n_wanted: usize = n_wanted.unwrap_or(400);
    let mut world = World::start().await;
    let nodes = (0..N_NODES).map(|i| Change::UpsertNode(node(&format!("n{i}"), "4")));
    assert_eq!(world.apply(nodes).await.rejections, []);
    let (committed, n_done) = (Committed::default(), Arc::new(AtomicUsize::new(0)));
    let mut racers = tokio::task::JoinSet::new();
    for id in 0..N_CLIENTS {
        let mut racer = Racer {
            client: world.connect().await,
            rng: ChaCha8Rng::seed_from_u64(id as u64),
            id,
            n_sessions: 0,
            committed: committed.clone(),
        };
        let n_done = n_done.clone();
        racers.spawn(async move {
            while n_done.load(Ordering::Relaxed) < n_wanted {
                if racer.race().await {
                    n_done.fetch_add(1, Ordering::Relaxed);
                }
                racer.make_room().await;
            }
        });
    }
    while let Some(ended) = racers.join_next().await {
        ended.unwrap();
    }
    let committed = std::mem::take(&mut *committed.lock().unwrap());
    let mut expected: Vec<(String, String)> = committed.into_values().flatten().collect();
    expected.sort();
    let listed = world.list_pods().await.into_iter();
    let mut found: Vec<(String, String)> =
        listed.map(|pod| (pod.key.unwrap().name, pod.node_name)).collect();
    found.sort();
    assert_eq!(found, expected, "the pods are not those that were acknowledged");
    let mut used = BTreeMap::<&str, i64>::new();
    found.iter().for_each(|(_, node)| *used.entry(node).or_default() += POD_CPU);
    assert!(used.values().all(|used| *used <= NODE_CPU), "overcommitted: {used:?}");
    assert!(n_done.load(Ordering::Relaxed) >= n_wanted);
}
