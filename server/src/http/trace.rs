//! Trace: a request on the HTTP port belongs to its caller's trace, as a gRPC call does.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::Response;

use crate::service::State;

/// The names of spans, by path: closed, for they come from outside.
const NAMES: [(&str, &str); 5] = [
    ("/extender/filter", "POST /extender/filter"),
    ("/extender/prioritize", "POST /extender/prioritize"),
    ("/extender/preempt", "POST /extender/preempt"),
    ("/extender/bind", "POST /extender/bind"),
    ("/metrics", "GET /metrics"),
];

/// Carries the request out in a span; probes and what is not there have none.
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
