//! Target: the cluster of a request, the live one, a session's fork, or a fork for this call alone.

use std::ops::Deref;
use std::sync::Arc;

use berth_engine::{Cluster, PodKey};

use super::error::CallError;
use super::session_table::InUse;

pub(crate) enum Target {
    Live(Arc<Cluster>),
    /// A session, which does not expire while this value lives.
    Session(InUse),
    /// A private fork with what the request supposes, which ends with the call.
    Supposed(Arc<Cluster>),
}

impl Target {
    /// Whether changes are visible in a session only, or in this call only.
    pub(crate) fn is_hypothetical(&self) -> bool {
        matches!(self, Target::Session(_) | Target::Supposed(_))
    }

    /// Reserves room for `n` changes in a session; [`Target::release`] gives back what is not used.
    ///
    /// # Errors
    /// [`CallError::SessionTooLarge`]; nothing is reserved then.
    pub(crate) fn reserve(&self, n: usize) -> Result<(), CallError> {
        match self {
            Target::Live(_) | Target::Supposed(_) => Ok(()),
            Target::Session(session) => session.reserve(n),
        }
    }

    /// Gives back reserved room that was not used.
    pub(crate) fn release(&self, n: usize) {
        match self {
            Target::Live(_) | Target::Supposed(_) => {}
            Target::Session(session) => session.release(n),
        }
    }

    /// Undoes assumptions in a session, each of which holds one change.
    pub(crate) fn take_back_in_session(&self, pods: &[(PodKey, Arc<str>)]) {
        if self.is_hypothetical() && !pods.is_empty() {
            self.take_back(pods);
            self.release(pods.len());
        }
    }

    /// Undoes nominations, each of which holds one change in a session.
    pub(crate) fn withdraw(&self, nominated: &[(PodKey, Arc<str>)]) {
        if !nominated.is_empty() {
            self.withdraw_nominations(nominated);
            self.release(nominated.len());
        }
    }
}

impl Deref for Target {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match self {
            Target::Live(cluster) | Target::Supposed(cluster) => cluster,
            Target::Session(session) => session.cluster(),
        }
    }
}
