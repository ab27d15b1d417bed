//! `berth.v1.PlacementService`: decides where pods are placed.

mod stream;

use std::sync::Arc;

use berth_proto::berth_v1::placement_service_server::PlacementService;
use berth_proto::berth_v1::{
    ConfirmRequest, ConfirmResponse, ExplainRequest, ExplainResponse, ExtendRequest,
    ExtendResponse, ListAssumedRequest, ListAssumedResponse, PlaceBatchRequest, PlaceBatchResponse,
    PlaceRequest, PlaceResponse, PlaceStreamRequest, ReleaseRequest, ReleaseResponse,
    ReserveRequest, ReserveResponse,
};
use tonic::{Request, Response, Status, Streaming};

use super::parts::parts;
use crate::service::State;
use crate::service::placement::{self, assumed, reserve};

pub(crate) struct PlacementHandler {
    state: Arc<State>,
}

impl PlacementHandler {
    pub(crate) fn new(state: Arc<State>) -> PlacementHandler {
        PlacementHandler { state }
    }
}

#[tonic::async_trait]
impl PlacementService for PlacementHandler {
    type PlaceStreamStream = stream::Responses;

    async fn place(
        &self,
        request: Request<PlaceRequest>,
    ) -> Result<Response<PlaceResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(placement::place(&self.state, call, request).await?))
    }

    async fn place_batch(
        &self,
        request: Request<PlaceBatchRequest>,
    ) -> Result<Response<PlaceBatchResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(placement::place_batch(&self.state, call, request).await?))
    }

    async fn place_stream(
        &self,
        request: Request<Streaming<PlaceStreamRequest>>,
    ) -> Result<Response<Self::PlaceStreamStream>, Status> {
        self.state.check_decidable()?;
        let (call, requests) = parts(request);
        Ok(Response::new(stream::serve(self.state.clone(), call, requests)))
    }

    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(reserve::reserve(&self.state, call, request).await?))
    }

    async fn confirm(
        &self,
        request: Request<ConfirmRequest>,
    ) -> Result<Response<ConfirmResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(assumed::confirm(&self.state, call, request).await?))
    }

    async fn extend(
        &self,
        request: Request<ExtendRequest>,
    ) -> Result<Response<ExtendResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(assumed::extend(&self.state, call, request).await?))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(assumed::release(&self.state, call, request).await?))
    }

    async fn list_assumed(
        &self,
        request: Request<ListAssumedRequest>,
    ) -> Result<Response<ListAssumedResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(assumed::list(&self.state, call, request).await?))
    }

    async fn explain(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(placement::explain(&self.state, call, request).await?))
    }
}
