//! Assumptions in a ledger: what is acknowledged is there again, and room comes back only once the ledger has its end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use berth_engine::PodKey;
use berth_proto::berth_v1::{
    self as wire, Gang, PlaceBatchRequest, PlaceMode, PlaceRequest, PreemptRequest,
};

use super::*;
use crate::ledger::{
    Bounds, CommitError, Entry as LedgerEntry, JournalPage, Key, Ledger, LedgerError, Memory,
    Revision, Transaction,
};
use crate::service::{CallContext, CallError, State, fixture, placement, preemption};

/// A ledger in memory that can be unplugged: then a commit happens, or not, and its outcome is unknown.
struct Unplugged {
    ledger: Memory,
    is_unplugged: AtomicBool,
    happens: AtomicBool,
    n_commits: Mutex<usize>,
}

impl Unplugged {
    fn new(max_records: u64) -> Arc<Unplugged> {
        let bounds = Bounds { max_records, ..Bounds::default() };
        Arc::new(Unplugged {
            ledger: Memory::bounded(Revision(1), bounds),
            is_unplugged: AtomicBool::new(false),
            happens: AtomicBool::new(false),
            n_commits: Mutex::default(),
        })
    }

    fn n_records(&self) -> usize {
        self.ledger.list("").unwrap().len()
    }
}

impl Ledger for Unplugged {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<LedgerEntry>>, LedgerError> {
        self.ledger.read(keys)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, LedgerEntry)>, LedgerError> {
        self.ledger.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        *self.n_commits.lock().unwrap() += 1;
        if !self.is_unplugged.load(Ordering::Relaxed) {
            return self.ledger.commit(transaction);
        }
        if self.happens.load(Ordering::Relaxed) {
            self.ledger.commit(transaction)?;
        }
        Err(LedgerError::Unavailable { reason: "unplugged".to_owned() }.into())
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        self.ledger.journal(after, limit)
    }
}

/// A server on the ledger, with two nodes of 8 CPUs.
async fn server(ledger: &Arc<Unplugged>) -> Arc<State> {
    let state = fixture::state(&[("n0", "8"), ("n1", "8")]);
    let kept = state.assumptions.keep_in(ledger.clone()).unwrap();
    state.assumptions.restore(kept, &state.responses, Instant::now());
    // Another one begins only once this one has written what it has to.
    state.assumptions.settled().await.unwrap();
    state
}

async fn place(state: &Arc<State>, name: &str, cpu: &str) -> Result<(u64, String), CallError> {
    let request = PlaceRequest {
        pod: Some(fixture::pod(name, cpu, 0).into()),
        mode: PlaceMode::Assume as i32,
        assume_ttl_ms: Some(60_000),
        ..PlaceRequest::default()
    };
    let answer = placement::place(state, CallContext::open(), request).await?;
    let Some(wire::decision::Outcome::Placement(placement)) = answer.decision.unwrap().outcome
    else {
        panic!("there is room")
    };
    Ok((placement.assumption.unwrap().token, placement.node_name))
}

fn named(name: &str, token: u64) -> Named {
    Named { key: PodKey::new("default", name), uid: String::new(), token }
}

/// Name, token, node and seconds left of each assumed pod.
fn assumed(state: &State) -> Vec<(String, u64, String, Option<u64>)> {
    let listed = state.assumptions.list(Instant::now()).into_iter();
    let row = |listed: Listed| {
        let held = listed.held.expect("it was assumed for a caller");
        let left = held.assumption.time_left_ms.map(|left| left.div_ceil(1_000));
        let name = listed.standing.pod.key().name.to_string();
        (name, held.assumption.token, listed.standing.node.to_string(), left)
    };
    listed.map(row).collect()
}

