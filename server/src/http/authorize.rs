//! Authorization on the HTTP port. Probes, the OpenAPI document and the files of the console are open to every client;
//! every other path needs a credential if gRPC does.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use tonic::Code;

use super::v1::route;
use super::{console, openapi};
use crate::audit::{ChangeError, Changes, Line};
use crate::auth::{AuthError, Caller, Role};
use crate::clock;
use crate::escape::presentable;
use crate::net::{InUse, Peer};
use crate::service::{CallError, REQUEST_ID, State};
use crate::telemetry::trace::TraceContext;

/// Permission that a path needs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Takes {
    /// No permission.
    Nothing,
    /// A role.
    Role(Role),
    /// A role for a change, which has this name in audit lines.
    Change(Role, &'static str),
    /// The role of an RPC, which the layer around every call checks.
    Rpc,
}

/// The permission that a path needs. An unknown path needs a credential too, and so does one that is forgotten here.
fn takes(path: &str) -> Takes {
    match path {
        "/livez" | "/readyz" | "/healthz" | openapi::PATH => Takes::Nothing,
        path if console::is_asset(path) => Takes::Nothing,
        "/extender/bind" => Takes::Change(Role::Scheduler, "/extender/bind"),
        path if route::find(path).is_some() => Takes::Rpc,
        _ => Takes::Role(Role::Reader),
    }
}

/// Passes a request to its handler, with its `Arc<Caller>` in the extensions, or answers 401 or 403.
pub(crate) async fn authorize(
    Shared(state): Shared<Arc<State>>,
    mut request: Request,
    next: Next,
) -> Response {
    let takes = takes(request.uri().path());
    let (role, changes) = match takes {
        Takes::Nothing | Takes::Rpc => return next.run(request).await,
        Takes::Role(role) => (role, None),
        Takes::Change(role, name) => (role, state.audit.changes().map(|changes| (changes, name))),
    };
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let peer_in_use = peer.clone();
    let caller = match state
        .auth
        .authenticate(peer.as_deref().map(|peer| &peer.identity), request.headers())
    {
        Ok(caller) => caller,
        Err(error) => return refuse(&error.into()),
    };
    let mut call = changes.map(|(changes, method)| {
        Call::new(&state, changes, method, caller.clone(), peer, request.headers())
    });
    let allowed = caller.check(role).map_err(CallError::from);
    if let Some(call) = &mut call
        && let Err(error) = call.enter(&allowed)
    {
        call.code = error.code();
        return refuse(&error);
    }
    if let Err(error) = allowed {
        return refuse(&error);
    }
    let _in_use = peer_in_use.as_ref().map(|peer| InUse::begin(peer, &caller.user));
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    if let Some(call) = &mut call {
        call.code = code_of(&response);
    }
    response
}

/// A call that changes something; its audit line is written however it ends.
struct Call {
    state: Arc<State>,
    changes: Changes,
    method: &'static str,
    caller: Arc<Caller>,
    peer: Option<Arc<Peer>>,
    request_id: Option<Box<str>>,
    trace: Option<TraceContext>,
    arrived: Instant,
    /// Status code of the call: until there is a response, that of a call whose client went away.
    code: Code,
}

impl Call {
    fn new(
        state: &Arc<State>,
        changes: Changes,
        method: &'static str,
        caller: Arc<Caller>,
        peer: Option<Arc<Peer>>,
        headers: &HeaderMap,
    ) -> Call {
        let request_id = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(Into::into);
        Call {
            state: state.clone(),
            changes,
            method,
            caller,
            peer,
            request_id,
            trace: TraceContext::of(headers),
            arrived: clock::now(),
            code: Code::Cancelled,
        }
    }

    /// Reserves the slot of the audit line.
    fn enter(&self, allowed: &Result<(), CallError>) -> Result<(), CallError> {
        match allowed {
            Ok(()) => Ok(self.changes.begin()?),
            Err(error) => {
                self.changes.note_denied();
                Err(error.clone())
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let elapsed = clock::now().saturating_duration_since(self.arrived);
        self.state.audit.record(&self.changes, || Line {
            peer: self.peer.take(),
            request_id: self.request_id.take(),
            trace_id: self.trace.map(|trace| trace.trace_id),
            ..Line::new(self.caller.clone(), self.method, self.code as i32, elapsed)
        });
    }
}

/// Status code of a response. The handler puts the code of a 200 into the extensions.
fn code_of(response: &Response) -> Code {
    if let Some(code) = response.extensions().get::<Code>() {
        return *code;
    }
    match response.status() {
        status if status.is_success() => Code::Ok,
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => Code::Unimplemented,
        _ => Code::Unknown,
    }
}

/// The answer to a request that is refused.
pub(super) fn refuse(error: &CallError) -> Response {
    let mut response = Response::new(Body::from(presentable(&error.to_string()) + "\n"));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    let status = match error {
        CallError::Auth(AuthError::Unauthenticated { .. }) => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"berth\""));
            StatusCode::UNAUTHORIZED
        }
        CallError::Auth(AuthError::PermissionDenied { .. }) => StatusCode::FORBIDDEN,
        CallError::Overloaded(_) | CallError::Audit(ChangeError::QueueFull { .. }) => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            StatusCode::TOO_MANY_REQUESTS
        }
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tells_nothing_of_a_cluster_is_for_anybody() {
        for path in ["/livez", "/readyz", "/healthz", "/openapi.json", "/", "/console/style.css"] {
            assert_eq!(takes(path), Takes::Nothing);
        }
        let others = ["/metrics", "/extender/filter", "/console/nodes", "/console/events"];
        let misspelt = ["", "//", "/console", "/console/../v1", "/livez/", "/LIVEZ", "//livez"];
        for path in others.into_iter().chain(misspelt) {
            assert_eq!(takes(path), Takes::Role(Role::Reader), "{path}");
        }
        assert!(matches!(takes("/extender/bind"), Takes::Change(Role::Scheduler, _)));
        assert_eq!(takes("/v1/place"), Takes::Rpc);
        assert_eq!(takes("/v1/nothing"), Takes::Role(Role::Reader));
    }
}
