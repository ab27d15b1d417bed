//! Caller: the authenticated identity of a caller.

use std::sync::Arc;

use super::{AuthError, Role, Roles};

/// Means by which a caller was authenticated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// No credential.
    Nothing,
    /// A certificate of a client authority.
    Certificate,
    /// A bearer token.
    Token,
}

impl Means {
    /// All means.
    pub const ALL: [Means; 3] = [Means::Nothing, Means::Certificate, Means::Token];

    /// Name in metrics and audit lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Means::Nothing => "nothing",
            Means::Certificate => "certificate",
            Means::Token => "token",
        }
    }
}

/// The caller of a request. Travels in the request's extensions as `Arc<Caller>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User name from the credential; without one `system:anonymous`, or `anonymous` if callers are not authenticated.
    pub user: Arc<str>,
    /// Groups from the credential.
    pub groups: Box<[Box<str>]>,
    /// Roles that the caller has.
    pub roles: Roles,
    /// Means by which the caller was authenticated.
    pub means: Means,
}

impl Caller {
    pub(crate) fn unauthenticated(roles: Roles) -> Caller {
        Caller { user: "anonymous".into(), groups: Box::default(), roles, means: Means::Nothing }
    }

    /// Checks that the caller may do what `role` may do.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if no role of the caller allows that.
    pub(crate) fn check(&self, role: Role) -> Result<(), AuthError> {
        if self.roles.allow(role) {
            return Ok(());
        }
        Err(AuthError::PermissionDenied { user: self.user.to_string(), role })
    }

    /// Whether the caller may use what `user` has opened.
    pub(crate) fn may_use_what_belongs_to(&self, user: &str) -> bool {
        *self.user == *user || self.roles.allow(Role::Admin)
    }
}
