//! Watchers: tells the callers of `Watch` of each decision as it is made. Without watchers a decision costs one load of
//! a number.

use std::collections::VecDeque;
use std::sync::Arc;

use berth_engine::Decision;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
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
    pub(crate) fn join(&self) -> Result<Watcher, CallError> {
        if self.0.receiver_count() >= MAX_WATCHERS {
            return Err(CallError::TooManyWatchers { limit: MAX_WATCHERS });
        }
        Ok(Watcher { told: self.0.subscribe(), n_missed: 0 })
    }
}

/// One who is told.
pub(crate) struct Watcher {
    told: Receiver<Arc<Decision>>,
    n_missed: u64,
}

impl Watcher {
    /// The next decision that is wanted; `None` once the server ends. May be dropped and called again.
    pub(crate) async fn next(
        &mut self,
        is_wanted: impl Fn(&Decision) -> bool,
    ) -> Option<Arc<Decision>> {
        loop {
            match self.told.recv().await {
                Ok(decision) if is_wanted(&decision) => return Some(decision),
                Ok(_) => {}
                Err(RecvError::Lagged(n)) => self.n_missed += n,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// The newest decisions that wait, `n` of them at most; the others count as missed.
    pub(crate) fn newest(&mut self, n: usize) -> Vec<Arc<Decision>> {
        let mut newest = VecDeque::new();
        loop {
            match self.told.try_recv() {
                Ok(decision) => newest.push_back(decision),
                Err(TryRecvError::Lagged(n)) => self.n_missed += n,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return newest.into(),
            }
            if newest.len() > n {
                newest.pop_front();
                self.n_missed += 1;
            }
        }
    }

    /// Number of decisions that were missed since the last time that this was told of.
    pub(crate) fn n_missed(&self) -> u64 {
        self.n_missed
    }

    /// The reader knows how many were missed.
    pub(crate) fn forget_missed(&mut self) {
        self.n_missed = 0;
    }

    /// The reader took no decision.
    pub(crate) fn miss(&mut self) {
        self.n_missed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_engine::{Generation, Outcome, Plugin, PodKey};

    fn decision(name: &str) -> Decision {
        let outcome = Outcome::Gated { plugin: Plugin::SchedulingGates, reasons: Vec::new() };
        let generation = Generation::from(1);
        Decision { pod: PodKey::new("default", name), uid: "".into(), generation, outcome }
    }

    #[tokio::test]
    async fn what_a_watcher_does_not_take_is_counted() {
        let watchers = Watchers::default();
        let mut watcher = watchers.join().unwrap();
        (0..9).for_each(|i| watchers.tell(&decision(&format!("p{i}"))));
        let newest = watcher.newest(2);
        let names: Vec<&str> = newest.iter().map(|it| &*it.pod.name).collect();
        assert_eq!((names, watcher.n_missed()), (vec!["p7", "p8"], 7));
        watcher.forget_missed();
        (0..=MAX_WAITING).for_each(|i| watchers.tell(&decision(&format!("q{i}"))));
        let next = watcher.next(|it| it.pod.name.ends_with("100")).await.unwrap();
        assert_eq!((&*next.pod.name, watcher.n_missed()), ("q100", 1));
    }

    #[test]
    fn watchers_are_bounded() {
        let watchers = Watchers::default();
        let joined: Vec<_> = (0..MAX_WATCHERS).map(|_| watchers.join().unwrap()).collect();
        let error = watchers.join().err().unwrap();
        assert_eq!(error, CallError::TooManyWatchers { limit: MAX_WATCHERS });
        drop(joined);
        assert!(watchers.join().is_ok());
    }
}
