//! Files of a TLS identity.

use std::path::PathBuf;

/// The files of the listeners' identity, in PEM. With them both ports, gRPC and HTTP, use TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those of intermediate authorities (`certFile`).
    pub cert_file: PathBuf,
    /// The private key (`keyFile`).
    pub key_file: PathBuf,
    /// The authorities that issue client certificates (`clientCaFile`). With it clients are asked for a certificate;
    /// without it client certificates are ignored.
    pub client_ca_file: Option<PathBuf>,
}
