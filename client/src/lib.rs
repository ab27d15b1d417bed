//! A client of the `berth.v1` services, for every program that speaks to a server: the `berth` commands and the load
//! generator.
//!
//! * [`Client`]: connections to one server, with [`Credentials`], and a typed client of each service;
//! * [`feed`]: a whole cluster in one generation, through `ClusterService.Sync`;
//! * [`caller`]: placements by one call a pod, by batches, or pipelined over a stream;
//! * [`outcome`]: counts of what placements answered;
//! * [`raw`]: calls whose messages stay encoded.

mod backoff;
pub mod caller;
mod channel;
pub mod code;
mod codec;
mod credentials;
pub mod feed;
pub mod outcome;
mod pipeline;
pub mod raw;

use std::net::IpAddr;
use std::time::Duration;

use berth_proto::berth_v1::autoscaler_service_client::AutoscalerServiceClient;
use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::preemption_service_client::PreemptionServiceClient;
use berth_proto::berth_v1::session_service_client::SessionServiceClient;
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, Delta, GetClusterRequest, GetClusterResponse, PodKey, delta,
};
use tonic::client::Grpc;
use tonic::transport::Endpoint;

pub use caller::{Caller, Mode, PlaceOptions};
pub use channel::Channel;
pub use code::code_name;
pub use credentials::Credentials;
pub use feed::{Fed, Refused};

/// Callback that receives the number of objects or pods just completed.
pub type OnProgress = std::sync::Arc<dyn Fn(u64) + Send + Sync>;

/// Reason why a call, or the connection for it, failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL or the credentials cannot be used for a gRPC connection.
    #[error("server `{url}`: {reason}")]
    Url {
        /// The URL as the caller gave it.
        url: String,
        /// Description of the error.
        reason: String,
    },
    /// The connection failed, for example because no server listens at the URL.
    #[error("server `{url}`: cannot connect: {}", cause(url, .source))]
    Connect {
        /// The URL as the caller gave it.
        url: String,
        /// The transport's error.
        source: tonic::transport::Error,
    },
    /// The server refused or failed the call.
    #[error("`{method}`: {}: {}", code_name(.status.code()), .status.message())]
    Rpc {
        /// `Service.Method`.
        method: &'static str,
        /// Status of the response.
        status: Box<tonic::Status>,
    },
    /// The response violates the contract of `berth.v1`.
    #[error("`{method}`: {reason}")]
    Contract {
        /// `Service.Method`.
        method: &'static str,
        /// Description of the violation.
        reason: String,
    },
}

impl ClientError {
    /// Maps the status of a failed call of `method`, `Service.Method`, to an error.
    pub fn rpc(method: &'static str) -> impl FnOnce(tonic::Status) -> Self {
        move |status| Self::Rpc { method, status: Box::new(status) }
    }
}

/// Why a connection failed, in words.
fn cause(url: &str, error: &tonic::transport::Error) -> String {
    let cause = root_cause(error);
    // rustls' word for an answer that is no TLS record, such as that of an HTTP server without TLS.
    if url.starts_with("https://") && cause.contains("InvalidContentType") {
        let plain = url.replacen("https", "http", 1);
        return format!("the server does not speak TLS; without it, its address is `{plain}`");
    }
    cause
}

/// The innermost error: "connection refused" is wrapped in two layers that only say "transport error".
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Limit of a received message. Responses of `Explain` and listings of large clusters exceed tonic's default of 4 MiB.
const MAX_MESSAGE_BYTES: usize = 256 * 1024 * 1024;

/// Deltas in one `Apply`: many, to save round trips, and few enough for every server's message limit.
const DELTAS_PER_APPLY: usize = 1_000;

/// Connections to one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    channels: Vec<Channel>,
}

impl Client {
    /// Opens `n_connections` (at least one) connections to `url`, such as `http://127.0.0.1:7420` or `127.0.0.1:7420`,
    /// without credentials.
    pub async fn connect(url: &str, n_connections: usize) -> Result<Self, ClientError> {
        Self::connect_with(url, n_connections, &Credentials::default()).await
    }

