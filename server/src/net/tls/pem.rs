//! PEM: checks the contents of an identity's files, so that a mistake is an error with the file's name and not a
//! handshake that fails later.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::reload::ReadError;

/// Reason why the listeners cannot use TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file does not hold what it should.
    #[error("`{}` {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The key does not belong to the certificate, or one of them cannot be used.
    #[error("`{}` and `{}`: {reason}", cert_file.display(), key_file.display())]
    Identity {
        /// The certificate.
        cert_file: PathBuf,
        /// The key.
        key_file: PathBuf,
        /// The reason why they do not fit together.
        reason: String,
    },
}

/// The certificates in `pem`, at least one.
pub(super) fn certificates(
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(unusable(path, "holds no certificate in PEM (`BEGIN CERTIFICATE`)")),
        Err(error) => Err(unusable(path, &format!("is not a certificate in PEM: {error}"))),
    }
}

/// The first private key in `pem`.
pub(super) fn private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            unusable(path, "holds no unencrypted private key in PEM (`BEGIN PRIVATE KEY`)")
        }
        other => unusable(path, &format!("is not a private key in PEM: {other}")),
    })
}

/// The authorities in `pem`, at least one.
pub(super) fn authorities(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut authorities = RootCertStore::empty();
    for (i, certificate) in certificates(path, pem)?.into_iter().enumerate() {
        authorities.add(certificate).map_err(|error| {
            unusable(path, &format!("holds no authority as certificate {}: {error}", i + 1))
        })?;
    }
    Ok(authorities)
}

pub(super) fn unusable(path: &Path, reason: &str) -> TlsError {
    TlsError::Pem { path: path.to_owned(), reason: reason.to_owned() }
}
