//! One life of some replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use berth_etcd::EtcdError;
use berth_etcd::rpc::{ResponseHeader, TxnRequest, TxnResponse};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::store::Store;
use crate::ledger::etcd::book::{Known, Listing, Ticket, Waiting};
use crate::ledger::etcd::committer::{self, Action, Committer, Role, Round, Settings};
use crate::ledger::etcd::layout::{Head, Layout, Stored, decode};
use crate::ledger::{Bounds, CommitError, Key, Revision, Transaction};

const N_REPLICAS: usize = 3;
/// All times in milliseconds.
const STORM: u64 = 20_000;
const CALM: u64 = 15_000;
const TICK: u64 = 100;
const LEASE: u64 = 3_000;
const TIMEOUT: u64 = 1_000;

/// What is broken on purpose.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Transactions do not compare the key that elected their committer.
    NoTermCompared,
    /// Transactions do not compare the head.
    NoHeadCompared,
    /// They compare neither: only the lease's time keeps committers apart.
    LeaseTimeOnly,
    /// A change is acknowledged when its transaction is sent.
    AnsweredBeforeWritten,
    /// A new committer does not read the records.
    PredecessorNotRead,
    /// A new committer counts revisions from the start.
    RevisionsBeginAnew,
}

/// What has happened in a life.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) n_acknowledged: u64,
    pub(super) n_conflicts: u64,
    pub(super) n_unavailable: u64,
    pub(super) n_terms: u64,
    pub(super) n_crashes: u64,
    pub(super) n_repeated: u64,
    pub(super) n_refused_by_etcd: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Counts) {
        self.n_acknowledged += other.n_acknowledged;
        self.n_conflicts += other.n_conflicts;
        self.n_unavailable += other.n_unavailable;
        self.n_terms += other.n_terms;
        self.n_crashes += other.n_crashes;
        self.n_repeated += other.n_repeated;
        self.n_refused_by_etcd += other.n_refused_by_etcd;
    }
}

pub(super) struct World {
    chance: ChaCha8Rng,
    fault: Fault,
    layout: Layout,
    now: u64,
    store: Store,
    replicas: Vec<Replica>,
    /// What is to happen, by time and order.
    agenda: BTreeMap<(u64, u64), Event>,
    n_events: u64,
    /// Requests to etcd whose outcome no replica has heard.
    open: BTreeSet<u64>,
    n_requests: u64,
    watches: Vec<Watch>,
    changes: Vec<Change>,
    /// Revision of etcd at which each record was last changed.
    changed: BTreeMap<Vec<u8>, i64>,
    counts: Counts,
    violation: Option<String>,
}

struct Replica {
    machine: Committer,
    /// Grows with each crash: what was sent to an earlier life is lost.
    life: u64,
    is_alive: bool,
    paused_until: u64,
    born: u64,
    /// Speed of its clock, in thousandths.
    speed: u64,
}

struct Watch {
    to: (usize, u64),
    round: Round,
    after: i64,
}

/// A change that a client asked for.
struct Change {
    key: Key,
    expected: Option<Revision>,
    value: Option<Vec<u8>>,
    /// Revision of etcd when it was asked for.
    asked_at: i64,
    /// The replica, its life, and the time.
    asked: (usize, u64, u64),
    answer: Option<Result<Revision, CommitError>>,
}

#[derive(Clone)]
enum Call {
    GrantLease(Round, Duration),
    Campaign(Round, TxnRequest),
    List(Round),
    Renew(i64, Duration),
    Transact(Round, TxnRequest),
    Revoke(i64),
}

#[derive(Clone)]
enum Outcome {
    Leased(Round, Duration, Result<(i64, Duration), EtcdError>),
    Campaigned(Round, Result<TxnResponse, EtcdError>),
    Vacated(Round),
    Listed(Round, Result<Listing, EtcdError>),
    Renewed(i64, Duration, Result<Duration, EtcdError>),
    Transacted(Round, Result<TxnResponse, EtcdError>),
}

enum Event {
    Tick { to: (usize, u64) },
    Execute { id: u64, from: (usize, u64), call: Call },
    Hear { id: u64, to: (usize, u64), outcome: Outcome },
    Ask,
    Trouble,
    Restart(usize),
    ExpireLeases,
}

