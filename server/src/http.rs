//! HTTP: probes, metrics, and kube-scheduler's extender protocol, on a port of its own.

mod authorize;
mod extender;
mod health;
mod metrics;
mod trace;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::extender::Extender;
use crate::service::State;

/// The routes of the HTTP port.
pub(crate) fn router(state: Arc<State>, extender: Arc<Extender>) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/healthz", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .fallback(health::not_found)
        .with_state(state.clone())
        .merge(extender::routes(state.clone(), extender))
        .layer(from_fn_with_state(state.clone(), authorize::authorize))
        .layer(from_fn_with_state(state, trace::trace))
}
