//! Simulates several clients and a disk that loses power at every possible moment. The main property: a name and a
//! volume always have one holder, acknowledged grants stay, and tokens grow.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use berth_proto::berth_v1::{
    AdvanceFenceRequest, BreakAttachmentRequest, CheckTokenRequest, GetFenceRequest,
    GetIdentityRequest, GetVolumeRequest, ListLedgerRecordsRequest, RecordIdentityEventRequest,
};
use berth_server::ledger::{
    Bounds, CommitError, Embedded, Entry, GrantError, Grants, JournalPage, Key, Ledger,
    LedgerError, Memory, Revision, Transaction,
};

use crate::ledger::disk::Disk;
use crate::ledger::replay::{Exchange, Replay};
use crate::ledger::workload::{Chance, NAMESPACE, Request, Response, Seen, call};

const START: Revision = Revision(41);
/// Limit of the requests in a life; a few hundred writes never reach it.
const MAX_REQUESTS: usize = 2_000;

/// A ledger on which requests of other clients come between a client's read and its commit.
struct Racing {
    ledger: Arc<dyn Ledger>,
    /// The requests of other clients; `None` while they run.
    between: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl Ledger for Racing {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
        self.ledger.read(keys)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
        self.ledger.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let between = self.between.lock().unwrap().take();
        if let Some(mut between) = between {
            between();
            *self.between.lock().unwrap() = Some(between);
        }
        self.ledger.commit(transaction)
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        self.ledger.journal(after, limit)
    }
}

/// State of the clients, which outlives a crash.
struct Clients {
    chance: Chance,
    seen: Seen,
    n_requests: u64,
    /// Everything since the last check, with the highest token that was known when it was sent.
    exchanges: Vec<(Exchange, u64)>,
    highest: u64,
}

impl Clients {
    /// Sends a request of some client and records the response.
    fn send(clients: &Mutex<Clients>, grants: &Grants) -> Result<(), GrantError> {
        let (request, floor) = {
            let clients = &mut *clients.lock().unwrap();
            clients.n_requests += 1;
            let actor = format!("{}-{}", clients.chance.below(3), clients.n_requests);
            (clients.seen.request(&mut clients.chance, actor), clients.highest)
        };
        let answer = ask(grants, &request);
        let clients = &mut *clients.lock().unwrap();
        if let Ok(answer) = &answer {
            clients.seen.learn(answer);
            clients.highest = clients.highest.max(answer.token());
        }
        let exchange = Exchange { request, answer: answer.as_ref().ok().cloned() };
        clients.exchanges.push((exchange, floor));
        answer.map(drop)
    }
}

fn ask(grants: &Grants, request: &Request) -> Result<Response, GrantError> {
    let by = &call(1_800_000_000);
    Ok(match request {
        Request::Acquire(request) => Response::Acquire(grants.acquire_identity(request, by)?),
        Request::Event(request) => Response::Event(grants.record_identity_event(request, by)?),
        Request::Attach(request) => Response::Attach(grants.attach_volume(request, by)?),
        Request::Detach(request) => Response::Detach(grants.detach_volume(request, by)?),
        Request::Break(request) => Response::Break(grants.break_attachment(request, by)?),
        Request::Fence(request) => Response::Fence(grants.advance_fence(request, by)?),
    })
}

/// Grants on a ledger in which the clients race.
fn racing(ledger: Arc<dyn Ledger>, clients: &Arc<Mutex<Clients>>) -> Grants {
    let racing = Arc::new(Racing { ledger: ledger.clone(), between: Mutex::new(None) });
    let (others, clients) = (Grants::new(ledger), clients.clone());
    *racing.between.lock().unwrap() = Some(Box::new(move || {
        while clients.lock().unwrap().chance.is(30) {
            // A failure shows in the commit of the racing client, which follows.
            Clients::send(&clients, &others).ok();
        }
    }));
    Grants::new(racing)
}

/// Plays the rest of the journal, and compares it with all responses since the last check.
fn check(grants: &Grants, replay: &mut Replay, clients: &Mutex<Clients>) {
    let mut after = replay.last();
    loop {
        let request = ListLedgerRecordsRequest { after_revision: after, page_size: 1_000 };
        let page = grants.list_ledger_records(&request, &call(0)).unwrap();
        if after == 0 {
            let first = page.records.first().map_or(page.revision + 1, |line| line.revision);
            assert_eq!(first, START.0 + 1);
        }
        page.records.iter().for_each(|line| replay.play(line));
        match page.records.last() {
            Some(line) => after = line.revision,
            None => {
                assert_eq!(page.revision, replay.last().max(START.0));
                break;
            }
        }
    }
    for (exchange, floor) in clients.lock().unwrap().exchanges.drain(..) {
        replay.check(&exchange, floor);
    }
    check_records(grants, replay);
}

