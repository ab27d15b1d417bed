//! Assumptions that two servers share: what one has written the other has, and a term that is over writes nothing.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use berth_engine::PodKey;
use berth_proto::berth_v1::{PlaceMode, PlaceRequest};

use super::*;
use crate::feed::position::Position;
use crate::ledger::{
    CommitError, Entry as LedgerEntry, JournalPage, Key, Ledger, LedgerError, Memory, Revision,
    Term, Transaction,
};
use crate::service::response_cache::{Claim, InProgress, RequestName, in_scope_of};
use crate::service::{CallContext, CallError, State, fixture, placement};

/// A ledger in memory that is written in one term only.
struct Terms {
    ledger: Memory,
    term: AtomicI64,
}

impl Terms {
    fn new() -> Arc<Terms> {
        Arc::new(Terms { ledger: Memory::new(Revision(1)), term: AtomicI64::new(1) })
    }

    fn records(&self) -> BTreeMap<Key, Vec<u8>> {
        let listed = PREFIXES.iter().flat_map(|prefix| self.ledger.list(prefix).unwrap());
        listed.map(|(key, entry)| (key, entry.value)).collect()
    }
}

impl Ledger for Terms {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<LedgerEntry>>, LedgerError> {
        self.ledger.read(keys)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, LedgerEntry)>, LedgerError> {
        self.ledger.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let now = Term(self.term.load(Ordering::Relaxed));
        match transaction.term {
            Some(term) if term != now => Err(CommitError::OtherTerm),
            _ => self.ledger.commit(transaction),
        }
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        self.ledger.journal(after, limit)
    }
}

/// A server with a cluster of its own.
struct Replica {
    state: Arc<State>,
    follower: Follower,
    ledger: Arc<Terms>,
    /// The records as it has read them.
    known: BTreeMap<Key, Vec<u8>>,
    reached: Position,
}

impl Replica {
    fn new(ledger: &Arc<Terms>) -> Replica {
        let state = fixture::state(&[("n0", "8"), ("n1", "8")]);
        let follower = Follower::new(state.assumptions.clone());
        let (known, reached) = (BTreeMap::new(), Position::default());
        Replica { state, follower, ledger: ledger.clone(), known, reached }
    }

    fn begin(&mut self) {
        self.known = self.ledger.records();
        let records = self.known.clone().into_iter().map(|(key, value)| (key, Some(value)));
        self.follower.begin(records.collect(), &self.reached, Instant::now()).unwrap();
    }

    /// Applies what has changed since the last call.
    fn follow(&mut self) {
        let before = std::mem::replace(&mut self.known, self.ledger.records());
        let gone = before.keys().filter(|key| !self.known.contains_key(*key));
        let mut news: Vec<_> = gone.map(|key| (key.clone(), None)).collect();
        let new = self.known.iter().filter(|(key, value)| before.get(*key) != Some(*value));
        news.extend(new.map(|(key, value)| (key.clone(), Some(value.clone()))));
        self.follower.apply(news, &self.reached, Instant::now()).unwrap();
    }

    /// Begins to commit with a feed at this version of pods.
    fn take_over(&mut self, term: i64, version: u64) {
        self.begin();
        self.ledger.term.store(term, Ordering::Relaxed);
        let claimed = move || pods_at(version);
        let (ledger, now) = (self.ledger.clone(), Instant::now());
        let listed = Requests::PREFIXES.iter().flat_map(|prefix| ledger.list(prefix).unwrap());
        let requests = Requests::read(listed.map(|(key, entry)| (key, entry.value))).unwrap();
        let requests = (requests, &self.state.responses);
        self.follower.take_over(ledger, Term(term), claimed, requests, now).unwrap();
    }

