//! What happens to every call before and after its handler: who calls is established, the deadline noted and kept, the call
//! admitted or refused for load; at its end it is counted, and audited if it changed something. The only layer there is.

mod body;
mod idempotency;
mod refusal;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower_service::Service;

use super::status::of_transport;
use super::timeout::parse_timeout;
use crate::admission::Lane;
use crate::audit::{Changes, Line};
use crate::auth::Caller;
use crate::clock;
use crate::net::Peer;
use crate::service::method::{self, Effect, Method};
use crate::service::response_cache::RequestName;
use crate::service::{CallError, Deadline, REQUEST_ID, State};
use crate::telemetry::trace::{Scope, Span};
pub(crate) use body::CallBody;

/// Longest request id that is taken, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// [`Routes`] with the above around it.
#[derive(Clone)]
pub(crate) struct CallService {
    routes: Routes,
    state: Arc<State>,
}

impl CallService {
    pub(crate) fn new(routes: Routes, state: Arc<State>) -> CallService {
        CallService { routes, state }
    }
}

impl Service<Request<Body>> for CallService {
    type Response = Response<CallBody>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let arrived = clock::now();
        let mut call = Call::new(&self.state, &request, arrived);
        let allowed = call.authorize(&mut request);
        let deadline = call.limit(request.headers());
        request.extensions_mut().insert(deadline);
        let scope = call.span.as_ref().map(Span::scope);
        if call.is_named() {
            return carried(scope, call.once(self.routes.clone(), request, allowed));
        }
        // Nothing of it happens before it is polled.
        let answer = self.routes.call(request);
        carried(scope, async move {
            if let Err(error) = allowed.and_then(|()| call.enter()) {
                return Ok(call.refuse(error));
            }
            match within(call.until, answer).await {
                Some(response) => Ok(call.answer(response?)),
                None => Ok(call.refuse_late()),
            }
        })
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<CallBody>, Infallible>> + Send>>;

/// In the call's trace, where it belongs to one.
fn carried(
    scope: Option<Scope>,
    answering: impl Future<Output = Result<Response<CallBody>, Infallible>> + Send + 'static,
) -> Answering {
    match scope {
        None => Box::pin(answering),
        Some(scope) => Box::pin(scope.carry(answering)),
    }
}

/// The output, or `None` where the time is up first: the transport would answer CANCELLED at the same instant, and this is looked
/// at first. Most calls are over at the first look, and need no timer.
async fn within<F: Future>(until: Option<Instant>, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(output);
    }
    match until {
        None => Some(future.await),
        Some(at) => tokio::time::timeout_at(at.into(), future).await.ok(),
    }
}

/// One call from its first header to the last byte of its answer. However it ends, it is counted exactly once.
struct Call {
    state: Arc<State>,
    method: &'static Method,
    /// The path of a method that is not there; empty for others.
    unknown_path: Box<str>,
    arrived: Instant,
    caller: Option<Arc<Caller>>,
    peer: Option<Arc<Peer>>,
    /// When it is to be over: its caller's deadline, or the server's limit where that is earlier.
    until: Option<Instant>,
    changes: Option<Changes>,
    request_id: Option<Box<str>>,
    /// Its part of a trace, where it belongs to one.
    span: Option<Span>,
    is_over: bool,
}

impl Call {
    fn new(state: &Arc<State>, request: &Request<Body>, arrived: Instant) -> Call {
        let path = request.uri().path();
        let method = method::find(path);
        let unknown_path = if *method == method::OTHER { path.into() } else { Box::default() };
        let headers = request.headers();
        state.admission.arrive(method.lane);
        Call {
            state: state.clone(),
            method,
            unknown_path,
            arrived,
            caller: None,
            peer: request.extensions().get::<Arc<Peer>>().cloned(),
            until: None,
            changes: None,
            request_id: headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(Into::into),
            span: state.tracer.begin(headers, method.path.trim_start_matches('/')),
            is_over: false,
        }
    }

    /// Establishes who calls and that it may; its handler finds it in the request's extensions.
    fn authorize(&mut self, request: &mut Request<Body>) -> Result<(), CallError> {
        // Probes and descriptions are for anybody, whatever it shows.
        let Some(role) = self.method.role else { return Ok(()) };
        let caller = self
            .state
            .auth
            .authenticate(self.peer.as_deref().map(|peer| &peer.identity), request.headers())?;
        let allowed = caller.check(role);
        if self.method.effect != Effect::Reads
            && let Some(changes) = self.state.audit.changes()
        {
            if allowed.is_err() {
                changes.note_denied();
            }
            request.extensions_mut().insert(changes.clone());
            self.changes = Some(changes);
        }
        request.extensions_mut().insert(caller.clone());
        self.caller = Some(caller);
        allowed?;
        match request.headers().get(REQUEST_ID) {
            Some(_) => self.check_request_id(),
            None => Ok(()),
        }
    }

