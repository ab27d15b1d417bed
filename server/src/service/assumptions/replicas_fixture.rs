//! Servers on one ledger in memory, for tests of what they share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_engine::{AssumptionStamp, PodKey};
use berth_proto::berth_v1::{self as wire, PlaceMode, PlaceRequest};

use super::{Follower, Named, PREFIXES, Requests};
use crate::clock;
use crate::feed::position::Position;
use crate::ledger::{
    CommitError, Entry, JournalPage, Key, Ledger, LedgerError, Memory, Revision, Term, Transaction,
};
use crate::service::response_cache::{Claim, InProgress, RequestName};
use crate::service::{CallContext, CallError, State, fixture, placement};

/// A ledger in memory that is written in one term only.
pub(super) struct Terms {
    pub(super) ledger: Memory,
    pub(super) term: AtomicI64,
    /// Whether changes of any term are taken: a fault.
    pub(super) takes_any_term: AtomicBool,
}

impl Terms {
    pub(super) fn new() -> Arc<Terms> {
        Arc::new(Terms {
            ledger: Memory::new(Revision(1)),
            term: AtomicI64::new(1),
            takes_any_term: AtomicBool::new(false),
        })
    }

    fn records(&self) -> BTreeMap<Key, Vec<u8>> {
        let listed = PREFIXES.iter().flat_map(|prefix| self.ledger.list(prefix).unwrap());
        listed.map(|(key, entry)| (key, entry.value)).collect()
    }

    /// What is known of named requests.
    fn requests(&self) -> Requests {
        let listed = Requests::PREFIXES.iter().flat_map(|prefix| self.ledger.list(prefix).unwrap());
        Requests::read(listed.map(|(key, entry)| (key, entry.value))).unwrap()
    }
}

impl Ledger for Terms {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
        self.ledger.read(keys)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
        self.ledger.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let now = Term(self.term.load(Ordering::Relaxed));
        let is_old = transaction.term.is_some_and(|term| term != now);
        match is_old && !self.takes_any_term.load(Ordering::Relaxed) {
            true => Err(CommitError::OtherTerm),
            false => self.ledger.commit(transaction),
        }
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        self.ledger.journal(after, limit)
    }
}

/// A server with a cluster of its own: two nodes of 8 CPUs.
pub(super) struct Replica {
    pub(super) state: Arc<State>,
    pub(super) follower: Follower,
    ledger: Arc<Terms>,
    /// The records as it has read them.
    known: BTreeMap<Key, Vec<u8>>,
    /// How far its feed is.
    pub(super) reached: Position,
    /// Wall-clock time at which this server's term begins, in microseconds since 1970: the least token that it gives.
    pub(super) unix_micros: u64,
}

impl Replica {
    pub(super) fn new(ledger: &Arc<Terms>) -> Replica {
        let state = fixture::state(&[("n0", "8"), ("n1", "8")]);
        let follower = Follower::new(state.assumptions.clone());
        let (known, reached) = (BTreeMap::new(), Position::default());
        // A server's first token is the time of its start.
        let unix_micros = state.assumptions.next_token();
        Replica { state, follower, ledger: ledger.clone(), known, reached, unix_micros }
    }

    /// Reads everything.
    pub(super) fn begin(&mut self) {
        self.known = self.ledger.records();
        let records = self.known.clone().into_iter().map(|(key, value)| (key, Some(value)));
        self.follower.begin(records.collect(), &self.reached, clock::now()).unwrap();
    }

    /// Applies what has changed since the last call.
    pub(super) fn follow(&mut self) {
        self.follow_but(None);
    }

    /// Applies what has changed since the last call, without the change at this position: a fault.
    pub(super) fn follow_but(&mut self, missed: Option<usize>) {
        let before = std::mem::replace(&mut self.known, self.ledger.records());
        let gone = before.keys().filter(|key| !self.known.contains_key(*key));
        let mut news: Vec<_> = gone.map(|key| (key.clone(), None)).collect();
        let new = self.known.iter().filter(|(key, value)| before.get(*key) != Some(*value));
        news.extend(new.map(|(key, value)| (key.clone(), Some(value.clone()))));
        if let Some(missed) = missed.filter(|&missed| missed < news.len()) {
            news.remove(missed);
        }
        // A body without its state, or the other way round, is noticed: the server reads everything anew.
        if self.follower.apply(news, &self.reached, clock::now()).is_err() {
            self.begin();
        }
    }

