//! TLS of the gRPC listener: certificate and key are read once, at the start, and checked there, so that a mistake is an error
//! with the file's name and not a handshake that fails later.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Identity, ServerTlsConfig};

use crate::config::TlsFiles;

/// A peer that takes longer is not going to finish.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the listener cannot have TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("`{}` {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The key is not that of the certificate, or one of them cannot be used.
    #[error("`{}` and `{}`: {reason}", cert_file.display(), key_file.display())]
    Identity {
        /// The certificate.
        cert_file: PathBuf,
        /// The key.
        key_file: PathBuf,
        /// Why they do not go together.
        reason: String,
    },
}

/// What tonic needs to serve with this identity: TLS 1.2 or 1.3, HTTP/2 by ALPN, no certificate asked of clients.
///
/// # Errors
/// [`TlsError`] with the file that is at fault.
pub(super) fn read(files: &TlsFiles) -> Result<ServerTlsConfig, TlsError> {
    let TlsFiles { cert_file, key_file } = files;
    let (cert, key) = (bytes(cert_file)?, bytes(key_file)?);
    let chain = certificates(cert_file, &cert)?;
    let private_key = private_key(key_file, &key)?;
    let unusable = |error: &rustls::Error| TlsError::Identity {
        cert_file: cert_file.clone(),
        key_file: key_file.clone(),
        reason: match error {
            rustls::Error::InconsistentKeys(_) => {
                "the private key is not the certificate's".to_owned()
            }
            other => other.to_string(),
        },
    };
    let provider = ring::default_provider();
    // tonic asks for the process's provider. Somebody else may have set it already: then it stays.
    drop(provider.clone().install_default());
    rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private_key))
        .map_err(|error| unusable(&error))?;
    Ok(ServerTlsConfig::new().identity(Identity::from_pem(cert, key)).timeout(HANDSHAKE_TIMEOUT))
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(unreadable(path, "holds no certificate in PEM (`BEGIN CERTIFICATE`)")),
        Err(error) => Err(unreadable(path, &format!("is not a certificate in PEM: {error}"))),
    }
}

fn private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            unreadable(path, "holds no unencrypted private key in PEM (`BEGIN PRIVATE KEY`)")
        }
        other => unreadable(path, &format!("is not a private key in PEM: {other}")),
    })
}

fn unreadable(path: &Path, reason: &str) -> TlsError {
    TlsError::Pem { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_names_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        let cert = write("tls.crt", &one.cert.pem());
        let key = write("tls.key", &one.signing_key.serialize_pem());
        let wrong = write("other.key", &other.signing_key.serialize_pem());
        let empty = write("empty.pem", "nothing");
        let check = |cert_file: &Path, key_file: &Path, expected: &[&str]| {
            let (cert_file, key_file) = (cert_file.to_owned(), key_file.to_owned());
            let error = read(&TlsFiles { cert_file, key_file }).unwrap_err().to_string();
            assert!(expected.iter().all(|text| error.contains(text)), "{error}");
        };
        let (cert_file, key_file) = (cert.clone(), key.clone());
        assert!(read(&TlsFiles { cert_file, key_file }).is_ok());
        check(&cert, &wrong, &["tls.crt", "other.key", "the private key is not the certificate's"]);
        check(&empty, &key, &["empty.pem", "holds no certificate"]);
        check(&key, &key, &["tls.key", "holds no certificate"]);
        check(&cert, &cert, &["tls.crt", "holds no unencrypted private key"]);
        check(&cert, &directory.path().join("none"), &["cannot read", "none"]);
    }
}
