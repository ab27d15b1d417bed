//! What-if sessions: a fork of the live cluster that one user changes, queries and commits.

use std::sync::Arc;

use berth_proto::berth_v1::{
    SessionServiceApplyRequest, SessionServiceApplyResponse, SessionServiceCloseRequest,
    SessionServiceCloseResponse, SessionServiceCommitRequest, SessionServiceCommitResponse,
    SessionServiceOpenResponse,
};

use super::cluster::delta;
use super::session_table::InUse;
use crate::clock;
use crate::service::convert::saturate;
use crate::service::{Access, CallContext, CallError, Cancel, State};

/// Opens a session.
///
/// # Errors
/// A cluster that is not ready, a server that drains, too many sessions.
pub(crate) async fn open(
    state: &Arc<State>,
    call: CallContext,
) -> Result<SessionServiceOpenResponse, CallError> {
    state.check_decidable()?;
    state.check_not_draining()?;
    // The fork waits for writes to the live cluster, so it is never made on the reactor.
    let shared = state.clone();
    let CallContext { access, deadline } = call;
    state.pool.run(deadline, move |_| fork(&shared, &access)).await?
}

fn fork(state: &State, access: &Access) -> Result<SessionServiceOpenResponse, CallError> {
    let mut generation = 0;
    let session_id = state.sessions.open(clock::now(), &access.caller().user, || {
        let fork = state.cluster.fork();
        generation = fork.snapshot().generation().get();
        fork
    })?;
    let limits = state.sessions.limits();
    Ok(SessionServiceOpenResponse {
        session_id,
        generation,
        idle_timeout_ms: clock::as_millis(limits.idle_timeout),
        max_changes: limits.max_changes as u64,
    })
}

/// Applies changes to a session. Refused changes do not count towards its limit.
///
/// # Errors
/// An unknown session, one that would hold too many changes, a caller that is gone.
pub(crate) async fn apply(
    state: &Arc<State>,
    call: CallContext,
    request: SessionServiceApplyRequest,
) -> Result<SessionServiceApplyResponse, CallError> {
    let SessionServiceApplyRequest { session_id, deltas } = request;
    let session = find(state, &call.access, &session_id)?;
    let apply = move |cancel: &Cancel| {
        let n_deltas = deltas.len();
        session.reserve(n_deltas)?;
        let compiled = delta::compile_while_wanted(session.cluster(), deltas, cancel)
            .inspect_err(|_| session.release(n_deltas))?;
        let outcome = delta::apply_compiled(session.cluster(), compiled);
        session.release(outcome.rejections.len().min(n_deltas));
        Ok::<_, CallError>(outcome)
    };
    let applied = state.pool.run(call.deadline, apply).await??;
    Ok(SessionServiceApplyResponse {
        generation: applied.generation.get(),
        rejections: applied.rejections,
    })
}

/// Commits a session to the live cluster, whole or not at all.
///
/// # Errors
/// An unknown session, a server that drains, [`CallError::NotCommitted`].
pub(crate) async fn commit(
    state: &Arc<State>,
    call: CallContext,
    request: SessionServiceCommitRequest,
) -> Result<SessionServiceCommitResponse, CallError> {
    let session = find(state, &call.access, &request.session_id)?;
    state.check_not_draining()?;
    let shared = state.clone();
    let commit = move |_: &Cancel| {
        let _busy = shared.long_write();
        let committed = shared.cluster.commit(session.cluster());
        shared.metrics.sessions().count_commit(committed.is_ok());
        committed.map_err(CallError::NotCommitted)
    };
    let committed = state.pool.run(call.deadline, commit).await??;
    Ok(SessionServiceCommitResponse {
        generation: committed.generation.get(),
        n_assumed_pods: saturate(committed.n_assumed),
        n_nominated_pods: saturate(committed.n_nominated),
    })
}

/// Closes a session.
///
/// # Errors
/// An unknown session.
pub(crate) fn close(
    state: &State,
    call: &CallContext,
    request: &SessionServiceCloseRequest,
) -> Result<SessionServiceCloseResponse, CallError> {
    check_id(&request.session_id)?;
    state.sessions.close(&request.session_id, call.access.caller(), clock::now())?;
    Ok(SessionServiceCloseResponse {})
}

/// The session that a request names.
fn find(state: &State, access: &Access, session_id: &str) -> Result<InUse, CallError> {
    check_id(session_id)?;
    state.sessions.get(session_id, access.caller(), clock::now())
}

/// Checks that the id is not empty, which elsewhere means the live cluster.
fn check_id(session_id: &str) -> Result<(), CallError> {
    if session_id.is_empty() {
        return Err(CallError::field("session_id", "must be set"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Profiles;
    use crate::service::Limits;
    use berth_engine::{Cluster, TieBreak};
    use tokio::sync::watch;

    #[tokio::test]
    async fn nothing_is_begun_while_the_server_drains() {
        let (drain, draining) = watch::channel(false);
        let cluster = Arc::new(Cluster::new());
        let (profiles, ties) = (Profiles::default(), TieBreak::Lexicographic);
        let state = Arc::new(State::new(cluster, profiles, ties, Limits::default(), draining));
        state.freshness.note_applied();
        let call = CallContext::open;
        let session_id = open(&state, call()).await.unwrap().session_id;
        drain.send_replace(true);
        assert_eq!(open(&state, call()).await.unwrap_err(), CallError::Draining);
        let request = SessionServiceCommitRequest { session_id: session_id.clone() };
        assert_eq!(commit(&state, call(), request).await.unwrap_err(), CallError::Draining);
        // Calls under way are finished.
        let request = SessionServiceApplyRequest { session_id, deltas: Vec::new() };
        assert!(apply(&state, call(), request).await.is_ok());
    }
}
