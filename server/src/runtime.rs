//! Start, drain, stop: the one way to run Berth, used by `berth serve`, by the demo and by every test.

mod linger;
mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{Cluster, TieBreak};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::transport::Server as Transport;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use linger::Lingering;

use crate::clock;
use crate::config::policy::Profiles;
use crate::config::{ConfigError, ExpanderConfig, ExtenderOptions, TlsFiles};
use crate::expander::Expander;
use crate::extender::{Extender, PolicyChoiceError};
use crate::feed::file::{self, Dump, LoadReport};
use crate::feed::{FeedError, Freshness};
use crate::grpc::{self, CallService, State};
pub use crate::grpc::{Limits, SessionLimits};
use crate::http;
use crate::http::health::readiness;
use crate::ledger::{self, Embedded, OpenError};
pub use tls::TlsError;

/// Bytes that a client may send ahead of the server's reading, per stream and per connection.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const MAX_STREAMS_PER_CONNECTION: u32 = 1_024;
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How often durations are folded, contradictions looked for and idle sessions dropped.
const UPKEEP: Duration = Duration::from_secs(1);
/// A probe that is being answered when everything else has ended gets this long.
const HTTP_GRACE: Duration = Duration::from_secs(2);

/// How to run a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where gRPC listens; port 0 takes a free one.
    pub grpc_address: SocketAddr,
    /// Where HTTP listens; port 0 takes a free one.
    pub http_address: SocketAddr,
    /// Allows addresses beyond loopback, although whoever reaches them may ask everything.
    pub insecure: bool,
    /// The identity of the gRPC listener; plain text without it. It says who Berth is, not who calls. HTTP is plain always.
    pub tls: Option<TlsFiles>,
    /// How node groups are chosen for cluster-autoscaler.
    pub expander: ExpanderConfig,
    /// How kube-scheduler's extender calls are answered.
    pub extender: ExtenderOptions,
    /// The policies that pods may name (S-Q-2).
    pub profiles: Profiles,
    /// How equal totals are broken for requests that do not say.
    pub tie_break: TieBreak,
    /// Bounds on what one caller may ask.
    pub limits: Limits,
    /// How long calls in flight may take once the server drains.
    pub drain_grace_period: Duration,
    /// The file of the ledger; without it grants are forgotten when the server ends.
    pub ledger: Option<PathBuf>,
    /// Files will be loaded first, or the API server listed: until [`Server::file_loader`]'s call has succeeded, or
    /// [`KubeFeed::start`](crate::feed::kube::KubeFeed::start) was called, placements and feeds are `UNAVAILABLE`, for what a
    /// client told before would be wiped.
    pub awaits_files: bool,
}

