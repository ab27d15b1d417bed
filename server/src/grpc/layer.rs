//! The layer around every call: before the handler, it authenticates the caller, sets and enforces the deadline, and
//! admits or refuses the call for load; at the end it counts the call, and audits it if it changed something. The only
//! such layer.

mod body;
mod forward;
mod idempotency;
mod piece;
mod received;
mod refusal;
mod revision;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use berth_proto::layout::Bounds;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use prost::bytes::Bytes;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower_service::Service;

use super::call::Call;
use super::status::of_transport;
use crate::admission::Lane;
use crate::clock;
use crate::service::Credential;
use crate::service::response_cache::RequestName;
use crate::service::{CallError, CallParts, MIN_REVISION, State};
use crate::telemetry::trace::{Scope, Span, followed};
pub(crate) use body::CallBody;
use forward::{Elsewhere, Sent, Share};
use idempotency::Whole;
use received::Received;

/// [`Routes`] with the steps before and after each handler.
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
        let (delivery, held) = (call.delivery.clone(), call.held.clone());
        request.extensions_mut().insert(CallParts { deadline, delivery, held });
        let asked =
            self.state.replicas.as_ref().and_then(|_| request.headers().get(MIN_REVISION).cloned());
        let elsewhere = Elsewhere::of(&mut call, &request);
        let request = call.receive(request);
        let scope = call.span.as_ref().map(Span::scope);
        let user = call.user();
        if let Some(elsewhere) = elsewhere {
            let (routes, asked) = (self.routes.clone(), (request, asked));
            // A future for each, so that the most frequent one is small.
            return match call.method.share() {
                Share::Reservations | Share::Grants => {
                    carried(scope, user.carry(call.there(elsewhere, routes, asked, allowed)))
                }
                Share::SomeStreams => {
                    carried(scope, user.carry(call.stream(elsewhere, routes, asked, allowed)))
                }
                Share::SomeRequests | Share::Nothing => {
                    carried(scope, user.carry(call.here_first(elsewhere, routes, asked, allowed)))
                }
            };
        }
        if call.is_named() {
            let answering = call.once(self.routes.clone(), (request, asked), allowed);
            return carried(scope, user.carry(answering));
        }
        // The handler does not start before this future is polled.
        let answer = self.routes.call(request);
        let answering = async move {
            if let Err(error) = allowed.and_then(|()| call.enter()) {
                return Ok(call.refuse(error));
            }
            if asked.is_some()
                && let Err(error) = call.await_revision(asked).await
            {
                return Ok(call.refuse(error));
            }
            match within(call.until, answer).await {
                Some(response) => Ok(call.answer(response?)),
                None => Ok(call.refuse_late()),
            }
        };
        carried(scope, user.carry(answering))
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<CallBody>, Infallible>> + Send>>;

/// Runs the call in its trace, if it has one.
fn carried(
    scope: Option<Scope>,
    answering: impl Future<Output = Result<Response<CallBody>, Infallible>> + Send + 'static,
) -> Answering {
    match scope {
        None => Box::pin(answering),
        Some(scope) => Box::pin(scope.carry(answering)),
    }
}

/// The output, or `None` if the time is up first: the transport would answer CANCELLED at the same instant, so this is
/// polled first. Most calls are ready at the first poll, and need no timer.
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

impl Call {
    /// The request with a body whose messages are taken within the budget of bytes, and measured.
    fn receive(&mut self, request: Request<Body>) -> Request<Body> {
        let is_stream = self.method.lane == Lane::Stream && !self.state.auth.is_open();
        let credential = is_stream
            .then(|| Credential::of(&self.state.auth, self.peer.as_ref(), request.headers()));
        if let Some(credential) = &credential {
            self.revoked = Some(credential.clone().revoked());
        }
        let terms = received::Terms {
            budget: self.state.bytes.clone(),
            holder: self.holder(),
            layout: self.method.request,
            bounds: self.bounds(),
            max_message_bytes: self.state.max_message_bytes(self.method),
            is_stream: !self.method.lane.is_unary(),
            is_for_strangers: self.method.role.is_none(),
            credential,
        };
        request.map(|body| Body::new(Received::new(body, terms, self.held.clone())))
    }

    /// Bounds of the call's messages.
    fn bounds(&self) -> Bounds {
        let bounds = self.state.limits.load.bounds();
        match self.method.is_of_expander() {
            // It counts the pods of its options itself.
            true => Bounds { max_request_items: usize::MAX, ..bounds },
            false => bounds,
        }
    }

    /// Handles a request that may have been answered before.
    async fn once(
        mut self,
        routes: Routes,
        (request, asked): (Request<Body>, Option<HeaderValue>),
        allowed: Result<(), CallError>,
    ) -> Result<Response<CallBody>, Infallible> {
        if let Err(error) = allowed.and_then(|()| self.enter()) {
            return Ok(self.refuse(error));
        }
        if let Err(error) = self.await_revision(asked).await {
            return Ok(self.refuse(error));
        }
        let answered = within(self.until, self.answer_once(routes, request)).await;
        Ok(self.finish(answered))
    }

