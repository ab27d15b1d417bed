//! `berth.v1.DecisionService`: decisions that were made, and new ones as they are made.

mod watch;

use std::sync::Arc;

use berth_proto::berth_v1::decision_service_server::DecisionService;
use berth_proto::berth_v1::{
    CompareRequest, CompareResponse, GetDecisionRequest, GetDecisionResponse, ListDecisionsRequest,
    ListDecisionsResponse, ReplayDecisionRequest, ReplayDecisionResponse, WatchDecisionsRequest,
    WatchDecisionsResponse,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::parts::parts;
use crate::decisions;
use crate::service::State;

pub(crate) struct DecisionHandler {
    state: Arc<State>,
}

impl DecisionHandler {
    pub(crate) fn new(state: Arc<State>) -> DecisionHandler {
        DecisionHandler { state }
    }
}

#[tonic::async_trait]
impl DecisionService for DecisionHandler {
    type WatchStream = ReceiverStream<Result<WatchDecisionsResponse, Status>>;

    async fn list(
        &self,
        request: Request<ListDecisionsRequest>,
    ) -> Result<Response<ListDecisionsResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(decisions::list(&self.state, call, request).await?))
    }

    async fn get(
        &self,
        request: Request<GetDecisionRequest>,
    ) -> Result<Response<GetDecisionResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(decisions::get(&self.state, call, request).await?))
    }

    async fn watch(
        &self,
        request: Request<WatchDecisionsRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(watch::serve(self.state.clone(), call, request)?))
    }

    async fn replay(
        &self,
        request: Request<ReplayDecisionRequest>,
    ) -> Result<Response<ReplayDecisionResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(decisions::replay(&self.state, call, request).await?))
    }

    async fn compare(
        &self,
        request: Request<CompareRequest>,
    ) -> Result<Response<CompareResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(decisions::compare(&self.state, call, request).await?))
    }
}