    /// Opens `n_connections` (at least one) connections to `url` with `credentials`, whose files are read once, here.
    ///
    /// For `https://` the server's certificate has to be issued by the authority in `ca_file`, for the host of the URL.
    pub async fn connect_with(
        url: &str,
        n_connections: usize,
        credentials: &Credentials,
    ) -> Result<Self, ClientError> {
        let endpoint = endpoint(url, credentials)?;
        let authorization = credentials
            .authorization()
            .map_err(|reason| ClientError::Url { url: url.to_owned(), reason })?;
        let mut channels = Vec::with_capacity(n_connections.max(1));
        for _ in 0..n_connections.max(1) {
            let connected = endpoint.connect().await;
            let wire =
                connected.map_err(|source| ClientError::Connect { url: url.to_owned(), source })?;
            channels.push(Channel::new(wire, authorization.clone()));
        }
        Ok(Self { channels })
    }

    /// Number of open connections.
    pub fn n_connections(&self) -> usize {
        self.channels.len()
    }

    /// The placement service over connection `index` modulo the number of connections.
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

    /// The lifecycle service over the first connection.
    pub fn lifecycle(&self) -> LifecycleServiceClient<Channel> {
        LifecycleServiceClient::new(self.channels[0].clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Any service over connection `index` modulo the number of connections, with messages encoded by the caller.
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

    /// Applies a small batch of deltas; the response lists those that the server refused.
    pub async fn apply(&self, deltas: Vec<Delta>) -> Result<ApplyResponse, ClientError> {
        let answer = self.cluster().apply(ApplyRequest { deltas }).await;
        Ok(answer.map_err(ClientError::rpc("ClusterService.Apply"))?.into_inner())
    }

    /// Deletes pods, bound or assumed. The first refusal is an error: a healthy server refuses no deletion.
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

fn endpoint(url: &str, credentials: &Credentials) -> Result<Endpoint, ClientError> {
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
    let Some(host) = endpoint.uri().host().filter(|host| !host.is_empty()) else {
        return Err(refuse("the URL names no host"));
    };
    if !is_tls {
        credentials.check_plain(is_loopback(host)).map_err(|reason| refuse(&reason))?;
    }
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(Duration::from_secs(5));
    if !is_tls {
        return Ok(endpoint);
    }
    let tls = credentials.tls().map_err(|reason| refuse(&reason))?;
    endpoint.tls_config(tls).map_err(|error| {
        let files = credentials.tls_files();
        refuse(&format!("cannot use {files} for TLS: {}", root_cause(&error)))
    })
}

/// Whether `host`, as written in a URL, is this machine's loopback, so that no other machine can read what is sent.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{Client, ClientError, Credentials, endpoint, is_loopback};

    #[test]
    fn scheme_is_optional_and_bad_urls_are_refused() {
        let none = Credentials::default();
        assert_eq!(endpoint("127.0.0.1:7420", &none).unwrap().uri(), "http://127.0.0.1:7420/");
        for bad in ["https://localhost:1", "ftp://localhost", "http://", "", "http://a b"] {
            assert!(matches!(endpoint(bad, &none), Err(ClientError::Url { .. })), "{bad}");
        }
    }

    #[test]
    fn credentials_must_fit_the_scheme() {
        let trusting = Credentials::trusting("no-such-file.crt");
        let token = Credentials { token_file: Some("t".into()), ..Credentials::default() };
        let half = Credentials { client_cert_file: Some("c".into()), ..trusting.clone() };
        for (url, credentials, expected) in [
            ("https://localhost:1", &trusting, "cannot read `no-such-file.crt`"),
            ("http://localhost:1", &trusting, "`--ca-file` is for `https://`"),
            ("http://localhost:1", &half, "is for `https://`"),
            ("http://berth.example:1", &token, "a token is not sent over plain `http://`"),
            ("https://berth.example:1", &token, "`--ca-file`"),
        ] {
            let error = endpoint(url, credentials).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(endpoint("http://[::1]:1", &token).is_ok());
    }

    #[test]
    fn loopback_is_recognised_by_name_and_by_address() {
        for host in
            ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["localhost.example", "10.0.0.1", "0.0.0.0", "[::]", "berth", "127.0.0.1.example"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_reported_with_the_cause() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Client::connect(&free.to_string(), 1).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("server `{free}`: cannot connect: ")), "{error}");
        assert!(error.to_lowercase().contains("refused"), "{error}");
    }
}
