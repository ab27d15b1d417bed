//! A server with certificates of its own, and clients that control every byte that they send.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use berth_client::{Client, Credentials};
use berth_server::net::TlsFiles;
use berth_server::runtime::{Server, ServerOptions};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::authority::{Authority, Identity};

/// The time after which a wait fails: long enough for the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) authority: Authority,
    pub(crate) directory: TempDir,
}

/// A port of the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Grpc,
    Http,
}

impl World {
    /// Starts a server with TLS and without client certificates.
    pub(crate) async fn open() -> World {
        World::with(false, ServerOptions::default()).await
    }

    /// Starts a server with TLS that identifies callers by their certificates.
    pub(crate) async fn with_client_certificates() -> World {
        World::with(true, ServerOptions::default()).await
    }

    pub(crate) async fn with(knows_clients: bool, options: ServerOptions) -> World {
        let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
        let (cert_file, key_file) = authority.server().write(directory.path(), "tls");
        let authority_file = directory.path().join("ca.crt");
        std::fs::write(&authority_file, authority.pem()).unwrap();
        let client_ca_file = knows_clients.then_some(authority_file);
        let tls = Some(TlsFiles { cert_file, key_file, client_ca_file });
        let server = Server::start(ServerOptions { tls, ..options }).await.unwrap();
        World { server, authority, directory }
    }

    pub(crate) fn port(&self, port: Port) -> u16 {
        match port {
            Port::Grpc => self.server.grpc_address().port(),
            Port::Http => self.server.http_address().port(),
        }
    }

    /// Connects with the client of the command line.
    pub(crate) async fn client(&self, identity: Option<&Identity>) -> Client {
        let mut credentials = Credentials::trusting(self.directory.path().join("ca.crt"));
        if let Some(identity) = identity {
            let (certificate, key) = identity.write(self.directory.path(), "client");
            credentials.client_cert_file = Some(certificate);
            credentials.client_key_file = Some(key);
        }
        let url = format!("https://localhost:{}", self.port(Port::Grpc));
        Client::connect_with(&url, 1, &credentials).await.unwrap()
    }

    /// Opens a connection with TLS.
    pub(crate) async fn secure(
        &self,
        port: Port,
        identity: Option<&Identity>,
    ) -> io::Result<TlsStream<TcpStream>> {
        self.secure_as("localhost", port, identity).await
    }

    pub(crate) async fn secure_as(
        &self,
        name: &'static str,
        port: Port,
        identity: Option<&Identity>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut authorities = RootCertStore::empty();
        authorities.add(self.authority.der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(authorities);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                builder.with_client_auth_cert(vec![identity.der()], identity.key_der()).unwrap()
            }
        };
        config.alpn_protocols = match port {
            Port::Grpc => vec![b"h2".to_vec()],
            Port::Http => vec![b"http/1.1".to_vec()],
        };
        let stream = TcpStream::connect(("127.0.0.1", self.port(port))).await?;
        let name = ServerName::try_from(name).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Returns the certificate that the server presents to a new connection.
    pub(crate) async fn served(&self, port: Port) -> CertificateDer<'static> {
        let stream = self.secure(port, None).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// The answer to a GET of `path` over a connection of its own.
    pub(crate) async fn get(&self, path: &str, identity: Option<&Identity>) -> io::Result<String> {
        let mut stream = self.secure(Port::Http, identity).await?;
        get(&mut stream, path).await
    }

    /// The value of a metric, by its whole name with labels.
    pub(crate) async fn metric(&self, name: &str, identity: Option<&Identity>) -> f64 {
        let answer = self.get("/metrics", identity).await.unwrap();
        let line = answer.lines().find(|line| line.split_once(' ').is_some_and(|(n, _)| n == name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{answer}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// The answer to a GET of `path`, after which the server closes.
pub(crate) async fn get(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let answer = patiently("an answer", read_all(stream)).await?;
    Ok(String::from_utf8(answer).unwrap())
}

/// Reads until the server closes the connection.
pub(crate) async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// Waits until the server ends the connection, in whatever way; returns what it sent before.
pub(crate) async fn closed(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset connection has ended too.
    drop(patiently("the server to close", stream.read_to_end(&mut bytes)).await);
    bytes
}

pub(crate) async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// Tries until `condition` holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    patiently(what, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
