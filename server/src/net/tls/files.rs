//! Files of a TLS identity.

use std::path::PathBuf;

/// The files of the listeners' identity, in PEM. Both ports, gRPC and HTTP, speak TLS where there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those of intermediate authorities (`certFile`).
    pub cert_file: PathBuf,
    /// Its private key (`keyFile`).
    pub key_file: PathBuf,
    /// The authorities that vouch for clients (`clientCaFile`). With it clients are asked for a certificate; without it none of
    /// them is looked at.
    pub client_ca_file: Option<PathBuf>,
}
