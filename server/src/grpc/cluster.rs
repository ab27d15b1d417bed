//! `berth.v1.ClusterService`: what Berth knows of the cluster, and how it is told.

pub(super) mod delta;
mod list;
mod page;
mod sync;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{ObjectKind, Snapshot};
use berth_proto::berth_v1::cluster_service_server::ClusterService;
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, GetClusterRequest, GetClusterResponse, ListNodesRequest,
    ListNodesResponse, ListPodsRequest, ListPodsResponse, SyncRequest, SyncResponse,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::State;
use super::convert::saturate;
use super::deadline::Deadline;
use crate::auth::{Access, Role};
use crate::clock;

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
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let requests = request.into_inner();
        Ok(Response::new(sync::serve(self.state.clone(), access, requests, deadline)))
    }

    async fn apply(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let deltas = request.into_inner().deltas;
        let outcome = if delta::gives_back(&access, &deltas) {
            access.to_change(Role::Scheduler)?;
            self.state.check_feedable()?;
            delta::give_back(&self.state, deltas, deadline).await?
        } else {
            access.to_change(Role::Feeder)?;
            self.state.check_feedable()?;
            delta::apply(&self.state, deltas, deadline).await?
        };
        Ok(Response::new(ApplyResponse {
            generation: outcome.generation.get(),
            rejections: outcome.rejections,
        }))
    }

    async fn get_cluster(
        &self,
        request: Request<GetClusterRequest>,
    ) -> Result<Response<GetClusterResponse>, Status> {
        let access = Access::of(request.extensions());
        let asked = self.state.asked_by(&access, &request.into_inner().session_id)?;
        let snapshot = asked.snapshot();
        Ok(Response::new(GetClusterResponse {
            generation: snapshot.generation().get(),
            n_nodes: saturate(snapshot.n_nodes()),
            n_pods: saturate(snapshot.n_pods()),
            n_assumed_pods: saturate(snapshot.n_assumed()),
            n_pending_pods: saturate(snapshot.n_pending()),
            n_orphaned_pods: saturate(snapshot.n_orphaned()),
            n_shapes: saturate(self.state.cluster.n_shapes()),
            staleness_ms: self.state.freshness.staleness().map(clock::as_millis),
            n_contradictions: snapshot.n_contradictions(),
            n_objects: n_objects(&snapshot),
        }))
    }

    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesResponse>, Status> {
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let request = request.into_inner();
        let asked = self.state.asked_by(&access, &request.session_id)?;
        let page = self
            .state
            .pool
            .run(deadline, move |cancel| list::nodes(&asked.snapshot(), &request, cancel))
            .await??;
        Ok(Response::new(page))
    }

    async fn list_pods(
        &self,
        request: Request<ListPodsRequest>,
    ) -> Result<Response<ListPodsResponse>, Status> {
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let request = request.into_inner();
        let asked = self.state.asked_by(&access, &request.session_id)?;
        let page = self
            .state
            .pool
            .run(deadline, move |cancel| list::pods(&asked.snapshot(), &request, cancel))
            .await??;
        Ok(Response::new(page))
    }
}

/// Counts by kind name, of the kinds of which there is any.
fn n_objects(snapshot: &Snapshot) -> BTreeMap<String, u32> {
    let counts = ObjectKind::ALL.map(|kind| (kind.name().to_owned(), snapshot.n_objects(kind)));
    counts.into_iter().filter(|(_, n)| *n > 0).map(|(kind, n)| (kind, saturate(n))).collect()
}
