//! HTTP: the console, the deciding calls in Kubernetes' own JSON, probes, metrics, and kube-scheduler's extender protocol,
//! on a port of its own.

mod authorize;
mod body;
mod console;
mod extender;
mod health;
mod metrics;
mod openapi;
mod site;
mod trace;
mod v1;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::extender::Extender;
use crate::service::State;
pub use v1::TranslatedBody;
pub(crate) use v1::{Calls, translated};

/// The routes of the HTTP port; `calls` answers those below `/v1`.
pub(crate) fn router(state: Arc<State>, extender: Arc<Extender>, calls: Calls) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/healthz", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .route(openapi::PATH, get(openapi::get))
        .fallback(health::not_found)
        .with_state(state.clone())
        .merge(console::routes(state.clone()))
        .merge(extender::routes(state.clone(), extender))
        .merge(v1::routes(state.clone(), calls))
        .layer(from_fn_with_state(state.clone(), authorize::authorize))
        .layer(from_fn_with_state(state.clone(), site::check))
        .layer(from_fn_with_state(state, trace::trace))
}
