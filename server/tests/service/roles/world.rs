//! A server that knows its callers by tokens, one caller a role, and calls in a line each.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use berth_engine::TieBreak;
use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::preemption_service_client::PreemptionServiceClient;
use berth_proto::berth_v1::session_service_client::SessionServiceClient;
use berth_proto::berth_v1::{ApplyRequest, ApplyResponse, Delta, PlaceMode, PlaceRequest};
use berth_proto::core_v1::{Node, Pod};
use berth_server::auth::AuthOptions;
use berth_server::auth::Role;
use berth_server::runtime::{Server, ServerOptions};
use http_body::Body as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;
use tower_service::Service as _;

/// Long enough for the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) channel: Channel,
    pub(crate) directory: TempDir,
}

/// Tokens of a caller for each role, named like the role; `nobody` has no role, `jane` and `joe` are two schedulers.
pub(crate) const TOKENS: &str = "\
token-of-reader,reader,1,berth:reader
token-of-scheduler,scheduler,2,berth:scheduler
token-of-feeder,feeder,3,berth:feeder
token-of-lifecycle,lifecycle,4,berth:lifecycle
token-of-replica,replica,6,berth:replica
token-of-admin,admin,5,berth:admin
token-of-nobody,nobody,6,\"people,system:masters\"
token-of-jane,jane,7,berth:scheduler
token-of-joe,joe,8,berth:scheduler
";

impl World {
    pub(crate) async fn start() -> World {
        World::with(|options, _| options).await
    }

    /// Starts a server with changed options, which may name files of the directory.
    pub(crate) async fn with(
        change: impl FnOnce(ServerOptions, &TempDir) -> ServerOptions,
    ) -> World {
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("tokens.csv");
        std::fs::write(&token_file, TOKENS).unwrap();
        let auth = AuthOptions { token_file: Some(token_file), ..AuthOptions::default() };
        let tie_break = TieBreak::Lexicographic;
        let options = ServerOptions { auth, tie_break, ..ServerOptions::default() };
        let server = Server::start(change(options, &directory)).await.unwrap();
        let uri = format!("http://{}", server.grpc_address());
        let channel = Channel::from_shared(uri).unwrap().connect().await.unwrap();
        World { server, channel, directory }
    }

    /// Starts a server with tokens and two nodes of 4 CPUs.
    pub(crate) async fn with_nodes() -> World {
        let world = World::start().await;
        world.feed([Change::UpsertNode(node("n0")), Change::UpsertNode(node("n1"))]).await;
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn cluster(&self) -> ClusterServiceClient<Channel> {
        ClusterServiceClient::new(self.channel.clone())
    }

    pub(crate) fn placement(&self) -> PlacementServiceClient<Channel> {
        PlacementServiceClient::new(self.channel.clone())
    }

    pub(crate) fn preemption(&self) -> PreemptionServiceClient<Channel> {
        PreemptionServiceClient::new(self.channel.clone())
    }

    pub(crate) fn session(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel.clone())
    }

    pub(crate) fn lifecycle(&self) -> LifecycleServiceClient<Channel> {
        LifecycleServiceClient::new(self.channel.clone())
    }

    pub(crate) async fn apply(
        &self,
        user: &str,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<ApplyResponse, Status> {
        let deltas = changes.into_iter().map(|change| Delta { change: Some(change) }).collect();
        let answer = self.cluster().apply(by(user, ApplyRequest { deltas })).await;
        answer.map(tonic::Response::into_inner)
    }

    pub(crate) async fn feed(&self, changes: impl IntoIterator<Item = Change>) {
        assert_eq!(self.apply("feeder", changes).await.unwrap().rejections, []);
    }

    /// Places a pod in the live cluster, or in a session.
    pub(crate) async fn place(
        &self,
        user: &str,
        name: &str,
        mode: PlaceMode,
        session_id: &str,
    ) -> Result<(), Status> {
        let request = PlaceRequest {
            pod: Some(pod(name).into()),
            mode: mode as i32,
            session_id: session_id.to_owned(),
            ..PlaceRequest::default()
        };
        self.placement().place(by(user, request)).await.map(|_| ())
    }
}

/// The message with the token of a user.
pub(crate) fn by<T>(user: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let token = format!("Bearer token-of-{user}");
    request.metadata_mut().insert("authorization", token.parse().unwrap());
    request
}

/// Calls a method of any kind with an empty message and then the end of the stream; returns the status.
pub(crate) async fn call(channel: &Channel, path: &str, authorization: Option<&str>) -> Status {
    try_call(channel, path, authorization).await.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Calls a method over a connection that may break.
///
/// # Errors
/// If the connection breaks.
pub(crate) async fn try_call(
    channel: &Channel,
    path: &str,
    authorization: Option<&str>,
) -> Result<Status, tonic::transport::Error> {
    let mut request = axum::http::Request::post(path).header("content-type", "application/grpc");
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let frame = axum::body::Body::from(vec![0; 5]);
    let request = request.body(tonic::body::Body::new(frame)).unwrap();
    let mut channel = channel.clone();
    poll_fn(|cx| channel.poll_ready(cx)).await?;
    let answer = channel.call(request).await?;
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return Ok(status);
    }
    // It goes on until its caller goes.
    if path == "/berth.v1.DecisionService/Watch" {
        return Ok(Status::ok("begun"));
    }
    let mut body = answer.into_body();
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let frame = frame.unwrap_or_else(|| panic!("{path} ended without a status")).unwrap();
        if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
            return Ok(status);
        }
    }
}

/// Checks that a call was refused for a missing role: code, message and details.
pub(crate) fn check_denied(status: &Status, user: &str, role: Role) {
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let text = format!("permission denied: user `{user}` needs the role `{role}`");
    assert_eq!(status.message(), text);
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(info.reason, "ROLE_MISSING");
    assert_eq!(info.metadata["role"], role.name());
}

/// Checks that a call was refused for missing credentials, and that the message says what to send.
pub(crate) fn check_unauthenticated(status: &Status, expected: &str) {
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert!(status.message().starts_with("authentication required: "), "{status:?}");
    assert!(status.message().contains(expected), "{status:?}");
    assert_eq!(status.get_error_details().error_info().unwrap().reason, "UNAUTHENTICATED");
}

/// Whether a call was authorized, whatever its outcome.
pub(crate) fn is_let_through(status: &Status) -> bool {
    !matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied)
}

pub(crate) fn node(name: &str) -> Node {
    from_json(json!({
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}},
    }))
}

/// A pod of `default` that asks for one CPU.
pub(crate) fn pod(name: &str) -> Pod {
    from_json(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }))
}

/// A pod of `default` that asks for one CPU, on a node.
pub(crate) fn bound(name: &str, node: &str) -> Pod {
    let mut pod = pod(name);
    pod.spec.as_mut().unwrap().node_name = node.to_owned();
    pod
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
