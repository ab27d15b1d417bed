//! The committer's protocol as a state machine: who commits, and what becomes of each change. It has no I/O and no clock:
//! events come in with the time, actions go out.
//!
//! ```text
//! Leasing → Campaigning → Listing → Committing → (the lease ends, or another term begins) → Pausing → Leasing
//!                └→ Following → (the committer is gone) → Leasing
//! ```
//!
//! Whether a commit is valid, etcd alone decides: every transaction compares the term and the head. The lease's time
//! decides only when callers are refused and when the next committer may begin.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use berth_etcd::mvcc::KeyValue;
use berth_etcd::rpc::response_op::Response;
use berth_etcd::rpc::{TxnRequest, TxnResponse};
use berth_etcd::{EtcdError, range, transaction};
use prost::Message as _;

use super::book::{Batch, Book, Comparison, Listing, Ticket, Waiting};
use super::layout::{Head, Holder, Layout, decode};
use crate::ledger::{Bounds, CommitError, LedgerError, Revision, Term};

/// Time until a failed step is tried again.
const PAUSE: Duration = Duration::from_millis(300);
/// Time until a replica that cannot commit, though it was elected, tries again.
const LONG_PAUSE: Duration = Duration::from_secs(5);
const RESIGNED: &str = "this replica has resigned";
/// Maximum number of changes that wait for the transaction that is under way.
const MAX_WAITING: usize = 65_536;

/// Settings of a [`Committer`].
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) layout: Layout,
    /// This replica.
    pub(super) replica: Replica,
    pub(super) bounds: Bounds,
}

/// A task for the driver. The driver reports its outcome once, through the method that the variant names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// [`Committer::leased`].
    GrantLease,
    /// [`Committer::campaigned`].
    Campaign(TxnRequest),
    /// Wait until the key of the committer is deleted after this revision: [`Committer::vacated`].
    AwaitVacancy { after: i64 },
    /// Read everything, at this revision or a later one: [`Committer::listed`].
    List { at_least: i64 },
    /// [`Committer::renewed`].
    Renew { lease: i64 },
    /// [`Committer::transacted`].
    Transact(TxnRequest),
    /// End a lease. The outcome is not awaited: leases end by themselves.
    Revoke { lease: i64 },
    /// Answer a caller.
    Answer(Ticket, Result<Revision, CommitError>),
}

/// Names a state: outcomes of actions of an earlier state are too late.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Round(u64);

/// A replica as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// Its name.
    pub name: String,
    /// URL of its gRPC services; empty if it has told none.
    pub address: String,
}

/// A replica's part in committing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It is not known who commits.
    #[default]
    Unknown,
    /// Another replica commits.
    Follower {
        /// Which one.
        committer: Replica,
    },
    /// This replica is about to commit.
    Elected,
    /// This replica commits.
    Committer {
        /// Its term.
        term: Term,
    },
    /// This replica has resigned.
    Resigned,
}

impl Role {
    /// Whether this replica commits.
    #[must_use]
    pub fn is_committer(&self) -> bool {
        matches!(self, Role::Committer { .. })
    }
}

/// The state machine.
#[derive(Debug)]
pub(super) struct Committer {
    settings: Settings,
    state: State,
    round: Round,
    waiting: VecDeque<Waiting>,
    actions: Vec<Action>,
    /// Reason why nothing is committed, if that is a fault.
    fault: Option<String>,
    /// Whether this replica ends its term as soon as nothing is under way, and never begins another.
    is_leaving: bool,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, which changes a few times an hour")]
enum State {
    Pausing {
        until: Duration,
    },
    Leasing,
    Campaigning {
        lease: Lease,
        again: Option<Duration>,
    },
    Following {
        committer: Replica,
    },
    Listing {
        lease: Lease,
        term: i64,
        again: Option<Duration>,
    },
    /// Elected, with all records known. It takes changes (`is_open`) once the first write of the term has succeeded.
    Committing {
        lease: Lease,
        book: Box<Book>,
        under_way: UnderWay,
        is_open: bool,
    },
    Resigned,
}

/// A lease, by this replica's clock.
#[derive(Copy, Clone, Debug)]
struct Lease {
    id: i64,
    ttl: Duration,
    /// When the renewal that succeeded last was sent.
    renewed: Duration,
    is_being_renewed: bool,
    /// When a renewal failed last.
    failed: Option<Duration>,
}

#[derive(Debug)]
enum UnderWay {
    Nothing,
    Batch(Batch),
    /// The head is being written, to rule out a batch in doubt or to find out that it happened.
    Barrier {
        doubtful: Option<Batch>,
    },
    /// The barrier failed and is tried again.
    Pause {
        doubtful: Option<Batch>,
        until: Duration,
    },
}

impl Lease {
    /// From when on this replica takes no calls: well before etcd lets another one begin.
    fn ends(&self) -> Duration {
        self.renewed + self.ttl * 2 / 3
    }