/// Waits until something is so, which another thread does.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn the_next_server_has_what_was_acknowledged() {
    let ledger = Unplugged::new(1_000);
    let first = server(&ledger).await;
    let (a, on_a) = place(&first, "a", "1").await.unwrap();
    let (b, on_b) = place(&first, "b", "1").await.unwrap();
    let (c, _) = place(&first, "c", "1").await.unwrap();
    let gang = PlaceBatchRequest {
        entries: vec![fixture::entry(&fixture::pod("web", "10m", 0), 150)],
        mode: PlaceMode::Assume as i32,
        gang: Some(Gang::default()),
        assume_ttl_ms: Some(0),
        ..PlaceBatchRequest::default()
    };
    placement::place_batch(&first, CallContext::open(), gang).await.unwrap();
    first.assumptions.confirm(&named("b", b)).unwrap().written.await.unwrap();
    first.assumptions.release(&named("c", c)).unwrap().1.await.unwrap();
    let expected = assumed(&first);
    assert_eq!(expected.len(), 152);
    assert_eq!(expected[..2], [("a".into(), a, on_a, Some(60)), ("b".into(), b, on_b, None)]);
    // Two records of one pod each, and three of the gang, each of two parts.
    assert_eq!(ledger.n_records(), 10);
    let second = server(&ledger).await;
    assert_eq!(assumed(&second), expected);
    let objects = second.cluster.assumed_pods().into_iter().map(|it| it.pod.object().unwrap());
    let names: Vec<_> = objects.map(|it| it.metadata.unwrap().uid).collect();
    assert_eq!((&*names[2], &*names[151]), ("uid-web-0", "uid-web-99"));
    // A third has what has changed since.
    second.assumptions.release(&named("a", a)).unwrap().1.await.unwrap();
    assert_eq!(assumed(&*server(&ledger).await), expected[1..]);
    assert!(place(&second, "a", "1").await.unwrap().0 > expected.last().unwrap().1);
}

#[tokio::test]
async fn nominations_are_there_again() {
    let ledger = Unplugged::new(1_000);
    let first = server(&ledger).await;
    for node in ["n0", "n1"] {
        fixture::run(&first.cluster, &fixture::pod(&format!("low-{node}"), "8", 0), node);
    }
    let preempt = async |state: &Arc<State>, name: &str| {
        let pod = Some(fixture::pod(name, "8", 10));
        let request = PreemptRequest { pod, nominate: true, ..PreemptRequest::default() };
        preemption::preempt(state, CallContext::open(), request).await
    };
    preempt(&first, "a").await.unwrap();
    preempt(&first, "b").await.unwrap();
    let nominated = |state: &State| {
        let node = |name| Some(state.cluster.own_nomination(&PodKey::new("default", name))?.1);
        ["a", "b", "c"].map(|name| node(name).map(|node| node.to_string()))
    };
    let expected = [Some("n0".to_owned()), Some("n1".to_owned()), None];
    assert_eq!((nominated(&first), ledger.n_records()), (expected.clone(), 2));
    assert_eq!(nominated(&*server(&ledger).await), expected);
    // A pod that is placed is not nominated any more.
    let second = server(&ledger).await;
    fixture::run(&second.cluster, &fixture::pod("a", "8", 10), "n0");
    second.assumptions.forget_ended();
    until("the record is removed", || ledger.n_records() == 1).await;
    assert_eq!(nominated(&*server(&ledger).await), [None, expected[1].clone(), None]);
    // Nothing stays of one that could not be written.
    let third = fixture::state(&[("n2", "8")]);
    fixture::run(&third.cluster, &fixture::pod("low", "8", 0), "n2");
    let kept = third.assumptions.keep_in(ledger.clone()).unwrap();
    third.assumptions.restore(kept, &third.responses, Instant::now());
    ledger.is_unplugged.store(true, Ordering::Relaxed);
    let error = preempt(&third, "c").await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
    assert_eq!(nominated(&third)[2], None);
    ledger.is_unplugged.store(false, Ordering::Relaxed);
    until("it is certain", || {
        third.assumptions.forget_ended();
        ledger.n_records() == 1
    })
    .await;
}

