//! HTTP/1.1 with a time limit for everything that a peer can make a server wait for.

mod head_timeout;

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tower_service::Service as _;

use super::connection::Connection;
use crate::shutdown;
use head_timeout::{Exchange, HeadTimeout, ResponseBody};

/// How long a connection may be open between two requests. Longer than Go's clients keep one, kube-scheduler among
/// them: they close first, so that none of their requests meets a connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the head of a request may take from its first byte; for the first request, from the start of the
/// connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request may take from its head to the head of its response, including the time to read its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of bytes that are read ahead, and so of a head.
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// Serves `connections` with `router` until `stop` is set, then finishes the requests under way. Dropping the future
/// aborts them.
pub(crate) async fn serve(
    router: Router,
    mut connections: mpsc::Receiver<Connection>,
    stop: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    {
        let mut stopping = pin!(shutdown::requested(stop.clone()));
        loop {
            tokio::select! {
                () = &mut stopping => break,
                Some(_) = open.join_next() => {}
                connection = connections.recv() => match connection {
                    Some(connection) => {
                        open.spawn(serve_one(router.clone(), connection, stop.clone()));
                    }
                    None => break,
                },
            }
        }
    }
    drop(connections);
    while open.join_next().await.is_some() {}
}

async fn serve_one(router: Router, connection: Connection, stop: watch::Receiver<bool>) {
    let peer = connection.peer().clone();
    let exchange = Exchange::default();
    let service = {
        let exchange = exchange.clone();
        service_fn(move |mut request: Request<Incoming>| {
            let responding = exchange.begin_response();
            request.extensions_mut().insert(peer.clone());
            let mut router = router.clone();
            async move {
                let answering = router.call(request);
                let response = match tokio::time::timeout(REQUEST_TIMEOUT, answering).await {
                    Ok(Ok(response)) => response,
                    Err(_) => timed_out(),
                };
                Ok::<_, Infallible>(response.map(|body| ResponseBody::new(body, responding)))
            }
        })
    };
    let io = TokioIo::new(HeadTimeout::new(connection, exchange, HEAD_TIMEOUT));
    let serving = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(io, service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = shutdown::requested(stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

fn timed_out() -> Response<Body> {
    let text = format!("no answer within {REQUEST_TIMEOUT:?}\n");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
