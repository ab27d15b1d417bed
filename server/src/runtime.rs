//! Start, drain, stop: the one way to run Berth, used by `berth serve`, by the demo and by every test.

mod accept;
mod connection;
mod http1;
mod ledger_upkeep;
mod linger;
mod listen;
mod peer;
pub(crate) mod reload;
mod seldom;
mod stall;
mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{Cluster, TieBreak};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server as Transport;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use accept::{Port, accept};
use connection::Connection;
use ledger_upkeep::LedgerUpkeep;
use listen::{Guard, listen};
use reload::Reloader;
use tls::{Protocol, Tls};

pub use crate::admission::LoadLimits;
use crate::audit::Audit;
pub use crate::audit::AuditError;
use crate::auth::{Auth, RoleBinding, TokenFile, TokenFileError};
use crate::clock;
use crate::config::policy::Profiles;
use crate::config::{
    AuditOptions, AuthOptions, ConfigError, ExpanderConfig, ExtenderOptions, TlsFiles,
};
use crate::expander::Expander;
use crate::extender::{Extender, PolicyChoiceError};
use crate::feed::file::{self, Dump, LoadReport};
use crate::feed::{FeedError, Freshness};
use crate::grpc::{self, CallService, State};
pub use crate::grpc::{Limits, SessionLimits};
use crate::http;
use crate::http::health::readiness;
use crate::ledger::{self, Embedded, OpenError};
use crate::telemetry::trace::Tracer;
use crate::telemetry::{TracingError, TracingOptions};
pub use peer::{Peer, PeerCertificate};
pub use reload::ReadError;
pub use tls::TlsError;

/// Bytes that a client may send ahead of the server's reading, per stream and per connection. On loopback no size made a difference
/// (benches/record/2026-11-22-epyc-2-cores-wire.md); over a network a window is what a round trip carries. Frames stay HTTP/2's own
/// 16 KiB: larger ones gained nothing.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// How often a silent peer is pinged, and how long it may take to answer before its connection is closed.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often contradictions are looked for and idle sessions dropped.
const UPKEEP: Duration = Duration::from_secs(1);
/// A probe that is being answered when everything else has ended gets this long.
const HTTP_GRACE: Duration = Duration::from_secs(2);
/// The last audit lines get this long to be written.
const AUDIT_GRACE: Duration = Duration::from_secs(5);