/// Checks that the records follow from the journal, and that only tokens of open grants are current.
fn check_records(grants: &Grants, replay: &Replay) {
    for n in 0..4 {
        let name = format!("pet-{n}");
        let request = GetIdentityRequest { namespace: NAMESPACE.into(), name: name.clone() };
        let record = grants.get_identity(&request, &call(0)).unwrap().record.unwrap();
        let (uid, token) = replay.identities.get(&name).cloned().unwrap_or_default();
        assert_eq!((&record.holder_uid, record.token), (&uid, token));
        let volume = format!("v{n}");
        let request = GetVolumeRequest { volume: volume.clone() };
        let record = grants.get_volume(&request, &call(0)).unwrap().record.unwrap();
        let (version, holders) = replay.volumes.get(&volume).cloned().unwrap_or_default();
        assert_eq!((record.version, &record.holders), (version, &holders));
    }
    let grants_made = |line: &&berth_proto::berth_v1::LedgerRecord| {
        ["Granted", "Attached"].contains(&&*line.outcome)
    };
    for line in replay.lines.values().rev().filter(grants_made).take(10) {
        let (kind, subject) = line.subject.split_once('/').unwrap();
        let is_current = replay.identities.values().any(|(_, token)| *token == line.revision)
            || replay
                .volumes
                .values()
                .any(|(_, holders)| holders.iter().any(|holder| holder.token == line.revision));
        let request = CheckTokenRequest {
            kind: kind.to_owned(),
            namespace: if kind == "identity" { NAMESPACE.to_owned() } else { String::new() },
            name: subject.rsplit('/').next().unwrap().to_owned(),
            token: line.revision,
        };
        assert_eq!(grants.check_token(&request, &call(0)).unwrap().current, is_current, "{line:?}");
    }
}

/// Fences every node for good: whatever has happened, fences release every volume, and every name whose node is known
/// (L-VOL-10, L-FENCE-10).
fn clear(grants: &Grants, replay: &Replay) {
    let mut n_events = 0;
    let mut advance = |node: &str, r#type: &str, token: u64| {
        n_events += 1;
        let request = AdvanceFenceRequest {
            node_name: node.to_owned(),
            r#type: r#type.to_owned(),
            scope: if r#type == "Decide" { "compute".to_owned() } else { String::new() },
            token,
            actor: format!("last-{n_events}"),
            ..AdvanceFenceRequest::default()
        };
        let answer = grants.advance_fence(&request, &call(0)).unwrap();
        assert_eq!(answer.outcome, "Ok", "{request:?} {answer:?}");
        answer.record.unwrap()
    };
    for node in ["n0", "n1", "n2"] {
        let request = GetFenceRequest { node_name: node.to_owned() };
        let mut fence = grants.get_fence(&request, &call(0)).unwrap().record.unwrap();
        if let Some(renewal) = fence.renewal {
            fence = advance(node, "FenceFailed", renewal.token);
        }
        if fence.state == "Fencing" {
            fence = advance(node, "FenceFailed", fence.token);
        }
        let is_confirmed = ["Fenced", "AttachmentsBroken"].contains(&&*fence.state);
        let decided = advance(node, "Decide", if is_confirmed { fence.token } else { 0 });
        let token = decided.renewal.map_or(decided.token, |renewal| renewal.token);
        advance(node, "FenceConfirmed", token);
        for n in 0..4 {
            let request = BreakAttachmentRequest {
                volume: format!("v{n}"),
                node: node.to_owned(),
                actor: format!("last-{node}-{n}"),
                ..BreakAttachmentRequest::default()
            };
            let answer = grants.break_attachment(&request, &call(0)).unwrap();
            assert!(answer.ok, "{request:?} {answer:?}");
        }
    }
    for (name, (uid, _)) in &replay.identities {
        let get = GetIdentityRequest { namespace: NAMESPACE.into(), name: name.clone() };
        let record = grants.get_identity(&get, &call(0)).unwrap().record.unwrap();
        let request = RecordIdentityEventRequest {
            namespace: NAMESPACE.into(),
            name: name.clone(),
            uid: uid.clone(),
            r#type: "RemovedAfterFence".into(),
            actor: format!("last-{name}"),
            ..RecordIdentityEventRequest::default()
        };
        let answer = grants.record_identity_event(&request, &call(0)).unwrap();
        let expected = if record.node_name.is_empty() { "NotReleased" } else { "Released" };
        assert_eq!(answer.outcome, expected, "{answer:?}");
    }
}

fn clients(seed: u64) -> Arc<Mutex<Clients>> {
    Arc::new(Mutex::new(Clients {
        chance: Chance(seed),
        seen: Seen::default(),
        n_requests: 0,
        exchanges: Vec::new(),
        highest: 0,
    }))
}

/// Counts of a simulated life of a ledger.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcomes {
    n_crashes: u64,
    n_lines: usize,
    by_outcome: std::collections::BTreeMap<String, u64>,
}