    async fn place(&self, name: &str) -> Result<u64, CallError> {
        let request = PlaceRequest {
            pod: Some(fixture::pod(name, "1", 0).into()),
            mode: PlaceMode::Assume as i32,
            assume_ttl_ms: Some(60_000),
            ..PlaceRequest::default()
        };
        let answer = placement::place(&self.state, CallContext::open(), request).await?;
        let Some(wire::decision::Outcome::Placement(placement)) = answer.decision.unwrap().outcome
        else {
            panic!("there is room")
        };
        Ok(placement.assumption.unwrap().token)
    }

    async fn release(&self, name: &str, token: u64) {
        let named = Named { key: PodKey::new("default", name), uid: String::new(), token };
        let (released, written) = self.state.assumptions.release(&named).unwrap();
        written.await.unwrap();
        assert!(released);
    }

    /// An assumed pod, with its stamp and its token.
    fn held(&self, name: &str) -> (PodKey, AssumptionStamp, u64) {
        let held = self.state.assumptions.table().held();
        held.into_iter().find(|(pod, ..)| *pod.name == *name).expect("it is assumed")
    }

    /// Name, token and node of each assumed pod.
    fn assumed(&self) -> Vec<(String, u64, String)> {
        let listed = self.state.assumptions.list(Instant::now()).into_iter();
        let row = |listed: Listed| {
            let token = listed.held.expect("it was assumed for a caller").assumption.token;
            let name = listed.standing.pod.key().name.to_string();
            (name, token, listed.standing.node.to_string())
        };
        listed.map(row).collect()
    }
}

fn pods_at(version: u64) -> Position {
    Position([("Pod".to_owned(), version)].into())
}

#[tokio::test]
async fn what_one_server_assumes_another_one_has_until_it_ends() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    let first = one.place("p0").await.unwrap();
    other.begin();
    assert_eq!(other.assumed(), one.assumed());
    one.place("p1").await.unwrap();
    other.follow();
    assert_eq!((other.assumed(), other.assumed().len()), (one.assumed(), 2));
    one.release("p0", first).await;
    other.follow();
    assert_eq!((other.assumed(), other.assumed().len()), (one.assumed(), 1));
    // What it lacks after a pause it has after a new beginning, and the other way round.
    one.place("p2").await.unwrap();
    let (_, token, _) = one.assumed().remove(0);
    one.release("p1", token).await;
    other.begin();
    assert_eq!((other.assumed(), other.assumed()[0].0.as_str()), (one.assumed(), "p2"));
}

#[tokio::test]
async fn a_pod_that_a_feed_has_reported_elsewhere_stays_until_this_one_has() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 7);
    other.reached = pods_at(5);
    let token = one.place("p0").await.unwrap();
    other.begin();
    let behind = other.follower.behind(&other.reached).unwrap();
    assert!(behind.to_string().contains("version 5"), "{behind}");
    one.release("p0", token).await;
    other.follow();
    assert_eq!((one.assumed().len(), other.assumed().len()), (0, 1));
    other.follower.end_lingering(&pods_at(6));
    assert_eq!(other.assumed().len(), 1);
    // Reserved anew, it does not wait.
    let again = one.place("p0").await.unwrap();
    other.follow();
    assert_eq!(other.assumed()[0].1, again);
    one.release("p0", again).await;
    other.follow();
    other.follower.end_lingering(&pods_at(7));
    assert_eq!(other.assumed(), []);
    assert_eq!(other.follower.behind(&pods_at(7)), None);
}

#[tokio::test]
async fn a_term_that_is_over_assumes_nothing_and_keeps_what_it_has_written() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    let written = one.place("p0").await.unwrap();
    other.take_over(2, 0);
    // The one does not know yet that its term is over.
    let refused = one.place("p1").await.unwrap_err();
    assert_eq!(refused, CallError::NotGranted(GrantError::OtherTerm));
    let taken = other.place("p1").await.unwrap();
    assert!(taken > written);
    one.follower.hand_over();
    assert_eq!(one.place("p2").await, Err(CallError::NotCommitter { committer: None }));
    one.begin();
    assert_eq!((one.assumed(), one.assumed().len()), (other.assumed(), 2));
    // It takes over what both have written, and its tokens are above all of them.
    one.take_over(3, 0);
    assert!(one.place("p2").await.unwrap() > taken);
    one.release("p1", taken).await;
    let late = other.place("p3").await.unwrap_err();
    assert_eq!(late, CallError::NotGranted(GrantError::OtherTerm));
}

