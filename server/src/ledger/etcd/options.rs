//! How a replica reaches its ledger in etcd: settings, and the files of its credentials.

use std::path::PathBuf;
use std::time::Duration;

use berth_etcd::{Client, ClientOptions, OptionsError, Password, Tls};

use crate::reload::{self, ReadError, Reloads, Watched};

/// How a replica reaches its ledger in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// URLs of the members.
    pub endpoints: Vec<String>,
    /// Start of all keys, such as `/berth/CLUSTER`.
    pub prefix: String,
    /// Name of this replica, which no other one has.
    pub name: String,
    /// URL at which other replicas reach this one's gRPC services; empty where none does.
    pub address: String,
    /// Files of mutual TLS towards other replicas; plain text without them.
    pub peers: Option<PeerFiles>,
    /// Time after which another replica may commit if this one is silent; in whole seconds, and etcd has a least time.
    pub lease: Duration,
    /// Longest time to wait for one answer of one member.
    pub timeout: Duration,
    /// The authority's certificate, for `https://`.
    pub ca_file: Option<PathBuf>,
    /// Certificate and private key that name this client.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// User, and the file whose first line is the password.
    pub password: Option<(String, PathBuf)>,
}

/// Files of a replica's mutual TLS towards the others, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFiles {
    /// Authorities that vouch for the other replicas.
    pub ca_file: PathBuf,
    /// Certificate of this replica as a client.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
    /// Name in the certificates of the other replicas; the host of their addresses without it.
    pub server_name: Option<String>,
}

impl Default for EtcdOptions {
    fn default() -> EtcdOptions {
        EtcdOptions {
            endpoints: Vec::new(),
            prefix: "/berth".to_owned(),
            name: "berth".to_owned(),
            address: String::new(),
            peers: None,
            lease: Duration::from_secs(3),
            timeout: Duration::from_secs(1),
            ca_file: None,
            identity: None,
            password: None,
        }
    }
}

/// Reason why a ledger in etcd cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EtcdStartError {
    /// A file of the credentials cannot be read.
    #[error("the ledger in etcd: {0}")]
    Read(#[from] ReadError),
    /// The settings or the files cannot be used.
    #[error("the ledger in etcd: {0}")]
    Options(#[from] OptionsError),
    /// The password's file has none.
    #[error("the ledger in etcd: `{}` holds no password in its first line", .0.display())]
    Password(PathBuf),
}

/// The credentials of a client, read anew when their files change.
pub(crate) struct Credentials {
    options: EtcdOptions,
    client: Client,
}

impl EtcdOptions {
    /// The files of the credentials.
    fn files(&self) -> Vec<PathBuf> {
        let identity = self.identity.iter().flat_map(|(cert, key)| [cert, key]);
        let password = self.password.iter().map(|(_, file)| file);
        self.ca_file.iter().chain(identity).chain(password).cloned().collect()
    }

    /// What the client is made of; `contents` are those of [`EtcdOptions::files`].
    fn client_options(&self, contents: &[Vec<u8>]) -> Result<ClientOptions, EtcdStartError> {
        let mut contents = contents.iter().cloned();
        let mut next = || contents.next().unwrap_or_default();
        let ca = self.ca_file.as_ref().map(|_| next());
        let identity = self.identity.as_ref().map(|_| (next(), next()));
        let password = self.password.as_ref().map(|(user, file)| {
            let text = String::from_utf8_lossy(&next()).into_owned();
            let password = text.lines().next().unwrap_or_default().to_owned();
            match password.is_empty() {
                true => Err(EtcdStartError::Password(file.clone())),
                false => Ok(Password { user: user.clone(), password }),
            }
        });
        Ok(ClientOptions {
            endpoints: self.endpoints.clone(),
            tls: ca.map(|ca| Tls { ca, identity }),
            password: password.transpose()?,
            timeout: self.timeout,
        })
    }

    /// Reads the files and makes a client.
    pub(super) fn connect(&self) -> Result<(Client, Vec<Vec<u8>>), EtcdStartError> {
        let contents = reload::read_all(&self.files())?;
        Ok((Client::new(&self.client_options(&contents)?)?, contents))
    }

    /// What has to be watched for `client`; `contents` are those in force. `None` without files.
    pub(super) fn watched(
        &self,
        client: &Client,
        contents: &[Vec<u8>],
    ) -> Option<(Watched, Credentials)> {
        let files = self.files();
        let watched = Watched::new("the files for etcd", files.clone(), contents);
        let credentials = Credentials { options: self.clone(), client: client.clone() };
        (!files.is_empty()).then_some((watched, credentials))
    }
}

impl Reloads for Credentials {
    fn reload(&mut self, contents: &[Vec<u8>]) -> Result<(), String> {
        let options = self.options.client_options(contents).map_err(|error| error.to_string())?;
        self.client.renew(&options).map_err(|error| error.to_string())
    }

    fn note_unreadable(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::{EtcdOptions, EtcdStartError};

    #[test]
    fn files_are_read_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, contents: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, contents).unwrap();
            path
        };
        let options = EtcdOptions {
            endpoints: vec!["https://127.0.0.1:1".to_owned()],
            ca_file: Some(file("ca", "CA")),
            identity: Some((file("cert", "CERT"), file("key", "KEY"))),
            password: Some(("berth".to_owned(), file("password", "secret\nmore"))),
            ..EtcdOptions::default()
        };
        let contents = crate::reload::read_all(&options.files()).unwrap();
        let client = options.client_options(&contents).unwrap();
        let tls = client.tls.unwrap();
        assert_eq!((&*tls.ca, tls.identity), (&b"CA"[..], Some((b"CERT".into(), b"KEY".into()))));
        assert_eq!(client.password.unwrap().password, "secret");
        let empty = file("empty", "\n");
        let options = EtcdOptions { password: Some(("berth".to_owned(), empty)), ..options };
        let contents = crate::reload::read_all(&options.files()).unwrap();
        let error = options.client_options(&contents).unwrap_err();
        assert!(matches!(error, EtcdStartError::Password(_)), "{error}");
        let missing = EtcdOptions { ca_file: Some("nowhere".into()), ..EtcdOptions::default() };
        assert!(missing.connect().unwrap_err().to_string().contains("nowhere"));
    }
}
