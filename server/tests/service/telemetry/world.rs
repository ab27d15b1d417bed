//! A server with one node, a client, and HTTP as a scraper speaks it.

use std::net::SocketAddr;
use std::time::Duration;

use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{ApplyRequest, Delta, PlaceRequest, PlaceResponse};
use berth_proto::core_v1;
use berth_server::runtime::{Server, ServerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

pub(crate) const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const PARENT_ID: &str = "00f067aa0ba902b7";

/// The `traceparent` header of a caller whose part of the trace is sampled.
pub(crate) fn traceparent() -> String {
    format!("00-{TRACE_ID}-{PARENT_ID}-01")
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) placement: PlacementServiceClient<Channel>,
}

impl World {
    pub(crate) async fn start(options: ServerOptions) -> World {
        let server = Server::start(options).await.unwrap();
        let url = format!("http://{}", server.grpc_address());
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "memory": "1Ti", "pods": "500"}}});
        let change = Change::UpsertNode(serde_json::from_value(node).unwrap());
        let deltas = vec![Delta { change: Some(change) }];
        let mut cluster = ClusterServiceClient::new(channel.clone());
        cluster.apply(ApplyRequest { deltas }).await.unwrap();
        World { server, placement: PlacementServiceClient::new(channel) }
    }

    /// Calls `Place` with these metadata.
    pub(crate) async fn place(&mut self, metadata: MetadataMap) -> Result<PlaceResponse, Status> {
        let pod =
            json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}});
        let pod: core_v1::Pod = serde_json::from_value(pod).unwrap();
        let mut request =
            Request::new(PlaceRequest { pod: Some(pod.into()), ..PlaceRequest::default() });
        *request.metadata_mut() = metadata;
        self.placement.place(request).await.map(tonic::Response::into_inner)
    }
}

/// A response: its head as received, and its body.
pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header of the response, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// Sends a request whose head begins with `lines`, and reads the whole response.
pub(crate) async fn ask(address: SocketAddr, lines: &[&str], body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{}\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        lines.join("\r\n"),
        body.len()
    );
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await.unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    Reply { head, body: bytes[end + 4..].to_vec() }
}

/// Gets `/metrics` with this `Accept` header.
pub(crate) async fn scrape(address: SocketAddr, accept: &str) -> Reply {
    let accept = format!("Accept: {accept}");
    ask(address, &["GET /metrics HTTP/1.1", &accept], &Value::Null).await
}

/// Calls `look` until it returns something, for as long as a slow machine may take.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let patience = Duration::from_secs(60);
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(patience, looking)
        .await
        .unwrap_or_else(|_| panic!("{what}: it never came"))
}
