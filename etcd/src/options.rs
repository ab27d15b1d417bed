//! How a client reaches etcd, checked before it connects.

use std::fmt;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// How a client reaches etcd.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// URLs of the members, at least one: `http://HOST:PORT`, or `https://HOST:PORT` with `tls`.
    pub endpoints: Vec<String>,
    /// Certificates, for `https://`.
    pub tls: Option<Tls>,
    /// User and password, if etcd's authentication is on and no certificate names the user.
    pub password: Option<Password>,
    /// Longest time to wait for one answer of one member.
    pub timeout: Duration,
}

/// Certificates in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Certificate of the authority that vouches for the members.
    pub ca: Vec<u8>,
    /// Certificate and private key of the client, if the members ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// A user of etcd. `Debug` does not show the password.
#[derive(Clone)]
pub struct Password {
    /// Name of the user.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Password").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Reason why a client cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// No member is named.
    #[error("no endpoint of etcd is given")]
    NoEndpoint,
    /// A URL cannot be used.
    #[error("`{endpoint}` cannot be used as an endpoint of etcd: {reason}")]
    Endpoint {
        /// The URL.
        endpoint: String,
        /// Reason why the URL cannot be used.
        reason: String,
    },
}

impl ClientOptions {
    /// The members as tonic's endpoints.
    pub(crate) fn members(&self) -> Result<Vec<Endpoint>, OptionsError> {
        if self.endpoints.is_empty() {
            return Err(OptionsError::NoEndpoint);
        }
        let member = |text: &String| {
            let refused =
                |reason: String| OptionsError::Endpoint { endpoint: text.clone(), reason };
            self.member(text).map_err(refused)
        };
        self.endpoints.iter().map(member).collect()
    }

    fn member(&self, text: &str) -> Result<Endpoint, String> {
        let endpoint = Endpoint::from_shared(text.to_owned()).map_err(|error| error.to_string())?;
        let endpoint = endpoint
            .connect_timeout(self.timeout)
            .tcp_nodelay(true)
            // A member that was stopped, or is behind a cut, is noticed also while nothing is sent.
            .http2_keep_alive_interval(self.timeout)
            .keep_alive_timeout(self.timeout)
            .keep_alive_while_idle(true);
        match (endpoint.uri().scheme_str(), &self.tls) {
            (Some("http"), None) => Ok(endpoint),
            (Some("http"), Some(_)) => Err("certificates are for `https://`".to_owned()),
            (Some("https"), Some(tls)) => {
                let mut config =
                    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
                if let Some((certificate, key)) = &tls.identity {
                    config = config.identity(Identity::from_pem(certificate, key));
                }
                endpoint.tls_config(config).map_err(|error| cause(&error))
            }
            (Some("https"), None) => Err("`https://` needs the authority's certificate".to_owned()),
            _ => Err("it has to begin with `http://` or `https://`".to_owned()),
        }
    }
}

/// The error and what caused it.
fn cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ClientOptions, OptionsError, Password, Tls};

    fn options(endpoints: &[&str], tls: Option<Tls>) -> ClientOptions {
        ClientOptions {
            endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
            tls,
            password: None,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn an_endpoint_that_cannot_be_used_is_named() {
        assert_eq!(options(&[], None).members().unwrap_err(), OptionsError::NoEndpoint);
        let tls = Tls { ca: b"no certificate".to_vec(), identity: None };
        for (endpoint, tls, reason) in [
            ("127.0.0.1:2379", None, "has to begin with"),
            ("https://127.0.0.1:2379", None, "needs the authority's certificate"),
            ("http://127.0.0.1:2379", Some(tls.clone()), "certificates are for"),
            ("ftp://127.0.0.1:2379", Some(tls), "has to begin with"),
            ("http://a b:1", None, "invalid"),
        ] {
            let error = options(&[endpoint], tls).members().unwrap_err().to_string();
            let named = format!("`{endpoint}` cannot be used as an endpoint of etcd: ");
            assert!(error.starts_with(&named) && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let password = Password { user: "berth".to_owned(), password: "secret".to_owned() };
        assert!(!format!("{password:?}").contains("secret"));
    }
}