    fn check_request_id(&self) -> Result<(), CallError> {
        let is_usable = |id: &str| (1..=MAX_REQUEST_ID_BYTES).contains(&id.len());
        if !self.request_id.as_deref().is_some_and(is_usable) {
            let reason = format!("must have 1 to {MAX_REQUEST_ID_BYTES} visible ASCII characters");
            return Err(CallError::field(REQUEST_ID, reason));
        }
        if self.method.lane == Lane::Stream && self.method.effect != Effect::Reads {
            let reason = "names one request, and a stream is many: leave it out";
            return Err(CallError::field(REQUEST_ID, reason));
        }
        Ok(())
    }

    /// Notes when the call is to be over; gives the deadline of its caller, which is all that a handler goes by: the server's limit
    /// ends a call by dropping it.
    fn limit(&mut self, headers: &HeaderMap) -> Deadline {
        let timeout = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
        let timeout = timeout.and_then(parse_timeout);
        let deadline = timeout.and_then(|timeout| self.arrived.checked_add(timeout));
        let limit = self.method.lane.is_unary().then(|| self.arrived.checked_add(self.max_time()));
        self.until = deadline.into_iter().chain(limit.flatten()).min();
        Deadline(deadline)
    }

    fn max_time(&self) -> Duration {
        self.method.lane.call_limit(self.state.limits.load.max_call_time)
    }

    /// Whether its caller may send it again, and wants it carried out once.
    fn is_named(&self) -> bool {
        self.request_id.is_some()
            && self.caller.is_some()
            && self.method.effect != Effect::Reads
            && self.method.lane.is_unary()
    }

    /// Answers a request that may have been answered before.
    async fn once(
        self,
        routes: Routes,
        request: Request<Body>,
        allowed: Result<(), CallError>,
    ) -> Result<Response<CallBody>, Infallible> {
        if let Err(error) = allowed.and_then(|()| self.enter()) {
            return Ok(self.refuse(error));
        }
        let (Some(id), Some(caller)) = (self.request_id.as_deref(), &self.caller) else {
            return Ok(self.refuse(CallError::Broken));
        };
        let (user, id) = (caller.user.clone(), Arc::from(id));
        let name = RequestName { user, method: self.method.path, id };
        let (state, limit) = (self.state.clone(), self.state.max_message_bytes(self.method.path));
        let answering = idempotency::answer_once(&state.responses, name, routes, request, limit);
        match within(self.until, answering).await {
            Some(Ok(answered)) => {
                if answered.is_replayed {
                    state.metrics.admission().count_replayed();
                }
                Ok(self.answer(answered.response))
            }
            Some(Err(error)) => Ok(self.refuse(error)),
            None => Ok(self.refuse_late()),
        }
    }

    /// Asks to be carried out now. Called where the call first gets a thread: what it waited for that one counts.
    fn enter(&self) -> Result<(), CallError> {
        let now = clock::now();
        let waited = now.saturating_duration_since(self.arrived);
        self.state.admission.enter(self.method.lane, now, waited, self.until)?;
        match &self.changes {
            Some(changes) if self.method.effect == Effect::Changes => Ok(changes.begin()?),
            // Its handler says whether it does.
            Some(_) | None => Ok(()),
        }
    }

    /// The time is up: whose it was, the caller is told.
    fn refuse_late(self) -> Response<CallBody> {
        let limit = self.max_time();
        let is_servers = self.until.is_some_and(|at| self.arrived.checked_add(limit) == Some(at));
        let is_servers = is_servers && self.method.lane.is_unary();
        self.refuse(match is_servers {
            true => CallError::TookTooLong { limit },
            false => CallError::DeadlineExceeded,
        })
    }

    fn refuse(mut self, error: CallError) -> Response<CallBody> {
        let response = refusal::response(error);
        self.note_status(response.headers());
        response.map(|body| CallBody::new(body, self))
    }

    fn answer(mut self, response: Response<Body>) -> Response<CallBody> {
        let max_message_bytes = self.state.max_message_bytes(self.method.path);
        let response = in_callers_terms(response, &self.unknown_path, max_message_bytes);
        self.note_status(response.headers());
        response.map(|body| CallBody::new(body, self))
    }

