//! State that all handlers share.

use std::sync::{Arc, OnceLock};

use berth_engine::{Cluster, TieBreak};
use tokio::sync::watch;

use super::access::Access;
use super::assumptions::{Assumptions, Kept, RestoreError};
use super::convert::Mode;
use super::error::CallError;
use super::fences::Fences;
use super::force_deletion::ForceDeletion;
use super::limits::Limits;
use super::method::{self, Method};
use super::pool::Pool;
use super::recorder::Journal;
use super::replicas::Replicas;
use super::response_cache::ResponseCache;
use super::session_table::SessionTable;
use super::target::Target;
use super::timed_ledger::TimedLedger;
use super::watchers::Watchers;
use crate::admission::{Admission, ByteBudget, Lane, LaneWorkers, User};
use crate::apiserver::leadership::Leadership;
use crate::audit::Audit;
use crate::auth::{Auth, Caller, Means, Role};
use crate::clock;
use crate::critical_task::CriticalTasks;
use crate::expander::{Expander, Judgements};
use crate::feed::{FeedSink, Freshness, LongWrite, LongWrites};
use crate::ledger::{self, Etcd, Grants, Ledger, Memory};
use crate::net::SlowReaders;
use crate::policy::Profiles;
use crate::replicas::Peers;
use crate::telemetry::trace::Tracer;
use crate::telemetry::{MethodCounts, Metrics};

/// State that all handlers share.
pub(crate) struct State {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) profiles: Profiles,
    /// Tie-breaking rule for requests that have none.
    pub(crate) tie_break: TieBreak,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    /// gRPC calls, by method.
    pub(crate) calls: MethodCounts,
    /// Authenticates callers.
    pub(crate) auth: Arc<Auth>,
    /// Admits or refuses calls by load.
    pub(crate) admission: Arc<Admission>,
    /// The memory of messages under way.
    pub(crate) bytes: ByteBudget,
    /// Closes connections whose clients read too slowly.
    pub(crate) slow_readers: SlowReaders,
    /// Responses to requests that may be sent again.
    pub(crate) responses: Arc<ResponseCache>,
    /// The log of changes.
    pub(crate) audit: Audit,
    /// Where changes and decisions are recorded; `None` for nowhere.
    pub(crate) journal: Option<Journal>,
    /// Those who are told of decisions.
    pub(crate) watchers: Watchers,
    pub(crate) sessions: SessionTable,
    /// Assumed pods of the live cluster, their tokens and times to live.
    pub(crate) assumptions: Arc<Assumptions>,
    pub(crate) freshness: Arc<Freshness>,
    long_writes: LongWrites,
    pub(crate) pool: Pool,
    /// A pool of its own for simulations, which take seconds: decisions keep a core beside them.
    pub(crate) simulation_pool: Pool,
    /// One thread for calls that make a part of the journal again, which takes minutes: simulations keep theirs.
    pub(crate) journal_pool: Pool,
    /// The ledger's grants.
    pub(crate) grants: Arc<Grants>,
    /// Copies the ledger's fences into the cluster.
    pub(crate) fences: Arc<Fences>,
    /// Who may release a name by force.
    pub(crate) force_deletion: ForceDeletion,
    pub(crate) ledger_pool: Pool,
    /// The servers that share the ledger, where others may.
    pub(crate) replicas: Option<Arc<Replicas>>,
    /// Connections to them.
    pub(crate) peers: Arc<Peers>,
    /// Chooses among cluster-autoscaler's node groups.
    pub(crate) expander: Expander,
    pub(crate) judgements: Judgements,
    /// Starts the spans of calls.
    pub(crate) tracer: Tracer,
    /// The API server, once connected: the extender binds pods there.
    pub(crate) api_server: OnceLock<kube::Client>,
    /// The scheduler's leadership, where this server stands for election or schedules alone.
    pub(crate) leadership: OnceLock<Leadership>,
    /// Tasks that the server cannot do without.
    pub(crate) critical_tasks: CriticalTasks,
    /// Turns true once, when the server starts to drain: streams end then.
    pub(crate) draining: watch::Receiver<bool>,
}

/// Minimum of the limit on a message of `grpcplugin.Expander` (S-CAE-3): a request holds every pending pod of every
/// option.
const MIN_EXPANDER_MESSAGE_BYTES: usize = 128 << 20;

/// Limit on a message of a method that anybody may call: the name of a service, or of a symbol.
const MAX_STRANGERS_MESSAGE_BYTES: usize = 1 << 10;

