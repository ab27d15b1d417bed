//! Servers that share their reservations, with their feeds, in one process: what happens follows from a seed. Servers
//! take over, crash and fall behind; feeds report pods at different times; callers reserve, release, and lose responses.
//!
//! What has to hold whatever happens: who decides has every reservation that was acknowledged, on its node and under its
//! token, and no other; no node has more than it can hold; tokens grow; what is released or expired does not come back;
//! and a server that has followed has what the decider has.
//!
//! A [`Fault`] breaks a rule on purpose, so that it is known what the checks find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use berth_engine::{Delta, PodKey};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::replicas_fixture::{Replica, Terms, pods_at};
use super::*;
use crate::service::fixture;
use crate::service::response_cache::{Claim, in_scope_of};

const N_SERVERS: usize = 3;
const N_STEPS: usize = 100;
/// Nodes, and pods that each can hold.
const NODES: [&str; 2] = ["n0", "n1"];
const ROOM: usize = 8;
/// Time to live of some reservations.
const TTL: Duration = Duration::from_secs(60);

/// What is broken on purpose.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The ledger takes changes of an old term.
    NoTermCompared,
    /// Who takes over does not read what the one before has written.
    PredecessorNotRead,
    /// Who takes over does not wait until its feed is as far as that of the one before.
    FeedBehind,
    /// A change is missed by who follows.
    WatchGapIgnored,
    /// Who takes over begins its tokens anew.
    TokensBeginAnew,
    /// Every server ends what is over by its own clock.
    ExpiryByLocalClock,
    /// A request is carried out again long after its response.
    RequestRepeated,
    /// What was reserved and not answered stays.
    UnansweredKept,
}

/// A reservation that its caller was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    token: u64,
    node: String,
    expires: bool,
}

/// What the API server tells every feed, in this order.
#[derive(Clone, Debug)]
enum Event {
    Bound { pod: String, node: String },
    Deleted { pod: String },
}

struct Server {
    replica: Replica,
    /// Number of events that its feed has told.
    n_fed: Arc<AtomicU64>,
    /// The term in which it believes that it decides.
    term: Option<i64>,
}

struct World {
    chance: ChaCha8Rng,
    fault: Fault,
    ledger: Arc<Terms>,
    servers: Vec<Server>,
    /// The last term, and the server that has it.
    term: i64,
    decider: Option<usize>,
    told: BTreeMap<String, Held>,
    /// Pods whose requests were carried out, or not, without an answer.
    lost: BTreeSet<String>,
    /// Requests that were answered.
    answered: Vec<String>,
    over: BTreeSet<u64>,
    events: Vec<Event>,
    /// Pods that are bound, with their nodes, and all that ever were.
    bound: BTreeMap<String, String>,
    reported: BTreeSet<String>,
    n_pods: usize,
    newest: u64,
    n_acknowledged: usize,
    n_terms: usize,
}

type Checked = Result<(), String>;

impl World {
    fn new(seed: u64, fault: Fault) -> World {
        let ledger = Terms::new();
        ledger.takes_any_term.store(fault == Fault::NoTermCompared, Ordering::Relaxed);
        let servers = (0..N_SERVERS).map(|_| Server::new(&ledger)).collect();
        World {
            chance: ChaCha8Rng::seed_from_u64(seed),
            fault,
            ledger,
            servers,
            term: 0,
            decider: None,
            told: BTreeMap::new(),
            lost: BTreeSet::new(),
            answered: Vec::new(),
            over: BTreeSet::new(),
            events: Vec::new(),
            bound: BTreeMap::new(),
            reported: BTreeSet::new(),
            n_pods: 0,
            newest: 0,
            n_acknowledged: 0,
            n_terms: 0,
        }
    }

    async fn run(&mut self) -> Checked {
        for server in &mut self.servers {
            server.replica.begin();
        }
        for _ in 0..N_STEPS {
            self.step().await?;
            self.check_decider().await?;
        }
        self.settle().await
    }

    async fn step(&mut self) -> Checked {
        let n = self.chance.random_range(0..N_SERVERS);
        match self.chance.random_range(0..100) {
            0..12 => self.take_over(n).await,
            12..42 => self.reserve(n, None).await?,
            42..50 => self.retry(n).await?,
            50..60 => self.release(n).await?,
            60..75 => self.follow(n)?,
            75..85 => self.feed(n).await,
            85..92 => self.report(),
            92..96 => self.expire(n).await,
            _ => self.repeat(n).await,
        }
        Ok(())
    }

