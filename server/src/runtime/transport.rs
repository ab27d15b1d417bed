//! HTTP/2 transport of gRPC.

use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use tokio::sync::{mpsc, watch};
use tonic::body::Body;
use tonic::transport::Server as Transport;
use tower_service::Service as _;

use crate::grpc::CallService;
use crate::net::{Connection, Http2, serve_http2};
use crate::service::Limits;

/// Bytes that a client may send ahead of the server's reading, per stream and per connection. They are in memory before
/// anything is known of the message, so they are few: a message is read on only where the budget of bytes has room for
/// it. On loopback no size made a difference (benches/record/2026-11-22-epyc-2-cores-wire.md); over a network a window
/// limits the data of a round trip. Frames keep HTTP/2's default of 16 KiB: larger ones gained nothing.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Interval of pings to a silent peer, and the time limit for its answer before the connection is closed.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Tonic's transport with the settings of this server, for a server to compare with.
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

/// Serves gRPC until `stop` is set, then finishes the calls under way. Dropping the future aborts them.
pub(super) async fn serve_grpc(
    limits: &Limits,
    service: CallService,
    incoming: mpsc::Receiver<Connection>,
    stop: watch::Receiver<bool>,
) {
    let http2 = Http2 {
        stream_window_bytes: STREAM_WINDOW_BYTES,
        connection_window_bytes: CONNECTION_WINDOW_BYTES,
        max_streams: limits.load.max_streams_per_connection,
        max_header_bytes: limits.load.max_header_bytes,
        keepalive_interval: KEEPALIVE,
        keepalive_timeout: KEEPALIVE_TIMEOUT,
    };
    let call = move |request: Request<Incoming>| service.clone().call(request.map(Body::new));
    serve_http2(http2, call, incoming, stop).await;
}
