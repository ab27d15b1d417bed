//! Watchers: tells the callers of `Watch` of each decision as it is made. Without watchers a decision costs one load of
//! a number.

use std::sync::Arc;

use berth_engine::Decision;
use tokio::sync::broadcast::{self, Receiver, Sender};

use super::error::CallError;

/// Number of decisions that a watcher may lag behind.
const MAX_WAITING: usize = 1_024;
/// Maximum number of watchers.
const MAX_WATCHERS: usize = 64;

/// Those who are told of decisions.
#[derive(Clone)]
pub(crate) struct Watchers(Sender<Arc<Decision>>);

impl Default for Watchers {
    fn default() -> Watchers {
        Watchers(broadcast::channel(MAX_WAITING).0)
    }
}

impl Watchers {
    /// Tells of a decision. Never waits: a watcher that lags behind misses the oldest ones.
    pub(crate) fn tell(&self, decision: &Decision) {
        if self.0.receiver_count() > 0 {
            // An error means that the last watcher has just gone.
            drop(self.0.send(Arc::new(decision.clone())));
        }
    }

    /// Tells the caller from now on.
    ///
    /// # Errors
    /// [`CallError::TooManyWatchers`].
    pub(crate) fn join(&self) -> Result<Receiver<Arc<Decision>>, CallError> {
        if self.0.receiver_count() >= MAX_WATCHERS {
            return Err(CallError::TooManyWatchers { limit: MAX_WATCHERS });
        }
        Ok(self.0.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_are_bounded() {
        let watchers = Watchers::default();
        let joined: Vec<_> = (0..MAX_WATCHERS).map(|_| watchers.join().unwrap()).collect();
        let error = watchers.join().unwrap_err();
        assert_eq!(error, CallError::TooManyWatchers { limit: MAX_WATCHERS });
        drop(joined);
        assert!(watchers.join().is_ok());
    }
}
