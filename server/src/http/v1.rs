//! `/v1`: the deciding calls in Kubernetes' own JSON. A request is translated to protobuf and answered by the services
//! that answer gRPC, through the same layer: it authenticates, admits, limits, counts, audits and traces the call. The
//! response is translated back.

mod compose;
mod expanded;
mod failure;
mod message;
mod objects;
pub(super) mod parameters;
pub(super) mod route;
mod told;
mod translate;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Shared};
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::Response;
use axum::routing::any;
use http_body_util::BodyExt as _;
use prost::bytes::Buf;
use tower_service::Service;

use super::body::{self, Bodies, Held};
use crate::net::Peer;
pub(super) use crate::service::REQUEST_ID;
use crate::service::{
    Deadline, Limits, MIN_REVISION, REVISION, STALENESS, SimpleRequest, State, Supposed, Target,
    grpc_timeout,
};
use expanded::Scene;
pub(super) use failure::Failure;
use message::OneMessage;
pub(super) use objects::{kinds, takes_replicas, takes_workloads};
use parameters::Parameters;
use route::{PLACE_BATCH, Route};
use told::Told;
use translate::{Form, Translated, translate};

/// Size up to which a request is translated, or a response written, on the thread where it arrived.
const SHORT_BYTES: usize = 64 << 10;
/// Headers of a request that its call gets.
const PASSED_ON: [HeaderName; 5] = [
    AUTHORIZATION,
    HeaderName::from_static(REQUEST_ID),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    MIN_REVISION,
];
/// Headers of a call's response that its caller gets: whether it repeats an earlier one, and what it has counted.
const TOLD: [HeaderName; 3] = [HeaderName::from_static("berth-replayed"), REVISION, STALENESS];

/// The services that answer calls, behind the layer around every call.
#[derive(Clone)]
pub(crate) struct Calls(Arc<dyn Fn(http::Request<tonic::body::Body>) -> Calling + Send + Sync>);

type Calling = Pin<Box<dyn Future<Output = http::Response<tonic::body::Body>> + Send>>;

impl Calls {
    /// Calls through a service that is ready at any time.
    pub(crate) fn new<S, B>(service: S) -> Calls
    where
        S: Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<B>,
                Error = Infallible,
            >,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Error = tonic::Status> + Send + 'static,
    {
        Calls(Arc::new(move |request| {
            let answering = service.clone().call(request);
            Box::pin(async move {
                match answering.await {
                    Ok(response) => response.map(|body| {
                        let body = body.map_frame(|frame| frame.map_data(copied));
                        tonic::body::Body::new(body)
                    }),
                    Err(never) => match never {},
                }
            })
        }))
    }
}

/// The data in one buffer, taken as a whole.
fn copied(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

/// A request that a body stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslatedBody {
    /// Path on the HTTP port of the call that answers.
    pub path: &'static str,
    /// Path of its RPC.
    pub rpc: &'static str,
    /// The request in protobuf.
    pub message: Vec<u8>,
    /// The JSON form of the request, unless it has none.
    pub json: Option<String>,
}

/// Translates a body that is posted to `path` with a query, without calling anything; what it supposes is supposed of
/// an empty cluster.
///
/// # Errors
/// The reason for which it is refused.
pub(crate) fn translated(
    path: &str,
    query: &str,
    content_type: &str,
    body: &[u8],
) -> Result<TranslatedBody, String> {
    let text = |failure: Failure| failure.message().to_owned();
    let route = route::find(path).ok_or_else(|| text(Failure::no_such_path(path)))?;
    let value = HeaderValue::from_str(content_type).map_err(|error| error.to_string())?;
    let form = form(&HeaderMap::from_iter([(CONTENT_TYPE, value)])).map_err(text)?;
    let parameters = Parameters::of(query).map_err(text)?;
    let scene = Scene {
        base: &|_| Ok(Target::Live(Arc::default())),
        max_pods: Limits::default().max_pods_per_request,
        max_bytes: Limits::default().max_message_bytes,
    };
    let translated = translate(route, form, &parameters, body, &scene).map_err(text)?;
    let Translated { route, message, .. } = translated;
    let json = route.request_json(&message).ok();
    Ok(TranslatedBody { path: &route.path, rpc: route.operation.path, message, json })
}

/// State that the routes share.
struct Shares {
    state: Arc<State>,
    calls: Calls,
    bodies: Bodies,
}

/// The routes below `/v1`.
pub(super) fn routes(state: Arc<State>, calls: Calls) -> Router {
    let bodies = Bodies::new(state.limits.max_message_bytes, state.bytes.clone());
    Router::new().route("/v1/{*call}", any(serve)).with_state(Arc::new(Shares {
        state,
        calls,
        bodies,
    }))
}