    /// Ends the call where `headers`, or trailers, say its status.
    fn note_status(&mut self, headers: &HeaderMap) {
        let code = headers
            .get("grpc-status")
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse().ok());
        if let Some(code) = code {
            self.end(code);
        }
    }

    fn end(&mut self, code: i32) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let elapsed = clock::now().saturating_duration_since(self.arrived);
        self.state.calls.finish(self.method.path, code, elapsed);
        if let Some((changes, caller)) = self.changes.take().zip(self.caller.take()) {
            self.state.audit.record(&changes, || Line {
                peer: self.peer.clone(),
                request_id: self.request_id.take(),
                trace_id: self.span.as_ref().map(Span::trace_id),
                ..Line::new(caller, self.method.path, code, elapsed)
            });
        }
        if let Some(span) = self.span.take() {
            span.end_call(self.method.path, code);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // No status was sent: the client went away.
        self.end(Code::Cancelled as i32);
        self.state.admission.leave(self.method.lane);
    }
}

/// Only a response without a body says its status in the headers: there the transport speaks, or a unary handler.
fn in_callers_terms(
    response: Response<Body>,
    unknown_path: &str,
    max_message_bytes: usize,
) -> Response<Body> {
    match Status::from_header_map(response.headers()) {
        // A handler that gives this code says why; the router does not.
        Some(status) if status.code() == Code::Unimplemented && status.message().is_empty() => {
            Status::from(CallError::NoSuchMethod { path: unknown_path.to_owned() }).into_http()
        }
        Some(status) if matches!(status.code(), Code::OutOfRange | Code::Internal) => {
            of_transport(status, max_message_bytes).into_http()
        }
        Some(_) | None => response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::routes;
    use crate::policy::Profiles;
    use crate::service::Limits;
    use axum::body::Bytes;
    use berth_engine::{Cluster, Delta, TieBreak};
    use berth_proto::berth_v1::{BatchEntry, PlaceBatchRequest};
    use berth_proto::core_v1;
    use prost::Message as _;
    use tokio::sync::watch;

    fn service() -> CallService {
        let (_, draining) = watch::channel(false);
        let cluster = Arc::new(Cluster::new());
        let node: core_v1::Node = serde_json::from_str(
            r#"{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "900", "memory": "1Ti", "pods": "100000"}}}"#,
        )
        .unwrap();
        cluster.apply(vec![Delta::UpsertNode(cluster.compile_node(&node).unwrap())]);
        let state = State::new(
            cluster,
            Profiles::default(),
            TieBreak::Lexicographic,
            Limits::default(),
            draining,
        );
        state.freshness.note_applied();
        let state = Arc::new(state);
        CallService::new(
            routes(&state, tonic_health::server::HealthReporter::new()).unwrap(),
            state,
        )
    }

    async fn call(
        service: &mut CallService,
        path: &str,
        timeout: &str,
        message: &[u8],
    ) -> Response<CallBody> {
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        let request = Request::post(path)
            .header("content-type", "application/grpc")
            .header("grpc-timeout", timeout)
            .body(Body::new(axum::body::Body::from(Bytes::from(frame))))
            .unwrap();
        service.call(request).await.unwrap()
    }

    #[tokio::test]
    async fn a_call_beyond_its_deadline_is_answered_and_counted() {
        let mut service = service();
        let pod: core_v1::Pod = serde_json::from_str(
            r#"{"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}"#,
        )
        .unwrap();
        let request = PlaceBatchRequest {
            entries: vec![BatchEntry { pod: Some(pod), replicas: 90_000 }],
            ..PlaceBatchRequest::default()
        };
        let path = "/berth.v1.PlacementService/PlaceBatch";
        let response = call(&mut service, path, "5m", &request.encode_to_vec()).await;
        assert_eq!(response.headers()["grpc-status"], "4");
        let state = &service.state;
        let text = state.metrics.render(&state.cluster.snapshot(), 0, None);
        let line =
            format!("berth_grpc_calls_total{{method=\"{path}\",code=\"DEADLINE_EXCEEDED\"}} 1");
        assert!(text.contains(&line), "{text}");
    }

    #[tokio::test]
    async fn a_response_that_is_dropped_counts_as_cancelled() {
        let mut service = service();
        drop(call(&mut service, "/berth.v1.ClusterService/GetCluster", "5S", &[]).await);
        let state = &service.state;
        let text = state.metrics.render(&state.cluster.snapshot(), 0, None);
        let line = "berth_grpc_calls_total{method=\"/berth.v1.ClusterService/GetCluster\",code=\"CANCELLED\"} 1";
        assert!(text.contains(line), "{text}");
    }
}
