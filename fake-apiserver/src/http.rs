//! Handling of HTTP requests: applies faults, then routes by path and method.

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Request as HttpRequest, State};
use axum::response::Response;
use http::Method;

use crate::call::Call;
use crate::connection::Connection;
use crate::faults::{Faults, WatchFaults};
use crate::options::Options;
use crate::response::ApiResponse;
use crate::status::Refusal;
use crate::store::{Request, Store};
use crate::target::{Query, Target};
use crate::{binding, deletion, discovery, eviction, list, openapi, patch, table, watch, write};

/// Limit of a request's body: twice etcd's default limit of a request, as in the real server.
const MAX_BODY: usize = 3 * 1024 * 1024;

struct Api {
    options: Options,
    store: Store,
    faults: Faults,
}

/// The router that serves `store` with `faults`.
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
    let (request_faults, watch_faults) =
        api.faults.request_faults(parts.method.as_str(), &target, is_watch);
    let slot = api.faults.slot().await;
    if !request_faults.latency.is_zero() {
        tokio::time::sleep(request_faults.latency).await;
    }
    let stranger = api.faults.is_stranger(&parts.headers).then_some(401);
    let response = match (request_faults.refuse.or(stranger), to_bytes(body, MAX_BODY).await) {
        (Some(status), _) => Err(refusal_of(status)),
        (None, Err(_)) => Err(Refusal::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {MAX_BODY}"),
        )),
        (None, Ok(_)) if request_faults.gone => Err(Refusal::expired("too old resource version")),
        (None, Ok(body)) => {
            let call = Call {
                method: parts.method.clone(),
                path: parts.uri.path().to_owned(),
                query,
                headers: parts.headers,
                body,
            };
            api.respond(call, watch_faults).await
        }
    };
    drop(slot);
    let response = response.unwrap_or_else(|refusal| ApiResponse::refused(&refusal));
    let response = response.into_response();
    api.store.record(Request {
        method: parts.method.to_string(),
        target,
        status: response.status().as_u16(),
    });
    if request_faults.lose_answer {
        connection.cut();
    }
    response
}

/// The refusal of a fault with this status.
fn refusal_of(status: u16) -> Refusal {
    match status {
        429 => Refusal::new(429, "TooManyRequests", "too many requests, please try again later")
            .retry_after(1),
        503 => Refusal::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        500 => Refusal::new(500, "InternalError", "Internal error occurred: a configured fault"),
        504 => Refusal::new(504, "Timeout", "request did not complete within the allotted timeout"),
        403 => Refusal::new(403, "Forbidden", "forbidden: a configured fault"),
        401 => Refusal::new(401, "Unauthorized", "Unauthorized"),
        other => Refusal::new(other, "Unknown", "a configured fault"),
    }
}

impl Api {
    async fn respond(&self, call: Call, watch_faults: WatchFaults) -> Result<ApiResponse, Refusal> {
        call.check_accept()?;
        let described = discovery::respond(&call.path).or_else(|| openapi::respond(&call.path));
        if let Some(response) = described {
            return if call.method == Method::GET {
                Ok(response)
            } else {
                Err(Refusal::method_not_allowed())
            };
        }
        let target = Target::parse(&call.path)?;
        let store = &self.store;
        let subresource = target.subresource.clone().unwrap_or_default();
        match (&call.method, subresource.as_str(), target.name.clone()) {
            (&Method::GET, "" | "status", Some(name)) if !call.query.is_set("watch") => {
                let found = write::get(store, &target, &name)?;
                Ok(match table::is_wanted(&call.headers) {
                    true => ApiResponse::json(200, &table::of_one(target.resource, &found)),
                    false => ApiResponse::object(200, target.resource, &found),
                })
            }
            (&Method::GET, "", _) if call.query.is_set("watch") => {
                let as_tables = table::is_wanted(&call.headers);
                let (options, query) = (&self.options, &call.query);
                let body = watch::watch(store, options, target, query, as_tables, watch_faults)?;
                Ok(ApiResponse::stream(body))
            }
            (&Method::GET, "", None) => self.list(&target, &call).await,
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

    async fn list(&self, target: &Target, call: &Call) -> Result<ApiResponse, Refusal> {
        let mut page = list::list(&self.store, target, &call.query);
        if page.as_ref().is_err_and(|refusal| refusal.code == 504) {
            // Waits for the version (recording 02: about 3 s).
            tokio::time::sleep(self.options.future_version_wait).await;
            page = list::list(&self.store, target, &call.query);
        }
        let page = page?;
        Ok(match table::is_wanted(&call.headers) {
            true => ApiResponse::json(200, &table::of_list(target.resource, &page)),
            false => ApiResponse::list(target.resource, page),
        })
    }
}
