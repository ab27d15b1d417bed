//! Which cluster a request asks: the live one, or the fork of a session.

use std::ops::Deref;
use std::sync::Arc;

use berth_engine::{Cluster, PodKey};

use super::session::InUse;
use super::status::CallError;

pub(crate) enum Asked {
    Live(Arc<Cluster>),
    /// It does not expire while this lives.
    Session(InUse),
}

impl Asked {
    /// Whether what is changed here is seen in a session alone.
    pub(crate) fn is_hypothetical(&self) -> bool {
        matches!(self, Asked::Session(_))
    }

    /// Sees to it that up to `n` changes have room in a session; what is not used goes back with [`Asked::release`].
    ///
    /// # Errors
    /// [`CallError::SessionTooLarge`]; nothing is taken then.
    pub(crate) fn reserve(&self, n: usize) -> Result<(), CallError> {
        match self {
            Asked::Live(_) => Ok(()),
            Asked::Session(session) => session.reserve(n),
        }
    }

    /// Gives back what was reserved and not used.
    pub(crate) fn release(&self, n: usize) {
        match self {
            Asked::Live(_) => {}
            Asked::Session(session) => session.release(n),
        }
    }

    /// Undoes what was assumed for, or promised to, these pods of these uids, each of which holds one change: whoever asked for
    /// it went away and will never learn of it.
    pub(crate) fn give_back(&self, pods: &[(PodKey, Arc<str>)]) {
        if pods.is_empty() {
            return;
        }
        tracing::warn!(
            n_pods = pods.len(),
            "a caller went away before its answer: the pods assumed or nominated for it are given back"
        );
        self.take_back(pods);
        self.release(pods.len());
    }
}

impl Deref for Asked {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match self {
            Asked::Live(cluster) => cluster,
            Asked::Session(session) => session.cluster(),
        }
    }
}
