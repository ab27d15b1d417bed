//! `berth.v1.ClusterService`: the cluster as Berth knows it, and the feeds of clients.

mod sync;

use std::sync::Arc;

use berth_proto::berth_v1::cluster_service_server::ClusterService;
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, GetClusterRequest, GetClusterResponse, ListNodesRequest,
    ListNodesResponse, ListPodsRequest, ListPodsResponse, SyncRequest, SyncResponse,
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
}
