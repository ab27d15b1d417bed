//! Trace: continues the caller's trace for a request on the HTTP port, as for a gRPC call.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::Response;

use crate::service::State;

/// Names of spans by path: a fixed set, since paths come from outside.
const NAMES: [(&str, &str); 5] = [
    ("/extender/filter", "POST /extender/filter"),
    ("/extender/prioritize", "POST /extender/prioritize"),
    ("/extender/preempt", "POST /extender/preempt"),
    ("/extender/bind", "POST /extender/bind"),
    ("/metrics", "GET /metrics"),
];

/// Runs the request in a span; probes and unknown paths have none.
pub(super) async fn trace(
    Shared(state): Shared<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let name = NAMES.iter().find(|(known, _)| *known == path);
    let span = name.and_then(|(path, name)| {
        let span = state.tracer.begin(request.headers(), name)?;
        Some((span, *path))
    });
    let Some((mut span, path)) = span else { return next.run(request).await };
    let method = if path == "/metrics" { "GET" } else { "POST" };
    span.set_attribute("http.request.method", method);
    span.set_attribute("http.route", path);
    let response = span.scope().carry(next.run(request)).await;
    let status = response.status();
    span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail();
    }
    response
}
