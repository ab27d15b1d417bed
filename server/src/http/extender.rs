//! The extender's HTTP half: reads bodies within limits, runs verbs on the right threads, and turns failures into the
//! statuses that kube-scheduler understands.

mod failure;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::Response;
use axum::routing::post;

use super::body::{self, Bodies};
use crate::admission::Lane;
use crate::clock;
use crate::escape;
use crate::extender::{Extender, Failure, LONG_BODY};
use crate::net::Peer;
use crate::service::{Access, CallError, State};
use crate::telemetry::{ExtenderOutcome, ExtenderVerb, LogLimit};

/// State that the routes share.
struct Routes {
    state: Arc<State>,
    extender: Arc<Extender>,
    bodies: Bodies,
    failures: LogLimit,
}

/// The verbs under their default names; any other HTTP method is a 405.
pub(super) fn routes(state: Arc<State>, extender: Arc<Extender>) -> Router {
    let bodies = Bodies::new(extender.max_body_bytes(), state.bytes.clone());
    Router::new()
        .route("/extender/filter", post(filter))
        .route("/extender/prioritize", post(prioritize))
        .route("/extender/preempt", post(preempt))
        .route("/extender/bind", post(bind))
        .with_state(Arc::new(Routes { state, extender, bodies, failures: LogLimit::default() }))
}

async fn filter(Shared(routes): Shared<Arc<Routes>>, request: Request) -> Response {
    answer(ExtenderVerb::Filter, &routes, request).await
}

async fn prioritize(Shared(routes): Shared<Arc<Routes>>, request: Request) -> Response {
    answer(ExtenderVerb::Prioritize, &routes, request).await
}

async fn preempt(Shared(routes): Shared<Arc<Routes>>, request: Request) -> Response {
    answer(ExtenderVerb::Preempt, &routes, request).await
}

async fn bind(Shared(routes): Shared<Arc<Routes>>, request: Request) -> Response {
    answer(ExtenderVerb::Bind, &routes, request).await
}

async fn answer(verb: ExtenderVerb, routes: &Routes, request: Request) -> Response {
    let Routes { state, extender, bodies, failures } = routes;
    let started = clock::now();
    let access = Access::of(request.extensions());
    let user = state.user(access.caller());
    // Held until the response is complete.
    let visit = state.admission.visit(lane(verb, request.headers()), started, &user);
    let (answered, started) = match &visit {
        Ok(_) => {
            let (parts, body) = request.into_parts();
            let holder = body::holder(access.caller(), parts.extensions.get::<Arc<Peer>>());
            let body = bodies.read(&parts.headers, body, &holder).await;
            let started = clock::now();
            match body {
                Ok(body) => {
                    let answering = extender.carry_out(verb, state, &access, body);
                    (user.carry(answering).await, started)
                }
                Err(unread) => (Err(unread.into()), started),
            }
        }
        Err(refused) => (Err(Failure::from(CallError::from(refused.clone()))), started),
    };
    let counts = state.metrics.extender();
    counts.record_duration(verb, clock::now() - started);
    match answered {
        Ok(json) => {
            counts.count(verb, ExtenderOutcome::Answered);
            as_json(json)
        }
        Err(failure) => {
            counts.count(verb, failure::outcome(&failure));
            // There may be many of those at a time, and the metrics count them.
            if !matches!(failure, Failure::Busy { .. })
                && let Some(n_more) = failures.admit(clock::now())
            {
                let reason = failure.to_string();
                let reason = escape::clipped(&reason);
                tracing::warn!(n_more, verb = verb.name(), "an extender call failed: {reason}");
            }
            failure::response(&failure, verb)
        }
    }
}

/// The lane of a call, as far as its headers show.
fn lane(verb: ExtenderVerb, headers: &HeaderMap) -> Lane {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    match length {
        Some(0..=LONG_BODY) if verb != ExtenderVerb::Preempt => Lane::Quick,
        Some(_) | None => Lane::Decision,
    }
}

fn as_json(json: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(json));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    response
}
