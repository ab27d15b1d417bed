//! Authentication and authorization: a caller is a user with groups, by its certificate or its bearer token, and its
//! roles decide which methods it may call. A caller without credentials is refused, or reads as `system:anonymous` if
//! the operator allows that.

mod error;
mod caller;
mod role;
mod binding;
mod anonymous;
mod token;
mod token_file;
mod bearer;
mod reload;
mod options;
mod peer;

pub use binding::RoleBinding;
pub use caller::{Caller, Means};
pub use error::AuthError;
pub use options::AuthOptions;
pub(crate) use peer::not_after;
pub use peer::{PeerCertificate, PeerIdentity};
pub use role::{Role, Roles};
pub use token::Tokens;
pub(crate) use token_file::TokenFile;
pub use token_file::TokenFileError;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use http::HeaderMap;

use tokio::sync::watch;

use crate::clock;
use crate::document::ConfigError;
use crate::telemetry::{AuthCounts, AuthOutcome, MeansCounts};
use binding::RoleBindings;

/// Authenticates callers. Without credentials to check, all callers have all rights: such a server listens on loopback,
/// or was started with `--insecure`.
pub(crate) struct Auth {
    nobody: Arc<Caller>,
    /// Settings of authentication; `None` if callers are not authenticated.
    known: Option<Known>,
    /// Number of times that credentials were read again: what was accepted before may have been revoked.
    n_reloads: watch::Sender<u64>,
}

struct Known {
    /// Tokens of the last valid version of the file; empty without a file.
    tokens: ArcSwap<Tokens>,
    takes_tokens: bool,
    takes_certificates: bool,
    /// Caller without credentials; `None` if it is refused.
    anonymous: Option<Arc<Caller>>,
    bindings: RoleBindings,
    counts: AuthCounts,
    /// Counts by means of authentication.
    by_means: [MeansCounts; Means::ALL.len()],
}

impl Auth {
    /// Authentication that is off.
    pub(crate) fn open() -> Auth {
        let nobody = Arc::new(Caller::unauthenticated(Roles::ALL));
        Auth { nobody, known: None, n_reloads: watch::Sender::new(0) }
    }

    /// Authenticates callers by the tokens of a file and, if the listeners check client certificates, by those; a
    /// caller without credentials is anonymous if a binding names it. Returns [`Auth::open`] if there is none of these.
    ///
    /// # Errors
    /// [`TokenFileError::Invalid`] with every error in the file.
    pub(crate) fn new(
        tokens: Option<&TokenFile>,
        role_bindings: &[RoleBinding],
        takes_certificates: bool,
        counts: AuthCounts,
    ) -> Result<Auth, TokenFileError> {
        let by_means = Means::ALL.map(|means| counts.means(means.name()));
        let bindings = RoleBindings::new(role_bindings);
        let anonymous = anonymous::caller(&bindings);
        if tokens.is_none() && !takes_certificates && anonymous.is_none() {
            return Ok(Auth::open());
        }
        if let Some(caller) = &anonymous {
            tracing::info!(user = %caller.user, "whoever shows neither token nor certificate may read");
        }
        let takes_tokens = tokens.is_some();
        let tokens = match tokens {
            Some(file) => {
                token::warn_if_exposed(file.path());
                token::parse(file.path(), file.bytes(), &bindings)
                    .map_err(TokenFileError::Invalid)?
            }
            None => Tokens::default(),
        };
        let known = Known {
            tokens: ArcSwap::from_pointee(tokens),
            takes_tokens,
            takes_certificates,
            anonymous,
            bindings,
            counts,
            by_means,
        };
        Ok(Auth { known: Some(known), ..Auth::open() })
    }

    /// Whether callers are not authenticated.
    pub(crate) fn is_open(&self) -> bool {
        self.known.is_none()
    }

    /// The number of times that credentials were read again.
    pub(crate) fn reloads(&self) -> watch::Receiver<u64> {
        self.n_reloads.subscribe()
    }