    fn is_due(&self, now: Duration) -> bool {
        let last = self.failed.map_or(self.renewed, |failed| failed.max(self.renewed));
        !self.is_being_renewed
            && now >= last + self.ttl / if self.failed.is_some() { 12 } else { 4 }
    }
}

impl Committer {
    pub(super) fn new(settings: Settings) -> Committer {
        Committer {
            settings,
            state: State::Leasing,
            round: Round::default(),
            waiting: VecDeque::new(),
            actions: vec![Action::GrantLease],
            fault: Some("it has not been reached yet".to_owned()),
            is_leaving: false,
        }
    }

    /// The actions since the last call, with the round that their outcomes belong to.
    pub(super) fn take_actions(&mut self) -> (Round, Vec<Action>) {
        (self.round, mem::take(&mut self.actions))
    }

    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub(super) fn role(&self) -> Role {
        match &self.state {
            State::Pausing { .. } | State::Leasing | State::Campaigning { .. } => Role::Unknown,
            State::Following { committer } => Role::Follower { committer: committer.clone() },
            State::Listing { .. } | State::Committing { is_open: false, .. } => Role::Elected,
            State::Committing { book, .. } => Role::Committer { term: book.term() },
            State::Resigned => Role::Resigned,
        }
    }

    /// Number of bytes of the records; `None` where this replica does not commit.
    pub(super) fn n_bytes(&self) -> Option<u64> {
        match &self.state {
            State::Committing { book, .. } => Some(book.n_bytes()),
            _ => None,
        }
    }

    /// The last commit; `None` where this replica does not commit.
    pub(super) fn last(&self) -> Option<Revision> {
        match &self.state {
            State::Committing { book, is_open: true, .. } => Some(book.last()),
            _ => None,
        }
    }

    /// A caller asks for a change.
    pub(super) fn submit(&mut self, waiting: Waiting) {
        let refusal = match &self.state {
            _ if self.is_leaving => Some(RESIGNED.to_owned()),
            State::Committing { is_open: true, book, .. }
                if waiting.transaction.term.is_some_and(|term| term != book.term()) =>
            {
                return self.answer(waiting.ticket, Err(CommitError::OtherTerm));
            }
            State::Committing { is_open: true, under_way, .. } => match under_way {
                _ if self.waiting.len() >= MAX_WAITING => Some("too many changes wait".to_owned()),
                UnderWay::Nothing | UnderWay::Batch(_) => None,
                UnderWay::Barrier { .. } | UnderWay::Pause { .. } => {
                    Some(self.reason("the outcome of a change is in doubt"))
                }
            },
            State::Following { committer } => {
                Some(format!("`{}` commits, not this replica", committer.name))
            }
            _ => Some(self.reason("no replica is known to commit now")),
        };
        match refusal {
            Some(reason) => self.answer(waiting.ticket, Err(unavailable(reason))),
            None => {
                self.waiting.push_back(waiting);
                self.write_next();
            }
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Duration) {
        match &mut self.state {
            State::Pausing { until } if now >= *until => self.begin(),
            State::Campaigning { again: again @ Some(_), .. } if *again <= Some(now) => {
                *again = None;
                self.campaign();
            }
            State::Listing { term, again: again @ Some(_), .. } if *again <= Some(now) => {
                *again = None;
                let at_least = *term;
                self.actions.push(Action::List { at_least });
            }
            State::Committing { under_way, .. } => {
                if let UnderWay::Pause { until, .. } = under_way
                    && now >= *until
                    && let UnderWay::Pause { doubtful, .. } =
                        mem::replace(under_way, UnderWay::Nothing)
                {
                    self.write_barrier(doubtful);
                }
            }
            _ => {}
        }
        self.look_after_lease(now);
    }

    /// A lease was granted, or was not; `sent` is when it was asked for.
    pub(super) fn leased(
        &mut self,
        round: Round,
        (sent, now): (Duration, Duration),
        outcome: Result<(i64, Duration), EtcdError>,
    ) {
        if round != self.round || !matches!(self.state, State::Leasing) {
            if let Ok((lease, _)) = outcome {
                self.actions.push(Action::Revoke { lease });
            }
            return;
        }
        match outcome {
            Ok((id, ttl)) => {
                let lease = Lease { id, ttl, renewed: sent, is_being_renewed: false, failed: None };
                self.enter(State::Campaigning { lease, again: None });
                self.campaign();
            }
            Err(error) => self.pause(now, PAUSE, &error),
        }
    }

    /// The campaign's transaction has an outcome.
    pub(super) fn campaigned(
        &mut self,
        round: Round,
        now: Duration,
        outcome: Result<TxnResponse, EtcdError>,
    ) {
        let State::Campaigning { lease, again } = &mut self.state else { return };
        if round != self.round {
            return;
        }
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) if error.has_changed_nothing() => return self.step_down(now, &error),
            // It may have happened: the next attempt finds its own lease at the key.
            Err(error) => {
                *again = Some(now + PAUSE);
                self.fault = Some(error.to_string());
                return;
            }
        };
        let lease = *lease;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        if answer.succeeded {
            return self.elected(lease, revision);
        }
        match first_of(&answer, 0) {
            Some(held) if held.lease == lease.id => self.elected(lease, held.create_revision),
            Some(held) => {
                let holder: Holder = decode(held).unwrap_or_default();
                self.fault = None;
                self.actions.push(Action::Revoke { lease: lease.id });
                let committer = Replica { name: holder.name, address: holder.address };
                self.enter(State::Following { committer });
                self.actions.push(Action::AwaitVacancy { after: revision });
            }
            // Deleted between the comparison and now, which etcd excludes; ask again.
            None => self.campaign(),
        }
    }

