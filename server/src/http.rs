//! The HTTP side: what probes and scrapers ask for, on a port of its own.

pub(crate) mod health;
mod metrics;
mod trace;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::auth;
use crate::extender;
use crate::grpc::State;

pub(crate) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/healthz", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .merge(extender::routes())
        .fallback(health::not_found)
        .layer(from_fn_with_state(state.clone(), auth::http::authorize))
        .layer(from_fn_with_state(state.clone(), trace::trace))
        .with_state(state)
}
