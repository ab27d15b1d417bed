//! The gRPC side: a service a file. A handler converts, calls the engine and converts back; long work goes to a bounded
//! pool, and every failure leaves through `status`.

mod asked;
pub(crate) mod autoscaler;
mod call;
pub(crate) mod cluster;
pub(crate) mod convert;
pub mod deadline;
mod expander;
mod idempotency;
#[cfg(test)]
pub(crate) mod fixture;
pub mod label_selector;
pub(crate) mod lifecycle;
pub(crate) mod method;
pub(crate) mod placement;
mod pool;
pub(crate) mod preemption;
pub(crate) mod session;
pub(crate) mod status;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use berth_engine::{Cluster, TieBreak};
use berth_proto::berth_v1::autoscaler_service_server::AutoscalerServiceServer;
use berth_proto::berth_v1::cluster_service_server::ClusterServiceServer;
use berth_proto::berth_v1::lifecycle_service_server::LifecycleServiceServer;
use berth_proto::berth_v1::placement_service_server::PlacementServiceServer;
use berth_proto::berth_v1::preemption_service_server::PreemptionServiceServer;
use berth_proto::berth_v1::session_service_server::SessionServiceServer;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic_health::server::{HealthReporter, HealthService};

use crate::admission::{Admission, Lane, LaneWorkers, LoadLimits};
use crate::apiserver::lease::Leadership;
use crate::audit::Audit;
use crate::auth::{Access, Auth};
use crate::clock;
use crate::config::policy::Profiles;
use crate::expander::{Expander, Judgements};
use crate::extender::Extender;
use crate::feed::Freshness;
use crate::ledger::{self, Grants, Ledger, Memory};
use crate::telemetry::trace::Tracer;
use crate::telemetry::{MethodCounts, Metrics};

use asked::Asked;
pub(crate) use call::unread::Unread;
use call::unread::Watch;
pub(crate) use call::{CallService, REQUEST_ID};
pub(crate) use deadline::Deadline;
use idempotency::Answers;
use pool::Pool;
pub use session::SessionLimits;
use session::SessionTable;
pub(crate) use status::CallError;

/// Bounds on what one caller may ask.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one received message.
    pub max_message_bytes: usize,
    /// Most pods of one `PlaceBatch` or `PlaceStream` request, replicas counted.
    pub max_pods_per_request: usize,
    /// Most objects of one `Sync` snapshot.
    pub max_snapshot_objects: usize,
    /// Of what-if sessions, those of all callers together.
    pub sessions: SessionLimits,
    /// Of what is under way.
    pub load: LoadLimits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_message_bytes: 64 << 20,
            max_pods_per_request: 100_000,
            max_snapshot_objects: 4_000_000,
            sessions: SessionLimits::default(),
            load: LoadLimits::default(),
        }
    }
}

/// What every handler shares.
pub(crate) struct State {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) profiles: Profiles,
    /// For requests that name no rule.
    pub(crate) tie_break: TieBreak,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    /// gRPC calls, by method.
    pub(crate) calls: MethodCounts,
    /// Who calls.
    pub(crate) auth: Auth,
    /// Whether a call may be begun now.
    pub(crate) admission: Admission,
    /// Answers that wait for their readers.
    pub(crate) unread: Watch,
    /// Answers to requests that may come again.
    pub(crate) answers: Arc<Answers>,
    /// Who changed what.
    pub(crate) audit: Audit,
    pub(crate) sessions: SessionTable,
    pub(crate) freshness: Freshness,
    pub(crate) pool: Pool,
    /// Simulations take seconds: whoever decides has a core beside them.
    pub(crate) simulation_pool: Pool,
    /// What is agreed on and survives.
    pub(crate) grants: Arc<Grants>,
    pub(crate) ledger_pool: Pool,
    /// Which node groups cluster-autoscaler had better grow.
    pub(crate) expander: Expander,
    pub(crate) judgements: Judgements,
    /// What kube-scheduler's extender calls share.
    pub(crate) extender: Extender,
    /// What belongs to which trace.
    pub(crate) tracer: Tracer,
    /// The API server, once connected: where the extender binds pods.
    pub(crate) api_server: OnceLock<kube::Client>,
    /// Who schedules, where this server stands for election or schedules alone.
    pub(crate) leadership: OnceLock<Leadership>,
    /// What ended by an error of its own and cannot be done without.
    pub(crate) broken: OnceLock<&'static str>,
    /// Turns true once, when the server starts to drain: streams end then.
    pub(crate) draining: watch::Receiver<bool>,
    n_long_writes: AtomicUsize,
}

/// From this many changes or pods on a batch is a long write: it leaves the reactor, and what it is made of is compiled on all
/// cores.
pub(crate) const LONG_BATCH: usize = 64;

/// They wait for the disk, all for the same sync: the more, the more it is shared.
const N_LEDGER_THREADS: usize = 16;

/// Up to here one decision takes microseconds and runs where the request arrived.
const MAX_INLINE_NODES: usize = 20_000;

