//! Caller: who calls, as far as it was proven.

use std::sync::Arc;

use super::{AuthError, Role, Roles};

/// How a caller proved who it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// Not at all.
    Nothing,
    /// By a certificate of an authority that clients are known by.
    Certificate,
    /// By a bearer token.
    Token,
}

impl Means {
    /// Each of them.
    pub const ALL: [Means; 3] = [Means::Nothing, Means::Certificate, Means::Token];

    /// As metrics and audit lines name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Means::Nothing => "nothing",
            Means::Certificate => "certificate",
            Means::Token => "token",
        }
    }
}

/// Who calls. Travels in the request's extensions as `Arc<Caller>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// As the credential names it; without one `system:anonymous`, and `anonymous` where nobody is asked.
    pub user: Arc<str>,
    /// What it belongs to, as the credential says.
    pub groups: Box<[Box<str>]>,
    /// What it may do.
    pub roles: Roles,
    /// How it proved who it is.
    pub means: Means,
}

impl Caller {
    pub(crate) fn unauthenticated(roles: Roles) -> Caller {
        Caller { user: "anonymous".into(), groups: Box::default(), roles, means: Means::Nothing }
    }

    /// # Errors
    /// `PERMISSION_DENIED` without a role that allows what `role` may do.
    pub(crate) fn check(&self, role: Role) -> Result<(), AuthError> {
        if self.roles.allow(role) {
            return Ok(());
        }
        Err(AuthError::PermissionDenied { user: self.user.to_string(), role })
    }

    /// Whether what `user` has opened is this caller's to use.
    pub(crate) fn may_use_what_belongs_to(&self, user: &str) -> bool {
        *self.user == *user || self.roles.allow(Role::Admin)
    }
}
