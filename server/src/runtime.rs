//! Starts, drains and stops a server; used by `berth serve`, by the demo and by all tests.

mod options;
mod open;
mod replica;
mod transport;
mod upkeep;
mod ledger_upkeep;
mod error;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::Cluster;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic_health::server::HealthReporter;

pub use crate::admission::LoadLimits;
use crate::apiserver::Connection;
use crate::extender::Extender;
use crate::feed::file::{self, Dump, LoadReport, UnknownFields};
use crate::feed::kube::{KubeFeed, Observer, Pace};
use crate::feed::{FeedError, Freshness};
use crate::grpc::{self, CallService};
use crate::http::{self, Calls};
use crate::net::{accept, serve_http1};
use crate::reload::Reloader;
use crate::scheduler::{Scheduler, SchedulerOptions};
pub use crate::service::{ForceDeletion, JournalOptions, Limits, SessionLimits};
use crate::service::{Journal, State};
pub use error::StartError;
use ledger_upkeep::follow_fences;
use open::{Opened, open};
pub use options::ServerOptions;
use transport::serve_grpc;
pub use transport::transport;
use upkeep::{begin_restore, expire_assumptions, keep_up, report_health};

/// Time limit for the last probes when everything else has ended.
const HTTP_GRACE: Duration = Duration::from_secs(2);
/// Time limit for writing the rest of the journal.
const JOURNAL_GRACE: Duration = Duration::from_secs(5);
/// Time limit for writing the last audit lines.
const AUDIT_GRACE: Duration = Duration::from_secs(5);

/// Outcome of a shutdown.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Every call in flight got its response.
    Drained,
    /// The grace period ended first; the remaining calls were aborted.
    CutOff,
}

/// A running server. Dropping it without [`Server::shutdown`] leaves its tasks running until the runtime ends.
pub struct Server {
    state: Arc<State>,
    extender: Arc<Extender>,
    grpc_address: SocketAddr,
    http_address: SocketAddr,
    draining: watch::Sender<bool>,
    stop_http: watch::Sender<bool>,
    grpc: JoinHandle<()>,
    http: JoinHandle<()>,
    upkeep: JoinHandle<()>,
    expiry: JoinHandle<()>,
    restoring: JoinHandle<()>,
    following: JoinHandle<()>,
    fences: JoinHandle<()>,
    reloader: Reloader,
    grace_period: Duration,
}

impl Server {
    /// Binds both listeners, opens the ledger and starts to serve an empty cluster.
    ///
    /// # Errors
    /// [`StartError`] with the ledger that cannot be opened or the address that cannot be listened on, and why. Nothing
    /// runs then.
    pub async fn start(options: ServerOptions) -> Result<Server, StartError> {
        if options.grpc_address == options.http_address && options.grpc_address.port() != 0 {
            return Err(StartError::SameAddress { address: options.grpc_address });
        }
        let grace_period = options.drain_grace_period;
        let extender = Arc::new(Extender::new(&options.profiles, &options.extender)?);
        let (draining, drain) = watch::channel(false);
        let (stop_http, http_stop) = watch::channel(false);
        let reloader = Reloader::default();
        let Opened { state, grpc, http, kept } = open(options, &reloader, drain.clone()).await?;
        let restoring = begin_restore(&state, kept);
        let following = replica::follow(&state);
        let health = HealthReporter::new();
        report_health(&state, &health).await;
        let service = CallService::new(grpc::routes(&state, health.clone())?, state.clone());
        let router = http::router(state.clone(), extender.clone(), Calls::new(service.clone()));
        let (limits, incoming) = (state.limits, accept(grpc.listener, grpc.port));
        let serving = async move { serve_grpc(&limits, service, incoming, drain).await };
        let serving_http = serve_http1(router, accept(http.listener, http.port), http_stop);
        Ok(Server {
            grpc: tokio::spawn(serving),
            http: tokio::spawn(serving_http),
            upkeep: tokio::spawn(keep_up(state.clone(), health)),
            expiry: tokio::spawn(expire_assumptions(state.clone())),
            restoring: tokio::spawn(restoring),
            following: tokio::spawn(following),
            fences: tokio::spawn(follow_fences(state.clone())),
            state,
            extender,
            grpc_address: grpc.address,
            http_address: http.address,
            draining,
            stop_http,
            reloader,
            grace_period,
        })
    }