impl State {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        profiles: Profiles,
        tie_break: TieBreak,
        limits: Limits,
        draining: watch::Receiver<bool>,
    ) -> State {
        let metrics = Metrics::new();
        let extender = Extender::of(&profiles);
        let (counts, patience) = (metrics.admission().clone(), limits.load.max_queue_time);
        let pool = Pool::of_decisions(patience, &counts);
        let simulation_pool = Pool::of_simulations(patience, &counts);
        let ledger_pool = Pool::of(Lane::Ledger, N_LEDGER_THREADS, patience, &counts);
        let workers = LaneWorkers {
            decision: pool.workers().clone(),
            simulation: simulation_pool.workers().clone(),
            ledger: ledger_pool.workers().clone(),
        };
        State {
            cluster,
            profiles,
            tie_break,
            limits,
            sessions: SessionTable::new(limits.sessions, metrics.sessions().clone()),
            calls: metrics.calls().methods(method::paths()),
            judgements: Judgements::new(&metrics),
            metrics,
            auth: Auth::open(),
            admission: Admission::new(limits.load, workers, &counts),
            unread: Watch::new(clock::now()),
            answers: Arc::default(),
            audit: Audit::off(),
            freshness: Freshness::default(),
            pool,
            simulation_pool,
            grants: Arc::new(Grants::new(Arc::new(Memory::new(ledger::first_revision())))),
            ledger_pool,
            expander: Expander::default(),
            extender,
            tracer: Tracer::off(),
            api_server: OnceLock::new(),
            leadership: OnceLock::new(),
            broken: OnceLock::new(),
            draining,
            n_long_writes: AtomicUsize::new(0),
        }
    }

    /// The same for callers that are known, with a line of what they change.
    pub(crate) fn with_auth(self, auth: Auth, audit: Audit) -> State {
        State { auth, audit, ..self }
    }

    /// The same with extender calls answered otherwise than by all of every profile.
    pub(crate) fn with_extender(self, extender: Extender) -> State {
        State { extender, ..self }
    }

    /// The same with spans sent somewhere.
    pub(crate) fn with_tracer(self, tracer: Tracer) -> State {
        State { tracer, ..self }
    }

    /// The same with another ledger than one in memory.
    pub(crate) fn with_ledger(self, ledger: Arc<dyn Ledger>) -> State {
        State { grants: Arc::new(Grants::new(ledger)), ..self }
    }

    /// The same with another expander than the default one.
    pub(crate) fn with_expander(self, expander: Expander) -> State {
        State { expander, ..self }
    }

    /// Most bytes of one received message of the method at `path`.
    fn max_message_bytes(&self, path: &str) -> usize {
        let limit = self.limits.max_message_bytes;
        let is_expander = path.starts_with("/grpcplugin.Expander/");
        if is_expander { limit.max(expander::MIN_MESSAGE_BYTES) } else { limit }
    }

    /// # Errors
    /// [`CallError::NotReady`] until the first feed has told of a cluster.
    fn check_decidable(&self) -> Result<(), CallError> {
        Ok(self.freshness.check_decidable()?)
    }

    /// # Errors
    /// [`CallError::NotReady`] while files are being read: what a client told now would be wiped.
    fn check_feedable(&self) -> Result<(), CallError> {
        Ok(self.freshness.check_feedable()?)
    }

    /// # Errors
    /// [`CallError::Draining`]: what would outlast the server is not begun.
    fn check_not_draining(&self) -> Result<(), CallError> {
        if *self.draining.borrow() { Err(CallError::Draining) } else { Ok(()) }
    }

    /// The cluster that a request asks: the live one where it names no session.
    ///
    /// # Errors
    /// [`CallError::NoSuchSession`], also where it is another caller's.
    fn asked_by(&self, access: &Access, session_id: &str) -> Result<Asked, CallError> {
        if session_id.is_empty() {
            return Ok(Asked::Live(self.cluster.clone()));
        }
        Ok(Asked::Session(self.sessions.get(session_id, access.caller(), clock::now())?))
    }

    /// May a single decision on `cluster` run on the reactor? Not while a long write holds the lock that an assume may need.
    pub(crate) fn decides_in_microseconds(&self, cluster: &Cluster) -> bool {
        // Only a hint: a write that starts just after costs one late answer, never a wrong one.
        self.n_long_writes.load(Ordering::Relaxed) == 0
            && cluster.snapshot().n_nodes() <= MAX_INLINE_NODES
    }

    /// Marks a long write for as long as the guard lives.
    pub(crate) fn long_write(&self) -> LongWrite<'_> {
        self.n_long_writes.fetch_add(1, Ordering::Relaxed);
        LongWrite(&self.n_long_writes)
    }
}

pub(crate) struct LongWrite<'a>(&'a AtomicUsize);

impl Drop for LongWrite<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Resolves once the server drains.
async fn until_draining(mut draining: watch::Receiver<bool>) {
    // The sender lives as long as the server; without it nothing is left to serve either.
    drop(draining.wait_for(|&draining| draining).await);
}

/// The services of `berth.v1`, health and reflection.
///
/// # Errors
/// When the built-in descriptors cannot be read, which a test rules out.
pub(crate) fn routes(
    state: &Arc<State>,
    health: HealthReporter,
) -> Result<Routes, tonic_reflection::server::Error> {
    let max_bytes = state.limits.max_message_bytes;
    let cluster = ClusterServiceServer::new(cluster::ClusterHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let placement = PlacementServiceServer::new(placement::PlacementHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let preemption =
        PreemptionServiceServer::new(preemption::PreemptionHandler::new(state.clone()))
            .max_decoding_message_size(max_bytes);
    let session = SessionServiceServer::new(session::SessionHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let lifecycle = LifecycleServiceServer::new(lifecycle::LifecycleHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let autoscaler =
        AutoscalerServiceServer::new(autoscaler::AutoscalerHandler::new(state.clone()))
            .max_decoding_message_size(max_bytes);
    let expander = expander::ExpanderService::new(state.clone());
    let health = tonic_health::pb::health_server::HealthServer::new(
        HealthService::from_health_reporter(health),
    );
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(berth_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::new(cluster)
        .add_service(placement)
        .add_service(preemption)
        .add_service(session)
        .add_service(lifecycle)
        .add_service(autoscaler)
        .add_service(expander)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .prepare())
}
