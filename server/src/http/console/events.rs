//! The stream of events of one console. It ends when the console goes, when its credential is revoked, and when the
//! server drains.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Shared};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::live::{Live, RESYNC};
use crate::admission::Lane;
use crate::auth::Caller;
use crate::clock;
use crate::http::authorize::refuse;
use crate::net::{InUse, Peer};
use crate::service::{CallError, Credential, Revoked};
use crate::shutdown;

/// Number of events that may wait for the connection.
const QUEUE: usize = 4;
/// Time after which something is sent if nothing happens, so that what is between knows that both ends are there.
const SILENCE: Duration = Duration::from_secs(15);

/// Answers with a stream of server-sent events.
pub(super) async fn get(
    Shared(live): Shared<Arc<Live>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Response {
    let state = live.state();
    let user = state.user(&caller);
    let admitted = state
        .admission
        .visit(Lane::Stream, clock::now(), &user)
        .and_then(|visit| Ok((visit, state.admission.open_stream(&user)?)));
    let admitted = match admitted.map_err(CallError::from) {
        Ok(admitted) => admitted,
        Err(error) => return refuse(&error),
    };
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let in_use = peer.as_ref().map(|peer| InUse::begin(peer, &caller.user));
    let credential = Credential::of(&state.auth, peer.as_ref(), request.headers());
    let revoked: Revoked =
        if state.auth.is_open() { Box::pin(pending()) } else { credential.revoked() };
    let draining = shutdown::requested(state.draining.clone());
    let (sender, receiver) = mpsc::channel(QUEUE);
    let told = live.join();
    tokio::spawn(async move {
        let _held = (admitted, in_use);
        tokio::select! {
            () = pass_on(told, &sender) => {}
            () = draining => {}
            _ = revoked => {}
        }
    });
    let stream = ReceiverStream::new(receiver).map(Ok::<Bytes, Infallible>);
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Passes events on until the console is gone. One that lags behind is told so.
async fn pass_on(mut told: Receiver<Bytes>, console: &Sender<Bytes>) {
    // What is between sends no headers on before there is something behind them.
    let mut next = Bytes::from_static(b": berth\n\n");
    loop {
        if console.send(next).await.is_err() {
            return;
        }
        let received = tokio::select! {
            () = console.closed() => return,
            received = tokio::time::timeout(SILENCE, told.recv()) => received,
        };
        next = match received {
            Ok(Ok(event)) => event,
            Ok(Err(RecvError::Lagged(_))) => Bytes::from_static(RESYNC.as_bytes()),
            Ok(Err(RecvError::Closed)) => return,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
    }
}
