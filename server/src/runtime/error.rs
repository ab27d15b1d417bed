//! Reasons for which a server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::audit::AuditError;
use crate::auth::TokenFileError;
use crate::document::ConfigError;
use crate::extender::PolicyChoiceError;
use crate::ledger::{EtcdStartError, OpenError};
use crate::net::{ListenError, TlsError};
use crate::replicas::PeersError;
use crate::service::RestoreError;
use crate::telemetry::TracingError;

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Both listeners on one address.
    #[error("gRPC and HTTP cannot both listen on `{address}`: give one of them another port")]
    SameAddress {
        /// The address of both listeners.
        address: SocketAddr,
    },
    /// Certificate, key or authorities cannot be used.
    #[error("cannot serve with TLS: {0}")]
    Tls(#[from] TlsError),
    /// A file of the expander cannot be read.
    #[error(transparent)]
    Expander(#[from] ConfigError),
    /// The extender's options name something that the profiles do not have.
    #[error(transparent)]
    Extender(#[from] PolicyChoiceError),
    /// Spans cannot be sent to the configured address.
    #[error(transparent)]
    Tracing(#[from] TracingError),
    /// The token file cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The journal cannot be written.
    #[error("cannot write the journal in `{}`: {source}; name another directory with `--journal`", directory.display())]
    Journal {
        /// The directory.
        directory: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The ledger's file cannot be used.
    #[error("{}; {}", .0, .0.advice())]
    Ledger(#[from] OpenError),
    /// The ledger in etcd cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdStartError),
    /// Other replicas cannot be reached.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// The reservations that the ledger has cannot be read.
    #[error("the reservations in the ledger cannot be restored: {0}")]
    Reservations(#[from] RestoreError),
    /// The service descriptors inside this program are broken.
    #[error("cannot describe the services for reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}
