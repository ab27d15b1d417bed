//! Retries of a failed ledger, since refused callers may not come back, and a full disk may be temporary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::service::{Deadline, State};

/// Interval between two attempts.
const RETRY: Duration = Duration::from_secs(5);

/// Upkeep of the ledger, with its last attempt.
#[derive(Default)]
pub(super) struct LedgerUpkeep {
    last: Option<(Instant, JoinHandle<()>)>,
}

impl LedgerUpkeep {
    /// Updates the metrics, and begins an attempt if one is due. Never waits.
    pub(super) fn run(&mut self, state: &Arc<State>, now: Instant) {
        let is_faulty = state.grants.fault().is_some();
        state.metrics.ledger().set_available(!is_faulty);
        if !is_faulty {
            return;
        }
        let is_due = |(at, attempt): &(Instant, JoinHandle<()>)| {
            attempt.is_finished() && now.saturating_duration_since(*at) >= RETRY
        };
        if self.last.as_ref().is_none_or(is_due) {
            self.last = Some((now, tokio::spawn(attempt(state.clone()))));
        }
    }
}

async fn attempt(state: Arc<State>) {
    let grants = state.grants.clone();
    if let Ok(Ok(())) = state.ledger_pool.run(Deadline(None), move |_| grants.probe()).await {
        tracing::info!("the ledger can be written again");
    }
}