    /// A server is elected, reads, waits for its feed and decides.
    async fn take_over(&mut self, n: usize) {
        if self.decider == Some(n) {
            return;
        }
        self.servers[n].let_go();
        if self.fault != Fault::PredecessorNotRead {
            self.servers[n].replica.begin();
        }
        while self.fault != Fault::FeedBehind && self.servers[n].is_behind() {
            self.feed(n).await;
        }
        self.term += 1;
        self.n_terms += 1;
        let is_slow = self.chance.random_ratio(1, 2);
        let server = &mut self.servers[n];
        // A clock that is behind that of the one before: tokens that were never written are given again.
        if is_slow {
            server.replica.unix_micros = 0;
        }
        match self.fault {
            Fault::UnansweredKept => server.replica.begin_term_blindly(self.term, &server.n_fed),
            _ => server.replica.begin_term(self.term, &server.n_fed),
        }
        server.term = Some(self.term);
        let assumptions = &server.replica.state.assumptions;
        if self.fault == Fault::TokensBeginAnew {
            assumptions.next_token.store(1, Ordering::Relaxed);
        }
        assumptions.settled().await.expect("its term has just begun");
        // Its upkeep ends what its feed told while it did not decide.
        assumptions.forget_ended();
        assumptions.settled().await.expect("its term has just begun");
        self.decider = Some(n);
    }

    /// Reserves for a pod, a new one or one whose response was lost. Sometimes the server crashes before it answers.
    async fn reserve(&mut self, n: usize, again: Option<String>) -> Checked {
        let pod = again.unwrap_or_else(|| {
            self.n_pods += 1;
            format!("p{}", self.n_pods)
        });
        let expires = self.chance.random_ratio(1, 4);
        let is_lost = self.chance.random_ratio(1, 8);
        let replica = &self.servers[n].replica;
        if !replica.state.assumptions.are_made_here() {
            return Ok(());
        }
        let request = match replica.claim(&pod).await {
            Claim::First(request) => Arc::new(request),
            Claim::Again(_) => return Err(format!("`{pod}` was answered and its caller not told")),
        };
        let ttl = expires.then_some(TTL);
        let Ok(placed) = in_scope_of(request.clone(), replica.reserve(&pod, ttl)).await else {
            // Its term is over.
            self.lost.insert(pod);
            return Ok(());
        };
        let Some((token, node)) = placed else { return Ok(()) };
        if is_lost {
            self.lost.insert(pod);
            self.crash(n);
            return Ok(());
        }
        if replica.state.assumptions.answer(&request, pod.as_bytes()).await.is_err() {
            self.lost.insert(pod);
            return Ok(());
        }
        request.remember(pod.as_bytes());
        self.lost.remove(&pod);
        self.answered.push(pod.clone());
        self.n_acknowledged += 1;
        if token <= self.newest {
            return Err(format!("token {token} of `{pod}` is not above {}", self.newest));
        }
        self.newest = token;
        self.told.insert(pod, Held { token, node, expires });
        self.check_room()
    }

    async fn retry(&mut self, n: usize) -> Checked {
        match self.lost.first().cloned() {
            Some(pod) => self.reserve(n, Some(pod)).await,
            None => Ok(()),
        }
    }

    async fn release(&mut self, n: usize) -> Checked {
        let at = self.chance.random_range(0..self.told.len().max(1));
        let Some((pod, held)) = self.told.iter().nth(at) else { return Ok(()) };
        let (pod, token) = (pod.clone(), held.token);
        let assumptions = &self.servers[n].replica.state.assumptions;
        if !assumptions.are_made_here() {
            return Ok(());
        }
        let named = Named { key: key(&pod), uid: String::new(), token };
        // It is refused if its term is over, or its feed has reported the pod.
        if let Ok((_, written)) = assumptions.release(&named)
            && written.await.is_ok()
        {
            self.told.remove(&pod);
            self.over.insert(token);
        }
        Ok(())
    }

    /// What is over by the decider's clock ends; and by that of a server that only follows, if that is broken.
    async fn expire(&mut self, n: usize) {
        let late = Instant::now() + 2 * TTL;
        let assumptions = &self.servers[n].replica.state.assumptions;
        if assumptions.are_made_here() {
            assumptions.expire(late);
            if assumptions.settled().await.is_ok() {
                let over = self.told.values().filter(|held| held.expires);
                self.over.extend(over.map(|held| held.token));
                self.told.retain(|_, held| !held.expires);
            }
        } else if self.fault == Fault::ExpiryByLocalClock {
            let due = assumptions.table().take_due(late, HOLD);
            let due: Vec<_> = due.into_iter().map(|(pod, it)| (pod, it.token, it.stamp)).collect();
            assumptions.take_out(&due);
        }
    }