impl Default for ServerOptions {
    /// Loopback with free ports, the default profile, ties seeded with 0, 30 seconds to drain, a ledger in memory.
    fn default() -> ServerOptions {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        ServerOptions {
            grpc_address: loopback,
            http_address: loopback,
            insecure: false,
            tls: None,
            expander: ExpanderConfig::default(),
            extender: ExtenderOptions::default(),
            profiles: Profiles::default(),
            tie_break: TieBreak::Seeded(0),
            limits: Limits::default(),
            drain_grace_period: Duration::from_secs(30),
            ledger: None,
            awaits_files: false,
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen for {protocol} on `{address}`: {}", listen_reason(source))]
    Listen {
        /// `gRPC` or `HTTP`.
        protocol: &'static str,
        /// The address as it was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// An address beyond loopback, without leave.
    #[error(
        "refusing to listen for {protocol} on `{address}`: callers are not authenticated, with TLS or without, and whoever reaches that address may ask everything; use a loopback address, or `--insecure` behind a NetworkPolicy"
    )]
    Insecure {
        /// `gRPC` or `HTTP`.
        protocol: &'static str,
        /// The address as it was asked for.
        address: SocketAddr,
    },
    /// Both listeners on one address.
    #[error("gRPC and HTTP cannot both listen on `{address}`: give one of them another port")]
    SameAddress {
        /// The address that both were given.
        address: SocketAddr,
    },
    /// Certificate or key cannot be used.
    #[error("cannot serve gRPC with TLS: {0}")]
    Tls(#[from] TlsError),
    /// tonic refuses what was checked before.
    #[error("cannot serve gRPC with TLS: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// What the expander decides by cannot be read.
    #[error(transparent)]
    Expander(#[from] ConfigError),
    /// The extender is to apply what the profiles do not have.
    #[error(transparent)]
    Extender(#[from] PolicyChoiceError),
    /// The ledger's file cannot be used.
    #[error(transparent)]
    Ledger(#[from] OpenError),
    /// The service descriptors inside this program are broken.
    #[error("cannot describe the services for reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

fn listen_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "something listens there already".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// How a shutdown went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Every call in flight got its answer.
    Drained,
    /// The grace period ended first; what was left was cut off.
    CutOff,
}

/// A running server. Dropping it without [`Server::shutdown`] leaves its tasks to the runtime's end.
pub struct Server {
    state: Arc<State>,
    grpc_address: SocketAddr,
    http_address: SocketAddr,
    draining: watch::Sender<bool>,
    stop_http: watch::Sender<bool>,
    grpc: JoinHandle<()>,
    http: JoinHandle<()>,
    upkeep: JoinHandle<()>,
    grace_period: Duration,
}

impl Server {
    /// Opens the ledger, binds both listeners and starts to serve an empty cluster.
    ///
    /// # Errors
    /// [`StartError`] with the ledger that cannot be opened or the address that cannot be listened on, and why. Nothing runs
    /// then.
    pub async fn start(options: ServerOptions) -> Result<Server, StartError> {
        let ServerOptions {
            grpc_address,
            http_address,
            insecure,
            tls,
            expander,
            extender,
            profiles,
            tie_break,
            limits,
            drain_grace_period,
            ledger,
            awaits_files,
        } = options;
        if grpc_address == http_address && grpc_address.port() != 0 {
            return Err(StartError::SameAddress { address: grpc_address });
        }
        let ledger = match ledger {
            Some(path) => Some(open_ledger(path).await?),
            None => None,
        };
        let expander = Expander::new(&expander)?;
        let extender = Extender::new(&profiles, &extender)?;
        let transport = transport(tls.as_ref())?;
        let (grpc_listener, grpc_address) = listen("gRPC", grpc_address, insecure).await?;
        let (http_listener, http_address) = listen("HTTP", http_address, insecure).await?;
        let (draining, drain) = watch::channel(false);
        let (stop_http, http_stop) = watch::channel(false);
        let state =
            State::new(Arc::new(Cluster::new()), profiles, tie_break, limits, drain.clone())
                .with_expander(expander)
                .with_extender(extender);
        let state = Arc::new(match ledger {
            Some(ledger) => state.with_ledger(Arc::new(ledger)),
            None => state,
        });
        if awaits_files {
            state.freshness.begin_load();
        }
        let health = HealthReporter::new();
        report_health(&state, &health).await;
        let routes = grpc::routes(&state, health.clone())?;
        let service = CallService::new(routes, state.clone());
        let grpc = tokio::spawn(serve_grpc(transport, service, grpc_listener, until(drain)));
        let http = tokio::spawn(serve_http(state.clone(), http_listener, until(http_stop)));
        let upkeep = tokio::spawn(keep_up(state.clone(), health));
        Ok(Server {
            state,
            grpc_address,
            http_address,
            draining,
            stop_http,
            grpc,
            http,
            upkeep,
            grace_period: drain_grace_period,
        })
    }

    /// Where gRPC listens, with the port that was taken.
    #[must_use]
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc_address
    }

    /// Where HTTP listens, with the port that was taken.
    #[must_use]
    pub fn http_address(&self) -> SocketAddr {
        self.http_address
    }

    /// The cluster that this server answers from. Who fills it from here says so with [`Freshness::note_applied`]: until a
    /// feed has spoken, placements are `UNAVAILABLE`.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.state.cluster
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Whether and when a feed has spoken.
    #[must_use]
    pub fn freshness(&self) -> &Freshness {
        &self.state.freshness
    }

    /// The file feed: the cluster becomes what the dump holds, and the server is ready. Compiles on all cores, blocking.
    pub fn load(&self, dump: Dump) -> LoadReport {
        let report = file::load(&self.state.cluster, dump);
        note_loaded(&self.state, &report);
        self.state.freshness.end_load();
        report
    }

    /// The file feed from files, to be called on a thread that may block; to be asked for again to read them again.
    ///
    /// From this call on until the returned one has ended, other feeds are `UNAVAILABLE`; placements are until the first
    /// load has ended, and answered from the cluster as it was during a later one. Contradictions are forgotten (S-CCH-6).
    ///
    /// # Errors
    /// The returned call's: the first file that cannot be read; the cluster is as it was then.
    pub fn file_loader(
        &self,
    ) -> impl FnOnce(&[PathBuf]) -> Result<LoadReport, FeedError> + Send + 'static {
        let state = self.state.clone();
        state.freshness.begin_load();
        let loading = Loading(state);
        move |paths| {
            let state = &loading.0;
            let report = file::load_files(&state.cluster, paths)?;
            note_loaded(state, &report);
            Ok(report)
        }
    }

    /// Drains and stops: no new connections, `NOT_SERVING` and 503 at once; calls in flight may finish within the grace
    /// period, streams end with `UNAVAILABLE` after what they had read. HTTP answers to the end.
    pub async fn shutdown(mut self) -> Shutdown {
        self.draining.send_replace(true);
        let outcome = match tokio::time::timeout(self.grace_period, &mut self.grpc).await {
            Ok(_) => Shutdown::Drained,
            Err(_) => {
                self.grpc.abort();
                Shutdown::CutOff
            }
        };
        // Not before: calls that are under way on a session were to be answered.
        self.state.sessions.drain();
        self.stop_http.send_replace(true);
        if tokio::time::timeout(HTTP_GRACE, &mut self.http).await.is_err() {
            self.http.abort();
        }
        self.upkeep.abort();
        outcome
    }
}

/// A load under way; it ends when this is dropped, whatever came of it.
struct Loading(Arc<State>);

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.freshness.end_load();
    }
}

fn note_loaded(state: &State, report: &LoadReport) {
    state.metrics.count_deltas(report.n_taken, report.refused.len());
    state.freshness.note_applied();
}

/// Reads the whole file, on a thread that may block.
async fn open_ledger(path: PathBuf) -> Result<Embedded, OpenError> {
    let opening = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || Embedded::open(&path, ledger::first_revision()))
    };
    opening.await.unwrap_or_else(|error| {
        Err(OpenError::Damaged { path, reason: format!("reading it failed: {error}") })
    })
}

