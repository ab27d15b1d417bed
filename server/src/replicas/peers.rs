//! Peers: connections to other replicas, one for each address, made when they are first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::ledger::PeerFiles;
use crate::reload::{self, ReadError, Reloader, Reloads, Watched};

/// Longest time to wait for a connection, and for a sign of life of one.
const PATIENCE: Duration = Duration::from_millis(900);
/// Number of addresses from which those that were used are forgotten: there are as many as replicas, unless they move.
const MAX_ADDRESSES: usize = 64;

/// Reason why other replicas cannot be reached with these files.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// A file cannot be read.
    #[error("the files for other replicas: {0}")]
    Read(#[from] ReadError),
    /// The files cannot be used.
    #[error("the files for other replicas cannot be used: {0}")]
    Tls(String),
}

/// Connections to other replicas.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Name in the certificates of the others, where it is not the host of their addresses.
    server_name: Option<String>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    tls: Option<ClientTlsConfig>,
    channels: HashMap<String, Channel>,
}

impl Peers {
    /// Connections with these credentials, which `reloader` watches; in plain text without.
    ///
    /// # Errors
    /// [`PeersError`].
    pub(crate) fn start(
        files: Option<&PeerFiles>,
        reloader: &Reloader,
    ) -> Result<Arc<Peers>, PeersError> {
        let server_name = files.and_then(|files| files.server_name.clone());
        let peers = Arc::new(Peers { server_name, ..Peers::default() });
        if let Some(files) = files {
            let PeerFiles { ca_file, cert_file, key_file, .. } = files;
            let paths = [ca_file, cert_file, key_file].map(Clone::clone);
            let contents = reload::read_all(&paths)?;
            peers.renew(&contents).map_err(PeersError::Tls)?;
            let watched = Watched::new("the files for other replicas", paths.to_vec(), &contents);
            reloader.watch(watched, Renewing(peers.clone()));
        }
        Ok(peers)
    }

    /// The connection to the replica at `address`.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(crate) fn channel(&self, address: &str) -> Result<Channel, String> {
        let mut known = self.known();
        if let Some(channel) = known.channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = endpoint(address, known.tls.as_ref())?.connect_lazy();
        if known.channels.len() >= MAX_ADDRESSES {
            known.channels.clear();
        }
        known.channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Takes new credentials; connections are made anew with them, while calls under way end on the old ones.
    fn renew(&self, contents: &[Vec<u8>]) -> Result<(), String> {
        let [ca, certificate, key] = contents else { return Err("a file is missing".to_owned()) };
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(ca))
            .identity(Identity::from_pem(certificate, key));
        if let Some(name) = &self.server_name {
            tls = tls.domain_name(name);
        }
        // Finds out whether they can be used at all.
        endpoint("https://localhost:1", Some(&tls))?;
        *self.known() = Known { tls: Some(tls), channels: HashMap::new() };
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change leaves it whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Renewing(Arc<Peers>);

impl Reloads for Renewing {
    fn reload(&mut self, contents: &[Vec<u8>]) -> Result<(), String> {
        self.0.renew(contents)
    }

    fn note_unreadable(&mut self) {}
}

fn endpoint(address: &str, tls: Option<&ClientTlsConfig>) -> Result<Endpoint, String> {
    let text = |error: tonic::transport::Error| crate::words::causes(&error);
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(text)?;
    let endpoint = endpoint
        .connect_timeout(PATIENCE)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PATIENCE)
        .keep_alive_timeout(PATIENCE);
    match (endpoint.uri().scheme_str(), tls) {
        (Some("http"), None) => Ok(endpoint),
        (Some("https"), Some(tls)) => endpoint.tls_config(tls.clone()).map_err(text),
        (Some("https"), None) => Err("`https://` needs the files for other replicas".to_owned()),
        (Some("http"), Some(_)) => {
            Err("the files for other replicas are for `https://`".to_owned())
        }
        _ => Err("it has to begin with `http://` or `https://`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Peers, endpoint};

    #[test]
    fn an_address_that_cannot_be_used_is_told() {
        for (address, reason) in [
            ("ftp://a:1", "has to begin with"),
            ("https://a:1", "needs the files"),
            ("http://a b", "invalid"),
        ] {
            let refused = endpoint(address, None).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        let peers = Peers::default();
        let garbage = [b"no".to_vec(), b"PEM".to_vec(), b"at all".to_vec()];
        assert!(peers.renew(&garbage).is_err());
        assert!(peers.renew(&[]).is_err());
    }
}
