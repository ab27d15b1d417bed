//! Access: a call's caller, and the permission to change something.

use std::sync::{Arc, LazyLock};

use super::error::CallError;
use crate::audit::Changes;
use crate::auth::{Caller, Role, Roles};

/// The rights of a call's caller; handlers ask it for permission before they change something.
#[derive(Clone)]
pub(crate) struct Access {
    caller: Arc<Caller>,
    changes: Option<Changes>,
    is_simple: bool,
}

/// Mark of a request over HTTP that a browser would send for any page without asking first: it changes nothing.
#[derive(Copy, Clone, Debug)]
pub(crate) struct SimpleRequest;

/// Caller of a request that its transport did not authorize: it has no rights.
static STRANGER: LazyLock<Arc<Caller>> =
    LazyLock::new(|| Arc::new(Caller::unauthenticated(Roles::NONE)));

impl Access {
    /// The access of a request with these extensions; without a caller in them, no rights at all.
    pub(crate) fn of(extensions: &http::Extensions) -> Access {
        Access {
            caller: extensions.get::<Arc<Caller>>().unwrap_or(&STRANGER).clone(),
            changes: extensions.get::<Changes>().cloned(),
            is_simple: extensions.get::<SimpleRequest>().is_some(),
        }
    }

    /// The access of a caller for what the server does by itself in its name, without a line in the audit log.
    pub(crate) fn of_caller(caller: Arc<Caller>) -> Access {
        Access { caller, changes: None, is_simple: false }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The caller, to be kept.
    pub(crate) fn shared_caller(&self) -> Arc<Caller> {
        self.caller.clone()
    }

    /// Checks the permission to change something that others see. Called before each change, for each message of a
    /// stream.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` without `role`; `INVALID_ARGUMENT` for a [`SimpleRequest`]; `RESOURCE_EXHAUSTED` or `UNAVAILABLE` where the call could not be audited.
    pub(crate) fn to_change(&self, role: Role) -> Result<(), CallError> {
        self.check_declared()?;
        let allowed = self.caller.check(role);
        match (&self.changes, allowed) {
            (Some(changes), Ok(())) => Ok(changes.begin()?),
            (Some(changes), Err(error)) => {
                changes.note_denied();
                Err(error.into())
            }
            (None, allowed) => Ok(allowed?),
        }
    }

    /// Checks that the request may change something as far as its `Content-Type` tells.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a [`SimpleRequest`].
    pub(crate) fn check_declared(&self) -> Result<(), CallError> {
        match self.is_simple {
            true => Err(CallError::field("Content-Type", UNDECLARED)),
            false => Ok(()),
        }
    }
}

const UNDECLARED: &str =
    "a request that changes something needs `application/json` or `application/yaml`";

#[cfg(test)]
impl Access {
    /// Access with all rights, as on a server without authentication.
    pub(crate) fn open() -> Access {
        Access {
            caller: Arc::new(Caller::unauthenticated(Roles::ALL)),
            changes: None,
            is_simple: false,
        }
    }
}
