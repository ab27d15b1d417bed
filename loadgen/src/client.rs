//! A client of the `berth.v1` services: several connections, the feed, and placing in three ways.

mod backoff;
pub mod caller;
pub mod code;
mod codec;
pub mod feed;
mod pipeline;

use std::path::Path;
use std::time::Duration;

use berth_proto::berth_v1::autoscaler_service_client::AutoscalerServiceClient;
use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::preemption_service_client::PreemptionServiceClient;
use berth_proto::berth_v1::session_service_client::SessionServiceClient;
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, Delta, GetClusterRequest, GetClusterResponse, PodKey, delta,
};
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

pub use caller::{Caller, Mode, PlaceOptions};
pub use code::code_name;
pub use feed::{Fed, Refused};

/// Called with the number of objects or pods that were just dealt with.
pub type OnProgress = std::sync::Arc<dyn Fn(u64) + Send + Sync>;

/// Why a call of the load generator failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not a URL that a gRPC connection can be made to.
    #[error("server `{url}`: {reason}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers there.
    #[error("server `{url}`: cannot connect: {}", root_cause(.source))]
    Connect {
        /// As it was given.
        url: String,
        /// The transport's own account.
        source: tonic::transport::Error,
    },
    /// The server refused or failed the call.
    #[error("`{method}`: {}: {}", code_name(.status.code()), .status.message())]
    Rpc {
        /// `Service.Method`.
        method: &'static str,
        /// The server's answer.
        status: Box<tonic::Status>,
    },
    /// The server's answer does not fit the contract of `berth.v1`.
    #[error("`{method}`: {reason}")]
    Contract {
        /// `Service.Method`.
        method: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
}

impl ClientError {
    pub(crate) fn rpc(method: &'static str) -> impl FnOnce(tonic::Status) -> Self {
        move |status| Self::Rpc { method, status: Box::new(status) }
    }
}

/// The innermost error: "connection refused" stands below two layers that only say "transport error".
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Answers of `Explain` and listings of large clusters go past tonic's 4 MiB.
const MAX_MESSAGE_BYTES: usize = 256 * 1024 * 1024;

/// Deltas in one `Apply`: enough to spare round trips, small enough for every server's message limit.
const DELTAS_PER_APPLY: usize = 1_000;

/// Connections to one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    channels: Vec<Channel>,
}

impl Client {
    /// Opens `n_connections` (at least one) connections to `url`, such as `http://127.0.0.1:7420` or `127.0.0.1:7420`.
    pub async fn connect(url: &str, n_connections: usize) -> Result<Self, ClientError> {
        Self::connect_trusting(url, n_connections, None).await
    }

    /// The same, and for `https://` with TLS: the server's certificate has to be of the authority in `ca_file`, which is in PEM,
    /// and for the host of the URL.
    pub async fn connect_trusting(
        url: &str,
        n_connections: usize,
        ca_file: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let endpoint = endpoint(url, ca_file)?;
        let mut channels = Vec::with_capacity(n_connections.max(1));
        for _ in 0..n_connections.max(1) {
            let connected = endpoint.connect().await;
            channels.push(
                connected.map_err(|source| ClientError::Connect { url: url.to_owned(), source })?,
            );
        }
        Ok(Self { channels })
    }

    /// How many connections are open.
    pub fn n_connections(&self) -> usize {
        self.channels.len()
    }

