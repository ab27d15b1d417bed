//! Attackers: callers who take what they can, beside the soak. Each picks a kind at random, attacks for a few seconds,
//! and picks another. They have a credential of their own, with the role of a reader: what they ask for changes nothing
//! that a recount sees.

mod message;
mod raw;

use std::sync::Arc;
use std::time::Duration;

use berth_client::{Client, Credentials};
use berth_proto::berth_v1::{
    Delta, ExplainRequest, PlaceBatchRequest, PlaceRequest, SessionServiceApplyRequest,
    SessionServiceOpenRequest, delta,
};
use berth_proto::core_v1::Pod;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::names::random_stream;
use super::world::World;

/// How long an attack of one kind goes on.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(12);
/// Calls that one attacker has under way at a time.
const N_CALLS: usize = 8;
/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(5);

/// Kinds of attacks, with the name under which they are counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kind {
    HalfMessages,
    ManyContainers,
    ManyTopologyKeys,
    RandomNames,
    ManyTerms,
    Sessions,
    Gangs,
    Explanations,
    IdleConnections,
    ControlFrames,
    ResetCalls,
}

const KINDS: [Kind; 11] = [
    Kind::HalfMessages,
    Kind::ManyContainers,
    Kind::ManyTopologyKeys,
    Kind::RandomNames,
    Kind::ManyTerms,
    Kind::Sessions,
    Kind::Gangs,
    Kind::Explanations,
    Kind::IdleConnections,
    Kind::ControlFrames,
    Kind::ResetCalls,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::HalfMessages => "attack: messages that do not end",
            Kind::ManyContainers => "attack: pods of many containers",
            Kind::ManyTopologyKeys => "attack: many topology keys",
            Kind::RandomNames => "attack: names that nobody has",
            Kind::ManyTerms => "attack: many anti-affinity terms",
            Kind::Sessions => "attack: sessions full of pods",
            Kind::Gangs => "attack: gangs that do not fit",
            Kind::Explanations => "attack: explanations",
            Kind::IdleConnections => "attack: connections without calls",
            Kind::ControlFrames => "attack: frames of control",
            Kind::ResetCalls => "attack: calls that are reset",
        }
    }
}

/// Starts `n` attackers.
pub(super) fn spawn_all(
    tasks: &mut JoinSet<&'static str>,
    world: &Arc<World>,
    n: usize,
    credentials: &Credentials,
    stopping: &watch::Receiver<bool>,
) {
    for index in 0..n {
        let attacker = Attacker {
            world: world.clone(),
            credentials: credentials.clone(),
            rng: random_stream(world.spec.seed, 100 + index as u64),
        };
        let mut stopping = stopping.clone();
        tasks.spawn(async move {
            tokio::select! {
                // A dropped sender also ends the soak.
                _ = stopping.wait_for(|&stop| stop) => {}
                () = attacker.run() => {}
            }
            "attacker"
        });
    }
}

struct Attacker {
    world: Arc<World>,
    credentials: Credentials,
    rng: ChaCha8Rng,
}

impl Attacker {
    async fn run(mut self) {
        loop {
            let kind = *KINDS.choose(&mut self.rng).unwrap_or(&Kind::RandomNames);
            let until = Instant::now() + self.rng.random_range(SHORTEST..LONGEST);
            let n_calls = self.attack(kind, until).await;
            self.world.count(kind.name(), n_calls);
            // A refused attacker does not spin.
            sleep_until(Instant::now() + Duration::from_millis(100)).await;
        }
    }

    /// Attacks until a time; returns the number of calls, connections or floods.
    async fn attack(&mut self, kind: Kind, until: Instant) -> usize {
        match kind {
            Kind::HalfMessages => raw::half_messages(&self.address(), self.token(), until).await,
            Kind::IdleConnections => raw::idle_connections(&self.address(), until).await,
            Kind::ControlFrames => raw::control_frames(&self.address(), until).await,
            Kind::Sessions => self.sessions(until).await,
            Kind::ManyContainers
            | Kind::ManyTopologyKeys
            | Kind::RandomNames
            | Kind::ManyTerms
            | Kind::Gangs
            | Kind::Explanations
            | Kind::ResetCalls => self.calls(kind, until).await,
        }
    }

