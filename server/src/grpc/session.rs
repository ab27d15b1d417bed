//! `berth.v1.SessionService`: what if?

mod table;

use std::sync::Arc;

use berth_proto::berth_v1::session_service_server::SessionService;
use berth_proto::berth_v1::{
    Delta, SessionServiceApplyRequest, SessionServiceApplyResponse, SessionServiceCloseRequest,
    SessionServiceCloseResponse, SessionServiceCommitRequest, SessionServiceCommitResponse,
    SessionServiceOpenRequest, SessionServiceOpenResponse,
};
use tonic::{Request, Response, Status};

use super::State;
use super::cluster::delta;
use super::convert::saturate;
use super::deadline::{Cancel, Deadline};
use super::status::CallError;
use crate::auth::Access;
use crate::clock;

pub use table::SessionLimits;
pub(crate) use table::{InUse, SessionTable};

pub(crate) struct SessionHandler {
    state: Arc<State>,
}

impl SessionHandler {
    pub(crate) fn new(state: Arc<State>) -> SessionHandler {
        SessionHandler { state }
    }

    /// The session that a request names.
    fn named(&self, access: &Access, session_id: &str) -> Result<InUse, CallError> {
        check_named(session_id)?;
        self.state.sessions.get(session_id, access.caller(), clock::now())
    }
}

#[tonic::async_trait]
impl SessionService for SessionHandler {
    async fn open(
        &self,
        request: Request<SessionServiceOpenRequest>,
    ) -> Result<Response<SessionServiceOpenResponse>, Status> {
        self.state.check_decidable()?;
        self.state.check_not_draining()?;
        // The fork waits for whoever writes to the live cluster: never on the reactor.
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let access = Access::of(request.extensions());
        let opened = self.state.pool.run(deadline, move |_| open(&state, &access)).await??;
        Ok(Response::new(opened))
    }

    async fn apply(
        &self,
        request: Request<SessionServiceApplyRequest>,
    ) -> Result<Response<SessionServiceApplyResponse>, Status> {
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let SessionServiceApplyRequest { session_id, deltas } = request.into_inner();
        let session = self.named(&access, &session_id)?;
        let applied =
            self.state.pool.run(deadline, move |cancel| apply(&session, deltas, cancel)).await??;
        Ok(Response::new(SessionServiceApplyResponse {
            generation: applied.generation.get(),
            rejections: applied.rejections,
        }))
    }

    async fn commit(
        &self,
        request: Request<SessionServiceCommitRequest>,
    ) -> Result<Response<SessionServiceCommitResponse>, Status> {
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let session = self.named(&access, &request.into_inner().session_id)?;
        self.state.check_not_draining()?;
        let state = self.state.clone();
        let committed = self
            .state
            .pool
            .run(deadline, move |_| {
                let _busy = state.long_write();
                let committed = state.cluster.commit(session.cluster());
                state.metrics.sessions().count_commit(committed.is_ok());
                committed.map_err(CallError::NotCommitted)
            })
            .await??;
        Ok(Response::new(SessionServiceCommitResponse {
            generation: committed.generation.get(),
            n_assumed_pods: saturate(committed.n_assumed),
            n_nominated_pods: saturate(committed.n_nominated),
        }))
    }

    async fn close(
        &self,
        request: Request<SessionServiceCloseRequest>,
    ) -> Result<Response<SessionServiceCloseResponse>, Status> {
        let access = Access::of(request.extensions());
        let session_id = request.into_inner().session_id;
        check_named(&session_id)?;
        self.state.sessions.close(&session_id, access.caller(), clock::now())?;
        Ok(Response::new(SessionServiceCloseResponse {}))
    }
}

fn open(state: &State, access: &Access) -> Result<SessionServiceOpenResponse, CallError> {
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

/// What is refused is not counted as a change.
fn apply(
    session: &InUse,
    deltas: Vec<Delta>,
    cancel: &Cancel,
) -> Result<delta::Outcome, CallError> {
    let n_deltas = deltas.len();
    session.reserve(n_deltas)?;
    let compiled = delta::compile_while_wanted(session.cluster(), deltas, cancel)
        .inspect_err(|_| session.release(n_deltas))?;
    let outcome = delta::apply_compiled(session.cluster(), compiled);
    session.release(outcome.rejections.len().min(n_deltas));
    Ok(outcome)
}

/// Elsewhere an empty id means the live cluster; here there is none to mean.
fn check_named(session_id: &str) -> Result<(), CallError> {
    if session_id.is_empty() {
        return Err(CallError::field("session_id", "must be set"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policy::Profiles;
    use crate::grpc::Limits;
    use berth_engine::{Cluster, TieBreak};
    use tokio::sync::watch;
    use tonic::Code;

    #[tokio::test]
    async fn nothing_is_begun_while_the_server_drains() {
        let (drain, draining) = watch::channel(false);
        let cluster = Arc::new(Cluster::new());
        let (profiles, ties) = (Profiles::default(), TieBreak::Lexicographic);
        let state = Arc::new(State::new(cluster, profiles, ties, Limits::default(), draining));
        state.freshness.note_applied();
        let handler = SessionHandler::new(state);
        let open = || handler.open(Request::new(SessionServiceOpenRequest {}));
        let session_id = open().await.unwrap().into_inner().session_id;
        drain.send_replace(true);
        assert_eq!(open().await.unwrap_err().code(), Code::Unavailable);
        let request = SessionServiceCommitRequest { session_id: session_id.clone() };
        let status = handler.commit(Request::new(request)).await.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "the server is draining")
        );
        // What is under way is finished.
        let request = SessionServiceApplyRequest { session_id, deltas: Vec::new() };
        assert!(handler.apply(Request::new(request)).await.is_ok());
    }
}
