//! Looks whether the ledger's file is in its place, and retries a failed ledger, since refused callers may not come
//! back, and a full disk may be temporary. Then placement catches up with the fences.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::open::copy_fences;
use crate::service::{Deadline, State};

/// Interval between two attempts, or looks.
const RETRY: Duration = Duration::from_secs(5);

/// Upkeep of the ledger, with its last attempt or look.
#[derive(Default)]
pub(super) struct LedgerUpkeep {
    /// Time of the first run.
    began: Option<Instant>,
    last: Option<(Instant, JoinHandle<()>)>,
}

impl LedgerUpkeep {
    /// Updates the metrics, and begins an attempt or a look if one is due. Never waits.
    pub(super) fn run(&mut self, state: &Arc<State>, now: Instant) {
        let is_faulty = state.grants.fault().is_some();
        state.metrics.ledger().set_available(!is_faulty);
        state.metrics.ledger().set_bytes(state.grants.n_bytes());
        if let Some(replicas) = &state.replicas {
            let staleness = replicas
                .staleness(now)
                .unwrap_or_else(|| now.saturating_duration_since(*self.began.get_or_insert(now)));
            let commits = state.assumptions.are_made_here();
            let term = replicas.term().filter(|_| commits).map_or(0, |term| term.0);
            state.metrics.ledger().set_replica(commits, term, staleness);
        }
        let is_due = |(at, attempt): &(Instant, JoinHandle<()>)| {
            attempt.is_finished() && now.saturating_duration_since(*at) >= RETRY
        };
        if self.last.as_ref().is_none_or(is_due) {
            self.last = Some((now, tokio::spawn(attempt(state.clone()))));
        }
    }
}

/// Has placement follow fences that other servers change. Runs until it is aborted, or ends at once where no other
/// server can change any.
pub(super) async fn follow_fences(state: Arc<State>) {
    let Some(mut changes) = state.grants.changes() else { return };
    while changes.changed().await.is_ok() {
        copy_fences(&state).await;
    }
}

async fn attempt(state: Arc<State>) {
    let (grants, fences, cluster) =
        (state.grants.clone(), state.fences.clone(), state.cluster.clone());
    if grants.fault().is_none() && !fences.are_behind() {
        // It ends in a panic only for a bug.
        drop(tokio::task::spawn_blocking(move || grants.look()).await);
        return;
    }
    let attempt = move |_: &_| {
        let was_faulty = grants.fault().is_some();
        grants.probe().map(|()| {
            if fences.are_behind() {
                fences.follow_all(&grants, &cluster);
            }
            was_faulty
        })
    };
    if let Ok(Ok(true)) = state.ledger_pool.run(Deadline(None), attempt).await {
        tracing::info!("the ledger can be written again");
    }
}