    /// The committer is gone, or it is no longer known whether it is.
    pub(super) fn vacated(&mut self, round: Round, now: Duration, outcome: Result<(), EtcdError>) {
        if round != self.round || !matches!(self.state, State::Following { .. }) {
            return;
        }
        match outcome {
            Ok(()) => self.begin(),
            Err(error) => self.pause(now, PAUSE, &error),
        }
    }

    /// Everything was read, or was not.
    pub(super) fn listed(
        &mut self,
        round: Round,
        now: Duration,
        start: Revision,
        outcome: Result<Listing, LedgerError>,
    ) {
        let State::Listing { lease, term, again } = &mut self.state else { return };
        if round != self.round {
            return;
        }
        match outcome {
            Ok(listing) => {
                let Settings { layout, bounds, .. } = &self.settings;
                let book = Book::new(layout.clone(), *bounds, (*term, start), listing);
                let (lease, book, under_way) = (*lease, Box::new(book), UnderWay::Nothing);
                self.enter(State::Committing { lease, book, under_way, is_open: false });
                self.write_barrier(None);
            }
            Err(error @ LedgerError::Unavailable { .. }) => {
                *again = Some(now + PAUSE);
                self.fault = Some(error.to_string());
            }
            Err(error @ LedgerError::Damaged { .. }) => {
                self.actions.push(Action::Revoke { lease: lease.id });
                self.pause(now, LONG_PAUSE, &error);
            }
        }
    }

    /// A renewal of `lease` has an outcome; `sent` is when it was asked for.
    pub(super) fn renewed(
        &mut self,
        id: i64,
        (sent, now): (Duration, Duration),
        outcome: &Result<Duration, EtcdError>,
    ) {
        let Some(lease) = self.lease().filter(|lease| lease.id == id) else { return };
        lease.is_being_renewed = false;
        match outcome {
            Ok(ttl) if !ttl.is_zero() => (lease.renewed, lease.failed) = (sent, None),
            Ok(_) => self.step_down(now, &"the lease has ended"),
            Err(_) => lease.failed = Some(now),
        }
    }

    /// A transaction of the term has an outcome.
    pub(super) fn transacted(
        &mut self,
        round: Round,
        now: Duration,
        outcome: Result<TxnResponse, EtcdError>,
    ) {
        let State::Committing { book, under_way, .. } = &mut self.state else { return };
        if round != self.round {
            return;
        }
        let under_way = mem::replace(under_way, UnderWay::Nothing);
        let (batch, doubtful) = match under_way {
            UnderWay::Batch(batch) => (Some(batch), None),
            UnderWay::Barrier { doubtful } => (None, doubtful),
            // No transaction is under way.
            under_way @ (UnderWay::Nothing | UnderWay::Pause { .. }) => {
                return self.set_under_way(under_way);
            }
        };
        match outcome {
            Ok(answer) if answer.succeeded => {
                let written = answer.header.as_ref().map_or(0, |header| header.revision);
                match batch {
                    Some(batch) => self.committed(batch, written),
                    None => {
                        book.apply_barrier(written);
                        self.settled();
                    }
                }
            }
            Ok(answer) => {
                let created = first_of(&answer, 0).map(|held| held.create_revision);
                let head =
                    first_of(&answer, 1).map(|head| (decode::<Head>(head), head.mod_revision));
                let head = head.and_then(|(head, written)| Some((head.ok()?, written)));
                let comparison = book.compare(created, head, doubtful.as_ref());
                self.compared(now, comparison, batch, doubtful);
            }
            Err(error) => self.failed(now, &error, batch, doubtful),
        }
    }

