//! HTTP/2 transport of gRPC.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server as Transport;

use crate::grpc::CallService;
use crate::net::Connection;
use crate::service::Limits;

/// Bytes that a client may send ahead of the server's reading, per stream and per connection. On loopback no size made
/// a difference (benches/record/2026-11-22-epyc-2-cores-wire.md); over a network a window limits the data of a round
/// trip. Frames keep HTTP/2's default of 16 KiB: larger ones gained nothing.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Interval of pings to a silent peer, and the time limit for its answer before the connection is closed.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// The transport with the settings of this server; public so that a server to compare with can use the same.
#[must_use]
pub fn transport(limits: &Limits) -> Transport {
    Transport::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits.load.max_streams_per_connection)
        .http2_max_header_list_size(limits.load.max_header_bytes)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

pub(super) async fn serve_grpc(
    transport: Transport,
    service: CallService,
    incoming: mpsc::Receiver<Connection>,
    stop: impl Future<Output = ()>,
) {
    let incoming = ReceiverStream::new(incoming).map(Ok::<_, io::Error>);
    if let Err(error) = transport.serve_with_incoming_shutdown(service, incoming, stop).await {
        tracing::error!(%error, "the gRPC listener ended");
    }
}
