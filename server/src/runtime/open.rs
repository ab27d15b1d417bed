//! Opens everything that a server needs before it serves: listeners, credentials, the audit log and the ledger.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use berth_engine::Cluster;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::error::StartError;
use super::options::ServerOptions;
use crate::audit::{Audit, AuditError, AuditOptions};
use crate::auth::{Auth, AuthOptions, RoleBinding, TokenFile};
use crate::expander::Expander;
use crate::ledger::{self, Bounds, Embedded, Etcd, OpenError};
use crate::net::{Guard, Port, Protocol, Tls, listen};
use crate::reload::Reloader;
use crate::replicas::Peers;
use crate::service::{Header, Journal, JournalOptions, Kept, Recorder, RestoreError, State};
use crate::telemetry::trace::Tracer;

/// An open server that does not serve yet.
pub(super) struct Opened {
    pub(super) state: Arc<State>,
    pub(super) grpc: Listener,
    pub(super) http: Listener,
    /// Assumptions of earlier runs, to be restored once the cluster was fed.
    pub(super) kept: Kept,
}

/// A listener, and the settings for its connections.
pub(super) struct Listener {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) port: Port,
}

/// Opens the parts that the options name; `reloader` watches the files of credentials from now on.
///
/// # Errors
/// The first part that cannot be opened. The ledger is opened last: a start that fails for another reason creates none.
pub(super) async fn open(
    options: ServerOptions,
    reloader: &Reloader,
    drain: watch::Receiver<bool>,
) -> Result<Opened, StartError> {
    let AuthOptions { token_file, role_bindings } = options.auth;
    let tokens = token_file.as_deref().map(TokenFile::read).transpose()?;
    let takes_certificates = options.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
    let expander = Expander::new(&options.expander)?;
    let tracer = options.tracing.as_ref().map(Tracer::new).transpose()?;
    let guard = Guard {
        has_identity: options.tls.is_some(),
        authenticates: takes_certificates
            || tokens.is_some()
            || role_bindings.iter().any(RoleBinding::names_anonymous),
        insecure: options.insecure,
    };
    let (grpc_listener, grpc_address) = listen("gRPC", options.grpc_address, guard).await?;
    let (http_listener, http_address) = listen("HTTP", options.http_address, guard).await?;
    let recorder = options.journal.as_ref().map(|_| Arc::new(Recorder::new()));
    let cluster = recorder.clone().map_or_else(Cluster::new, |it| Cluster::observed_by(it));
    let cluster = Arc::new(cluster);
    let load = options.limits.load;
    let header = Header::of(&options.profiles);
    let state = State::new(cluster, options.profiles, options.tie_break, options.limits, drain)
        .with_expander(expander)
        .with_tracer(tracer.unwrap_or_else(Tracer::off));
    let connections = state.metrics.connections().clone();
    let tls = options.tls.map(|files| Tls::start(&files, &connections, reloader)).transpose()?;
    let port = |protocol, counts| Port {
        protocol,
        tls: tls.clone(),
        max_connections: load.max_connections,
        write_patience: load.slow_reader_timeout,
        counts,
    };
    let counts = state.metrics.auth().clone();
    let auth = Arc::new(Auth::new(tokens.as_ref(), &role_bindings, takes_certificates, counts)?);
    let audit = start_audit(options.audit, auth.is_open()).await?;
    if let Some(tokens) = tokens {
        let (watched, reloads) = tokens.watched(auth.clone());
        reloader.watch(watched, reloads);
    }
    let state = state.with_auth(auth, audit);
    let state = match options.journal.zip(recorder) {
        Some((options, recorder)) => start_journal(state, options, recorder, header)?,
        None => state,
    };
    let lasts = options.ledger.is_some();
    let state = match (options.ledger, options.etcd) {
        (Some(path), _) => state.with_ledger(Arc::new(open_ledger(path).await?)),
        (None, Some(etcd)) => {
            let bounds = Bounds::default();
            let peers = Peers::start(etcd.peers.as_ref(), reloader)?;
            let etcd = Etcd::watching(&etcd, ledger::first_revision, bounds, reloader)?;
            state.with_replicas(Arc::new(etcd), peers)
        }
        (None, None) => state,
    };
    let state = Arc::new(state.with_ledger_policy(options.respect_fences, options.force_deletion));
    let kept = if lasts { keep_assumptions(&state).await? } else { Kept::default() };
    copy_fences(&state).await;
    if options.awaits_files {
        state.freshness.begin_load();
    }
    let grpc_port = port(Protocol::Grpc, connections.grpc().clone());
    let http_port = port(Protocol::Http, connections.http().clone());
    Ok(Opened {
        state,
        grpc: Listener { listener: grpc_listener, address: grpc_address, port: grpc_port },
        http: Listener { listener: http_listener, address: http_address, port: http_port },
        kept,
    })
}

/// Starts to record what the cluster does, before it is fed.
fn start_journal(
    state: State,
    options: JournalOptions,
    recorder: Arc<Recorder>,
    header: Header,
) -> Result<State, StartError> {
    let directory = options.directory.clone();
    let counts = state.metrics.journal().clone();
    match Journal::start(&state.cluster, recorder, options, header, counts) {
        Ok(journal) => Ok(state.with_journal(journal)),
        Err(source) => Err(StartError::Journal { directory, source }),
    }
}

/// Keeps assumptions in the ledger, on a thread that may block.
async fn keep_assumptions(state: &Arc<State>) -> Result<Kept, RestoreError> {
    let state = state.clone();
    let keeping = tokio::task::spawn_blocking(move || state.keep_assumptions());
    keeping.await.unwrap_or_else(|error| Err(RestoreError::Thread(io::Error::other(error))))
}

/// Opens the ledger and reads its whole file, on a thread that may block.
async fn open_ledger(path: PathBuf) -> Result<Embedded, OpenError> {
    let opening = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || Embedded::open(&path, ledger::first_revision()))
    };
    opening.await.unwrap_or_else(|error| {
        Err(OpenError::Damaged { path, reason: format!("reading it failed: {error}") })
    })
}

/// Copies the ledger's fences into the cluster, on a thread that may block.
pub(super) async fn copy_fences(state: &State) {
    let (fences, grants, cluster) =
        (state.fences.clone(), state.grants.clone(), state.cluster.clone());
    let copying = tokio::task::spawn_blocking(move || fences.follow_all(&grants, &cluster));
    // It ends in a panic only for a bug; upkeep does not retry that.
    if let Err(error) = copying.await {
        tracing::error!("copying the ledger's fences failed: {error}");
    }
}

/// Opens the audit log, on a thread that may block: a pipe waits for its reader.
async fn start_audit(options: AuditOptions, is_open: bool) -> Result<Audit, AuditError> {
    let starting = tokio::task::spawn_blocking(move || Audit::start(&options, is_open));
    starting.await.unwrap_or_else(|error| Err(AuditError::Thread(io::Error::other(error))))
}