/// How to run a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where gRPC listens; port 0 takes a free one.
    pub grpc_address: SocketAddr,
    /// Where HTTP listens; port 0 takes a free one.
    pub http_address: SocketAddr,
    /// Allows addresses beyond loopback without TLS or without authentication, although whoever reaches them may then read along
    /// or ask everything.
    pub insecure: bool,
    /// The identity of both listeners, and the authorities by whose certificates callers are known; plain text without it.
    pub tls: Option<TlsFiles>,
    /// By what callers are known besides their certificates, and what they may do.
    pub auth: AuthOptions,
    /// Where a line goes of each call that changes something.
    pub audit: AuditOptions,
    /// How node groups are chosen for cluster-autoscaler.
    pub expander: ExpanderConfig,
    /// How kube-scheduler's extender calls are answered.
    pub extender: ExtenderOptions,
    /// Where spans of calls are sent; nowhere without it.
    pub tracing: Option<TracingOptions>,
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
            auth: AuthOptions::default(),
            audit: AuditOptions::default(),
            expander: ExpanderConfig::default(),
            extender: ExtenderOptions::default(),
            tracing: None,
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
        "refusing to listen for {protocol} on `{address}`: {missing}; or use a loopback address, or `--insecure` behind a NetworkPolicy"
    )]
    Insecure {
        /// `gRPC` or `HTTP`.
        protocol: &'static str,
        /// The address as it was asked for.
        address: SocketAddr,
        /// What is missing there, and the flags that give it.
        missing: &'static str,
    },
    /// Both listeners on one address.
    #[error("gRPC and HTTP cannot both listen on `{address}`: give one of them another port")]
    SameAddress {
        /// The address that both were given.
        address: SocketAddr,
    },
    /// Certificate, key or authorities cannot be used.
    #[error("cannot serve with TLS: {0}")]
    Tls(#[from] TlsError),
    /// What the expander decides by cannot be read.
    #[error(transparent)]
    Expander(#[from] ConfigError),
    /// The extender is to apply what the profiles do not have.
    #[error(transparent)]
    Extender(#[from] PolicyChoiceError),
    /// Spans cannot be sent where the configuration says.
    #[error(transparent)]
    Tracing(#[from] TracingError),
    /// The tokens by which callers are known cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// There is no place for audit lines.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The ledger's file cannot be used.
    #[error("{}; {}", .0, .0.advice())]
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
    reloader: Reloader,
    grace_period: Duration,
}

impl Server {
    /// Binds both listeners, opens the ledger and starts to serve an empty cluster.
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
            auth,
            audit,
            expander,
            extender,
            tracing,
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
        let AuthOptions { token_file, role_bindings } = auth;
        let tokens = token_file.as_deref().map(TokenFile::read).transpose()?;
        let takes_certificates = tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
        let expander = Expander::new(&expander)?;
        let extender = Extender::new(&profiles, &extender)?;
        let tracer = tracing.as_ref().map(Tracer::new).transpose()?.unwrap_or_else(Tracer::off);
        let guard = Guard {
            has_identity: tls.is_some(),
            authenticates: takes_certificates
                || tokens.is_some()
                || role_bindings.iter().any(RoleBinding::names_anonymous),
            insecure,
        };
        let (grpc_listener, grpc_address) = listen("gRPC", grpc_address, guard).await?;
        let (http_listener, http_address) = listen("HTTP", http_address, guard).await?;
        let (draining, drain) = watch::channel(false);
        let (stop_http, http_stop) = watch::channel(false);
        let state =
            State::new(Arc::new(Cluster::new()), profiles, tie_break, limits, drain.clone())
                .with_expander(expander)
                .with_extender(extender)
                .with_tracer(tracer);
        let reloader = Reloader::default();
        let connections = state.metrics.connections().clone();
        let tls = tls.map(|files| Tls::start(&files, &connections, &reloader)).transpose()?;
        let port = |protocol, counts| Port {
            protocol,
            tls: tls.clone(),
            max_connections: limits.load.max_connections,
            write_patience: limits.load.slow_reader_timeout,
            counts,
        };
        let counts = state.metrics.auth().clone();
        let auth = Auth::new(tokens.as_ref(), &role_bindings, takes_certificates, counts)?;
        let audit = start_audit(audit, auth.is_open()).await?;
        let state = state.with_auth(auth, audit);
        // Last: a start that fails for another reason begins no ledger.
        let ledger = match ledger {
            Some(path) => Some(open_ledger(path).await?),
            None => None,
        };
        let state = Arc::new(match ledger {
            Some(ledger) => state.with_ledger(Arc::new(ledger)),
            None => state,
        });
        if let Some(tokens) = tokens {
            let (watched, reloads) = tokens.watched(state.clone());
            reloader.watch(watched, reloads);
        }
        if awaits_files {
            state.freshness.begin_load();
        }
        let health = HealthReporter::new();
        report_health(&state, &health).await;
        let routes = grpc::routes(&state, health.clone())?;
        let service = CallService::new(routes, state.clone());
        let grpc_port = port(Protocol::Grpc, connections.grpc().clone());
        let http_port = port(Protocol::Http, connections.http().clone());
        let incoming = accept(grpc_listener, grpc_port);
        let grpc = tokio::spawn(serve_grpc(transport(&limits), service, incoming, until(drain)));
        let incoming = accept(http_listener, http_port);
        let http = tokio::spawn(http1::serve(http::router(state.clone()), incoming, http_stop));
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
            reloader,
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

    /// Looks now, and not only in a few seconds, whether the files of certificates and tokens have changed; and opens the audit log
    /// anew, for it may have been renamed.
    pub fn reload_credentials(&self) {
        self.reloader.look_now();
        self.state.audit.reopen();
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
        self.state.audit.close(AUDIT_GRACE).await;
        let state = self.state.clone();
        // It is given a few seconds, and what becomes of it changes nothing.
        drop(tokio::task::spawn_blocking(move || state.tracer.finish()).await);
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

/// Opens the file of audit lines, on a thread that may block: a pipe waits for its reader.
async fn start_audit(options: AuditOptions, is_open: bool) -> Result<Audit, AuditError> {
    let starting = tokio::task::spawn_blocking(move || Audit::start(&options, is_open));
    starting.await.unwrap_or_else(|error| Err(AuditError::Thread(io::Error::other(error))))
}

async fn until(mut signal: watch::Receiver<bool>) {
    // A dropped sender is a dropped server: stop as well.
    drop(signal.wait_for(|&stop| stop).await);
}

/// HTTP/2 as gRPC is served here: for a server that is to be compared with this one.
#[must_use]
pub fn transport(limits: &Limits) -> Transport {
    Transport::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits.load.max_streams_per_connection)
        .http2_max_header_list_size(limits.load.max_header_bytes)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

async fn serve_grpc(
    transport: Transport,
    service: CallService,
    incoming: mpsc::Receiver<Connection>,
    stop: impl Future<Output = ()>,
) {
    let incoming = ReceiverStream::new(incoming).map(Ok::<_, io::Error>);
    if let Err(error) = transport.serve_with_incoming_shutdown(service, incoming, stop).await {
        tracing::error!(%error, "the gRPC listener ended");
    }
}

/// Everything that happens by itself while a server runs.
async fn keep_up(state: Arc<State>, health: HealthReporter) {
    let mut draining = state.draining.clone();
    let mut completed = state.freshness.completed();
    let mut ledger = LedgerUpkeep::default();
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            _ = tick.tick() => {
                state.sessions.drop_expired(clock::now());
                let n_cut = state.unread.cut_slow(clock::now(), state.limits.load.slow_reader_timeout);
                (0..n_cut).for_each(|_| state.metrics.admission().count_slow_reader());
                ledger.run(&state, clock::now());
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