async fn serve(Shared(shares): Shared<Arc<Shares>>, request: Request) -> Response {
    let path = request.uri().path();
    let Some(route) = route::find(path) else {
        return Failure::no_such_path(path).response();
    };
    if *request.method() != Method::POST {
        return Failure::only_post().response();
    }
    let (parts, body) = request.into_parts();
    let parameters = Parameters::of(parts.uri.query().unwrap_or_default());
    let is_pretty = parameters.as_ref().is_ok_and(|parameters| parameters.is_pretty);
    match answer(&shares, route, parts, parameters, body).await {
        Ok(answer) => answer.response(&shares.state, is_pretty).await,
        Err(failure) => failure.response(),
    }
}

/// Reason why the message of a request cannot be passed on.
enum Stop {
    Failure(Failure),
    /// Another call answers.
    Elsewhere(Translated),
}

/// A response to a call.
struct Answer {
    route: &'static Route,
    message: Bytes,
    headers: HeaderMap,
    told: Told,
}

async fn answer(
    shares: &Arc<Shares>,
    route: &'static Route,
    parts: Parts,
    parameters: Result<Parameters, Failure>,
    body: Body,
) -> Result<Answer, Failure> {
    let timeout = parameters.as_ref().ok().and_then(|parameters| parameters.timeout);
    let head = Head {
        peer: parts.extensions.get().cloned(),
        headers: passed_on(&parts.headers),
        is_simple: is_simple(&parts.headers),
    };
    let stop = Arc::new(OnceLock::new());
    let (supposed, told) = (Supposed::default(), Arc::new(OnceLock::new()));
    let reading = {
        let (shares, headers) = (shares.clone(), parts.headers);
        let (supposed, told_by, peer) = (supposed.clone(), told.clone(), head.peer.clone());
        async move {
            let given = Given { headers: &headers, peer: peer.as_ref(), body };
            let translated = read(&shares, route, parameters, given, &supposed).await;
            match translated.map_err(Stop::Failure)? {
                Translated { route: other, message, told, fork } if std::ptr::eq(other, route) => {
                    fork.into_iter().for_each(|fork| supposed.set(fork));
                    // The body is read once.
                    drop(told_by.set(told));
                    Ok(message)
                }
                elsewhere => Err(Stop::Elsewhere(elsewhere)),
            }
        }
    };
    let message = OneMessage::new(reading, stop.clone(), |stop| match stop {
        Stop::Failure(failure) => failure.to_status(),
        Stop::Elsewhere(_) => tonic::Status::aborted("another method answers"),
    });
    let called = head.call(shares, route, timeout, tonic::body::Body::new(message), supposed).await;
    match Arc::into_inner(stop).and_then(OnceLock::into_inner) {
        None => {
            let told = told.get().cloned().unwrap_or_default();
            called.map(|answer| Answer { told, ..answer })
        }
        Some(Stop::Failure(failure)) => Err(failure),
        Some(Stop::Elsewhere(Translated { route, message, told, fork })) => {
            let reading = async move { Ok(message) };
            let message = OneMessage::new(reading, Arc::default(), Failure::to_status);
            let (message, supposed) = (tonic::body::Body::new(message), Supposed::default());
            fork.into_iter().for_each(|fork| supposed.set(fork));
            let called = head.call(shares, route, timeout, message, supposed).await;
            called.map(|answer| Answer { told, ..answer })
        }
    }
}

/// What a client sent.
struct Given<'a> {
    headers: &'a HeaderMap,
    peer: Option<&'a Arc<Peer>>,
    body: Body,
}

/// Reads a body and translates it.
async fn read(
    shares: &Shares,
    route: &'static Route,
    parameters: Result<Parameters, Failure>,
    given: Given<'_>,
    supposed: &Supposed,
) -> Result<Translated, Failure> {
    let Given { headers, peer, body } = given;
    let (parameters, form) = (parameters?, form(headers)?);
    let caller = supposed.caller()?;
    let holder = body::holder(&caller, peer);
    let mut body = shares.bodies.read(headers, body, &holder).await?;
    body.weigh(&shares.bodies, &holder)?;
    // Objects are read by several threads, and YAML takes its time.
    if body.len() <= SHORT_BYTES && form == Form::Json && !is_object(route, &body) {
        return translated_for(&shares.state, route, form, &parameters, &body, supposed);
    }
    let (state, supposed) = (shares.state.clone(), supposed.clone());
    let translate =
        move |body: Held| translated_for(&state, route, form, &parameters, &body, &supposed);
    shares.state.pool.run(Deadline(None), move |_| translate(body)).await?
}

