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
}

/// Caller of a request that its transport did not authorize: it has no rights.
static STRANGER: LazyLock<Arc<Caller>> =
    LazyLock::new(|| Arc::new(Caller::unauthenticated(Roles::NONE)));

impl Access {
    /// The access of a request with these extensions; without a caller in them, no rights at all.
    pub(crate) fn of(extensions: &http::Extensions) -> Access {
        Access {
            caller: extensions.get::<Arc<Caller>>().unwrap_or(&STRANGER).clone(),
            changes: extensions.get::<Changes>().cloned(),
        }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Checks the permission to change something that others see. Called before each change, for each message of a
    /// stream.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` without `role`; `RESOURCE_EXHAUSTED` or `UNAVAILABLE` where the call could not be audited.
    pub(crate) fn to_change(&self, role: Role) -> Result<(), CallError> {
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
}

#[cfg(test)]
impl Access {
    /// Access with all rights, as on a server without authentication.
    pub(crate) fn open() -> Access {
        Access { caller: Arc::new(Caller::unauthenticated(Roles::ALL)), changes: None }
    }
}
