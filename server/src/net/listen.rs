//! Listen: the addresses that may be listened on. Strangers can reach an address beyond loopback: there the server has
//! to authenticate itself and its callers.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// A listener that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The system refuses the address.
    #[error("cannot listen for {protocol} on `{address}`: {}", reason(source))]
    Bind {
        /// `gRPC` or `HTTP`.
        protocol: &'static str,
        /// The configured address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// An address beyond loopback without TLS or authentication.
    #[error(
        "refusing to listen for {protocol} on `{address}`: {missing}; or use a loopback address, or `--insecure` behind a NetworkPolicy"
    )]
    Insecure {
        /// `gRPC` or `HTTP`.
        protocol: &'static str,
        /// The configured address.
        address: SocketAddr,
        /// The missing protection, and the flags that add it.
        missing: &'static str,
    },
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the address is already in use".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// Protection of the listeners against strangers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    /// True if the listeners use TLS.
    pub(crate) has_identity: bool,
    /// True if callers are authenticated by certificates or tokens, and all others can read at most.
    pub(crate) authenticates: bool,
    /// True if the operator allows listening without protection.
    pub(crate) insecure: bool,
}

impl Guard {
    /// The protection that `address` lacks, and the flags that add it; `None` if nothing is missing.
    fn missing(self, address: SocketAddr) -> Option<&'static str> {
        if address.ip().to_canonical().is_loopback() || self.insecure {
            return None;
        }
        match (self.has_identity, self.authenticates) {
            (true, true) => None,
            (false, false) => Some(
                "anybody who reaches it could read along and ask everything; give it a certificate (`--tls-cert-file`, `--tls-private-key-file`) and a way to know callers (`--tls-client-ca-file` or `--token-file`)",
            ),
            (false, true) => Some(
                "anybody on the way could read along, tokens included; give it a certificate (`--tls-cert-file`, `--tls-private-key-file`)",
            ),
            (true, false) => Some(
                "callers are not authenticated, and whoever reaches it may ask everything; give it a way to know them (`--tls-client-ca-file` or `--token-file`), or let those who show nothing read (`auth.roleBindings` of `system:anonymous`)",
            ),
        }
    }
}

/// Listens on `address`; returns the listener and its address with the actual port.
///
/// # Errors
/// [`ListenError::Insecure`] if `guard` is not enough, [`ListenError::Bind`].
pub(crate) async fn listen(
    protocol: &'static str,
    address: SocketAddr,
    guard: Guard,
) -> Result<(TcpListener, SocketAddr), ListenError> {
    if let Some(missing) = guard.missing(address) {
        return Err(ListenError::Insecure { protocol, address, missing });
    }
    let failed = |source| ListenError::Bind { protocol, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_both_are_needed() {
        let guard =
            |has_identity, authenticates| Guard { has_identity, authenticates, insecure: false };
        for address in ["127.0.0.1:1", "[::1]:1", "127.3.2.1:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(guard(false, false).missing(address.parse().unwrap()), None, "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            let address = address.parse().unwrap();
            assert!(guard(false, false).missing(address).unwrap().contains("`--tls-cert-file`"));
            assert!(guard(false, true).missing(address).unwrap().contains("`--tls-cert-file`"));
            assert!(guard(true, false).missing(address).unwrap().contains("`--token-file`"));
            assert_eq!(guard(true, true).missing(address), None);
            assert_eq!(Guard { insecure: true, ..guard(false, false) }.missing(address), None);
        }
    }
}
