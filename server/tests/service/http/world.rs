//! A server with a small cluster, and one HTTP request at a time over a socket.

use std::net::SocketAddr;

use berth_engine::TieBreak;
use berth_server::feed::file::{self, UnknownFields};
use berth_server::in_process::{CollectedResponse, InProcess};
use berth_server::runtime::{Server, ServerOptions};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Two nodes of 4 CPUs in two zones, and a pod that takes 3 of the first.
pub(crate) const CLUSTER: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "Node",
     "metadata": {"name": "n0", "labels": {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "n0"}},
     "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}},
    {"apiVersion": "v1", "kind": "Node",
     "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "b", "kubernetes.io/hostname": "n1"}},
     "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}},
    {"apiVersion": "v1", "kind": "Pod",
     "metadata": {"name": "old", "namespace": "default", "uid": "old", "labels": {"app": "old"},
                  "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "old", "uid": "rs",
                                       "controller": true}]},
     "spec": {"nodeName": "n0", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
]}"#;

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";

/// A server without credentials.
pub(crate) async fn server() -> Server {
    server_with(ServerOptions::default()).await
}

pub(crate) async fn server_with(options: ServerOptions) -> Server {
    let options = ServerOptions { tie_break: TieBreak::Lexicographic, ..options };
    let server = Server::start(options).await.unwrap();
    fill(&server);
    server
}

/// Loads the cluster.
pub(crate) fn fill(server: &Server) {
    let report =
        server.load(file::parse(&"cluster".into(), CLUSTER, UnknownFields::Refuse).unwrap());
    assert!(report.refused.is_empty(), "{:?}", report.refused);
}

pub(crate) fn in_process(server: &Server) -> InProcess {
    InProcess::of(server).unwrap()
}

/// A response as text.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The head in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Code, field and message of an error.
    pub(crate) fn error(&self) -> (String, String, String) {
        let error = &self.json()["error"];
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        (text("code"), text("field"), text("message"))
    }
}

/// Sends a request with these header lines, and reads the response.
pub(crate) async fn ask(address: SocketAddr, request: &str, headers: &str, body: &[u8]) -> Reply {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses the head does not read the body.
    drop(connection.write_all(body).await);
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Posts a body.
pub(crate) async fn post(server: &Server, path: &str, content_type: &str, body: &str) -> Reply {
    let headers = format!("Content-Type: {content_type}\r\n");
    ask(server.http_address(), &format!("POST {path}"), &headers, body.as_bytes()).await
}

/// The message of a unary gRPC response, or its status.
pub(crate) fn message(response: &CollectedResponse) -> Result<&[u8], i32> {
    match response.grpc_status() {
        Some(0) => Ok(&response.body[5..]),
        status => Err(status.unwrap()),
    }
}