#[tokio::test]
async fn only_who_commits_ends_what_is_over_and_its_time_begins_anew() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    one.place("p0").await.unwrap();
    other.begin();
    let late = Instant::now() + Duration::from_secs(61);
    assert!(!other.state.assumptions.is_any_due(late));
    assert_eq!((other.state.assumptions.expire(late), other.assumed().len()), (0, 1));
    other.take_over(2, 0);
    assert_eq!(other.state.assumptions.expire(Instant::now() + Duration::from_secs(59)), 0);
    assert_eq!(other.state.assumptions.expire(Instant::now() + Duration::from_secs(61)), 1);
    let until = Instant::now() + Duration::from_secs(60);
    while !other.assumed().is_empty() {
        assert!(Instant::now() < until, "its end is written in vain");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    one.follower.hand_over();
    one.begin();
    assert_eq!(one.assumed(), []);
}

/// Claims the name of a request at a server.
async fn claim(replica: &Replica, id: &str) -> Claim {
    let method = "/berth.v1.PlacementService/Place";
    let name = RequestName { user: "jane".into(), method, id: id.into() };
    replica.state.responses.claim(name, [b"message", b""]).await.unwrap()
}

async fn first_claim(replica: &Replica, id: &str) -> Arc<InProgress> {
    match claim(replica, id).await {
        Claim::First(request) => Arc::new(request),
        Claim::Again(_) => panic!("`{id}` was carried out before"),
    }
}

#[tokio::test]
async fn a_named_request_is_carried_out_once_whoever_decides() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    for (id, pod) in [("answered", "p0"), ("lost", "p1"), ("given back", "p2")] {
        let request = first_claim(&one, id).await;
        in_scope_of(request.clone(), one.place(pod)).await.unwrap();
        if id == "answered" {
            one.state.assumptions.answer(&request, b"yes").await.unwrap();
            request.remember(b"yes");
        }
        if id == "given back" {
            let (_, stamp, token) = one.held("p2");
            let pods = [(PodKey::new("default", "p2"), token, stamp)];
            one.state.assumptions.give_back(&pods, Some(&request));
            one.state.assumptions.settled().await.unwrap();
        }
    }
    let n_requests = |ledger: &Terms| ledger.ledger.list(Key::REQUESTS).unwrap().len();
    assert_eq!((one.assumed().len(), n_requests(&ledger)), (2, 2));
    other.take_over(2, 0);
    // What is lost ends before a retry begins.
    let retry = first_claim(&other, "lost").await;
    assert_eq!(other.assumed().iter().map(|it| &*it.0).collect::<Vec<_>>(), ["p0"]);
    assert!(matches!(claim(&other, "answered").await, Claim::Again(answer) if answer == "yes"));
    first_claim(&other, "given back").await;
    assert_eq!(n_requests(&ledger), 1);
    in_scope_of(retry.clone(), other.place("p1")).await.unwrap();
    other.state.assumptions.answer(&retry, b"again").await.unwrap();
    // The first one, which decides once more, does not repeat what it knew.
    one.follower.hand_over();
    one.take_over(3, 0);
    assert!(matches!(claim(&one, "lost").await, Claim::Again(answer) if answer == "again"));
    assert_eq!(one.assumed(), other.assumed());
    // One whose term is over keeps no response.
    let late = first_claim(&other, "late").await;
    let refused = other.state.assumptions.answer(&late, b"late").await;
    assert_eq!(refused, Err(CallError::NotGranted(GrantError::OtherTerm)));
}
