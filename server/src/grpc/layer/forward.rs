//! Forward: where another replica commits, what commits is sent on to it, in the name of the caller. What only reads is
//! answered here.
//!
//! Which of both a request is, the handler finds out, since it checks before it changes anything that it is the one to
//! decide: so a copy of the message is kept until it has. Methods that always change something go on at once, and so does
//! a stream whose first request assumes.

mod bodies;
mod relayed;
mod share;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_proto::berth_v1::{PlaceMode, PlaceStreamRequest};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, Request, Response, Uri};
use http_body::{Body as HttpBody, Frame};
use prost::Message as _;
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower_service::Service as _;

pub(super) use bodies::Copy;
use bodies::{Answer, Coming, Copying, Resumed};
use relayed::Relaying;
pub(super) use share::Share;

use super::idempotency::{PREFIX_BYTES, Whole, collect};
use crate::auth::Caller;
use crate::clock;
use crate::grpc::call::Call;
use crate::grpc::status::{COMMITTER, ELSEWHERE, REPLICA};
use crate::ledger::{GrantError, Replica};
use crate::replicas::{CALLER, FORWARDED_BY, encode_caller};
use crate::service::{CallError, Delivery, Replicas, State, grpc_timeout};

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Time within which a request is sent again after no answer; longer, and its caller had better hear.
const PATIENCE: Duration = Duration::from_millis(800);
/// Pause before it is sent again.
const PAUSE: Duration = Duration::from_millis(20);
const N_PASSED_ON: usize = 3;
/// Headers of a call that the other replica gets.
const PASSED_ON: [HeaderName; N_PASSED_ON] = [
    HeaderName::from_static(crate::service::REQUEST_ID),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

/// The replica that a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Committer,
    Named(String),
}

/// What came of sending a call on.
pub(super) enum Sent {
    Answered(Response<Body>),
    /// Meanwhile this replica has begun to decide: the message, to be handled here.
    Here(Bytes),
}

/// The way to other replicas.
pub(super) struct Elsewhere {
    replicas: Arc<Replicas>,
    path: &'static str,
    caller: Arc<Caller>,
    /// Those headers of the request that go to the other replica.
    passed_on: [Option<HeaderValue>; N_PASSED_ON],
    delivery: Delivery,
    /// Whether another replica has sent the call here.
    is_forwarded: bool,
    is_named: bool,
    are_made_here: bool,
    state: Arc<State>,
}

impl Elsewhere {
    /// The way for a call; `None` where this replica decides, or there are no others. Most calls are answered here after
    /// all, so this does little.
    pub(super) fn of(call: &mut Call, request: &Request<Body>) -> Option<Elsewhere> {
        let replicas = call.state.replicas.clone()?;
        let share = call.method.share();
        if share == Share::SomeStreams {
            // Its handler has its own way to know what was delivered.
            call.delivery = Delivery::watched();
        }
        let state = &call.state;
        let caller = call.caller.clone().filter(|_| share != Share::Nothing)?;
        let is_here = match share {
            // Grants rest on the records alone, which a replica can write as soon as it commits.
            Share::Grants => replicas.committer().is_none(),
            // A session may be elsewhere all the same.
            Share::SomeRequests | Share::SomeStreams => false,
            Share::Reservations | Share::Nothing => state.assumptions.are_made_here(),
        };
        if is_here {
            return None;
        }
        let headers = request.headers();
        Some(Elsewhere {
            replicas,
            path: call.method.path,
            caller,
            passed_on: PASSED_ON.map(|name| headers.get(name).cloned()),
            delivery: call.delivery.clone(),
            is_forwarded: headers.contains_key(&FORWARDED_BY),
            is_named: headers.contains_key(crate::service::REQUEST_ID),
            are_made_here: state.assumptions.are_made_here(),
            state: state.clone(),
        })
    }

    /// Sends a whole call on.
    ///
    /// # Errors
    /// [`CallError::NotCommitter`] without an answer; those of [`collect`].
    pub(super) async fn call(
        &self,
        body: Body,
        max_message_bytes: usize,
        until: Option<Instant>,
    ) -> Result<Sent, CallError> {
        let message = collect(body, max_message_bytes + PREFIX_BYTES).await?;
        self.to_committer(message.data, until).await
    }