    /// The placement service over connection `index`, counted round and round.
    pub fn placement(&self, index: usize) -> PlacementServiceClient<Channel> {
        PlacementServiceClient::new(self.channels[index % self.channels.len()].clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The autoscaler service over the first connection.
    pub fn autoscaler(&self) -> AutoscalerServiceClient<Channel> {
        AutoscalerServiceClient::new(self.channels[0].clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The preemption service over the first connection.
    pub fn preemption(&self) -> PreemptionServiceClient<Channel> {
        PreemptionServiceClient::new(self.channels[0].clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The session service over the first connection.
    pub fn session(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channels[0].clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Any service over connection `index`, counted round and round, with messages encoded by the caller.
    fn grpc(&self, index: usize) -> Grpc<Channel> {
        Grpc::new(self.channels[index % self.channels.len()].clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The cluster service over the first connection.
    pub fn cluster(&self) -> ClusterServiceClient<Channel> {
        ClusterServiceClient::new(self.channels[0].clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Counts and generation of the server's cluster.
    pub async fn get_cluster(&self) -> Result<GetClusterResponse, ClientError> {
        let answer = self.cluster().get_cluster(GetClusterRequest::default()).await;
        Ok(answer.map_err(ClientError::rpc("ClusterService.GetCluster"))?.into_inner())
    }

    /// Applies a small batch; refused deltas are in the answer.
    pub async fn apply(&self, deltas: Vec<Delta>) -> Result<ApplyResponse, ClientError> {
        let answer = self.cluster().apply(ApplyRequest { deltas }).await;
        Ok(answer.map_err(ClientError::rpc("ClusterService.Apply"))?.into_inner())
    }

    /// Deletes pods, bound or assumed. The first refusal is an error: deleting is never wrong in a healthy server.
    pub async fn delete_pods(&self, keys: &[PodKey]) -> Result<(), ClientError> {
        for keys in keys.chunks(DELTAS_PER_APPLY) {
            let deltas = keys
                .iter()
                .map(|key| Delta { change: Some(delta::Change::DeletePod(key.clone())) })
                .collect();
            if let Some(refused) = self.apply(deltas).await?.rejections.first() {
                return Err(ClientError::Contract {
                    method: "ClusterService.Apply",
                    reason: format!(
                        "deleting {} was refused: `{}`: {}",
                        refused.object, refused.field, refused.reason
                    ),
                });
            }
        }
        Ok(())
    }
}

fn endpoint(url: &str, ca_file: Option<&Path>) -> Result<Endpoint, ClientError> {
    let refuse = |reason: &str| ClientError::Url { url: url.to_owned(), reason: reason.to_owned() };
    let with_scheme = match url.split_once("://") {
        None => format!("http://{url}"),
        Some(("http" | "https", _)) => url.to_owned(),
        Some((scheme, _)) => {
            return Err(refuse(&format!("unknown scheme `{scheme}`; use `http://` or `https://`")));
        }
    };
    let is_tls = with_scheme.starts_with("https://");
    let endpoint =
        Endpoint::from_shared(with_scheme).map_err(|error| refuse(&error.to_string()))?;
    if endpoint.uri().host().is_none_or(str::is_empty) {
        return Err(refuse("names no host"));
    }
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(Duration::from_secs(5));
    match (is_tls, ca_file) {
        (true, Some(path)) => {
            let shown = path.display();
            let authority = std::fs::read(path)
                .map_err(|error| refuse(&format!("cannot read `{shown}`: {error}")))?;
            // tonic passes over whatever is none, and blames the server for it later.
            if !String::from_utf8_lossy(&authority).contains("-----BEGIN CERTIFICATE-----") {
                return Err(refuse(&format!("`{shown}` holds no certificate in PEM")));
            }
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
            endpoint.tls_config(tls).map_err(|error| {
                refuse(&format!("`{shown}` is no certificate in PEM: {}", root_cause(&error)))
            })
        }
        (true, None) => Err(refuse("`https://` needs the authority's certificate, `--ca-file`")),
        (false, Some(_)) => Err(refuse("`--ca-file` is for `https://`")),
        (false, None) => Ok(endpoint),
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, ClientError, endpoint};

    #[test]
    fn scheme_is_optional_and_bad_urls_are_refused() {
        assert_eq!(endpoint("127.0.0.1:7420", None).unwrap().uri(), "http://127.0.0.1:7420/");
        for bad in ["https://localhost:1", "ftp://localhost", "http://", "", "http://a b"] {
            assert!(matches!(endpoint(bad, None), Err(ClientError::Url { .. })), "{bad}");
        }
        let ca_file = Some(std::path::Path::new("no-such-file.crt"));
        for (url, expected) in [
            ("https://localhost:1", "cannot read `no-such-file.crt`"),
            ("http://localhost:1", "`--ca-file` is for `https://`"),
        ] {
            let error = endpoint(url, ca_file).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_named_with_the_cause() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Client::connect(&free.to_string(), 1).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("server `{free}`: cannot connect: ")), "{error}");
        assert!(error.to_lowercase().contains("refused"), "{error}");
    }
}
