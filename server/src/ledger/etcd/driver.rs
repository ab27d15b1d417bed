//! Carries out what the committer's state machine asks for, and hands it the outcomes. One task for each ledger.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_etcd::rpc::{TxnResponse, WatchCreateRequest};
use berth_etcd::{Client, EtcdError, range};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::book::{Listing, Ticket, Waiting};
use super::committer::{Action, Committer, Role, Round, Settings};
use super::layout::Layout;
use super::reading;
use super::shared::Shared;
use crate::clock;
use crate::ledger::{CommitError, LedgerError, Revision, Transaction};

/// Interval at which the state machine is told the time.
const TICK: Duration = Duration::from_millis(50);

/// Answer to a change.
type Answer = Result<Revision, CommitError>;

/// What callers ask of the driver.
pub(super) enum Request {
    Commit(Transaction, oneshot::Sender<Answer>),
    /// End the term, and let another replica begin.
    PassOn,
    /// End the term, and tell when it is over.
    Resign(oneshot::Sender<()>),
}

/// The outcome of an action.
enum Outcome {
    Leased(Round, Duration, Result<(i64, Duration), EtcdError>),
    Campaigned(Round, Result<TxnResponse, EtcdError>),
    Vacated(Round, Result<(), EtcdError>),
    Listed(Round, Revision, Result<Listing, LedgerError>),
    Renewed(i64, Duration, Result<Duration, EtcdError>),
    Transacted(Round, Result<TxnResponse, EtcdError>),
    Revoked,
}

/// The task.
pub(super) struct Driver {
    client: Client,
    layout: Layout,
    lease: Duration,
    first_revision: Box<dyn Fn() -> Revision + Send>,
    committer: Committer,
    shared: Arc<Shared>,
    began: Instant,
    tasks: JoinSet<Outcome>,
    callers: HashMap<Ticket, oneshot::Sender<Answer>>,
    n_tickets: u64,
    n_revoking: usize,
    resigning: Vec<oneshot::Sender<()>>,
}

impl Driver {
    /// A driver whose terms begin after the revision that `first_revision` tells.
    pub(super) fn new(
        client: Client,
        settings: Settings,
        lease: Duration,
        first_revision: Box<dyn Fn() -> Revision + Send>,
        shared: Arc<Shared>,
    ) -> Driver {
        Driver {
            client,
            layout: settings.layout.clone(),
            lease,
            first_revision,
            committer: Committer::new(settings),
            shared,
            began: clock::now(),
            tasks: JoinSet::new(),
            callers: HashMap::new(),
            n_tickets: 0,
            n_revoking: 0,
            resigning: Vec::new(),
        }
    }

