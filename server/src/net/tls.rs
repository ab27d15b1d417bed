//! TLS of both listeners: certificate, key and client authorities, read at the start and again whenever they change.
//! New connections get the current ones; files that do not fit together leave the current ones in force.

mod expiry;
mod files;
mod pem;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};
use tokio::sync::watch;

use crate::auth;
use crate::clock;
use crate::reload::{Reloader, Reloads, Watched, read_all};
use crate::telemetry::ConnectionCounts;
use expiry::{Expiry, Reminder};
pub use files::TlsFiles;
pub use pem::TlsError;
pub(crate) use refusal::reason;

/// Interval of the checks whether the served certificate is about to expire.
const EXPIRY_CHECK: Duration = Duration::from_secs(60);

/// Protocol of a port inside TLS.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/2.
    Grpc,
    /// HTTP/1.1.
    Http,
}

impl Protocol {
    /// Name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Grpc => "gRPC",
            Protocol::Http => "HTTP",
        }
    }

    fn alpn(self) -> Vec<u8> {
        match self {
            Protocol::Grpc => b"h2".to_vec(),
            Protocol::Http => b"http/1.1".to_vec(),
        }
    }
}

/// The identity of the listeners. Clones share it.
#[derive(Clone)]
pub(crate) struct Tls {
    files: TlsFiles,
    served: Arc<ArcSwap<Served>>,
    counts: ConnectionCounts,
    /// The authorities of client certificates, and how often they have changed.
    authorities: Arc<watch::Sender<(Vec<u8>, u64)>>,
}

/// The current TLS configurations.
struct Served {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    /// The last second of the certificate's validity, in Unix time.
    not_after: i64,
}

impl Tls {
    /// Reads the files, and has `reloader` watch them.
    ///
    /// # Errors
    /// [`TlsError`] with the file that is at fault. An expired certificate is no error: clients report it, and the log.
    pub(crate) fn start(
        files: &TlsFiles,
        counts: &ConnectionCounts,
        reloader: &Reloader,
    ) -> Result<Tls, TlsError> {
        let paths = [Some(&files.cert_file), Some(&files.key_file), files.client_ca_file.as_ref()];
        let paths: Vec<_> = paths.into_iter().flatten().cloned().collect();
        let contents = read_all(&paths)?;
        let served = Served::of(files, &contents)?;
        counts.set_expiry(served.not_after);
        let tls = Tls {
            files: files.clone(),
            served: Arc::new(ArcSwap::from_pointee(served)),
            counts: counts.clone(),
            authorities: Arc::new(watch::Sender::new((
                contents.get(2).cloned().unwrap_or_default(),
                0,
            ))),
        };
        reloader.watch(Watched::new("the TLS files", paths, &contents), tls.clone());
        reloader.spawn(remind(tls.clone()));
        Ok(tls)
    }

    /// Changes when other authorities sign the certificates of clients.
    pub(super) fn authorities(&self) -> watch::Receiver<(Vec<u8>, u64)> {
        self.authorities.subscribe()
    }

    /// Configuration for a new connection.
    pub(crate) fn config(&self, protocol: Protocol) -> Arc<ServerConfig> {
        let served = self.served.load();
        match protocol {
            Protocol::Grpc => served.grpc.clone(),
            Protocol::Http => served.http.clone(),
        }
    }
}

impl Reloads for Tls {
    fn reload(&mut self, contents: &[Vec<u8>]) -> Result<(), String> {
        let served = Served::of(&self.files, contents);
        self.counts.count_reload(served.is_ok());
        let served = served.map_err(|error| error.to_string())?;
        self.counts.set_expiry(served.not_after);
        self.served.store(Arc::new(served));
        let authorities = contents.get(2).cloned().unwrap_or_default();
        self.authorities.send_if_modified(|(now, n)| {
            let is_changed = *now != authorities;
            if is_changed {
                (*now, *n) = (authorities, *n + 1);
            }
            is_changed
        });
        Ok(())
    }

    fn note_unreadable(&mut self) {
        self.counts.count_reload(false);
    }
}

