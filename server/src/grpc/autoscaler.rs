//! `berth.v1.AutoscalerService`: what if there were more nodes, or fewer? A question a file.

mod consolidate;
pub(crate) mod drain;
mod fit;
pub(crate) mod headroom;
mod scale_in;
mod scale_up;

use std::sync::Arc;

use berth_proto::berth_v1::autoscaler_service_server::AutoscalerService;
use berth_proto::berth_v1::{
    ChooseScaleInRequest, ChooseScaleInResponse, ConsolidateRequest, ConsolidateResponse,
    FitRequest, FitResponse, HeadroomRequest, HeadroomResponse, SimulateDrainRequest,
    SimulateDrainResponse, SimulateScaleUpRequest, SimulateScaleUpResponse,
};
use tonic::{Request, Response, Status};

use super::State;
use super::asked::Asked;
use super::deadline::{Cancel, Deadline};
use super::status::CallError;
use crate::auth::Access;
use crate::clock;
use crate::telemetry::PlaceMethod;

pub(crate) struct AutoscalerHandler {
    state: Arc<State>,
}

impl AutoscalerHandler {
    pub(crate) fn new(state: Arc<State>) -> AutoscalerHandler {
        AutoscalerHandler { state }
    }

    /// Answers on a pool of its own: a simulation may take a while.
    async fn run<Q: Send + 'static, A: Send + 'static>(
        &self,
        method: PlaceMethod,
        request: Request<Q>,
        session_id: impl FnOnce(&Q) -> &str,
        answer: fn(&State, &Asked, Q, &Cancel) -> Result<A, CallError>,
    ) -> Result<Response<A>, Status> {
        self.state.check_decidable()?;
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let access = Access::of(request.extensions());
        let request = request.into_inner();
        let asked = state.asked_by(&access, session_id(&request))?;
        let answered = self
            .state
            .simulation_pool
            .run(deadline, move |cancel| {
                let started = clock::now();
                let answered = answer(&state, &asked, request, cancel);
                state.metrics.record_place_duration(method, clock::now() - started);
                answered
            })
            .await??;
        Ok(Response::new(answered))
    }
}

#[tonic::async_trait]
impl AutoscalerService for AutoscalerHandler {
    async fn simulate_scale_up(
        &self,
        request: Request<SimulateScaleUpRequest>,
    ) -> Result<Response<SimulateScaleUpResponse>, Status> {
        self.run(PlaceMethod::SimulateScaleUp, request, |asked| &asked.session_id, scale_up::answer)
            .await
    }

    async fn simulate_drain(
        &self,
        request: Request<SimulateDrainRequest>,
    ) -> Result<Response<SimulateDrainResponse>, Status> {
        self.run(PlaceMethod::SimulateDrain, request, |asked| &asked.session_id, drain::answer)
            .await
    }

    async fn headroom(
        &self,
        request: Request<HeadroomRequest>,
    ) -> Result<Response<HeadroomResponse>, Status> {
        self.run(PlaceMethod::Headroom, request, |asked| &asked.session_id, headroom::answer).await
    }

    async fn consolidate(
        &self,
        request: Request<ConsolidateRequest>,
    ) -> Result<Response<ConsolidateResponse>, Status> {
        self.run(PlaceMethod::Consolidate, request, |asked| &asked.session_id, consolidate::answer)
            .await
    }

    async fn choose_scale_in(
        &self,
        request: Request<ChooseScaleInRequest>,
    ) -> Result<Response<ChooseScaleInResponse>, Status> {
        self.run(PlaceMethod::ChooseScaleIn, request, |asked| &asked.session_id, scale_in::answer)
            .await
    }

    async fn fit(&self, request: Request<FitRequest>) -> Result<Response<FitResponse>, Status> {
        self.run(PlaceMethod::Fit, request, |asked| &asked.session_id, fit::answer).await
    }
}
