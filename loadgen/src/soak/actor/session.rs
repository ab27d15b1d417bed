//! What-if sessions: opens one, changes it, places pods in it, then commits, closes or abandons it.

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
use super::place::{is_uncertain, mode, ttl};
use super::pods::ActorPods;
use crate::soak::names::{Names, random_stream};
use crate::soak::world::World;

/// Least time between two abandoned sessions: more of them would reach the limit of open sessions.
const ABANDON_INTERVAL: Duration = Duration::from_secs(15);

/// The actor of what-if sessions, one a step.
pub(super) struct Session {
    rng: ChaCha8Rng,
    names: Names,
    pods: ActorPods,
    abandoned: Option<Instant>,
}

impl Session {
    pub(super) fn new(seed: u64, max_pods: usize) -> Session {
        let (rng, names) = (random_stream(seed, 5), Names::new("session"));
        Session { rng, names, pods: ActorPods::new(max_pods), abandoned: None }
    }

    /// Deletes a node in the session.
    async fn delete_node(&mut self, world: &World, session_id: &str) -> Result<(), Status> {
        let node = world.model().nodes.keys().choose(&mut self.rng).cloned().unwrap_or_default();
        let deltas = vec![Delta { change: Some(Change::DeleteNode(node)) }];
        let request = SessionServiceApplyRequest {
            session_id: session_id.to_owned(),
            deltas,
            keep_existing: false,
            admit: false,
        };
        let mut session = world.client.session();
        world.call("Session.Apply", session.apply(request)).await.map(drop)
    }

    /// Places and assumes a few pods in the session.
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

    /// Commits the session: all its pods become real, or none.
    async fn commit(&mut self, world: &World, session_id: &str, placed: &[(Pod, Decision)]) {
        let request = SessionServiceCommitRequest {
            session_id: session_id.to_owned(),
            assume_ttl_ms: ttl(true),
        };
        let mut session = world.client.session();
        match world.call("Session.Commit", session.commit(request)).await {
            Ok(answer) => {
                if answer.n_assumed_pods as usize != placed.len() {
                    let (n, expected) = (answer.n_assumed_pods, placed.len());
                    world.differs(format!("a commit assumed {n} pods instead of {expected}"));
                }
                for (pod, decision) in placed {
                    self.pods.record(world, pod, decision, true);
                }
            }
            // The cluster has changed in a way that the session depends on.
            Err(status) if status.code() == Code::FailedPrecondition => {}
            Err(status) if is_uncertain(status.code()) => {
                world.uncertain(placed.iter().map(|(pod, _)| pod));
            }
            Err(_) => {}
        }
    }

    /// Whether to abandon this session.
    fn abandons(&mut self) -> bool {
        let is_due = self.abandoned.is_none_or(|last| last.elapsed() >= ABANDON_INTERVAL);
        let abandons = is_due && self.rng.random_bool(0.3);
        if abandons {
            self.abandoned = Some(Instant::now());
        }
        abandons
    }

    /// Runs one session from its opening to its end.
    async fn run_session(&mut self, world: &World) -> Result<(), Status> {
        let mut session = world.client.session();
        let opening = session.open(SessionServiceOpenRequest {});
        let session_id = world.call("Session.Open", opening).await?.session_id;
        let used = self.use_session(world, &session_id).await;
        if used.is_ok() && self.abandons() {
            world.count("sessions left alone", 1);
            return Ok(());
        }
        let request = SessionServiceCloseRequest { session_id };
        world.call("Session.Close", session.close(request)).await.map(drop)
    }

    async fn use_session(&mut self, world: &World, session_id: &str) -> Result<(), Status> {
        if self.rng.random_bool(0.4) {
            self.delete_node(world, session_id).await?;
        }
        let placed = self.place(world, session_id).await?;
        if self.rng.random_bool(0.5) {
            self.commit(world, session_id, &placed).await;
        }
        Ok(())
    }
}

impl Actor for Session {
    fn name(&self) -> &'static str {
        "session"
    }

    async fn step(&mut self, world: &World) {
        if self.pods.is_full() || self.rng.random_bool(0.5) {
            for _ in 0..2 {
                self.pods.update_one(world, &mut self.rng).await;
            }
            return;
        }
        // Failures are counted where they occur.
        drop(self.run_session(world).await);
    }
}