    /// Has the handler answer, unless the request has a name and was answered before.
    fn answer_once(
        &self,
        mut routes: Routes,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Body>, CallError>> + Send + use<> {
        let name = self.request_id.as_deref().zip(self.caller.as_ref()).map(|(id, caller)| {
            let (user, id) = (caller.user.clone(), Arc::from(id));
            RequestName { user, method: self.method.path, id }
        });
        let (state, limit) = (self.state.clone(), self.state.max_message_bytes(self.method));
        let (delivery, method) = (self.delivery.clone(), self.method);
        async move {
            let Some(name) = name else {
                return match routes.call(request).await {
                    Ok(response) => Ok(response),
                    Err(never) => match never {},
                };
            };
            let changes = match method.share() {
                Share::Reservations => true,
                // Another server may keep reservations while this one grants.
                Share::Grants => state.assumptions.are_made_here(),
                Share::SomeStreams | Share::SomeRequests | Share::Nothing => false,
            };
            let kept_in = (&state.responses, &*state.assumptions);
            let request = (routes, request);
            let answered =
                idempotency::answer_once(kept_in, (name, changes), request, delivery, limit)
                    .await?;
            if answered.is_replayed {
                state.metrics.admission().count_replayed();
            }
            Ok(answered.response)
        }
    }

    fn finish(self, answered: Option<Result<Response<Body>, CallError>>) -> Response<CallBody> {
        match answered {
            Some(Ok(response)) => self.answer(response),
            Some(Err(error)) => self.refuse(error),
            None => self.refuse_late(),
        }
    }

    /// Sends a request on that another replica has to decide. That one audits it.
    async fn there(
        mut self,
        elsewhere: Elsewhere,
        routes: Routes,
        (request, asked): (Request<Body>, Option<HeaderValue>),
        allowed: Result<(), CallError>,
    ) -> Result<Response<CallBody>, Infallible> {
        if let Err(error) = allowed.and_then(|()| self.admit()) {
            return Ok(self.refuse(error));
        }
        if let Err(error) = self.await_revision(asked).await {
            return Ok(self.refuse(error));
        }
        let (until, limit) = (self.until, self.state.max_message_bytes(self.method));
        // Not a shared reference, which no other thread could take.
        let call = &mut self;
        let (parts, body) = request.into_parts();
        let answering = async move {
            match elsewhere.call(body, limit, until).await? {
                Sent::Answered(response) => Ok(response),
                Sent::Here(data) => {
                    call.begin_audit()?;
                    call.answer_once(routes, whole(parts, data)).await
                }
            }
        };
        let answered = within(until, answering).await;
        Ok(self.finish(answered))
    }

    /// Handles a stream that another replica may have to answer, as its first request says.
    async fn stream(
        mut self,
        elsewhere: Elsewhere,
        routes: Routes,
        (request, asked): (Request<Body>, Option<HeaderValue>),
        allowed: Result<(), CallError>,
    ) -> Result<Response<CallBody>, Infallible> {
        if let Err(error) = allowed.and_then(|()| self.enter()) {
            return Ok(self.refuse(error));
        }
        if let Err(error) = self.await_revision(asked).await {
            return Ok(self.refuse(error));
        }
        let answering = self.user().carry(elsewhere.stream(routes, request, self.until));
        // The body is not polled in the scope of the call.
        let response = Elsewhere::coming(followed(answering));
        Ok(self.answer(response))
    }

    /// Handles a request that its handler may find to be for another replica.
    async fn here_first(
        mut self,
        elsewhere: Elsewhere,
        routes: Routes,
        (request, asked): (Request<Body>, Option<HeaderValue>),
        allowed: Result<(), CallError>,
    ) -> Result<Response<CallBody>, Infallible> {
        if let Err(error) = allowed.and_then(|()| self.enter()) {
            return Ok(self.refuse(error));
        }
        if asked.is_some()
            && let Err(error) = self.await_revision(asked).await
        {
            return Ok(self.refuse(error));
        }
        let until = self.until;
        let (parts, body) = request.into_parts();
        let (request, copy) = Elsewhere::copying(Request::from_parts(parts.clone(), body));
        let answered = within(until, self.answer_once(routes.clone(), request)).await;
        let response = match answered {
            Some(Ok(response)) if Elsewhere::is_for_other(&response) => response,
            answered => return Ok(self.finish(answered)),
        };
        let call = &mut self;
        let answering = Box::pin(async move {
            match elsewhere.instead_of(response, &copy, until).await? {
                Sent::Answered(response) => Ok(response),
                Sent::Here(data) => call.answer_once(routes, whole(parts, data)).await,
            }
        });
        let answered = within(until, answering).await;
        Ok(self.finish(answered))
    }

    /// Refuses a call whose time is up; the error says whether the limit was the caller's or the server's.
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
        // The handler may have been done, and its response too late.
        drop(self.delivery.take());
        let response = refusal::response(error);
        self.note_status(response.headers());
        response.map(|body| CallBody::new(body, self))
    }

    fn answer(mut self, response: Response<Body>) -> Response<CallBody> {
        let max_message_bytes = || self.state.max_message_bytes(self.method);
        let mut response = in_callers_terms(response, &self.unknown_path, max_message_bytes);
        self.tell_revision(response.headers_mut());
        self.note_status(response.headers());
        response.map(|body| CallBody::new(body, self))
    }
}

/// A request whose message is there.
fn whole(parts: Parts, data: Bytes) -> Request<Body> {
    Request::from_parts(parts, Body::new(Whole { data: Some(data), trailers: None }))
}

/// Rewords the status of a response from the transport. Only a response without a body has its status in the headers:
/// it comes from the transport, or from a unary handler.
fn in_callers_terms(
    response: Response<Body>,
    unknown_path: &str,
    max_message_bytes: impl FnOnce() -> usize,
) -> Response<Body> {
    match Status::from_header_map(response.headers()) {
        // A handler that returns this code adds a message; the router does not.
        Some(status) if status.code() == Code::Unimplemented && status.message().is_empty() => {
            Status::from(CallError::NoSuchMethod { path: unknown_path.to_owned() }).into_http()
        }
        Some(status) if matches!(status.code(), Code::OutOfRange | Code::Internal) => {
            of_transport(status, max_message_bytes()).into_http()
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
            entries: vec![BatchEntry { pod: Some(pod.into()), replicas: 90_000 }],
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
