//! Requests in, answers out: faults first, then what the path and method ask for.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request as HttpRequest, State};
use axum::response::Response;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

mod answer;

pub(crate) use answer::Answer;

use crate::connection::Connection;
use crate::faults::{Faults, Luck};
use crate::options::Options;
use crate::resource::Resource;
use crate::status::Refusal;
use crate::store::{Request, Store};
use crate::target::{Query, Target};
use crate::{binding, deletion, discovery, eviction, list, patch, watch, write};

/// The most a request's body may have, as in etcd's default limit on requests, doubled as the real server does.
const MAX_BODY: usize = 3 * 1024 * 1024;

struct Api {
    options: Options,
    store: Store,
    faults: Faults,
}

/// Serves `store` with `faults`.
pub(crate) fn router(options: Options, store: Store, faults: Faults) -> Router {
    Router::new().fallback(serve).with_state(std::sync::Arc::new(Api { options, store, faults }))
}

async fn serve(
    State(api): State<std::sync::Arc<Api>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: HttpRequest,
) -> Response {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let is_watch = parts.method == Method::GET && query.is_set("watch");
    let (fate, luck) = api.faults.fate(parts.method.as_str(), &target, is_watch);
    if !fate.latency.is_zero() {
        tokio::time::sleep(fate.latency).await;
    }
    let answer = match (fate.refuse, to_bytes(body, MAX_BODY).await) {
        (Some(status), _) => Err(refusal_of(status)),
        (None, Err(_)) => Err(Refusal::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {MAX_BODY}"),
        )),
        (None, Ok(_)) if fate.gone => Err(Refusal::expired("too old resource version")),
        (None, Ok(body)) => {
            let call = Call {
                method: parts.method.clone(),
                path: parts.uri.path().to_owned(),
                query,
                headers: parts.headers,
                body,
            };
            api.answer(call, luck).await
        }
    };
    let response = answer.unwrap_or_else(|refusal| Answer::refused(&refusal)).into_response();
    api.store.record(Request {
        method: parts.method.to_string(),
        target,
        status: response.status().as_u16(),
    });
    if fate.lose_answer {
        connection.cut();
    }
    response
}

/// What a fault refuses with.
fn refusal_of(status: u16) -> Refusal {
    match status {
        429 => Refusal::new(429, "TooManyRequests", "too many requests, please try again later")
            .retry_after(1),
        503 => Refusal::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        500 => Refusal::new(500, "InternalError", "Internal error occurred: a fault was asked for"),
        504 => Refusal::new(504, "Timeout", "request did not complete within the allotted timeout"),
        403 => Refusal::new(403, "Forbidden", "forbidden: a fault was asked for"),
        401 => Refusal::new(401, "Unauthorized", "Unauthorized"),
        other => Refusal::new(other, "Unknown", "a fault was asked for"),
    }
}

