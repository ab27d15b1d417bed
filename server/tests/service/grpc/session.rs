//! `SessionService`: the changes of a session are visible only there, and its decisions can be committed once.

mod bounds;
mod commit;
mod isolation;
mod race;

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    Decision, Delta, GetClusterRequest, GetClusterResponse, ListNodesRequest, NodeSummary,
    PlaceMode, PlaceRequest, SessionServiceApplyRequest, SessionServiceApplyResponse,
    SessionServiceCloseRequest, SessionServiceCommitRequest, SessionServiceCommitResponse,
    SessionServiceOpenRequest, SessionServiceOpenResponse,
};
use berth_proto::core_v1::Pod;
use tonic::Status;

use crate::grpc::world::World;

impl<S> World<S> {
    async fn open(&mut self) -> Result<SessionServiceOpenResponse, Status> {
        let request = SessionServiceOpenRequest {};
        self.session.open(request).await.map(tonic::Response::into_inner)
    }

    /// The id of a new session.
    async fn opened(&mut self) -> String {
        self.open().await.unwrap().session_id
    }

    async fn suppose(
        &mut self,
        session_id: &str,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<SessionServiceApplyResponse, Status> {
        let deltas = changes.into_iter().map(|change| Delta { change: Some(change) }).collect();
        let request = SessionServiceApplyRequest {
            session_id: session_id.into(),
            deltas,
            ..SessionServiceApplyRequest::default()
        };
        self.session.apply(request).await.map(tonic::Response::into_inner)
    }

    async fn place_in(
        &mut self,
        session_id: &str,
        pod: Pod,
        mode: PlaceMode,
    ) -> Result<Decision, Status> {
        let request = PlaceRequest {
            pod: Some(pod.into()),
            mode: mode as i32,
            session_id: session_id.into(),
            ..PlaceRequest::default()
        };
        self.placement.place(request).await.map(|response| response.into_inner().decision.unwrap())
    }

    async fn counts_in(&mut self, session_id: &str) -> Result<GetClusterResponse, Status> {
        let request = GetClusterRequest { session_id: session_id.into() };
        self.cluster.get_cluster(request).await.map(tonic::Response::into_inner)
    }

    async fn nodes_in(&mut self, session_id: &str) -> Vec<NodeSummary> {
        let session_id = session_id.into();
        let request = ListNodesRequest { session_id, ..ListNodesRequest::default() };
        self.cluster.list_nodes(request).await.unwrap().into_inner().nodes
    }

    async fn commit(&mut self, session_id: &str) -> Result<SessionServiceCommitResponse, Status> {
        let request =
            SessionServiceCommitRequest { session_id: session_id.into(), ..Default::default() };
        self.session.commit(request).await.map(tonic::Response::into_inner)
    }

    async fn close(&mut self, session_id: &str) -> Result<(), Status> {
        let request = SessionServiceCloseRequest { session_id: session_id.into() };
        self.session.close(request).await.map(drop)
    }
}