impl World {
    pub(super) fn new(seed: u64, fault: Fault) -> World {
        let mut world = World {
            chance: ChaCha8Rng::seed_from_u64(seed),
            fault,
            layout: Layout::new("/berth"),
            now: 0,
            store: Store::default(),
            replicas: Vec::new(),
            agenda: BTreeMap::new(),
            n_events: 0,
            open: BTreeSet::new(),
            n_requests: 0,
            watches: Vec::new(),
            changes: Vec::new(),
            changed: BTreeMap::new(),
            counts: Counts::default(),
            violation: None,
        };
        for n in 0..N_REPLICAS {
            let replica = world.born(n, 0);
            world.replicas.push(replica);
        }
        (0..N_REPLICAS).for_each(|n| world.wake(n));
        world.at(0, Event::Ask);
        world.at(500, Event::Trouble);
        world.at(TICK, Event::ExpireLeases);
        world
    }

    /// Lives until the storm is over and all is calm again.
    ///
    /// Errors: the first violation.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while let Some(((now, _), event)) = self.agenda.pop_first() {
            self.now = now;
            self.happen(event);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if now > STORM + CALM {
                break;
            }
        }
        self.check_the_end()
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// A number that differs if anything that matters does.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.n_events, self.n_requests, self.store.revision).hash(&mut hasher);
        for stored in self.store.keys.values() {
            (&stored.key, &stored.value, stored.mod_revision).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn born(&mut self, n: usize, life: u64) -> Replica {
        let settings = Settings {
            layout: self.layout.clone(),
            replica: committer::Replica { name: format!("r{n}"), address: String::new() },
            bounds: Bounds::default(),
        };
        let speed = self.chance.random_range(950..1_050);
        let machine = Committer::new(settings);
        Replica { machine, life, is_alive: true, paused_until: 0, born: self.now, speed }
    }

    fn wake(&mut self, n: usize) {
        self.act(n);
        let to = (n, self.replicas[n].life);
        self.at(self.now + TICK, Event::Tick { to });
    }

    fn at(&mut self, time: u64, event: Event) {
        self.n_events += 1;
        self.agenda.insert((time, self.n_events), event);
    }

    fn is(&mut self, percent: u32) -> bool {
        self.chance.random_ratio(percent, 100)
    }

    fn is_calm(&self) -> bool {
        self.now > STORM
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick { to } => self.tick(to),
            Event::Execute { id, from, call } => self.execute(id, from, call),
            Event::Hear { id, to, outcome } => self.hear(id, to, outcome),
            Event::Ask => {
                self.ask();
                let pause = self.chance.random_range(5..80);
                self.at(self.now + pause, Event::Ask);
            }
            Event::Trouble => self.trouble(),
            Event::Restart(n) => {
                let life = self.replicas[n].life + u64::from(self.replicas[n].is_alive);
                self.replicas[n] = self.born(n, life);
                self.wake(n);
            }
            Event::ExpireLeases => {
                self.store.expire(self.now);
                self.tell_watches();
                self.at(self.now + TICK, Event::ExpireLeases);
            }
        }
    }

    /// The local time of a replica.
    fn local(&self, n: usize) -> Duration {
        let Replica { born, speed, .. } = self.replicas[n];
        Duration::from_micros((self.now - born) * speed)
    }

    /// When a replica takes notice of something; `None` if it is in another life.
    fn notice(&self, (n, life): (usize, u64)) -> Option<u64> {
        let replica = &self.replicas[n];
        (replica.is_alive && replica.life == life).then_some(replica.paused_until)
    }

    fn tick(&mut self, to: (usize, u64)) {
        let Some(until) = self.notice(to) else { return };
        if until > self.now {
            return self.at(until, Event::Tick { to });
        }
        let now = self.local(to.0);
        self.replicas[to.0].machine.tick(now);
        self.act(to.0);
        self.at(self.now + TICK, Event::Tick { to });
    }

    /// A client, or two at once, ask some replica for a change, from what etcd has.
    fn ask(&mut self) {
        let n = self.chance.random_range(0..N_REPLICAS);
        if !self.replicas[n].is_alive || self.replicas[n].paused_until > self.now {
            return;
        }
        let key = Key::volume(&format!("v{}", self.chance.random_range(0..3)));
        let stored = self.store.get(&self.layout.record(key.as_str()));
        let stored: Option<Stored> = stored.map(|stored| decode(stored).unwrap());
        let expected = stored.map(|stored| Revision(stored.revision));
        let n_clients = if self.is(30) { 2 } else { 1 };
        for _ in 0..n_clients {
            self.ask_for(n, key.clone(), expected);
        }
        self.act(n);
    }

    fn ask_for(&mut self, n: usize, key: Key, expected: Option<Revision>) {
        let ticket = Ticket(self.changes.len() as u64);
        let text = ticket.0.to_string().into_bytes();
        let value = (!self.is(20)).then(|| text.clone());
        let transaction = Transaction {
            expectations: vec![(key.clone(), expected)],
            writes: vec![(key.clone(), value.clone())],
            journal: Some(text),
            term: None,
        };
        let (asked_at, asked) = (self.store.revision, (n, self.replicas[n].life, self.now));
        self.changes.push(Change { key, expected, value, asked_at, asked, answer: None });
        self.replicas[n].machine.submit(Waiting { ticket, transaction });
    }

    /// A replica crashes, or stops for a while.
    fn trouble(&mut self) {
        if self.is_calm() {
            return;
        }
        let n = self.chance.random_range(0..N_REPLICAS);
        let rest = self.chance.random_range(100..6_000);
        let until = (self.now + rest).min(STORM);
        if !self.replicas[n].is_alive {
        } else if self.is(50) {
            self.counts.n_crashes += 1;
            self.replicas[n].is_alive = false;
            self.replicas[n].life += 1;
            self.at(until, Event::Restart(n));
        } else if self.is(30) {
            self.replicas[n].machine.resign();
            self.act(n);
            self.at(until, Event::Restart(n));
        } else {
            self.replicas[n].paused_until = until;
        }
        let pause = self.chance.random_range(300..3_000);
        self.at(self.now + pause, Event::Trouble);
    }

    fn act(&mut self, n: usize) {
        let (round, actions) = self.replicas[n].machine.take_actions();
        let sent = self.local(n);
        for action in actions {
            match action {
                Action::GrantLease => self.send(n, Call::GrantLease(round, sent)),
                Action::Campaign(request) => self.send(n, Call::Campaign(round, request)),
                Action::List { .. } => self.send(n, Call::List(round)),
                Action::Renew { lease } => self.send(n, Call::Renew(lease, sent)),
                Action::Transact(request) => self.send(n, Call::Transact(round, request)),
                Action::Revoke { lease } => self.send(n, Call::Revoke(lease)),
                Action::AwaitVacancy { after } => {
                    let to = (n, self.replicas[n].life);
                    self.watches.push(Watch { to, round, after });
                    self.tell_watches();
                }
                Action::Answer(ticket, answer) => self.answered(ticket, answer),
            }
        }
    }

    /// Sends a request to etcd, which may be lost, late, or carried out twice.
    fn send(&mut self, n: usize, call: Call) {
        self.n_requests += 1;
        let (id, from) = (self.n_requests, (n, self.replicas[n].life));
        self.open.insert(id);
        if let Some(outcome) = unheard(&call) {
            self.at(self.now + TIMEOUT, Event::Hear { id, to: from, outcome });
        }
        if let (Fault::AnsweredBeforeWritten, Call::Transact(round, _)) = (self.fault, &call) {
            let revision = self.store.revision + 1;
            let header = Some(ResponseHeader { revision, ..ResponseHeader::default() });
            let answer = TxnResponse { header, succeeded: true, responses: Vec::new() };
            let outcome = Outcome::Transacted(*round, Ok(answer));
            self.at(self.now, Event::Hear { id, to: from, outcome });
        }
        let is_rough = !self.is_calm();
        if is_rough && self.is(3) {
            return;
        }
        let is_late = is_rough && self.is(3);
        let delay = self.chance.random_range(if is_late { 500..6_000 } else { 1..15 });
        if is_rough && self.is(3) {
            self.counts.n_repeated += 1;
            let again = delay + self.chance.random_range(1..3_000);
            let call = call.clone();
            self.at(self.now + again, Event::Execute { id, from, call });
        }
        self.at(self.now + delay, Event::Execute { id, from, call });
    }

    /// etcd carries a request out; the answer may be lost.
    fn execute(&mut self, id: u64, from: (usize, u64), call: Call) {
        let outcome = match call {
            Call::GrantLease(round, sent) => {
                let lease = self.store.grant(LEASE, self.now);
                let ttl = Duration::from_millis(LEASE);
                Some(Outcome::Leased(round, sent, Ok((lease, ttl))))
            }
            Call::Campaign(round, request) => {
                let answer = self.store.transact(&request);
                let is_elected = answer.as_ref().is_ok_and(|answer| answer.succeeded);
                self.counts.n_terms += u64::from(is_elected);
                Some(Outcome::Campaigned(round, answer))
            }
            Call::List(round) => Some(Outcome::Listed(round, Ok(self.listing()))),
            Call::Renew(lease, sent) => {
                let is_there = self.store.renew(lease, self.now);
                let ttl = Duration::from_millis(if is_there { LEASE } else { 0 });
                Some(Outcome::Renewed(lease, sent, Ok(ttl)))
            }
            Call::Transact(round, request) => {
                Some(Outcome::Transacted(round, self.transact(request)))
            }
            Call::Revoke(lease) => {
                self.store.revoke(lease);
                None
            }
        };
        self.tell_watches();
        let is_lost = !self.is_calm() && self.is(3);
        if let Some(outcome) = outcome.filter(|_| !is_lost) {
            let delay = self.chance.random_range(1..15);
            self.at(self.now + delay, Event::Hear { id, to: from, outcome });
        }
    }

    fn transact(&mut self, mut request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        let (committer, head) = (self.layout.committer(), self.layout.head());
        request.compare.retain(|compare| match self.fault {
            Fault::NoTermCompared => compare.key != committer.as_bytes(),
            Fault::NoHeadCompared => compare.key != head.as_bytes(),
            Fault::LeaseTimeOnly => false,
            _ => true,
        });
        let before = self.store.revision;
        let answer = self.store.transact(&request)?;
        if !answer.succeeded {
            self.counts.n_refused_by_etcd += 1;
            return Ok(answer);
        }
        let written: Head = decode(self.store.get(&head).unwrap()).unwrap();
        let elected = self.store.get(&committer).map(|held| held.create_revision);
        if elected != Some(written.term) {
            self.violate(&format!("term {} wrote while {elected:?} was elected", written.term));
        }
        // What this transaction changed; what it deleted is no longer there.
        for key in (0..3).map(|n| self.layout.record(&format!("volume/v{n}")).into_bytes()) {
            let is_put = self.store.keys.get(&key).is_some_and(|put| put.mod_revision > before);
            if is_put || !self.store.keys.contains_key(&key) {
                self.changed.insert(key, self.store.revision);
            }
        }
        Ok(answer)
    }

    fn listing(&self) -> Listing {
        let mut listing = Listing::default();
        if let Some(head) = self.store.get(&self.layout.head()) {
            let mut known: Head = decode(head).unwrap();
            if self.fault == Fault::RevisionsBeginAnew {
                known.last = 0;
            }
            listing.head = Some((known, head.mod_revision));
        }
        if self.fault == Fault::PredecessorNotRead {
            return listing;
        }
        for stored in self.store.list(&self.layout.record("")) {
            let revision = Revision(decode::<Stored>(stored).unwrap().revision);
            let known = Known { revision, n_bytes: 1 };
            listing.records.insert(self.layout.record_of(stored).unwrap(), known);
        }
        let lines = self.store.list(&self.layout.journal()).cloned().collect::<Vec<_>>();
        listing.lines = lines.iter().map(|line| self.layout.line_of(line).unwrap()).collect();
        listing
    }

    fn tell_watches(&mut self) {
        let committer = self.store.get(&self.layout.committer());
        let held_since = committer.map(|held| held.mod_revision);
        let (told, waiting) = std::mem::take(&mut self.watches)
            .into_iter()
            .partition(|watch: &Watch| held_since.is_none_or(|since| since > watch.after));
        self.watches = waiting;
        for Watch { to, round, .. } in told {
            self.n_requests += 1;
            let id = self.n_requests;
            self.open.insert(id);
            let delay = self.chance.random_range(1..30);
            let outcome = Outcome::Vacated(round);
            self.at(self.now + delay, Event::Hear { id, to, outcome });
        }
    }

    /// A replica hears of an outcome, once.
    fn hear(&mut self, id: u64, to: (usize, u64), outcome: Outcome) {
        let Some(until) = self.notice(to) else { return };
        if until > self.now {
            return self.at(until, Event::Hear { id, to, outcome });
        }
        if !self.open.remove(&id) {
            return;
        }
        let now = self.local(to.0);
        let start = match self.fault {
            Fault::RevisionsBeginAnew => Revision(0),
            _ => Revision(self.now * 1_000),
        };
        let machine = &mut self.replicas[to.0].machine;
        match outcome {
            Outcome::Leased(round, sent, outcome) => machine.leased(round, (sent, now), outcome),
            Outcome::Campaigned(round, outcome) => machine.campaigned(round, now, outcome),
            Outcome::Vacated(round) => machine.vacated(round, now, Ok(())),
            Outcome::Listed(round, outcome) => {
                machine.listed(round, now, start, outcome.map_err(Into::into));
            }
            Outcome::Renewed(lease, sent, outcome) => machine.renewed(lease, (sent, now), &outcome),
            Outcome::Transacted(round, outcome) => machine.transacted(round, now, outcome),
        }
        self.act(to.0);
    }

    fn answered(&mut self, ticket: Ticket, answer: Result<Revision, CommitError>) {
        let position = usize::try_from(ticket.0).unwrap();
        let change = &self.changes[position];
        match &answer {
            Ok(_) => self.counts.n_acknowledged += 1,
            Err(CommitError::Conflict { .. }) => {
                self.counts.n_conflicts += 1;
                let key = self.layout.record(change.key.as_str()).into_bytes();
                let changed = self.changed.get(&key).copied().unwrap_or_default();
                if changed <= change.asked_at {
                    self.violate(&format!("change {position} was refused without a reason"));
                }
            }
            Err(_) => self.counts.n_unavailable += 1,
        }
        let change = &mut self.changes[position];
        if change.answer.replace(answer).is_some() {
            self.violate(&format!("change {position} was answered twice"));
        }
    }

    fn violate(&mut self, what: &str) {
        self.violation.get_or_insert(format!("at {} ms: {what}", self.now));
    }

    /// Compares what etcd has with what the clients were told.
    fn check_the_end(&self) -> Result<(), String> {
        let roles = self.replicas.iter().map(|replica| replica.machine.role());
        let n_committers = roles.filter(|role| matches!(role, Role::Committer { .. })).count();
        if n_committers != 1 {
            return Err(format!("{n_committers} replicas commit after the storm"));
        }
        let mut records: BTreeMap<Key, (Revision, Vec<u8>)> = BTreeMap::new();
        let mut lines: BTreeMap<Revision, usize> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut last = None;
        for stored in self.store.list(&self.layout.journal()) {
            let line: Stored = decode(stored).map_err(|error| error.to_string())?;
            let position: usize = String::from_utf8_lossy(&line.value).parse().unwrap();
            let revision = Revision(line.revision);
            if last.is_some_and(|last| last != line.previous) {
                return Err(format!("a gap before {revision}: {last:?} is not {}", line.previous));
            }
            last = Some(line.revision);
            if !seen.insert(position) {
                return Err(format!("change {position} was carried out twice"));
            }
            let Change { key, expected, value, .. } = &self.changes[position];
            if records.get(key).map(|(revision, _)| *revision) != *expected {
                return Err(format!("change {position} began from another record"));
            }
            match value {
                Some(value) => drop(records.insert(key.clone(), (revision, value.clone()))),
                None => drop(records.remove(key)),
            }
            lines.insert(revision, position);
        }
        self.check_answers(&lines, &seen)?;
        self.check_records(&records)
    }

    fn check_answers(
        &self,
        lines: &BTreeMap<Revision, usize>,
        seen: &BTreeSet<usize>,
    ) -> Result<(), String> {
        for (position, change) in self.changes.iter().enumerate() {
            match &change.answer {
                Some(Ok(revision)) if lines.get(revision) != Some(&position) => {
                    return Err(format!("the acknowledged change {position} is lost"));
                }
                Some(Err(CommitError::Conflict { .. })) if seen.contains(&position) => {
                    return Err(format!("the refused change {position} was carried out"));
                }
                _ => {}
            }
        }
        // Only a crash keeps an answer away.
        let is_forgotten = |change: &Change| {
            let (n, life, at) = change.asked;
            change.answer.is_none() && self.replicas[n].life == life && self.now - at > TIMEOUT
        };
        match self.changes.iter().position(is_forgotten) {
            Some(position) => Err(format!("change {position} has no answer")),
            None => Ok(()),
        }
    }

    fn check_records(&self, records: &BTreeMap<Key, (Revision, Vec<u8>)>) -> Result<(), String> {
        let prefix = self.layout.record("");
        let stored = self.store.list(&prefix).map(|stored| {
            let record: Stored = decode(stored).unwrap();
            let key = self.layout.record_of(stored).unwrap();
            (key, (Revision(record.revision), record.value))
        });
        let stored: BTreeMap<_, _> = stored.collect();
        match stored == *records {
            true => Ok(()),
            false => Err("the records are not what the journal makes of them".to_owned()),
        }
    }
}

/// What a replica hears of a request that nobody answers in time.
fn unheard(call: &Call) -> Option<Outcome> {
    let late = || EtcdError::Unavailable("late".to_owned());
    Some(match call {
        Call::GrantLease(round, sent) => Outcome::Leased(*round, *sent, Err(late())),
        Call::Campaign(round, _) => Outcome::Campaigned(*round, Err(late())),
        Call::List(round) => Outcome::Listed(*round, Err(late())),
        Call::Renew(lease, sent) => Outcome::Renewed(*lease, *sent, Err(late())),
        Call::Transact(round, _) => Outcome::Transacted(*round, Err(late())),
        Call::Revoke(_) => return None,
    })
}
