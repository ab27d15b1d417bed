//! Options of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use berth_engine::TieBreak;

use crate::audit::AuditOptions;
use crate::auth::AuthOptions;
use crate::expander::ExpanderConfig;
use crate::extender::ExtenderOptions;
use crate::net::TlsFiles;
use crate::policy::Profiles;
use crate::service::Limits;
use crate::telemetry::TracingOptions;

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
    /// Files will be loaded first, or the API server listed: until [`Server::file_loader`](super::Server::file_loader)'s call has succeeded, or
    /// [`Server::start_kube_feed`](super::Server::start_kube_feed) was called, placements and feeds are `UNAVAILABLE`, for what a
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