/// A request, read.
pub(crate) struct Call {
    method: Method,
    path: String,
    pub(crate) query: Query,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Api {
    async fn answer(&self, call: Call, luck: Luck) -> Result<Answer, Refusal> {
        call.check_accept()?;
        if let Some(answer) = discovery::answer(&call.path) {
            return if call.method == Method::GET {
                Ok(answer)
            } else {
                Err(Refusal::method_not_allowed())
            };
        }
        let target = Target::parse(&call.path)?;
        let store = &self.store;
        let subresource = target.subresource.clone().unwrap_or_default();
        match (&call.method, subresource.as_str(), target.name.clone()) {
            (&Method::GET, "" | "status", Some(name)) if !call.query.is_set("watch") => {
                write::get(store, &target, &name)
            }
            (&Method::GET, "", _) if call.query.is_set("watch") => {
                let body = watch::watch(store, &self.options, target, &call.query, luck)?;
                Ok(Answer::stream(body))
            }
            (&Method::GET, "", None) => self.list(&target, &call.query).await,
            (&Method::POST, "", None) => write::create(store, &self.options, &target, &call),
            (&Method::POST, "binding", name) => {
                binding::bind(store, &target, name.as_deref(), &call)
            }
            (&Method::POST, "eviction", Some(name)) => {
                eviction::evict(store, &target, &name, &call)
            }
            (&Method::PUT, "" | "status", Some(name)) => {
                write::replace(store, &target, &name, &call)
            }
            (&Method::PATCH, "" | "status", Some(name)) => {
                patch::patch(store, &target, &name, &call)
            }
            (&Method::DELETE, "", Some(name)) => deletion::delete(store, &target, &name, &call),
            (&Method::DELETE, "", None) => deletion::delete_collection(store, &target, &call),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    async fn list(&self, target: &Target, query: &Query) -> Result<Answer, Refusal> {
        let page = list::list(&self.store, target, query);
        if page.as_ref().is_err_and(|refusal| refusal.code == 504) {
            // The version may come yet (recording 02: about 3 s).
            tokio::time::sleep(self.options.future_version_wait).await;
            return list::list(&self.store, target, query)
                .map(|page| Answer::list(target.resource, page));
        }
        Ok(Answer::list(target.resource, page?))
    }
}

impl Call {
    /// JSON has to be among what the client takes.
    fn check_accept(&self) -> Result<(), Refusal> {
        let Some(accept) = self.headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
            return Ok(());
        };
        let takes_json = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let plain =
                matches!(parts.next(), Some("application/json" | "application/*" | "*/*" | ""));
            plain && !parts.any(|parameter| parameter.starts_with("as="))
        });
        // Probes and discovery come in any form.
        if takes_json || !self.path.starts_with("/api") {
            return Ok(());
        }
        Err(Refusal::not_acceptable())
    }

    /// The media type of the body, without parameters; empty where none is said.
    pub(crate) fn media_type(&self) -> &str {
        let value = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// The body as the JSON object that `resource` takes.
    pub(crate) fn object(&self, resource: &Resource) -> Result<Value, Refusal> {
        self.object_of_kind(resource.kind, &resource.api_version())
    }

    /// The body as an object of this kind; a body may leave its kind out.
    pub(crate) fn object_of_kind(&self, kind: &str, api_version: &str) -> Result<Value, Refusal> {
        if !matches!(self.media_type(), "" | "application/json") {
            return Err(Refusal::unsupported_media_type());
        }
        let object: Value = serde_json::from_slice(&self.body).map_err(|error| {
            let what = "couldn't get version/kind; json parse error";
            Refusal::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {what}: {error}"
            ))
        })?;
        if !object.is_object() {
            return Err(Refusal::bad_request(format!("the body must be an object of type {kind}")));
        }
        let said = object["kind"].as_str().unwrap_or(kind);
        let version = object["apiVersion"].as_str().unwrap_or(api_version);
        if (said, version) != (kind, api_version) {
            return Err(Refusal::bad_request(format!(
                "the API version in the data ({version}, {said}) does not match the expected API version ({api_version}, {kind})"
            )));
        }
        Ok(object)
    }

    /// `DeleteOptions` in the body or, `gracePeriodSeconds` alone, in the query.
    pub(crate) fn delete_options(&self) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            let mut options = Value::Object(serde_json::Map::new());
            if let Ok(seconds) = self.query.get("gracePeriodSeconds").parse::<i64>() {
                options["gracePeriodSeconds"] = seconds.into();
            }
            return Ok(options);
        }
        if !matches!(self.media_type(), "" | "application/json") {
            return Err(Refusal::unsupported_media_type());
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Refusal::bad_request(format!("the delete options are no JSON object: {error}"))
        })
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.query.get("dryRun") == "All"
    }
}

/// The parts of a response that all answers share.
fn response(status: u16, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

fn retry_after(response: &mut Response, refusal: &Refusal) {
    if let Some(seconds) = refusal.details.as_ref().and_then(|details| details.retry_after_seconds)
    {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
}