/// Runs lives of a ledger on one disk, each until the power fails: the `i`th at the operation `after(i)`.
fn live(seed: u64, n_lives: u64, after: impl Fn(u64, &mut Chance) -> u64) -> Outcomes {
    let (mut disk, mut replay) = (Disk::default(), Replay::default());
    let mut is_made = false;
    let mut chance = Chance(!seed);
    let clients = clients(seed);
    let mut outcomes = Outcomes::default();
    for life in 0..n_lives {
        disk.fail_after(after(life, &mut chance));
        if let Ok(ledger) = Embedded::on(disk.clone(), START, Bounds::default()) {
            is_made = true;
            let grants = racing(Arc::new(ledger), &clients);
            for _ in 0..MAX_REQUESTS {
                if Clients::send(&clients, &grants).is_err() || disk.has_failed() {
                    break;
                }
            }
        }
        assert!(disk.has_failed(), "nothing was written any more");
        outcomes.n_crashes += 1;
        if !is_made {
            // A file gets its name once it is complete, so nobody ever sees this one.
            disk = Disk::default();
            continue;
        }
        let percent = [0, 10, 50, 90, 100][chance.below(5) as usize];
        disk = disk.restored(&mut chance, percent);
        // Checks a copy, because opening a ledger writes to it.
        let copy = disk.restored(&mut chance, 100);
        let ledger = Embedded::on(copy, START, Bounds::default());
        let ledger = ledger.unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
        check(&Grants::new(Arc::new(ledger)), &mut replay, &clients);
    }
    outcomes.n_lines = replay.lines.len();
    for line in replay.lines.values() {
        *outcomes.by_outcome.entry(line.outcome.clone()).or_default() += 1;
    }
    outcomes
}

#[test]
fn one_holder_whatever_the_disk_loses() {
    let mut lines = 0;
    for seed in 0..20 {
        let outcomes = live(seed, 40, |_, chance| 1 + chance.below(400));
        assert_eq!(outcomes.n_crashes, 40);
        lines += outcomes.n_lines;
        if seed == 0 {
            assert_eq!(outcomes, live(seed, 40, |_, chance| 1 + chance.below(400)), "reproducible");
        }
    }
    assert!(lines > 2_000, "too little happened: {lines}");
}

/// Crashes at each operation of the creation of a file and of the first commits.
#[test]
fn a_crash_at_each_write_from_the_first() {
    for at in 1..=300 {
        // The first life ends there; the second shows that the ledger still works.
        let outcomes = live(1_000 + at, 2, |life, _| if life == 0 { at } else { 300 });
        assert!(outcomes.n_lines > 0, "nothing was granted after a crash at {at}");
    }
}

/// Both kinds of ledger respond to equal requests, without crashes, with equal responses.
#[test]
fn both_ledgers_answer_alike() {
    let mut text = String::new();
    for seed in 0..10 {
        let run = |ledger: Arc<dyn Ledger>| {
            let (clients, mut replay) = (clients(seed), Replay::default());
            let grants = racing(ledger.clone(), &clients);
            let answers = RefCell::new(Vec::new());
            for _ in 0..300 {
                Clients::send(&clients, &grants).unwrap();
                let exchanges = &clients.lock().unwrap().exchanges;
                answers.borrow_mut().push(format!("{:?}", exchanges.last().unwrap()));
            }
            let grants = Grants::new(ledger);
            check(&grants, &mut replay, &clients);
            clear(&grants, &replay);
            check(&grants, &mut replay, &clients);
            let held = replay.volumes.values().any(|(_, holders)| !holders.is_empty());
            assert!(!held, "{:?}", replay.volumes);
            answers.into_inner()
        };
        let embedded = Embedded::on(Disk::default(), START, Bounds::default()).unwrap();
        let (memory, embedded) = (run(Arc::new(Memory::new(START))), run(Arc::new(embedded)));
        assert_eq!(memory, embedded);
        text.push_str(&memory.concat());
    }
    for outcome in [
        "Granted",
        "AlreadyHeld",
        "HeldByOther",
        "OtherNode",
        "Released",
        "ReleasedUnsafely",
        "NotReleased",
        "StaleUID",
        "StaleToken",
        "Attached",
        "HeldByOtherNode",
        "HeldByOtherPod",
        "VersionConflict",
        "Detached",
        "Broken",
        "NotAttached",
        "FenceRequired",
        "PodStillExists",
        "StillMounted",
        "Fenced",
        "AttachmentsBroken",
        "RefusedScope",
        "RefusedStillFenced",
        "Recovered",
        "NodeFenced",
        "FenceInFlight",
    ] {
        assert!(text.contains(&format!("\"{outcome}\"")), "it never came to {outcome}");
    }
}

/// Real threads and a real file: a group commit carries out each request once.
#[test]
fn threads_on_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Embedded::open(&directory.path().join("ledger"), START).unwrap();
    let (grants, clients) = (Grants::new(Arc::new(ledger)), clients(7));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|_| Clients::send(&clients, &grants).unwrap()));
        }
    });
    check(&grants, &mut Replay::default(), &clients);
}