    /// Ends the term as soon as nothing is under way, and never begins another.
    pub(super) fn resign(&mut self) {
        self.is_leaving = true;
        self.refuse_waiting(RESIGNED);
        if !matches!(self.state, State::Committing { under_way: UnderWay::Batch(_), .. }) {
            self.leave();
        }
    }

    /// Whether this replica has resigned, and nothing is under way any more.
    pub(super) fn is_resigned(&self) -> bool {
        matches!(self.state, State::Resigned)
    }

    /// Ends the term, and leaves the next one to another replica if there is one.
    pub(super) fn pass_on(&mut self, now: Duration) {
        if matches!(self.state, State::Committing { .. }) && !self.is_leaving {
            self.step_down(now, &"this replica leaves committing to another one");
            self.enter(State::Pausing { until: now + LONG_PAUSE });
        }
    }

    fn begin(&mut self) {
        self.enter(State::Leasing);
        self.actions.push(Action::GrantLease);
    }

    fn campaign(&mut self) {
        let State::Campaigning { lease, .. } = &self.state else { return };
        let key = self.settings.layout.committer();
        let Replica { name, address } = self.settings.replica.clone();
        let holder = Holder { name, address }.encode_to_vec();
        self.actions.push(Action::Campaign(TxnRequest {
            compare: vec![transaction::created_at(key.clone(), 0)],
            success: vec![transaction::put(key.clone(), holder, lease.id)],
            failure: vec![transaction::read(range::key(key))],
        }));
    }

    fn elected(&mut self, lease: Lease, term: i64) {
        self.enter(State::Listing { lease, term, again: None });
        self.actions.push(Action::List { at_least: term });
    }

    /// Writes the next batch if nothing is under way.
    fn write_next(&mut self) {
        let State::Committing { book, under_way, is_open: true, .. } = &mut self.state else {
            return;
        };
        if !matches!(under_way, UnderWay::Nothing) {
            return;
        }
        if let Some(batch) = book.batch(&mut self.waiting) {
            self.actions.push(Action::Transact(batch.request.clone()));
            *under_way = UnderWay::Batch(batch);
        }
    }

    fn write_barrier(&mut self, doubtful: Option<Batch>) {
        let State::Committing { book, under_way, .. } = &mut self.state else { return };
        self.actions.push(Action::Transact(book.barrier()));
        *under_way = UnderWay::Barrier { doubtful };
    }

    fn set_under_way(&mut self, now: UnderWay) {
        if let State::Committing { under_way, .. } = &mut self.state {
            *under_way = now;
        }
    }

    /// A batch was written.
    fn committed(&mut self, mut batch: Batch, written: i64) {
        for (ticket, refusal) in mem::take(&mut batch.refusals) {
            self.answer(ticket, Err(refusal));
        }
        for (ticket, revision) in &batch.commits {
            self.actions.push(Action::Answer(*ticket, Ok(*revision)));
        }
        if let State::Committing { book, .. } = &mut self.state {
            book.apply(batch, written);
        }
        match self.is_leaving {
            true => self.leave(),
            false => self.write_next(),
        }
    }

    /// Nothing is in doubt any more.
    fn settled(&mut self) {
        self.fault = None;
        if self.is_leaving {
            return self.leave();
        }
        if let State::Committing { is_open, .. } = &mut self.state {
            *is_open = true;
        }
        self.write_next();
    }

    /// A comparison did not hold.
    fn compared(
        &mut self,
        now: Duration,
        comparison: Comparison,
        batch: Option<Batch>,
        doubtful: Option<Batch>,
    ) {
        if let Some(batch) = batch {
            self.fail(&batch, "the term of this committer is over");
        }
        let State::Committing { book, .. } = &mut self.state else { return };
        match (comparison, doubtful) {
            (Comparison::BatchHappened(written), Some(batch)) => {
                book.apply(batch, written);
                self.settled();
            }
            (Comparison::BarrierHappened(written), _) => {
                book.apply_barrier(written);
                self.settled();
            }
            (Comparison::OtherTerm, _) => {
                self.step_down(now, &"the term of this committer is over")
            }
            (Comparison::OtherHead | Comparison::BatchHappened(_), _) => {
                let reason = "something else than a committer writes below its prefix";
                self.step_down(now, &reason);
            }
        }
    }

