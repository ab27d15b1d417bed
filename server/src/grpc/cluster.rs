//! `berth.v1.ClusterService`: the cluster as Berth knows it, and the feeds of clients.

mod sync;
mod watch;

use std::sync::Arc;

use berth_proto::berth_v1::cluster_service_server::ClusterService;
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, GetClusterRequest, GetClusterResponse, GetPodRequest,
    GetPodResponse, ListNodesRequest, ListNodesResponse, ListPendingRequest, ListPendingResponse,
    ListPodsRequest, ListPodsResponse, SyncRequest, SyncResponse, WatchRequest, WatchResponse,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::parts::parts;
use crate::service::{State, cluster};

pub(crate) struct ClusterHandler {
    state: Arc<State>,
}

impl ClusterHandler {
    pub(crate) fn new(state: Arc<State>) -> ClusterHandler {
        ClusterHandler { state }
    }
}

#[tonic::async_trait]
impl ClusterService for ClusterHandler {
    type SyncStream = ReceiverStream<Result<SyncResponse, Status>>;
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn sync(
        &self,
        request: Request<Streaming<SyncRequest>>,
    ) -> Result<Response<Self::SyncStream>, Status> {
        self.state.check_feedable()?;
        let (call, requests) = parts(request);
        Ok(Response::new(sync::serve(self.state.clone(), call, requests)))
    }

    async fn apply(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(cluster::apply(&self.state, call, request).await?))
    }

    async fn get_cluster(
        &self,
        request: Request<GetClusterRequest>,
    ) -> Result<Response<GetClusterResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(cluster::get_cluster(&self.state, &call, &request)?))
    }

    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(cluster::list_nodes(&self.state, call, request).await?))
    }

    async fn list_pods(
        &self,
        request: Request<ListPodsRequest>,
    ) -> Result<Response<ListPodsResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(cluster::list_pods(&self.state, call, request).await?))
    }

    async fn get_pod(
        &self,
        request: Request<GetPodRequest>,
    ) -> Result<Response<GetPodResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(cluster::get_pod(&self.state, call, request).await?))
    }

    async fn list_pending(
        &self,
        request: Request<ListPendingRequest>,
    ) -> Result<Response<ListPendingResponse>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(cluster::list_pending(&self.state, call, request).await?))
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (call, request) = parts(request);
        Ok(Response::new(watch::serve(self.state.clone(), call, request)?))
    }
}
