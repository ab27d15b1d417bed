//! Options of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use berth_engine::TieBreak;

use crate::audit::AuditOptions;
use crate::auth::AuthOptions;
use crate::expander::ExpanderConfig;
use crate::extender::ExtenderOptions;
use crate::ledger::EtcdOptions;
use crate::net::TlsFiles;
use crate::policy::Profiles;
use crate::service::{ForceDeletion, JournalOptions, Limits};
use crate::telemetry::TracingOptions;

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address on which gRPC listens; port 0 takes a free port.
    pub grpc_address: SocketAddr,
    /// Address on which HTTP listens; port 0 takes a free port.
    pub http_address: SocketAddr,
    /// Allows addresses beyond loopback without TLS or without authentication, although others who reach them may then
    /// read the traffic or call every method.
    pub insecure: bool,
    /// The identity of both listeners, and the authorities of client certificates; plain text without it.
    pub tls: Option<TlsFiles>,
    /// How callers are authenticated besides their certificates, and their roles.
    pub auth: AuthOptions,
    /// Target of the audit log.
    pub audit: AuditOptions,
    /// Where changes and decisions are recorded; nowhere without it.
    pub journal: Option<JournalOptions>,
    /// Configuration of the expander for cluster-autoscaler.
    pub expander: ExpanderConfig,
    /// Options of kube-scheduler's extender calls.
    pub extender: ExtenderOptions,
    /// Collector for spans of calls; none are sent without it.
    pub tracing: Option<TracingOptions>,
    /// The policies that pods may name (S-Q-2).
    pub profiles: Profiles,
    /// Tie-breaking rule for requests that have none.
    pub tie_break: TieBreak,
    /// Limits on the requests of one caller.
    pub limits: Limits,
    /// Time limit for calls in flight once the server drains.
    pub drain_grace_period: Duration,
    /// The file of the ledger; without it the ledger is in memory and ends with the server.
    pub ledger: Option<PathBuf>,
    /// The ledger in etcd, in place of a file.
    pub etcd: Option<EtcdOptions>,
    /// Whether placement refuses nodes that are fenced in the ledger (S-FNC-1).
    pub respect_fences: bool,
    /// Who may release a name in the ledger by force (L-GRANT-5).
    pub force_deletion: ForceDeletion,
    /// Whether files will be loaded first, or the API server listed: until
    /// [`Server::file_loader`](super::Server::file_loader)'s call has succeeded, or
    /// [`Server::start_kube_feed`](super::Server::start_kube_feed) was called, placements and feeds are `UNAVAILABLE`,
    /// since changes that a client sent before would be lost.
    pub awaits_files: bool,
}

impl Default for ServerOptions {
    /// Options with free ports on loopback, the default profile, ties seeded with 0, 30 seconds to drain, a ledger in
    /// memory.
    fn default() -> ServerOptions {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        ServerOptions {
            grpc_address: loopback,
            http_address: loopback,
            insecure: false,
            tls: None,
            auth: AuthOptions::default(),
            audit: AuditOptions::default(),
            journal: None,
            expander: ExpanderConfig::default(),
            extender: ExtenderOptions::default(),
            tracing: None,
            profiles: Profiles::default(),
            tie_break: TieBreak::Seeded(0),
            limits: Limits::default(),
            drain_grace_period: Duration::from_secs(30),
            ledger: None,
            etcd: None,
            respect_fences: true,
            force_deletion: ForceDeletion::default(),
            awaits_files: false,
        }
    }
}
