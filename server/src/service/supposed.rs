//! Supposed: a private fork of a call's cluster, with the objects that its request supposes. The transport makes it while
//! it reads the request, the handler decides on it, and it ends with the call: nothing has to be taken back, however the
//! call ends.

use std::fmt;
use std::sync::{Arc, OnceLock};

use berth_engine::Cluster;

use super::access::Access;
use super::error::CallError;
use super::state::State;
use super::target::Target;
use crate::auth::Caller;

/// The fork of one call. The transport puts it into the request's extensions; every clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Supposed(Arc<Slots>);

#[derive(Default)]
struct Slots {
    /// The caller, once it is authenticated.
    access: OnceLock<Access>,
    fork: OnceLock<Fork>,
}

/// A fork with what is supposed.
#[derive(Clone)]
pub(crate) struct Fork {
    /// The cluster to decide on.
    pub(crate) cluster: Arc<Cluster>,
    /// What is supposed, in a form that differs whenever that does.
    pub(crate) digest: Arc<[u8]>,
}

impl fmt::Debug for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("digest", &self.digest.len()).finish_non_exhaustive()
    }
}

impl Supposed {
    /// Notes the caller, so that the transport may read what the caller may read.
    pub(crate) fn note_access(&self, access: Access) {
        // The first caller stays: a call has one.
        drop(self.0.access.set(access));
    }

    /// The caller.
    ///
    /// # Errors
    /// A call that was not authenticated.
    pub(crate) fn caller(&self) -> Result<Arc<Caller>, CallError> {
        self.0.access.get().map(Access::shared_caller).ok_or(CallError::Broken)
    }

    /// The cluster of the caller's request in the session `session_id`, or the live cluster if that is empty.
    ///
    /// # Errors
    /// [`CallError::NoSuchSession`], a cluster that is not ready, a call that was not authenticated.
    pub(crate) fn base(&self, state: &State, session_id: &str) -> Result<Target, CallError> {
        state.check_decidable()?;
        let access = self.0.access.get().ok_or(CallError::Broken)?;
        state.target(access, session_id)
    }

    /// Sets the fork that the handler decides on.
    pub(crate) fn set(&self, fork: Fork) {
        // A request is read once.
        drop(self.0.fork.set(fork));
    }

    /// The fork, if the request supposes anything.
    pub(crate) fn fork(&self) -> Option<&Fork> {
        self.0.fork.get()
    }
}