#[tokio::test]
async fn what_a_feed_knows_better_leaves_the_ledger() {
    let ledger = Unplugged::new(1_000);
    let first = server(&ledger).await;
    place(&first, "bound", "1").await.unwrap();
    place(&first, "gone", "1").await.unwrap();
    fixture::run(&first.cluster, &fixture::pod("bound", "1", 0), "n0");
    assert_eq!(ledger.n_records(), 4);
    // Before it is noticed the server ends. The next one is told of the pod by its feed.
    let second = fixture::state(&[("n0", "8"), ("n1", "8")]);
    fixture::run(&second.cluster, &fixture::pod("bound", "1", 0), "n0");
    let kept = second.assumptions.keep_in(ledger.clone()).unwrap();
    second.assumptions.restore(kept, &second.responses, Instant::now());
    assert_eq!(assumed(&second).len(), 1);
    until("the record is removed", || ledger.n_records() == 2).await;
    let key = PodKey::new("default", "gone");
    second.cluster.apply(vec![berth_engine::Delta::DeletePod { key, uid: None }]);
    second.assumptions.forget_ended();
    until("the record is removed", || ledger.n_records() == 0).await;
}

#[tokio::test]
async fn nothing_is_acknowledged_that_may_not_be_written() {
    for happens in [false, true] {
        let ledger = Unplugged::new(1_000);
        ledger.happens.store(happens, Ordering::Relaxed);
        let state = server(&ledger).await;
        let (a, _) = place(&state, "a", "5").await.unwrap();
        ledger.is_unplugged.store(true, Ordering::Relaxed);
        let error = place(&state, "b", "5").await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
        let error = state.assumptions.release(&named("a", a)).unwrap().1.await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
        // Nobody is told that it is over, since the next server may find it.
        let again = state.assumptions.release(&named("a", a)).unwrap();
        assert!(!again.0 && again.1.await.is_err());
        let confirm = wire::ConfirmRequest {
            pod: Some(wire::PodKey { name: "a".into(), ..wire::PodKey::default() }),
            token: a,
        };
        let confirmed = placement::assumed::confirm(&state, CallContext::open(), confirm).await;
        assert_eq!(confirmed.unwrap_err().code(), tonic::Code::Unavailable);
        // Neither has given its room back: the next server may find both.
        assert_eq!(state.cluster.snapshot().n_assumed(), 2);
        assert_eq!(state.assumptions.expire(Instant::now() + Duration::from_secs(3_600)), 0);
        ledger.is_unplugged.store(false, Ordering::Relaxed);
        until("both have ended", || state.cluster.snapshot().n_assumed() == 0).await;
        assert_eq!(ledger.n_records(), 0);
        assert_eq!(assumed(&*server(&ledger).await), []);
    }
}

#[tokio::test]
async fn a_full_ledger_refuses_reservations_and_ends_others() {
    let ledger = Unplugged::new(4);
    let state = server(&ledger).await;
    let (a, _) = place(&state, "a", "1").await.unwrap();
    place(&state, "b", "1").await.unwrap();
    let error = place(&state, "c", "1").await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::ResourceExhausted, "{error}");
    until("its room is back", || state.cluster.snapshot().n_assumed() == 2).await;
    state.assumptions.confirm(&named("a", a)).unwrap().written.await.unwrap();
    state.assumptions.release(&named("a", a)).unwrap().1.await.unwrap();
    place(&state, "c", "1").await.unwrap();
    assert_eq!(assumed(&*server(&ledger).await), assumed(&state));
}

/// Many callers share a write.
#[tokio::test]
async fn changes_that_come_together_are_written_together() {
    let ledger = Unplugged::new(10_000);
    let state = server(&ledger).await;
    let callers = (0..200).map(|n| {
        let state = state.clone();
        tokio::spawn(async move { place(&state, &format!("p{n}"), "10m").await.unwrap() })
    });
    let callers: Vec<_> = callers.collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!((ledger.n_records(), assumed(&*server(&ledger).await).len()), (400, 200));
    assert!(*ledger.n_commits.lock().unwrap() <= 200);
}