/// Writes to the log when the served certificate has to be replaced.
async fn remind(tls: Tls) {
    let mut reminder = Reminder::default();
    let mut check = tokio::time::interval(EXPIRY_CHECK);
    loop {
        check.tick().await;
        let file = tls.files.cert_file.display();
        match reminder.due(clock::unix_seconds(), tls.served.load().not_after) {
            None | Some(Expiry::Distant) => {}
            Some(Expiry::Soon { hours }) => {
                tracing::warn!(
                    "the certificate in `{file}` expires in {hours} hours: replace the file, no restart is needed"
                );
            }
            Some(Expiry::Over) => {
                tracing::error!(
                    "the certificate in `{file}` has expired, and clients refuse it: replace the file, no restart is needed"
                );
            }
        }
    }
}

impl Served {
    /// Builds configurations for TLS 1.2 and 1.3 with this identity. If there are authorities, a client may present a
    /// certificate; one that is presented has to be valid and issued by them, or the connection is refused.
    ///
    /// `contents` are those of certificate, key and, if there are any, authorities.
    fn of(files: &TlsFiles, contents: &[Vec<u8>]) -> Result<Served, TlsError> {
        let TlsFiles { cert_file, key_file, client_ca_file } = files;
        let of = |i: usize| contents.get(i).map(Vec::as_slice).unwrap_or_default();
        let chain = pem::certificates(cert_file, of(0))?;
        let private_key = pem::private_key(key_file, of(1))?;
        let not_after = chain
            .first()
            .map_or(Ok(0), |certificate| auth::not_after(certificate))
            .map_err(|error| pem::unusable(cert_file, &error.to_string()))?;
        let builder = match client_ca_file {
            None => builder(cert_file)?.with_no_client_auth(),
            Some(path) => {
                let authorities = Arc::new(pem::authorities(path, of(2))?);
                let provider = Arc::new(ring::default_provider());
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| pem::unusable(path, &error.to_string()))?;
                builder(cert_file)?.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, private_key).map_err(|error| {
            let reason = match error {
                rustls::Error::InconsistentKeys(_) => {
                    "the private key is not the certificate's".to_owned()
                }
                other => other.to_string(),
            };
            let (cert_file, key_file) = (cert_file.clone(), key_file.clone());
            TlsError::Identity { cert_file, key_file, reason }
        })?;
        // A resumed session is not checked again: a client whose certificate has expired since would get in.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let with_alpn = |protocol: Protocol| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.alpn()];
            Arc::new(config)
        };
        Ok(Served { grpc: with_alpn(Protocol::Grpc), http: with_alpn(Protocol::Http), not_after })
    }
}

fn builder(
    cert_file: &std::path::Path,
) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, TlsError> {
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| pem::unusable(cert_file, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let garbage = write("garbage.pem", garbage);
        let none = directory.path().join("none");
        let served = |cert_file: &Path, key_file: &Path, client_ca_file: Option<&Path>| {
            let files = TlsFiles {
                cert_file: cert_file.to_owned(),
                key_file: key_file.to_owned(),
                client_ca_file: client_ca_file.map(Path::to_owned),
            };
            let paths = [Some(cert_file), Some(key_file), client_ca_file];
            let paths: Vec<_> = paths.into_iter().flatten().map(Path::to_owned).collect();
            let served =
                read_all(&paths).map_err(TlsError::from).and_then(|read| Served::of(&files, &read));
            served.map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(served(&cert, &key, Some(&cert)), Ok(()));
        for (cert_file, key_file, authority, expected) in [
            (
                &cert,
                &wrong,
                None,
                ["tls.crt", "other.key", "the private key is not the certificate's"],
            ),
            (&empty, &key, None, ["empty.pem", "holds no certificate", ""]),
            (&key, &key, None, ["tls.key", "holds no certificate", ""]),
            (&cert, &cert, None, ["tls.crt", "holds no unencrypted private key", ""]),
            (&cert, &none, None, ["cannot read", "none", ""]),
            (&garbage, &key, None, ["garbage.pem", "is not a certificate", ""]),
            (&cert, &key, Some(empty.as_path()), ["empty.pem", "holds no certificate", ""]),
            (&cert, &key, Some(garbage.as_path()), ["garbage.pem", "holds no authority", ""]),
        ] {
            let error = served(cert_file, key_file, authority).unwrap_err();
            assert!(expected.iter().all(|text| error.contains(text)), "{error}");
        }
    }
}