    /// Runs until the ledger is dropped.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.act();
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => {
                        self.take(request);
                        // What has come meanwhile shares the transaction.
                        while let Ok(request) = requests.try_recv() {
                            self.take(request);
                        }
                    }
                    None => {
                        self.committer.resign();
                        self.act();
                        return self.finish().await;
                    }
                },
                Some(outcome) = self.tasks.join_next() => {
                    // A task ends in a panic only for a bug; the machine would wait for it for ever.
                    match outcome {
                        Ok(outcome) => self.hand_in(outcome),
                        Err(error) => tracing::error!("a task of the ledger failed: {error}"),
                    }
                }
                _ = ticks.tick() => self.committer.tick(self.now()),
            }
        }
    }

    /// Waits for the transaction that is under way, and for the end of the lease.
    async fn finish(mut self) {
        while !self.has_left() {
            let Some(outcome) = self.tasks.join_next().await else { return };
            if let Ok(outcome) = outcome {
                self.hand_in(outcome);
            }
            self.act();
        }
    }

    fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.began)
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Commit(transaction, caller) => {
                self.n_tickets += 1;
                let ticket = Ticket(self.n_tickets);
                self.callers.insert(ticket, caller);
                self.committer.submit(Waiting { ticket, transaction });
            }
            Request::PassOn => self.committer.pass_on(self.now()),
            Request::Resign(caller) => {
                self.committer.resign();
                self.resigning.push(caller);
            }
        }
    }

    fn hand_in(&mut self, outcome: Outcome) {
        let now = self.now();
        match outcome {
            Outcome::Leased(round, sent, outcome) => {
                self.committer.leased(round, (sent, now), outcome);
            }
            Outcome::Campaigned(round, outcome) => self.committer.campaigned(round, now, outcome),
            Outcome::Vacated(round, outcome) => self.committer.vacated(round, now, outcome),
            Outcome::Listed(round, start, outcome) => {
                self.committer.listed(round, now, start, outcome);
            }
            Outcome::Renewed(lease, sent, outcome) => {
                self.committer.renewed(lease, (sent, now), &outcome);
            }
            Outcome::Transacted(round, outcome) => self.committer.transacted(round, now, outcome),
            Outcome::Revoked => self.n_revoking -= 1,
        }
    }

    /// Shows others the state of the machine, and carries out what it asks for: who gets an answer finds the state that
    /// belongs to it.
    fn act(&mut self) {
        if self.shared.show(&self.committer) {
            match self.committer.role() {
                Role::Committer { .. } => {
                    tracing::info!("this replica commits to the ledger in etcd")
                }
                Role::Follower { committer } => {
                    tracing::info!(
                        committer = committer.name,
                        "another replica commits to the ledger in etcd"
                    );
                }
                Role::Unknown => {
                    let reason = self.committer.fault().unwrap_or("the committer is gone");
                    tracing::warn!(reason, "no replica is known to commit to the ledger in etcd");
                }
                Role::Elected | Role::Resigned => {}
            }
        }
        let (round, actions) = self.committer.take_actions();
        for action in actions {
            self.carry_out(round, action);
        }
        if self.has_left() {
            // Who is gone need not know.
            self.resigning.drain(..).for_each(|caller| caller.send(()).unwrap_or_default());
        }
    }

    /// Whether the term is over for good, and etcd knows.
    fn has_left(&self) -> bool {
        self.committer.is_resigned() && self.n_revoking == 0
    }

    fn carry_out(&mut self, round: Round, action: Action) {
        let (client, sent) = (self.client.clone(), self.now());
        match action {
            Action::GrantLease => {
                let ttl = self.lease;
                self.tasks.spawn(async move {
                    Outcome::Leased(round, sent, client.grant_lease(ttl).await)
                });
            }
            Action::Campaign(request) => {
                self.tasks.spawn(async move {
                    Outcome::Campaigned(round, client.transact(request).await)
                });
            }
            Action::AwaitVacancy { after } => {
                let (key, interval) = (self.layout.committer(), self.lease / 3);
                self.tasks.spawn(async move {
                    Outcome::Vacated(round, vacancy(&client, key, after, interval).await)
                });
            }
            Action::List { at_least } => {
                let (layout, start) = (self.layout.clone(), (self.first_revision)());
                self.tasks.spawn(async move {
                    let listing = reading::listing(&client, &layout, at_least).await;
                    Outcome::Listed(round, start, listing)
                });
            }
            Action::Renew { lease } => {
                // Short, so that every member can be asked while the lease lasts.
                let client = client.within(self.lease / 6);
                self.tasks.spawn(async move {
                    Outcome::Renewed(lease, sent, client.renew_lease(lease).await)
                });
            }
            Action::Transact(request) => {
                self.tasks.spawn(async move {
                    Outcome::Transacted(round, client.transact(request).await)
                });
            }
            Action::Revoke { lease } => {
                self.n_revoking += 1;
                self.tasks.spawn(async move {
                    // It ends by itself, too.
                    drop(client.revoke_lease(lease).await);
                    Outcome::Revoked
                });
            }
            Action::Answer(ticket, answer) => {
                if let Some(caller) = self.callers.remove(&ticket) {
                    // A caller that is gone needs no answer.
                    drop(caller.send(answer));
                }
            }
        }
    }
}

/// Waits until the key is deleted after a revision, or is another one. A member that the others have left would never
/// tell: so the members are asked every `interval` as well.
async fn vacancy(
    client: &Client,
    key: String,
    after: i64,
    interval: Duration,
) -> Result<(), EtcdError> {
    let request = WatchCreateRequest {
        key: key.clone().into_bytes(),
        start_revision: after + 1,
        ..WatchCreateRequest::default()
    };
    let mut watch = client.watch(request).await?;
    loop {
        match tokio::time::timeout(interval, watch.next()).await {
            Ok(news) => {
                // Put or deleted: it was there, so it was deleted.
                if !news?.events.is_empty() {
                    return Ok(());
                }
            }
            Err(_) => {
                let held = client.range(range::key(key.clone())).await?;
                if held.kvs.first().is_none_or(|held| held.mod_revision > after) {
                    return Ok(());
                }
            }
        }
    }
}