    fn address(&self) -> String {
        let server = &self.world.spec.server;
        let address = server.split_once("://").map_or(server.as_str(), |(_, address)| address);
        address.trim_end_matches('/').to_owned()
    }

    /// The token in the attackers' file; calls without one are anonymous.
    fn token(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.credentials.token_file.as_ref()?).ok()?;
        text.lines().next().map(|line| line.trim().to_owned())
    }

    /// Keeps a few calls of one kind under way; whatever they answer is right.
    async fn calls(&mut self, kind: Kind, until: Instant) -> usize {
        let Ok(client) = Client::connect_with(&self.world.spec.server, 1, &self.credentials).await
        else {
            return 0;
        };
        let (mut tasks, mut n_calls) = (JoinSet::new(), 0);
        while Instant::now() < until {
            while tasks.len() >= N_CALLS {
                tasks.join_next().await;
            }
            tasks.spawn(call(client.clone(), kind, self.rng.random()));
            n_calls += 1;
        }
        tasks.shutdown().await;
        n_calls
    }

    /// Opens sessions and fills them with pods until one is refused; they are closed at the end.
    async fn sessions(&mut self, until: Instant) -> usize {
        let Ok(client) = Client::connect_with(&self.world.spec.server, 1, &self.credentials).await
        else {
            return 0;
        };
        let mut session = client.session();
        let mut open = Vec::new();
        while Instant::now() < until {
            let opening = session.open(SessionServiceOpenRequest {});
            let Ok(Ok(opened)) = timeout_at(until, opening).await else { break };
            let session_id = opened.into_inner().session_id;
            open.push(session_id.clone());
            for n in 0..10 {
                let pods = (0..500).map(|i| message::pod(&format!("guest-{n}-{i}"), &mut self.rng));
                let deltas = pods.map(|pod| Delta { change: Some(delta::Change::UpsertPod(pod)) });
                let request = SessionServiceApplyRequest {
                    session_id: session_id.clone(),
                    deltas: deltas.collect(),
                    ..SessionServiceApplyRequest::default()
                };
                if !matches!(timeout_at(until, session.apply(request)).await, Ok(Ok(_))) {
                    break;
                }
            }
        }
        let n_open = open.len();
        for session_id in open {
            let closing = berth_proto::berth_v1::SessionServiceCloseRequest { session_id };
            drop(timeout_at(Instant::now() + DEADLINE, session.close(closing)).await);
        }
        n_open
    }
}

/// One call; its outcome does not matter.
async fn call(client: Client, kind: Kind, seed: u64) {
    let mut rng = random_stream(seed, 1);
    let until = Instant::now()
        + match kind {
            Kind::ResetCalls => Duration::from_micros(rng.random_range(100..20_000)),
            _ => DEADLINE,
        };
    let mut placement = client.placement(0);
    let place = |pod: Pod| PlaceRequest { pod: Some(pod.into()), ..PlaceRequest::default() };
    match kind {
        Kind::Gangs => {
            let request: PlaceBatchRequest = message::gang(&mut rng);
            drop(timeout_at(until, placement.place_batch(request)).await);
        }
        Kind::Explanations => {
            let pod = Some(message::pod_of_terms(8, &mut rng));
            let request = ExplainRequest { pod, ..ExplainRequest::default() };
            drop(timeout_at(until, placement.explain(request)).await);
        }
        Kind::ManyContainers => {
            let n = rng.random_range(900..200_000);
            drop(timeout_at(until, placement.place(place(message::pod_of_containers(n)))).await);
        }
        Kind::ManyTopologyKeys => {
            let pod = message::pod_of_keys(1_000, &mut rng);
            drop(timeout_at(until, placement.place(place(pod))).await);
        }
        Kind::ManyTerms => {
            let pod = message::pod_of_terms(1_000, &mut rng);
            drop(timeout_at(until, placement.place(place(pod))).await);
        }
        Kind::RandomNames
        | Kind::ResetCalls
        | Kind::HalfMessages
        | Kind::Sessions
        | Kind::IdleConnections
        | Kind::ControlFrames => {
            let pod = message::pod("guest", &mut rng);
            drop(timeout_at(until, placement.place(place(pod))).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), KINDS.len());
        assert!(names.iter().all(|name| name.starts_with("attack: ")));
    }
}