    /// The message of an answered request comes once more.
    async fn repeat(&mut self, n: usize) {
        let replica = &self.servers[n].replica;
        let Some(pod) = self.answered.last().cloned() else { return };
        if !replica.state.assumptions.are_made_here() {
            return;
        }
        match self.fault {
            Fault::RequestRepeated => drop(replica.reserve(&pod, None).await),
            _ => match replica.claim(&pod).await {
                Claim::Again(response) => assert_eq!(response, pod),
                // A server whose term is over does not know what others have answered; its claim comes to nothing.
                Claim::First(_) => {}
            },
        }
    }

    fn follow(&mut self, n: usize) -> Checked {
        let server = &mut self.servers[n];
        if server.term.is_some_and(|term| term < self.term) {
            server.let_go();
            server.replica.begin();
        }
        if server.term.is_some() {
            return Ok(());
        }
        let skipped = (self.fault == Fault::WatchGapIgnored && self.chance.random_ratio(1, 2))
            .then(|| self.chance.random_range(0..4));
        server.replica.follow_but(skipped);
        self.check_list(n)?;
        self.check_follower(n)
    }

    /// The API server has bound one of the pods, or deleted one.
    fn report(&mut self) {
        if self.chance.random_ratio(1, 3)
            && let Some((pod, _)) = self.bound.pop_first()
        {
            self.events.push(Event::Deleted { pod });
            return;
        }
        let at = self.chance.random_range(0..self.told.len().max(1));
        let Some((pod, held)) = self.told.iter().nth(at) else { return };
        let (pod, node) = (pod.clone(), held.node.clone());
        self.over.insert(held.token);
        self.told.remove(&pod);
        self.bound.insert(pod.clone(), node.clone());
        self.reported.insert(pod.clone());
        self.events.push(Event::Bound { pod, node });
    }

    /// A feed tells the next event.
    async fn feed(&mut self, n: usize) {
        let server = &mut self.servers[n];
        let n_fed = server.n_fed.load(Ordering::Relaxed);
        let event = usize::try_from(n_fed).ok().and_then(|n_fed| self.events.get(n_fed));
        let Some(event) = event.cloned() else { return };
        let cluster = &server.replica.state.cluster;
        match event {
            Event::Bound { pod, node } => fixture::run(cluster, &fixture::pod(&pod, "1", 0), &node),
            Event::Deleted { pod } => {
                cluster.apply(vec![Delta::DeletePod { key: key(&pod), uid: None }]);
            }
        }
        server.n_fed.store(n_fed + 1, Ordering::Relaxed);
        server.replica.reached = pods_at(n_fed + 1);
        let Server { replica, .. } = server;
        replica.follower.end_lingering(&replica.reached);
        let assumptions = &replica.state.assumptions;
        assumptions.forget_ended();
        // A term that is over writes nothing.
        drop(assumptions.settled().await);
    }

    fn crash(&mut self, n: usize) {
        self.servers[n] = Server::new(&self.ledger);
        self.servers[n].replica.begin();
        if self.decider == Some(n) {
            self.decider = None;
        }
    }

    /// Who decides has what callers were told, and nothing else.
    async fn check_decider(&mut self) -> Checked {
        let Some(n) = self.decider else { return Ok(()) };
        let server = &self.servers[n];
        if server.replica.state.assumptions.settled().await.is_err() {
            // Another one has taken over in the ledger.
            return Ok(());
        }
        let assumed = server.assumed();
        for (pod, held) in &self.told {
            match assumed.get(pod) {
                Some(found) if *found == (held.token, held.node.clone()) => {}
                found => return Err(format!("`{pod}` is {held:?}, but the decider has {found:?}")),
            }
        }
        for (pod, (token, _)) in &assumed {
            // What its feed has not told yet it has as a reservation, and what its feed told before it read the record.
            if self.reported.contains(pod) {
                continue;
            }
            if self.over.contains(token) {
                return Err(format!("`{pod}` is over and came back"));
            }
            if !self.told.contains_key(pod) {
                return Err(format!("the decider has `{pod}`, of which nobody was told"));
            }
        }
        self.check_room()
    }

    fn check_room(&self) -> Checked {
        for node in NODES {
            let n_held = self.told.values().filter(|held| held.node == node).count();
            let n_bound = self.bound.values().filter(|on| *on == node).count();
            if n_held + n_bound > ROOM {
                return Err(format!("`{node}` has {n_held} reservations and {n_bound} pods"));
            }
        }
        Ok(())
    }