    /// The address on which gRPC listens, with the actual port.
    #[must_use]
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc_address
    }

    /// The address on which HTTP listens, with the actual port.
    #[must_use]
    pub fn http_address(&self) -> SocketAddr {
        self.http_address
    }

    /// The cluster of this server. Code that fills it directly calls [`Freshness::note_applied`]: until a feed has done
    /// so, placements are `UNAVAILABLE`.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.state.cluster
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub(crate) fn extender(&self) -> &Arc<Extender> {
        &self.extender
    }

    /// Renews the credentials of a connection when their files change, for as long as the server runs.
    pub fn follow_files(&self, connection: Connection) {
        connection.follow_files(&self.reloader);
    }

    /// Starts to feed the cluster from the API server. The server is ready once the first list of every kind is
    /// complete; from then on no other feed changes the cluster. Without a scheduler, the extender binds through
    /// `client` from now on. Needs a Tokio runtime.
    pub fn start_kube_feed(
        &self,
        pace: Pace,
        client: kube::Client,
        observer: Option<Arc<dyn Observer>>,
    ) -> KubeFeed {
        // A scheduler binds its own decisions as the leader; callers on its HTTP port cannot bind.
        if self.state.leadership.get().is_none() {
            // The first client stays when a feed is started again, since it is for the same API server.
            drop(self.state.api_server.set(client.clone()));
        }
        KubeFeed::start(pace, client, &self.state.feed_sink(), observer)
    }

    /// Starts to schedule the pods of this server's profiles, once the feed that gets [`Scheduler::observer`] is
    /// complete.
    #[must_use]
    pub fn start_scheduler(&self, client: kube::Client, options: SchedulerOptions) -> Scheduler {
        Scheduler::start(client, self.state.clone(), options)
    }

    /// Freshness of the cluster: whether a feed has filled it, and when.
    #[must_use]
    pub fn freshness(&self) -> &Freshness {
        &self.state.freshness
    }

    /// Loads a dump as the whole cluster; the server is ready then. Compiles on all cores, blocking.
    pub fn load(&self, dump: Dump) -> LoadReport {
        let report = file::load(&self.state.cluster, dump);
        note_loaded(&self.state, &report);
        self.state.freshness.end_load();
        report
    }

    /// Returns a loader of files, to be called on a thread that may block. To read the files again, create another.
    ///
    /// From the creation of the loader until it has ended, other feeds are `UNAVAILABLE`. Placements are `UNAVAILABLE`
    /// during the first load, and use the old cluster during a later one. Contradictions are forgotten (S-CCH-6).
    ///
    /// # Errors
    /// The errors of the loader: the first file that cannot be read; the cluster is unchanged then.
    pub fn file_loader(
        &self,
    ) -> impl FnOnce(&[PathBuf]) -> Result<LoadReport, FeedError> + Send + 'static {
        let state = self.state.clone();
        state.freshness.begin_load();
        let loading = Loading(state);
        move |paths| {
            let state = &loading.0;
            let report = file::load_files(&state.cluster, paths, UnknownFields::Warn)?;
            note_loaded(state, &report);
            Ok(report)
        }
    }

    /// Checks at once, and not only in a few seconds, whether the files of certificates and tokens have changed; and
    /// opens the audit log anew, for it may have been renamed.
    pub fn reload_credentials(&self) {
        self.reloader.look_now();
        self.state.audit.reopen();
    }

    /// Drains and stops: no new connections, `NOT_SERVING` and 503 at once; calls in flight may finish within the grace
    /// period, streams end with `UNAVAILABLE` after the messages that they had read. HTTP is served to the end.
    pub async fn shutdown(mut self) -> Shutdown {
        self.draining.send_replace(true);
        let grants = self.state.grants.clone();
        // At once, so that another replica goes on: what still comes here is sent again there.
        let resigning = tokio::task::spawn_blocking(move || grants.resign());
        let outcome = match tokio::time::timeout(self.grace_period, &mut self.grpc).await {
            Ok(_) => Shutdown::Drained,
            Err(_) => {
                self.grpc.abort();
                Shutdown::CutOff
            }
        };
        // Not earlier, since calls under way in a session were to be answered.
        self.state.sessions.drain();
        self.stop_http.send_replace(true);
        if tokio::time::timeout(HTTP_GRACE, &mut self.http).await.is_err() {
            self.http.abort();
        }
        self.state.audit.close(AUDIT_GRACE).await;
        let state = self.state.clone();
        // The tracer has a few seconds to finish, and its outcome is irrelevant.
        drop(tokio::task::spawn_blocking(move || state.tracer.finish()).await);
        let state = self.state.clone();
        let recorded =
            tokio::task::spawn_blocking(move || state.journal.iter().for_each(Journal::close));
        // Whatever disk it is on, the end of the server does not wait for it any longer.
        drop(tokio::time::timeout(JOURNAL_GRACE, recorded).await);
        drop(resigning.await);
        self.upkeep.abort();
        self.expiry.abort();
        self.restoring.abort();
        self.following.abort();
        self.fences.abort();
        outcome
    }
}

/// A load under way; it ends when this value is dropped, whatever its outcome.
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
