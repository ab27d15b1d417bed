//! `berth.v1.PreemptionService`: evicts pods for a pod that fits nowhere.

use std::sync::Arc;

use berth_proto::berth_v1::preemption_service_server::PreemptionService;
use berth_proto::berth_v1::{
    ListCandidatesRequest, ListCandidatesResponse, PreemptRequest, PreemptResponse,
};
use tonic::{Request, Response, Status};

use super::parts::parts;
use crate::service::{State, preemption};

pub(crate) struct PreemptionHandler {
    state: Arc<State>,
}

impl PreemptionHandler {
    pub(crate) fn new(state: Arc<State>) -> PreemptionHandler {
        PreemptionHandler { state }
    }
}

#[tonic::async_trait]
impl PreemptionService for PreemptionHandler {
    async fn preempt(
        &self,
        request: Request<PreemptRequest>,
    ) -> Result<Response<PreemptResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(preemption::preempt(&self.state, call, request).await?))
    }

    async fn list_candidates(
        &self,
        request: Request<ListCandidatesRequest>,
    ) -> Result<Response<ListCandidatesResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(preemption::list_candidates(&self.state, call, request).await?))
    }
}
