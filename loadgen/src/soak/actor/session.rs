//! What-if sessions: opened, changed, asked, and then committed, closed or left alone.

use std::time::{Duration, Instant};

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    Decision, Delta, PlaceRequest, SessionServiceApplyRequest, SessionServiceCloseRequest,
    SessionServiceCommitRequest, SessionServiceOpenRequest, decision,
};
use berth_proto::core_v1::Pod;
use rand::RngExt as _;
use rand::seq::IteratorRandom as _;
use rand_chacha::ChaCha8Rng;
use tonic::{Code, Status};

use super::Actor;
use super::held::Held;
use super::place::{leaves_open, mode};
use crate::soak::names::{Names, stream};
use crate::soak::world::World;

/// Sessions are left to expire this often at most, or there would soon be room for no other.
const BETWEEN_ABANDONED: Duration = Duration::from_secs(15);

/// One session a step.
pub(super) struct Session {
    rng: ChaCha8Rng,
    names: Names,
    held: Held,
    abandoned: Option<Instant>,
}

impl Session {
    pub(super) fn new(seed: u64, most: usize) -> Session {
        let (rng, names) = (stream(seed, 5), Names::of("session"));
        Session { rng, names, held: Held::new(most), abandoned: None }
    }

    /// A node is supposed to be gone.
    async fn suppose(&mut self, world: &World, session_id: &str) -> Result<(), Status> {
        let node = world.model().nodes.keys().choose(&mut self.rng).cloned().unwrap_or_default();
        let deltas = vec![Delta { change: Some(Change::DeleteNode(node)) }];
        let request = SessionServiceApplyRequest { session_id: session_id.to_owned(), deltas };
        let mut session = world.client.session();
        world.call("Session.Apply", session.apply(request)).await.map(drop)
    }

    /// Pods that take room in the session.
    async fn place(
        &mut self,
        world: &World,
        session_id: &str,
    ) -> Result<Vec<(Pod, Decision)>, Status> {
        let mut placed = Vec::new();
        for _ in 0..self.rng.random_range(1..=4) {
            let pod = self.names.pod(&world.pod_templates, &mut self.rng);
            let request = PlaceRequest {
                pod: Some(pod.clone().into()),
                mode: mode(true),
                session_id: session_id.to_owned(),
                ..PlaceRequest::default()
            };
            let mut placement = world.client.placement(0);
            let answer = world.call("Place in a session", placement.place(request)).await?;
            let decision = answer.decision.unwrap_or_default();
            if matches!(decision.outcome, Some(decision::Outcome::Placement(_))) {
                placed.push((pod, decision));
            }
        }
        Ok(placed)
    }

    /// The session's pods become real, all of them or none.
    async fn commit(&mut self, world: &World, session_id: &str, placed: &[(Pod, Decision)]) {
        let request = SessionServiceCommitRequest { session_id: session_id.to_owned() };
        let mut session = world.client.session();
        match world.call("Session.Commit", session.commit(request)).await {
            Ok(answer) => {
                if answer.n_assumed_pods as usize != placed.len() {
                    let (n, expected) = (answer.n_assumed_pods, placed.len());
                    world.differs(format!("a commit assumed {n} pods instead of {expected}"));
                }
                for (pod, decision) in placed {
                    self.held.take(world, pod, decision, true);
                }
            }
            // What it rests on has changed meanwhile.
            Err(status) if status.code() == Code::FailedPrecondition => {}
            Err(status) if leaves_open(status.code()) => {
                world.unsettled(placed.iter().map(|(pod, _)| pod));
            }
            Err(_) => {}
        }
    }

    fn may_abandon(&mut self) -> bool {
        let is_due = self.abandoned.is_none_or(|last| last.elapsed() >= BETWEEN_ABANDONED);
        let abandons = is_due && self.rng.random_bool(0.3);
        if abandons {
            self.abandoned = Some(Instant::now());
        }
        abandons
    }

    async fn one(&mut self, world: &World) -> Result<(), Status> {
        let mut session = world.client.session();
        let opening = session.open(SessionServiceOpenRequest {});
        let session_id = world.call("Session.Open", opening).await?.session_id;
        if self.rng.random_bool(0.4) {
            self.suppose(world, &session_id).await?;
        }
        let placed = self.place(world, &session_id).await?;
        if self.rng.random_bool(0.5) {
            self.commit(world, &session_id, &placed).await;
        }
        if self.may_abandon() {
            world.count("sessions left alone", 1);
            return Ok(());
        }
        let request = SessionServiceCloseRequest { session_id };
        world.call("Session.Close", session.close(request)).await.map(drop)
    }
}

impl Actor for Session {
    fn name(&self) -> &'static str {
        "session"
    }

    async fn step(&mut self, world: &World) {
        if self.held.is_full() || self.rng.random_bool(0.5) {
            for _ in 0..2 {
                self.held.tend(world, &mut self.rng).await;
            }
            return;
        }
        // Counted where it failed; a session that is left by a failure expires.
        drop(self.one(world).await);
    }
}
