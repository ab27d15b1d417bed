//! `berth.v1.AutoscalerService`: simulates clusters with more or fewer nodes.

use std::sync::Arc;

use berth_proto::berth_v1::autoscaler_service_server::AutoscalerService;
use berth_proto::berth_v1::{
    ChooseScaleInRequest, ChooseScaleInResponse, ConsolidateRequest, ConsolidateResponse,
    FitRequest, FitResponse, HeadroomRequest, HeadroomResponse, SimulateDrainRequest,
    SimulateDrainResponse, SimulateScaleUpRequest, SimulateScaleUpResponse,
};
use tonic::{Request, Response, Status};

use super::parts::parts;
use crate::service::{State, autoscaler};

pub(crate) struct AutoscalerHandler {
    state: Arc<State>,
}

impl AutoscalerHandler {
    pub(crate) fn new(state: Arc<State>) -> AutoscalerHandler {
        AutoscalerHandler { state }
    }
}

#[tonic::async_trait]
impl AutoscalerService for AutoscalerHandler {
    async fn simulate_scale_up(
        &self,
        request: Request<SimulateScaleUpRequest>,
    ) -> Result<Response<SimulateScaleUpResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(autoscaler::simulate_scale_up(&self.state, call, request).await?))
    }

    async fn simulate_drain(
        &self,
        request: Request<SimulateDrainRequest>,
    ) -> Result<Response<SimulateDrainResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(autoscaler::simulate_drain(&self.state, call, request).await?))
    }

    async fn headroom(
        &self,
        request: Request<HeadroomRequest>,
    ) -> Result<Response<HeadroomResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(autoscaler::headroom(&self.state, call, request).await?))
    }

    async fn consolidate(
        &self,
        request: Request<ConsolidateRequest>,
    ) -> Result<Response<ConsolidateResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(autoscaler::consolidate(&self.state, call, request).await?))
    }

    async fn choose_scale_in(
        &self,
        request: Request<ChooseScaleInRequest>,
    ) -> Result<Response<ChooseScaleInResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(autoscaler::choose_scale_in(&self.state, call, request).await?))
    }

    async fn fit(&self, request: Request<FitRequest>) -> Result<Response<FitResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(autoscaler::fit(&self.state, call, request).await?))
    }
}
