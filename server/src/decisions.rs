//! Decisions: what `berth.v1.DecisionService` answers. Recorded decisions are read from the journal that this server writes;
//! nothing of them is kept in memory.

mod fault;
mod found;
mod id;
mod replay;
mod search;
mod segment;
mod wire;

use std::sync::Arc;

use berth_proto::berth_v1::{
    CompareRequest, CompareResponse, GetDecisionRequest, GetDecisionResponse, ListDecisionsRequest,
    ListDecisionsResponse, ReplayDecisionRequest, ReplayDecisionResponse,
};
use rayon::ThreadPoolBuilder;

use crate::compare::{self, report};
use crate::journal::directory;
use crate::service::{CallContext, CallError, Cancel, Journal, Pool, State};
use fault::{failed, unreadable};
use found::Found;
use id::DecisionId;
use search::Search;

/// Lists recorded decisions, the newest first.
///
/// # Errors
/// No journal, a bad page token, a damaged segment, a caller that is gone.
pub(crate) async fn list(
    state: &Arc<State>,
    call: CallContext,
    request: ListDecisionsRequest,
) -> Result<ListDecisionsResponse, CallError> {
    let search = Search::of(request)?;
    on_journal(state, &state.simulation_pool, call, move |journal, cancel| {
        let segments =
            directory::segments(journal.directory()).map_err(|error| unreadable(&error))?;
        search.run(&segments, cancel)
    })
    .await
}

/// Returns a recorded decision.
///
/// # Errors
/// No journal, a bad id, one that is not recorded, a damaged segment, a caller that is gone.
pub(crate) async fn get(
    state: &Arc<State>,
    call: CallContext,
    request: GetDecisionRequest,
) -> Result<GetDecisionResponse, CallError> {
    let id = DecisionId::read("id", &request.id)?;
    on_journal(state, &state.simulation_pool, call, move |journal, cancel| {
        let found = Found::of(journal.directory(), id, cancel)?;
        wire::whole(&found)
    })
    .await
}

/// Makes a recorded decision again, and explains it.
///
/// # Errors
/// The errors of [`get`], another call that replays or compares, a journal that does not lead to the decision.
pub(crate) async fn replay(
    state: &Arc<State>,
    call: CallContext,
    request: ReplayDecisionRequest,
) -> Result<ReplayDecisionResponse, CallError> {
    let id = DecisionId::read("id", &request.id)?;
    let turn = state.journal.as_ref().ok_or(CallError::NoJournal)?.turn()?;
    on_journal(state, &state.journal_pool, call, move |journal, cancel| {
        let _turn = turn;
        alone(|| replay::again(journal.directory(), id, &request.node_names, cancel))
    })
    .await
}

/// Sets policies side by side on the journal.
///
/// # Errors
/// No journal, a policy that cannot be used, another call that replays or compares, a damaged segment, a caller that is gone.
pub(crate) async fn compare(
    state: &Arc<State>,
    call: CallContext,
    request: CompareRequest,
) -> Result<CompareResponse, CallError> {
    let turn = state.journal.as_ref().ok_or(CallError::NoJournal)?.turn()?;
    let kubernetes = state.profiles.kubernetes();
    on_journal(state, &state.journal_pool, call, move |journal, cancel| {
        let _turn = turn;
        // Here rather than before: to read megabytes of YAML takes its time, too.
        let (names, question) = report::asked(&request, kubernetes)?;
        let cancelled = || cancel.is_cancelled();
        let compared =
            alone(|| compare::compare(journal.directory(), &question, &cancelled).map_err(failed))?;
        Ok(report::response(&names, &compared))
    })
    .await
}

/// Runs a job on the journal, on a thread of a pool.
async fn on_journal<T: Send + 'static>(
    state: &Arc<State>,
    pool: &Pool,
    call: CallContext,
    job: impl FnOnce(&Journal, &Cancel) -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    if state.journal.is_none() {
        return Err(CallError::NoJournal);
    }
    let shared = state.clone();
    let run = move |cancel: &Cancel| {
        let journal = shared.journal.as_ref().ok_or(CallError::NoJournal)?;
        job(journal, cancel)
    };
    pool.run(call.deadline, run).await?
}

/// Runs a job that would take all cores on one: decisions have the others.
fn alone<T: Send>(job: impl FnOnce() -> Result<T, CallError> + Send) -> Result<T, CallError> {
    let pool = ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.map_err(|error| {
        tracing::error!("no thread to replay the journal on: {error}");
        CallError::Broken
    })?;
    pool.install(job)
}

#[cfg(test)]
mod tests;