    /// A server that has followed lists nothing that callers were told is over, however far its feed is.
    fn check_list(&self, n: usize) -> Checked {
        let listed = self.servers[n].replica.assumed().into_iter();
        let mut over = listed
            .filter(|(pod, token, _)| self.over.contains(token) && !self.reported.contains(pod));
        match over.next() {
            None => Ok(()),
            Some((pod, token, _)) => {
                Err(format!("server {n} lists `{pod}` with {token}, which is over"))
            }
        }
    }

    /// A server that has followed and is fed as far as the decider has the same.
    fn check_follower(&self, n: usize) -> Checked {
        let Some(decider) = self.decider else { return Ok(()) };
        let (one, other) = (&self.servers[n], &self.servers[decider]);
        let n_fed = |server: &Server| server.n_fed.load(Ordering::Relaxed);
        if one.term.is_some() || n_fed(one) != n_fed(other) {
            return Ok(());
        }
        let (mut one, mut other) = (one.assumed(), other.assumed());
        // A feed that told all of a pod before its record was read leaves a reservation until it is over.
        for assumed in [&mut one, &mut other] {
            assumed.retain(|pod, _| !self.reported.contains(pod));
        }
        match one == other {
            true => Ok(()),
            false => Err(format!("server {n} has {one:?}, and the decider {other:?}")),
        }
    }

    /// Everything is fed and followed: all have the same.
    async fn settle(&mut self) -> Checked {
        self.take_over(self.decider.map_or(0, |n| (n + 1) % N_SERVERS)).await;
        for n in 0..N_SERVERS {
            for _ in 0..self.events.len() {
                self.feed(n).await;
            }
        }
        self.check_decider().await?;
        for n in 0..N_SERVERS {
            self.follow(n)?;
        }
        Ok(())
    }
}

impl Server {
    fn new(ledger: &Arc<Terms>) -> Server {
        Server { replica: Replica::new(ledger), n_fed: Arc::default(), term: None }
    }

    fn is_behind(&self) -> bool {
        self.replica.follower.behind(&self.replica.reached).is_some()
    }

    fn let_go(&mut self) {
        if self.term.take().is_some() {
            self.replica.follower.hand_over();
        }
    }

    /// Token and node of each pod that has its room as an assumed one, also where its assumption is over.
    fn assumed(&self) -> BTreeMap<String, (u64, String)> {
        let state = &self.replica.state;
        let held = state.assumptions.table().held().into_iter();
        let tokens: BTreeMap<PodKey, u64> = held.map(|(pod, _, token)| (pod, token)).collect();
        let assumed = state.cluster.assumed_pods().into_iter().map(|standing| {
            let token = tokens[standing.pod.key()];
            (standing.pod.key().name.to_string(), (token, standing.node.to_string()))
        });
        assumed.collect()
    }
}

fn key(pod: &str) -> PodKey {
    PodKey::new("default", pod)
}

/// Runs seeds; returns the first violation with its seed.
fn violation(seeds: std::ops::Range<u64>, fault: Fault) -> Option<(u64, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    seeds.into_iter().find_map(|seed| {
        let mut world = World::new(seed, fault);
        runtime.block_on(world.run()).err().map(|what| (seed, what))
    })
}

#[test]
fn many_lives_violate_nothing() {
    let n = std::env::var("BERTH_RESERVATION_SEEDS").ok().map_or(200, |n| n.parse().unwrap());
    let found = violation(0..n, Fault::None);
    assert_eq!(found, None, "(seed, violation)");
}

#[test]
fn each_deliberate_fault_is_found() {
    for fault in [
        Fault::NoTermCompared,
        Fault::PredecessorNotRead,
        Fault::FeedBehind,
        Fault::WatchGapIgnored,
        Fault::TokensBeginAnew,
        Fault::ExpiryByLocalClock,
        Fault::RequestRepeated,
        Fault::UnansweredKept,
    ] {
        let Some((seed, what)) = violation(0..500, fault) else {
            panic!("{fault:?} was not found")
        };
        println!("{fault:?}: seed {seed}: {what}");
    }
}

#[test]
fn a_life_has_what_it_is_about() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (mut n_acknowledged, mut n_terms, mut n_over) = (0, 0, 0);
    for seed in 0..20 {
        let mut world = World::new(seed, Fault::None);
        runtime.block_on(world.run()).unwrap();
        n_acknowledged += world.n_acknowledged;
        n_terms += world.n_terms;
        n_over += world.over.len();
    }
    println!("{n_acknowledged} acknowledged, {n_terms} terms, {n_over} over");
    assert!(n_acknowledged > 100 && n_terms > 100 && n_over > 50);
}
