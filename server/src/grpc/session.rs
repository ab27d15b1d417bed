//! `berth.v1.SessionService`: what-if sessions.

use std::sync::Arc;

use berth_proto::berth_v1::session_service_server::SessionService;
use berth_proto::berth_v1::{
    SessionServiceApplyRequest, SessionServiceApplyResponse, SessionServiceCloseRequest,
    SessionServiceCloseResponse, SessionServiceCommitRequest, SessionServiceCommitResponse,
    SessionServiceOpenRequest, SessionServiceOpenResponse,
};
use tonic::{Request, Response, Status};

use super::parts::parts;
use crate::service::{State, session};

pub(crate) struct SessionHandler {
    state: Arc<State>,
}

impl SessionHandler {
    pub(crate) fn new(state: Arc<State>) -> SessionHandler {
        SessionHandler { state }
    }
}

#[tonic::async_trait]
impl SessionService for SessionHandler {
    async fn open(
        &self,
        request: Request<SessionServiceOpenRequest>,
    ) -> Result<Response<SessionServiceOpenResponse>, Status> {
        let (call, SessionServiceOpenRequest {}) = parts(request);
        Ok(Response::new(session::open(&self.state, call).await?))
    }

    async fn apply(
        &self,
        request: Request<SessionServiceApplyRequest>,
    ) -> Result<Response<SessionServiceApplyResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(session::apply(&self.state, call, request).await?))
    }

    async fn commit(
        &self,
        request: Request<SessionServiceCommitRequest>,
    ) -> Result<Response<SessionServiceCommitResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(session::commit(&self.state, call, request).await?))
    }

    async fn close(
        &self,
        request: Request<SessionServiceCloseRequest>,
    ) -> Result<Response<SessionServiceCloseResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(session::close(&self.state, &call, &request)?))
    }
}