async fn listen(
    protocol: &'static str,
    address: SocketAddr,
    insecure: bool,
) -> Result<(TcpListener, SocketAddr), StartError> {
    if !address.ip().to_canonical().is_loopback() && !insecure {
        return Err(StartError::Insecure { protocol, address });
    }
    let failed = |source| StartError::Listen { protocol, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

async fn until(mut signal: watch::Receiver<bool>) {
    // A dropped sender is a dropped server: stop as well.
    drop(signal.wait_for(|&stop| stop).await);
}

/// HTTP/2 as gRPC is served here, with TLS where there is an identity.
fn transport(tls: Option<&TlsFiles>) -> Result<Transport, StartError> {
    let transport = Transport::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEPALIVE));
    match tls {
        Some(files) => Ok(transport.tls_config(tls::read(files)?)?),
        None => Ok(transport),
    }
}

async fn serve_grpc(
    transport: Transport,
    service: CallService,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let incoming = incoming.map(|stream| stream.map(Lingering::new));
    if let Err(error) = transport.serve_with_incoming_shutdown(service, incoming, stop).await {
        tracing::error!(%error, "the gRPC listener ended");
    }
}

async fn serve_http(
    state: Arc<State>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    if let Err(error) =
        axum::serve(listener, http::router(state)).with_graceful_shutdown(stop).await
    {
        tracing::error!(%error, "the HTTP listener ended");
    }
}

/// Everything that happens by itself while a server runs.
async fn keep_up(state: Arc<State>, health: HealthReporter) {
    let mut draining = state.draining.clone();
    let mut completed = state.freshness.completed();
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            _ = tick.tick() => {
                state.metrics.run_upkeep();
                state.sessions.drop_expired(clock::now());
            }
            Ok(()) = draining.changed() => {}
            Ok(()) = completed.changed() => {}
        }
        report_health(&state, &health).await;
    }
}

/// gRPC health: placements are served once the server is ready, the cluster's feed as soon as it runs.
async fn report_health(state: &State, health: &HealthReporter) {
    let serving = |yes: bool| {
        if yes { ServingStatus::Serving } else { ServingStatus::NotServing }
    };
    let ready = readiness(state).iter().all(|(_, outcome)| outcome.is_ok());
    let draining = *state.draining.borrow();
    health.set_service_status("", serving(ready)).await;
    for service in ["AutoscalerService", "PlacementService", "PreemptionService", "SessionService"]
    {
        health.set_service_status(format!("berth.v1.{service}"), serving(ready)).await;
    }
    // Without a cluster it still chooses by what it is told.
    health.set_service_status("grpcplugin.Expander", serving(!draining)).await;
    for service in ["ClusterService", "LifecycleService"] {
        health.set_service_status(format!("berth.v1.{service}"), serving(!draining)).await;
    }
}
