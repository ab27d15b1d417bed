//! Extender: what kube-scheduler asks over HTTP, protocol v1, on `/extender/{filter,prioritize,preempt,bind}`.
//! Rules: S-EXT-1 to S-EXT-16.
//!
//! A call reads its body (`body`), takes out what it needs where it stands (`arguments`, `members`), asks the engine for exactly
//! the nodes that were sent, and writes the answer into one buffer (`text`). What kube-scheduler shows of a failure decides how
//! one is told: an `Error` in a 200 stands in the pod's event, of other statuses only the number does (S-EXT-2).

mod filter;
mod prioritize;
mod preempt;
mod bind;
mod arguments;
mod candidates;
mod members;
mod levels;
mod body;
mod text;
mod described;
mod failure;
mod policies;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::Response;
use axum::routing::post;

use crate::admission::Lane;
use crate::clock;
use crate::config::extender::ExtenderOptions;
use crate::config::policy::Profiles;
use crate::escape;
use crate::grpc::{Deadline, State};
use crate::telemetry::{ExtenderOutcome, ExtenderVerb};
use body::Bodies;
use described::Described;
use failure::Failure;
use policies::Policies;
pub use policies::PolicyChoiceError;

/// A body of more bytes than this is worked on beside the reactor: the names of 5,000 nodes are half of it.
const LONG_BODY: usize = 128 << 10;

/// Four names are much shorter than this.
const LONGEST_BIND: usize = 64 << 10;

/// What the verbs share besides the cluster.
pub(crate) struct Extender {
    policies: Policies,
    bodies: Bodies,
    described: Described,
    /// Whether `bind` binds: whoever reaches the HTTP port may ask for it.
    binds: bool,
}

impl Extender {
    /// # Errors
    /// [`PolicyChoiceError`] where the options name what the profiles do not have.
    pub(crate) fn new(
        profiles: &Profiles,
        options: &ExtenderOptions,
    ) -> Result<Extender, PolicyChoiceError> {
        Ok(Extender {
            policies: Policies::new(profiles, options)?,
            bodies: Bodies::new(options.max_body_bytes),
            described: Described::default(),
            binds: options.bind,
        })
    }

    /// All of every profile, bodies of the default size, no binding.
    pub(crate) fn of(profiles: &Profiles) -> Extender {
        Extender {
            policies: Policies::all(profiles),
            bodies: Bodies::new(ExtenderOptions::default().max_body_bytes),
            described: Described::default(),
            binds: false,
        }
    }
}

/// The verbs under their default names; another method is a 405.
pub(crate) fn routes() -> Router<Arc<State>> {
    Router::new()
        .route("/extender/filter", post(filter))
        .route("/extender/prioritize", post(prioritize))
        .route("/extender/preempt", post(preempt))
        .route("/extender/bind", post(bind))
}

async fn filter(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(ExtenderVerb::Filter, state, request).await
}

async fn prioritize(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(ExtenderVerb::Prioritize, state, request).await
}

async fn preempt(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(ExtenderVerb::Preempt, state, request).await
}

async fn bind(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answer(ExtenderVerb::Bind, state, request).await
}

async fn answer(verb: ExtenderVerb, state: Arc<State>, request: Request) -> Response {
    let started = clock::now();
    // Held until the answer is made.
    let visit = state.admission.visit(lane(verb, request.headers()), started);
    let (answered, started) = match &visit {
        Ok(_) => {
            let body = state.extender.bodies.read(request).await;
            let started = clock::now();
            match body {
                Ok(body) => (carry_out(verb, &state, body).await, started),
                Err(failure) => (Err(failure), started),
            }
        }
        Err(refused) => (Err(Failure::from(refused.clone())), started),
    };
    let counts = state.metrics.extender();
    counts.record_duration(verb, clock::now() - started);
    match answered {
        Ok(json) => {
            counts.count(verb, ExtenderOutcome::Answered);
            as_json(json)
        }
        Err(failure) => {
            counts.count(verb, failure.outcome());
            // Of those there are many at a time, and the metrics count them.
            if !matches!(failure, Failure::Busy { .. }) {
                let reason = failure.to_string();
                let reason = escape::clipped(&reason);
                tracing::warn!(verb = verb.name(), "an extender call failed: {reason}");
            }
            failure.response(verb)
        }
    }
}

/// Where it will be carried out, as far as its headers tell.
fn lane(verb: ExtenderVerb, headers: &HeaderMap) -> Lane {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    match length {
        Some(0..=LONG_BODY) if verb != ExtenderVerb::Preempt => Lane::Quick,
        Some(_) | None => Lane::Decision,
    }
}

async fn carry_out(
    verb: ExtenderVerb,
    state: &Arc<State>,
    body: body::Held,
) -> Result<Vec<u8>, Failure> {
    state.freshness.check_decidable()?;
    let carry_out = match verb {
        ExtenderVerb::Filter => filter::filter,
        ExtenderVerb::Prioritize => prioritize::prioritize,
        ExtenderVerb::Preempt => preempt::preempt,
        ExtenderVerb::Bind if !state.extender.binds => {
            return Err(Failure::Refused(
                "this server does not bind for kube-scheduler: set `extender: {bind: true}` in its configuration, or leave `bindVerb` out"
                    .to_owned(),
            ));
        }
        ExtenderVerb::Bind if body.len() > LONGEST_BIND => {
            return Err(Failure::Invalid(format!(
                "`ExtenderBindingArgs`: has more than {LONGEST_BIND} bytes"
            )));
        }
        ExtenderVerb::Bind => return bind::bind(state, &body).await,
    };
    if body.len() <= LONG_BODY
        && verb != ExtenderVerb::Preempt
        && state.decides_in_microseconds(&state.cluster)
    {
        return carry_out(state, &body);
    }
    let shared = state.clone();
    state.pool.run(Deadline(None), move |_| carry_out(&shared, &body)).await?
}

fn as_json(json: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(json));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    response
}
