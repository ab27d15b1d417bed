//! The HTTP side: what probes and scrapers ask for, on a port of its own.

pub(crate) mod health;
mod metrics;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

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
        .with_state(state)
}
