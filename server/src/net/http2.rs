//! HTTP/2 for gRPC: serves each connection until it ends or the server stops.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connection::Connection;
use crate::shutdown;

/// Settings of HTTP/2.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Http2 {
    /// Bytes that a client may send ahead of the server's reading, per stream and per connection.
    pub(crate) stream_window_bytes: u32,
    pub(crate) connection_window_bytes: u32,
    pub(crate) max_streams: u32,
    pub(crate) max_header_bytes: u32,
    /// Interval of pings to a silent peer, and the time limit for its answer before the connection is closed.
    pub(crate) keepalive_interval: Duration,
    pub(crate) keepalive_timeout: Duration,
}

/// Serves `connections` with `service` until `stop` is set, then finishes the calls under way. Dropping the future
/// aborts them.
pub(crate) async fn serve<S, F, B>(
    http2: Http2,
    service: S,
    mut connections: mpsc::Receiver<Connection>,
    stop: watch::Receiver<bool>,
) where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut open = JoinSet::new();
    {
        let mut stopping = pin!(shutdown::requested(stop.clone()));
        loop {
            tokio::select! {
                () = &mut stopping => break,
                Some(_) = open.join_next() => {}
                connection = connections.recv() => match connection {
                    Some(connection) => {
                        open.spawn(serve_one(http2, service.clone(), connection, stop.clone()));
                    }
                    None => break,
                },
            }
        }
    }
    drop(connections);
    while open.join_next().await.is_some() {}
}

async fn serve_one<S, F, B>(
    http2: Http2,
    service: S,
    connection: Connection,
    stop: watch::Receiver<bool>,
) where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let peer = connection.peer().clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        service(request)
    });
    let serving = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(http2.stream_window_bytes)
        .initial_connection_window_size(http2.connection_window_bytes)
        .max_concurrent_streams(http2.max_streams)
        .max_header_list_size(http2.max_header_bytes)
        .keep_alive_interval(http2.keepalive_interval)
        .keep_alive_timeout(http2.keepalive_timeout)
        .serve_connection(TokioIo::new(connection), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = shutdown::requested(stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a gRPC connection ended");
    }
}