    /// Authenticates the caller of a request.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` for an unknown credential, and for none if anonymous callers are refused.
    pub(crate) fn authenticate(
        &self,
        peer: Option<&PeerIdentity>,
        headers: &HeaderMap,
    ) -> Result<Arc<Caller>, AuthError> {
        match &self.known {
            None => Ok(self.nobody.clone()),
            Some(known) => known.authenticate(peer, headers),
        }
    }

    /// Loads the token file anew. If it cannot be used, the earlier tokens stay in force.
    ///
    /// # Errors
    /// [`ConfigError`] with every error in the file.
    fn reload_tokens(&self, path: &Path, bytes: &[u8]) -> Result<(), ConfigError> {
        let Some(known) = &self.known else { return Ok(()) };
        token::warn_if_exposed(path);
        let parsed = token::parse(path, bytes, &known.bindings);
        known.counts.count_reload(parsed.is_ok());
        known.tokens.store(Arc::new(parsed?));
        self.n_reloads.send_modify(|n| *n += 1);
        Ok(())
    }

    /// Counts that the token file could not be read.
    fn note_unreadable_tokens(&self) {
        if let Some(known) = &self.known {
            known.counts.count_reload(false);
        }
    }
}

impl Known {
    fn authenticate(
        &self,
        peer: Option<&PeerIdentity>,
        headers: &HeaderMap,
    ) -> Result<Arc<Caller>, AuthError> {
        let certified = peer.and_then(|peer| Some((peer, peer.certificate.as_ref()?)));
        // A token takes precedence: a caller that sends one intends to use it.
        let (means, found) = match (bearer::token(headers), certified) {
            (Ok(Some(token)), _) => (Means::Token, self.by_token(token)),
            (Err(reason), _) => (Means::Token, Err(reason)),
            (Ok(None), Some((peer, certificate))) => {
                (Means::Certificate, self.by_certificate(certificate, &peer.caller))
            }
            // A caller with an invalid credential never gets here.
            (Ok(None), None) => {
                (Means::Nothing, self.anonymous.clone().ok_or_else(|| self.what_to_send()))
            }
        };
        let outcome = if found.is_ok() { AuthOutcome::Authenticated } else { AuthOutcome::Refused };
        self.by_means[means as usize].count(outcome);
        found.map_err(|reason| AuthError::Unauthenticated { reason })
    }

    fn by_token(&self, token: &[u8]) -> Result<Arc<Caller>, &'static str> {
        if !self.takes_tokens {
            return Err(match self.takes_certificates {
                true => "this server knows nobody by a bearer token: send a client certificate",
                false => "this server knows nobody by a bearer token: send none",
            });
        }
        self.tokens.load().holder(token).ok_or("the bearer token is not known")
    }

    /// The caller of a certificate, as in Kubernetes: the user is the subject's common name, the groups are its
    /// organizations. Computed once per connection.
    fn by_certificate(
        &self,
        certificate: &PeerCertificate,
        caller: &OnceLock<Arc<Caller>>,
    ) -> Result<Arc<Caller>, &'static str> {
        // The handshake may have been long ago.
        if certificate.not_after < clock::unix_seconds() {
            return Err("the client certificate has expired since the connection was made");
        }
        if let Some(caller) = caller.get() {
            return Ok(caller.clone());
        }
        let Some(user) = certificate.common_name.as_deref().filter(|name| !name.is_empty()) else {
            return Err("the subject of the client certificate has no common name (CN)");
        };
        let groups = &certificate.organizations;
        let caller = caller.get_or_init(|| {
            let roles = self.bindings.roles_of(user, groups);
            let (user, groups) = (user.into(), groups.clone().into());
            Arc::new(Caller { user, groups, roles, means: Means::Certificate })
        });
        Ok(caller.clone())
    }

    fn what_to_send(&self) -> &'static str {
        match (self.takes_tokens, self.takes_certificates) {
            (true, true) => {
                "send a bearer token (`authorization: Bearer TOKEN`) or a client certificate"
            }
            (true, false) => "send a bearer token (`authorization: Bearer TOKEN`)",
            (false, _) => "send a client certificate",
        }
    }
}

#[cfg(test)]
mod tests;