    /// A transaction has no answer.
    fn failed(
        &mut self,
        now: Duration,
        error: &EtcdError,
        batch: Option<Batch>,
        doubtful: Option<Batch>,
    ) {
        self.fault = Some(error.to_string());
        self.refuse_waiting(&error.to_string());
        let Some(batch) = batch else {
            return self.set_under_way(UnderWay::Pause { doubtful, until: now + PAUSE });
        };
        self.fail(&batch, &error.to_string());
        if error.has_changed_nothing() || batch.commits.is_empty() {
            // The next one shows whether the fault has passed.
            self.set_under_way(UnderWay::Pause { doubtful: None, until: now + PAUSE });
        } else {
            self.write_barrier(Some(batch));
        }
    }

    /// Answers the callers of a batch that they have no commit, or none that is known.
    fn fail(&mut self, batch: &Batch, reason: &str) {
        let commits = batch.commits.iter().map(|(ticket, _)| *ticket);
        for ticket in commits.chain(batch.refusals.iter().map(|(ticket, _)| *ticket)) {
            self.answer(ticket, Err(unavailable(reason.to_owned())));
        }
    }

    fn refuse_waiting(&mut self, reason: &str) {
        for Waiting { ticket, .. } in mem::take(&mut self.waiting) {
            self.answer(ticket, Err(unavailable(reason.to_owned())));
        }
    }

    /// Renews the lease when it is time, and ends the term when its time is over.
    fn look_after_lease(&mut self, now: Duration) {
        let Some(lease) = self.lease() else { return };
        if now >= lease.ends() {
            return self.step_down(now, &"the lease could not be renewed in time");
        }
        if lease.is_due(now) {
            lease.is_being_renewed = true;
            let lease = lease.id;
            self.actions.push(Action::Renew { lease });
        }
    }

    fn lease(&mut self) -> Option<&mut Lease> {
        match &mut self.state {
            State::Campaigning { lease, .. }
            | State::Listing { lease, .. }
            | State::Committing { lease, .. } => Some(lease),
            State::Pausing { .. } | State::Leasing | State::Following { .. } | State::Resigned => {
                None
            }
        }
    }

    /// Ends the term, or the attempt at one, and begins again after a pause.
    fn step_down(&mut self, now: Duration, reason: &dyn std::fmt::Display) {
        if self.is_leaving {
            return self.leave();
        }
        if let Some(lease) = self.lease().map(|lease| lease.id) {
            self.actions.push(Action::Revoke { lease });
        }
        self.fail_under_way(&reason.to_string());
        self.pause(now, PAUSE, reason);
    }

    /// Ends the term for good.
    fn leave(&mut self) {
        if self.is_resigned() {
            return;
        }
        if let Some(lease) = self.lease().map(|lease| lease.id) {
            self.actions.push(Action::Revoke { lease });
        }
        self.fail_under_way(RESIGNED);
        self.enter(State::Resigned);
    }

    fn fail_under_way(&mut self, reason: &str) {
        if let State::Committing { under_way, .. } = &mut self.state
            && let UnderWay::Batch(batch) = mem::replace(under_way, UnderWay::Nothing)
        {
            self.fail(&batch, reason);
        }
        self.refuse_waiting(reason);
    }

    fn pause(&mut self, now: Duration, pause: Duration, reason: &dyn std::fmt::Display) {
        self.fault = Some(reason.to_string());
        self.enter(State::Pausing { until: now + pause });
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.round.0 += 1;
    }

    fn answer(&mut self, ticket: Ticket, answer: Result<Revision, CommitError>) {
        self.actions.push(Action::Answer(ticket, answer));
    }

    /// The fault, or `otherwise`.
    fn reason(&self, otherwise: &str) -> String {
        self.fault.clone().unwrap_or_else(|| otherwise.to_owned())
    }
}

fn unavailable(reason: String) -> CommitError {
    CommitError::Ledger(LedgerError::Unavailable { reason })
}

/// The first key that the operation at `position` has read.
fn first_of(answer: &TxnResponse, position: usize) -> Option<&KeyValue> {
    match answer.responses.get(position)?.response.as_ref()? {
        Response::ResponseRange(range) => range.kvs.first(),
        _ => None,
    }
}
