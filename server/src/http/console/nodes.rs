//! All nodes at one moment, in columns.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use flate2::Compression;

use super::columns;
use super::compress::{gzip, takes_gzip};
use crate::auth::Caller;
use crate::http::authorize::refuse;
use crate::service::{CallError, Cancel, Deadline, State};

/// Number of requests of pods that room is counted for.
const MIX: usize = 32;

/// Answers with all nodes, and with the most frequent requests of pods.
pub(super) async fn get(
    Shared(state): Shared<Arc<State>>,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Response {
    let is_compressed = takes_gzip(&headers);
    let encoding = encode(&state, is_compressed);
    let bytes = match state.user(&caller).carry(encoding).await {
        Ok(bytes) => bytes,
        Err(error) => return refuse(&error),
    };
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

async fn encode(state: &Arc<State>, is_compressed: bool) -> Result<Vec<u8>, CallError> {
    let shared = state.clone();
    let encode = move |cancel: &Cancel| {
        let snapshot = shared.cluster.snapshot();
        let rows = snapshot.rows_since(None);
        cancel.check()?;
        let mix = snapshot.frequent_requests(MIX);
        cancel.check()?;
        let bytes = columns::encode(&rows, snapshot.generation().get(), &mix);
        cancel.check()?;
        if !is_compressed {
            return Ok(bytes);
        }
        gzip(&bytes, Compression::fast()).map_err(|error| {
            tracing::error!("nodes cannot be compressed: {error}");
            CallError::Broken
        })
    };
    state.pool.run(Deadline(None), encode).await?
}