    /// Whether a response says that the call is for another replica.
    pub(super) fn is_for_other(response: &Response<Body>) -> bool {
        response.headers().contains_key(ELSEWHERE)
    }

    /// Sends the message of a copy on, if the handler has found that another replica decides; otherwise the response stays.
    pub(super) async fn instead_of(
        &self,
        response: Response<Body>,
        copy: &Copy,
        until: Option<Instant>,
    ) -> Result<Sent, CallError> {
        match target(&response) {
            None => Ok(Sent::Answered(response)),
            Some(Target::Committer) => self.to_committer(copy.data(), until).await,
            Some(Target::Named(name)) => match self.find(&name).await? {
                Some(replica) => {
                    let body = Whole { data: Some(copy.data()), trailers: None };
                    let relaying = self.relaying().and_then(Relaying::in_session);
                    let answered = self.once(&replica, Body::new(body), until, relaying).await;
                    answered.map(Sent::Answered)
                }
                // The handler's response says that the session is lost.
                None => Ok(Sent::Answered(response)),
            },
        }
    }

    /// Sends a message on to the replica that commits, unless this one begins to. If the request has a name and comes to
    /// nothing, again until an answer comes; so does one that was not sent, since this replica is about to commit.
    async fn to_committer(&self, data: Bytes, until: Option<Instant>) -> Result<Sent, CallError> {
        let began = clock::now();
        loop {
            if self.state.assumptions.are_made_here() {
                return Ok(Sent::Here(data));
            }
            let body = Whole { data: Some(data.clone()), trailers: None };
            let (answered, is_safe) = match self.replicas.committer() {
                Some(replica) => (
                    self.once(&replica, Body::new(body), until, self.relaying()).await,
                    self.is_named,
                ),
                None => (Err(self.unanswered()), self.is_named || self.replicas.is_to_commit()),
            };
            let is_final = answered.as_ref().is_ok_and(|response| !is_unavailable(response));
            let has_patience = clock::now().saturating_duration_since(began) < PATIENCE;
            if is_final || !is_safe || self.is_forwarded || !has_patience {
                return answered.map(Sent::Answered);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends a request to the replica that commits, or to one of a name.
    async fn to(
        &self,
        target: &Target,
        body: Body,
        until: Option<Instant>,
    ) -> Result<Response<Body>, CallError> {
        let replica = match target {
            Target::Committer => self.replicas.committer(),
            Target::Named(name) => self.find(name).await?,
        };
        match replica {
            Some(replica) => self.once(&replica, body, until, self.relaying()).await,
            None => Err(self.unanswered()),
        }
    }

    /// Headers with which the call goes to the other replica; `None` for a name that cannot be one's value.
    fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        for (name, value) in PASSED_ON.into_iter().zip(&self.passed_on) {
            headers.extend(value.clone().map(|value| (name, value)));
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert(CALLER, encode_caller(&self.caller)?);
        headers.insert(FORWARDED_BY, self.replicas.name().parse().ok()?);
        Some(headers)
    }

    /// Releases what a response has reserved whose caller does not receive it; `None` for a method that reserves nothing,
    /// and for a named request, whose response can be fetched again.
    fn relaying(&self) -> Option<Relaying> {
        if self.is_named {
            return None;
        }
        Relaying::of(self.path, &self.delivery, &self.state, &self.caller)
    }

    async fn find(&self, name: &str) -> Result<Option<Replica>, CallError> {
        Ok(self.replicas.etcd().find(name).await.map_err(GrantError::from)?)
    }

    /// Sends a request on, and waits for the head of its response.
    async fn once(
        &self,
        replica: &Replica,
        body: Body,
        until: Option<Instant>,
        relaying: Option<Relaying>,
    ) -> Result<Response<Body>, CallError> {
        if self.is_forwarded || replica.address.is_empty() {
            return Err(self.unanswered());
        }
        let mut channel = self.state.peers.channel(&replica.address).map_err(|reason| {
            tracing::warn!(replica = replica.name, reason, "a replica cannot be reached");
            self.unanswered()
        })?;
        let mut request = Request::new(body);
        *request.method_mut() = Verb::POST;
        *request.uri_mut() = Uri::from_static(self.path);
        *request.headers_mut() = self.headers().ok_or(CallError::Broken)?;
        if let Some(left) = until.map(|until| until.saturating_duration_since(clock::now())) {
            request.headers_mut().extend(grpc_timeout(left).map(|it| (GRPC_TIMEOUT, it)));
        }
        let calling = async move {
            std::future::poll_fn(|cx| channel.poll_ready(cx)).await?;
            channel.call(request).await
        };
        let answered = match relaying {
            None => calling.await,
            Some(relaying) => match relaying.run_to_end(calling).await {
                Some(answered) => answered,
                None => return Err(CallError::Broken),
            },
        };
        self.state.metrics.ledger().count_forwarded(answered.is_ok());
        match answered {
            Ok(response) => {
                let lost = Some(self.unanswered());
                Ok(response.map(|body| Body::new(Answer { body, lost })))
            }
            Err(error) => {
                let reason = crate::words::causes(&error);
                tracing::debug!(replica = replica.name, reason, "a replica does not answer");
                Err(self.unanswered())
            }
        }
    }

    /// The replica that a stream with this first request is for, if that is another one.
    fn target_of_stream(&self, request: &PlaceStreamRequest) -> Option<Target> {
        match self.state.sessions.replica_of(&request.session_id) {
            Some(name) => Some(Target::Named(name.to_owned())),
            None if !request.session_id.is_empty() => None,
            None => {
                let assumes = request.mode == PlaceMode::Assume as i32;
                (assumes && !self.are_made_here).then_some(Target::Committer)
            }
        }
    }

    fn unanswered(&self) -> CallError {
        let committer = self.replicas.committer();
        CallError::NotCommitter { committer: committer.map(|it| it.name) }
    }

    /// Has a copy of the request's message kept.
    pub(super) fn copying(request: Request<Body>) -> (Request<Body>, Copy) {
        let copy = Copy::default();
        let (into, is_over) = (copy.clone(), false);
        (request.map(|body| Body::new(Copying { body, into, is_over })), copy)
    }

    /// The response to a stream that is answered once its first request has come. Its head goes at once.
    pub(super) fn coming(
        answering: impl Future<Output = Response<Body>> + Send + 'static,
    ) -> Response<Body> {
        let mut response = Response::new(Body::new(Coming::Awaited(Box::pin(answering))));
        let content_type = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    /// Looks at the first request of a stream: one that assumes, or names a session of another replica, goes there as a
    /// whole. The others are answered here.
    pub(super) async fn stream(
        self,
        mut routes: Routes,
        request: Request<Body>,
        until: Option<Instant>,
    ) -> Response<Body> {
        let (parts, mut body) = request.into_parts();
        let first = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let first = match first.transpose() {
            Ok(first) => first,
            Err(status) => return status.into_http(),
        };
        let request = first.as_ref().and_then(Frame::data_ref).and_then(request_of_stream);
        let target = request.and_then(|it| self.target_of_stream(&it));
        let body = Body::new(Resumed { first, body });
        let answered = match target {
            Some(target) => self.to(&target, body, until).await,
            None => match routes.call(Request::from_parts(parts, body)).await {
                Ok(response) => Ok(response),
                Err(never) => match never {},
            },
        };
        answered.unwrap_or_else(|error| Status::from(error).into_http())
    }
}

/// The first request of a stream; `None` for one that cannot be decoded, which the handler refuses.
fn request_of_stream(frame: &Bytes) -> Option<PlaceStreamRequest> {
    PlaceStreamRequest::decode(frame.get(PREFIX_BYTES..)?).ok()
}

/// The replica that a response says the call is for.
fn target(response: &Response<Body>) -> Option<Target> {
    let target = response.headers().get(ELSEWHERE)?.to_str().ok()?;
    match target.strip_prefix(REPLICA) {
        Some(name) => Some(Target::Named(name.to_owned())),
        None => (target == COMMITTER).then_some(Target::Committer),
    }
}

/// Whether the other replica is one that does not decide, either, or not yet.
fn is_unavailable(response: &Response<Body>) -> bool {
    response.headers().get("grpc-status").is_some_and(|code| code == "14")
}