/// Translates a body for the caller that `supposed` knows.
fn translated_for(
    state: &State,
    route: &'static Route,
    form: Form,
    parameters: &Parameters,
    body: &[u8],
    supposed: &Supposed,
) -> Result<Translated, Failure> {
    let base = |session_id: &str| supposed.base(state, session_id);
    let Limits { max_pods_per_request: max_pods, max_message_bytes: max_bytes, .. } = state.limits;
    translate(route, form, parameters, body, &Scene { base: &base, max_pods, max_bytes })
}

fn is_object(route: &Route, body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| translate::is_object(text, route))
}

/// The text format of a body by its `Content-Type`.
fn form(headers: &HeaderMap) -> Result<Form, Failure> {
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        return Err(Failure::unsupported_type("a body with a `Content-Encoding` is not read"));
    }
    let Some(given) = headers.get(CONTENT_TYPE) else { return Ok(Form::Yaml) };
    let given = given.to_str().unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match &*essence {
        "application/json" => Ok(Form::Json),
        // curl calls every body a form unless it is told otherwise.
        "application/yaml"
        | "application/x-yaml"
        | "text/yaml"
        | "text/x-yaml"
        | "application/x-www-form-urlencoded" => Ok(Form::Yaml),
        _ => Err(Failure::unsupported_type(format!(
            "the body is of type `{given}`; `application/json` and `application/yaml` are read"
        ))),
    }
}

/// Whether a browser would send such a request for any page, without asking the server first.
fn is_simple(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_none_or(|given| {
        let given = given.to_str().unwrap_or_default().trim_start().to_ascii_lowercase();
        given.starts_with("application/x-www-form-urlencoded")
    })
}

/// The headers that a call gets.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for name in &PASSED_ON {
        for value in headers.get_all(name) {
            passed.append(name, value.clone());
        }
    }
    passed
}

/// The head of a request.
struct Head {
    peer: Option<Arc<Peer>>,
    headers: HeaderMap,
    is_simple: bool,
}

impl Head {
    /// Calls the RPC of `route`.
    async fn call(
        &self,
        shares: &Shares,
        route: &'static Route,
        timeout: Option<Duration>,
        body: tonic::body::Body,
        supposed: Supposed,
    ) -> Result<Answer, Failure> {
        let mut request = http::Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(route.operation.path);
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        if let Some(timeout) = timeout.and_then(grpc_timeout) {
            headers.insert("grpc-timeout", timeout);
        }
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        if self.is_simple {
            request.extensions_mut().insert(SimpleRequest);
        }
        request.extensions_mut().insert(supposed);
        let (parts, body) = (shares.calls.0)(request).await.into_parts();
        let collected = message::collect(&parts.headers, body).await;
        let message = collected.map_err(|status| Failure::of_status(&status))?;
        let mut headers = HeaderMap::new();
        for name in TOLD {
            headers.extend(parts.headers.get(&name).map(|value| (name, value.clone())));
        }
        Ok(Answer { route, message, headers, told: Told::default() })
    }
}

impl Answer {
    async fn response(self, state: &State, is_pretty: bool) -> Response {
        let Answer { route, message, headers: of_call, told } = self;
        let json = move |message: &[u8]| {
            let added = (!told.is_empty()).then(|| told.added(route.path == PLACE_BATCH, message));
            route.json(message, is_pretty, added.as_ref())
        };
        let written = if message.len() <= SHORT_BYTES {
            json(&message)
        } else {
            let writing = move |_: &_| json(&message);
            state.pool.run(Deadline(None), writing).await.unwrap_or_else(|error| Err(error.into()))
        };
        let text = match written {
            Ok(text) => text,
            Err(failure) => return failure.response(),
        };
        let mut response = Response::new(Body::from(text));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(of_call);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_or_yaml() {
        let form = |given: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(given))]);
            form(&headers).ok()
        };
        assert_eq!(form("application/json; charset=utf-8"), Some(Form::Json));
        assert_eq!(form("Application/YAML"), Some(Form::Yaml));
        assert_eq!(form("application/x-www-form-urlencoded"), Some(Form::Yaml));
        assert_eq!(form("text/yaml"), Some(Form::Yaml));
        for other in
            ["text/plain", "application/grpc", "multipart/form-data", "", "application/xml"]
        {
            assert_eq!(form(other), None, "{other}");
        }
        assert_eq!(super::form(&HeaderMap::new()).ok(), Some(Form::Yaml));
    }
}
