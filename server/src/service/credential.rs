//! Credential: what the caller of a stream presented, to be looked at again as long as the stream is open: a token may be
//! revoked, and a certificate expires.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::watch;

use crate::auth::{Auth, AuthError};
use crate::net::Peer;

/// Interval at which a certificate is looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// The credential of a stream's caller.
#[derive(Clone)]
pub(crate) struct Credential {
    auth: Arc<Auth>,
    peer: Option<Arc<Peer>>,
    /// The header with the token, if there is one.
    headers: HeaderMap,
    reloads: watch::Receiver<u64>,
}

/// Ends with the reason why the caller is not known any more.
pub(crate) type Revoked = Pin<Box<dyn Future<Output = AuthError> + Send>>;

impl Credential {
    pub(crate) fn of(
        auth: &Arc<Auth>,
        peer: Option<&Arc<Peer>>,
        headers: &HeaderMap,
    ) -> Credential {
        let token = headers.get(AUTHORIZATION).cloned();
        Credential {
            auth: auth.clone(),
            peer: peer.cloned(),
            headers: token.into_iter().map(|token| (AUTHORIZATION, token)).collect(),
            reloads: auth.reloads(),
        }
    }

    /// Looks again, if credentials were read again since.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` for one that was revoked.
    pub(crate) fn check(&mut self) -> Result<(), AuthError> {
        // The sender lives as long as the server.
        if self.reloads.has_changed().unwrap_or(false) {
            self.reloads.mark_unchanged();
            self.look()?;
        }
        Ok(())
    }

    fn look(&self) -> Result<(), AuthError> {
        let identity = self.peer.as_deref().map(|peer| &peer.identity);
        self.auth.authenticate(identity, &self.headers).map(drop)
    }

    /// Waits until the credential is not known any more.
    pub(crate) fn revoked(mut self) -> Revoked {
        let certificate = self.peer.as_ref().and_then(|peer| peer.identity.certificate.as_ref());
        let not_after = certificate.map(|certificate| certificate.not_after);
        Box::pin(async move {
            loop {
                // Without a certificate, or with a token that takes precedence over it, only a reload matters.
                let is_timed = not_after.is_some() && self.headers.is_empty();
                let interval = if is_timed { INTERVAL } else { Duration::MAX };
                drop(tokio::time::timeout(interval, self.reloads.changed()).await);
                if let Err(error) = self.look() {
                    return error;
                }
            }
        })
    }
}