    /// Reads everything, and begins to decide with a feed at this version of pods.
    pub(super) fn take_over(&mut self, term: i64, version: u64) {
        self.begin();
        self.decide(term, &Arc::new(AtomicU64::new(version)), self.ledger.requests());
    }

    /// Begins to decide with what it has read, and with a feed at this version of pods.
    pub(super) fn begin_term(&mut self, term: i64, version: &Arc<AtomicU64>) {
        self.decide(term, version, self.ledger.requests());
    }

    /// The same, without undoing what was not answered: a fault.
    pub(super) fn begin_term_blindly(&mut self, term: i64, version: &Arc<AtomicU64>) {
        self.decide(term, version, Requests::default());
    }

    fn decide(&mut self, term: i64, version: &Arc<AtomicU64>, requests: Requests) {
        self.ledger.term.store(term, Ordering::Relaxed);
        let version = version.clone();
        let claimed = move || pods_at(version.load(Ordering::Relaxed));
        let (ledger, requests) = (self.ledger.clone(), (requests, &self.state.responses));
        let now = (clock::now(), self.unix_micros);
        self.follower.take_over(ledger, Term(term), claimed, requests, now).unwrap();
    }

    /// Claims the name of a request.
    pub(super) async fn claim(&self, id: &str) -> Claim {
        let method = "/berth.v1.PlacementService/Place";
        let name = RequestName { user: "jane".into(), method, id: id.into() };
        self.state.responses.claim(name, [b"message", b""]).await.unwrap()
    }

    /// Claims the name of a request that was not answered before.
    pub(super) async fn first_claim(&self, id: &str) -> Arc<InProgress> {
        match self.claim(id).await {
            Claim::First(request) => Arc::new(request),
            Claim::Again(_) => panic!("`{id}` was carried out before"),
        }
    }

    /// Reserves for a pod of one CPU; returns token and node, or `None` without room.
    pub(super) async fn reserve(
        &self,
        name: &str,
        ttl: Option<Duration>,
    ) -> Result<Option<(u64, String)>, CallError> {
        let request = PlaceRequest {
            pod: Some(fixture::pod(name, "1", 0).into()),
            mode: PlaceMode::Assume as i32,
            assume_ttl_ms: Some(ttl.map_or(0, clock::as_millis)),
            ..PlaceRequest::default()
        };
        let answer = placement::place(&self.state, CallContext::open(), request).await?;
        Ok(match answer.decision.unwrap().outcome {
            Some(wire::decision::Outcome::Placement(placement)) => {
                Some((placement.assumption.unwrap().token, placement.node_name))
            }
            _ => None,
        })
    }

    /// Reserves for a pod for which there is room, for a minute; returns the token.
    pub(super) async fn place(&self, name: &str) -> Result<u64, CallError> {
        let reserved = self.reserve(name, Some(Duration::from_secs(60))).await?;
        Ok(reserved.expect("there is room").0)
    }

    pub(super) async fn release(&self, name: &str, token: u64) {
        let named = Named { key: PodKey::new("default", name), uid: String::new(), token };
        let (released, written) = self.state.assumptions.release(&named).unwrap();
        written.await.unwrap();
        assert!(released);
    }

    /// An assumed pod, with its stamp and its token.
    pub(super) fn held(&self, name: &str) -> (PodKey, AssumptionStamp, u64) {
        let held = self.state.assumptions.table().held();
        held.into_iter().find(|(pod, ..)| *pod.name == *name).expect("it is assumed")
    }

    /// Name, token and node of each assumed pod.
    pub(super) fn assumed(&self) -> Vec<(String, u64, String)> {
        let listed = self.state.assumptions.list(Instant::now()).into_iter();
        let row = |listed: super::Listed| {
            let token = listed.held.expect("it was assumed for a caller").assumption.token;
            let name = listed.standing.pod.key().name.to_string();
            (name, token, listed.standing.node.to_string())
        };
        listed.map(row).collect()
    }
}

pub(super) fn pods_at(version: u64) -> Position {
    Position([("Pod".to_owned(), version)].into())
}