/// Number of threads that wait for the disk: the more wait, the more of them share one sync.
const N_LEDGER_THREADS: usize = 16;

/// Maximum number of nodes for which one decision takes microseconds and runs on the reactor.
const MAX_INLINE_NODES: usize = 20_000;

impl State {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        profiles: Profiles,
        tie_break: TieBreak,
        limits: Limits,
        draining: watch::Receiver<bool>,
    ) -> State {
        let metrics = Arc::new(Metrics::new());
        let (counts, patience) = (metrics.admission().clone(), limits.load.max_queue_time);
        let pool = Pool::of_decisions(patience, &counts);
        let simulation_pool = Pool::of_simulations(patience, &counts);
        let journal_pool = Pool::of(Lane::Simulation, 1, patience, &counts);
        let ledger_pool = Pool::of(Lane::Ledger, N_LEDGER_THREADS, patience, &counts);
        let workers = LaneWorkers {
            decision: pool.workers().clone(),
            simulation: simulation_pool.workers().clone(),
            ledger: ledger_pool.workers().clone(),
        };
        // Greater than every token of an earlier server, unless that one assumed more than a million pods a second.
        let first_token = clock::unix_micros();
        let assumptions = Assumptions::new(
            cluster.clone(),
            limits.assume_ttl,
            first_token,
            metrics.assumptions().clone(),
        );
        State {
            cluster,
            assumptions: Arc::new(assumptions),
            profiles,
            tie_break,
            limits,
            sessions: SessionTable::new(limits.sessions, metrics.sessions().clone(), false),
            calls: metrics.calls().methods(method::paths()),
            judgements: Judgements::new(&metrics),
            metrics,
            auth: Arc::new(Auth::open()),
            admission: Arc::new(Admission::new(limits.load, workers, &counts)),
            bytes: ByteBudget::new(limits.load.max_buffered_bytes, false),
            slow_readers: SlowReaders::new(clock::now()),
            responses: Arc::default(),
            audit: Audit::off(),
            journal: None,
            watchers: Watchers::default(),
            freshness: Arc::default(),
            long_writes: LongWrites::default(),
            pool,
            simulation_pool,
            journal_pool,
            grants: Arc::new(Grants::new(Arc::new(Memory::new(ledger::first_revision())))),
            fences: Arc::new(Fences::new(true)),
            force_deletion: ForceDeletion::default(),
            ledger_pool,
            replicas: None,
            peers: Arc::default(),
            expander: Expander::default(),
            tracer: Tracer::off(),
            api_server: OnceLock::new(),
            leadership: OnceLock::new(),
            critical_tasks: CriticalTasks::default(),
            draining,
        }
    }

    /// Replaces authentication and the audit log.
    pub(crate) fn with_auth(self, auth: Arc<Auth>, audit: Audit) -> State {
        let bytes = ByteBudget::new(self.limits.load.max_buffered_bytes, !auth.is_open());
        let (limits, counts) = (self.limits.sessions, self.metrics.sessions().clone());
        let sessions = SessionTable::new(limits, counts, !auth.is_open());
        State { auth, audit, bytes, sessions, ..self }
    }

    /// Has a journal, which is written already.
    pub(crate) fn with_journal(self, journal: Journal) -> State {
        State { journal: Some(journal), ..self }
    }

    /// Replaces the tracer.
    pub(crate) fn with_tracer(self, tracer: Tracer) -> State {
        State { tracer, ..self }
    }

    /// Replaces the policies of the ledger: whether placement respects its fences, and who may release a name by force.
    pub(crate) fn with_ledger_policy(
        self,
        respects_fences: bool,
        force_deletion: ForceDeletion,
    ) -> State {
        State { fences: Arc::new(Fences::new(respects_fences)), force_deletion, ..self }
    }

    /// Keeps assumptions in the ledger from now on; returns those that it has of earlier runs. Blocks.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub(crate) fn keep_assumptions(&self) -> Result<Kept, RestoreError> {
        self.assumptions.keep_in(self.grants.ledger().clone())
    }

    /// Replaces the ledger, which is in memory by default.
    pub(crate) fn with_ledger(self, ledger: Arc<dyn Ledger>) -> State {
        let ledger = Arc::new(TimedLedger::new(ledger, self.metrics.ledger().clone()));
        State { grants: Arc::new(Grants::new(ledger)), ..self }
    }

    /// Replaces the ledger by one that other servers share.
    pub(crate) fn with_replicas(self, etcd: Arc<Etcd>, peers: Arc<Peers>) -> State {
        let sessions = self.sessions.at(&etcd.replica().name, clock::unix_micros());
        let replicas = Some(Arc::new(Replicas::new(etcd.clone(), self.assumptions.made_here())));
        let ledger = TimedLedger::new(etcd, self.metrics.ledger().clone());
        let grants = Arc::new(Grants::new(Arc::new(ledger)));
        State { sessions, replicas, peers, grants, ..self }
    }

    /// Checks that what is assumed, nominated or granted here is the truth: this server commits, or no other one may.
    ///
    /// # Errors
    /// [`CallError::NotCommitter`].
    pub(crate) fn check_commits_here(&self) -> Result<(), CallError> {
        if self.assumptions.are_made_here() {
            return Ok(());
        }
        let committer = self.replicas.as_ref().and_then(|replicas| replicas.committer());
        Err(CallError::NotCommitter { committer: committer.map(|it| it.name) })
    }

    /// Replaces the default expander.
    pub(crate) fn with_expander(self, expander: Expander) -> State {
        State { expander, ..self }
    }

    /// The user of a call, for turns; who sends no credential comes last.
    pub(crate) fn user(&self, caller: &Caller) -> User {
        let has = |role| caller.roles.allow(role);
        let weight = match () {
            () if caller.means == Means::Nothing => 1,
            () if has(Role::Admin) => 8,
            () if has(Role::Scheduler) || has(Role::Feeder) || has(Role::Lifecycle) => 4,
            () => 2,
        };
        User { name: caller.user.clone(), weight }
    }

    /// Maximum number of bytes of one received message of a method.
    pub(crate) fn max_message_bytes(&self, method: &Method) -> usize {
        let limit = self.limits.max_message_bytes;
        match method.role {
            None => MAX_STRANGERS_MESSAGE_BYTES,
            Some(_) if method.is_of_expander() => limit.max(MIN_EXPANDER_MESSAGE_BYTES),
            Some(_) => limit,
        }
    }

    /// # Errors
    /// [`CallError::NotReady`] until a feed has filled the cluster.
    pub(crate) fn check_decidable(&self) -> Result<(), CallError> {
        Ok(self.freshness.check_decidable()?)
    }

    /// # Errors
    /// [`CallError::NotReady`] while files are being read: they would overwrite a client's changes.
    pub(crate) fn check_feedable(&self) -> Result<(), CallError> {
        Ok(self.freshness.check_feedable()?)
    }

    /// # Errors
    /// [`CallError::Draining`] once the server drains: nothing begins that would outlast it.
    pub(crate) fn check_not_draining(&self) -> Result<(), CallError> {
        if *self.draining.borrow() { Err(CallError::Draining) } else { Ok(()) }
    }

    /// The target of a request: the cluster of its session, or the live cluster if it names none.
    ///
    /// # Errors
    /// [`CallError::NoSuchSession`], also for a session of another caller.
    pub(crate) fn target(&self, access: &Access, session_id: &str) -> Result<Target, CallError> {
        if session_id.is_empty() {
            return Ok(Target::Live(self.cluster.clone()));
        }
        Ok(Target::Session(self.sessions.get(session_id, access.caller(), clock::now())?))
    }

    /// Whether pods that are placed in this mode keep their objects, since an assumption may be written to the ledger.
    pub(crate) fn keeps_objects(&self, mode: Mode) -> bool {
        mode == Mode::Assume && self.assumptions.are_kept()
    }

    /// Whether a single decision on `cluster` may run on the reactor: not during a long write, which holds the lock
    /// that an assume needs.
    pub(crate) fn decides_in_microseconds(&self, cluster: &Cluster) -> bool {
        !self.long_writes.is_any() && cluster.snapshot().n_nodes() <= MAX_INLINE_NODES
    }

    /// Marks a long write to the live cluster for as long as the guard lives.
    pub(crate) fn long_write(&self) -> LongWrite {
        self.long_writes.begin()
    }

    /// The sink that feeds write to.
    pub(crate) fn feed_sink(&self) -> FeedSink {
        FeedSink {
            cluster: self.cluster.clone(),
            freshness: self.freshness.clone(),
            metrics: self.metrics.clone(),
            long_writes: self.long_writes.clone(),
            critical_tasks: self.critical_tasks.clone(),
        }
    }
}
