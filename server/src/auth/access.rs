//! Access: what a handler asks of its caller where the method alone does not say what the call takes.

use std::sync::{Arc, LazyLock};

use super::{Caller, Role, Roles};
use crate::audit::Changes;
use crate::grpc::CallError;

/// A call's caller, and by what its handler tells that the call changes something.
#[derive(Clone)]
pub(crate) struct Access {
    caller: Arc<Caller>,
    changes: Option<Changes>,
}

/// Of a request that came another way than through [`crate::grpc::CallService`]: it may do nothing.
static STRANGER: LazyLock<Arc<Caller>> =
    LazyLock::new(|| Arc::new(Caller::unauthenticated(Roles::NONE)));

impl Access {
    /// That of the request with these extensions; without a caller in them, one that may do nothing.
    pub(crate) fn of(extensions: &http::Extensions) -> Access {
        Access {
            caller: extensions.get::<Arc<Caller>>().unwrap_or(&STRANGER).clone(),
            changes: extensions.get::<Changes>().cloned(),
        }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Asks for leave to change something that others see. To be asked before anything is changed; for each message of a stream.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` without `role`; `RESOURCE_EXHAUSTED` or `UNAVAILABLE` where the call could not be audited.
    pub(crate) fn to_change(&self, role: Role) -> Result<(), CallError> {
        let allowed = self.caller.check(role);
        match (&self.changes, allowed) {
            (Some(changes), Ok(())) => changes.begin(),
            (Some(changes), Err(error)) => {
                changes.note_denied();
                Err(error)
            }
            (None, allowed) => allowed,
        }
    }
}

#[cfg(test)]
impl Access {
    /// May do everything, as on a server that asks nobody.
    pub(crate) fn open() -> Access {
        Access { caller: Arc::new(Caller::unauthenticated(Roles::ALL)), changes: None }
    }
}
