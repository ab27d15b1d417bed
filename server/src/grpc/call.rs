//! Call: one call from its first header to the last byte of its response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Request};
use tonic::Code;
use tonic::body::Body;

use super::timeout::parse_timeout;
use crate::admission::{Entered, Holder, Lane, OpenStream, User};
use crate::audit::{Changes, Line};
use crate::auth::Caller;
use crate::clock;
use crate::net::{InUse, Peer};
use crate::replicas::read_caller;
use crate::service::Revoked;
use crate::service::method::{self, Effect, Method};
use crate::service::{
    Access, CallError, Deadline, Delivery, HeldBytes, REQUEST_ID, State, Supposed,
};
use crate::telemetry::trace::Span;

/// Maximum length of a request id in bytes.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// One call from its first header to the last byte of its response. However it ends, it is counted exactly once.
pub(super) struct Call {
    pub(super) state: Arc<State>,
    pub(super) method: &'static Method,
    /// Path of an unknown method; empty for known ones.
    pub(super) unknown_path: Box<str>,
    pub(super) arrived: Instant,
    pub(super) caller: Option<Arc<Caller>>,
    pub(super) peer: Option<Arc<Peer>>,
    /// Whether another replica has sent the call here.
    is_forwarded: bool,
    /// Keeps the connection from making room for others.
    in_use: Option<InUse>,
    /// Present once the call has begun.
    entered: Option<Entered>,
    /// A stream's slot among those of its user.
    stream: Option<OpenStream>,
    /// Ends when the credential of a stream's caller is revoked.
    pub(super) revoked: Option<Revoked>,
    /// Time at which the call has to end: its caller's deadline, or the server's limit if that is earlier.
    pub(super) until: Option<Instant>,
    changes: Option<Changes>,
    pub(super) request_id: Option<Box<str>>,
    /// Span of the call, if it is traced.
    pub(super) span: Option<Span>,
    /// The memory of the message.
    pub(super) held: HeldBytes,
    /// What is undone unless the response is delivered.
    pub(super) delivery: Delivery,
    pub(super) is_over: bool,
}

impl Call {
    pub(super) fn new(state: &Arc<State>, request: &Request<Body>, arrived: Instant) -> Call {
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
            is_forwarded: false,
            in_use: None,
            entered: None,
            stream: None,
            revoked: None,
            until: None,
            changes: None,
            held: HeldBytes::default(),
            request_id: headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(Into::into),
            delivery: match method.effect {
                Effect::ByRequest | Effect::Changes if method.lane.is_unary() => {
                    Delivery::watched()
                }
                Effect::ByRequest | Effect::Reads | Effect::Changes => Delivery::default(),
            },
            span: state.tracer.begin(headers, method.path.trim_start_matches('/')),
            is_over: false,
        }
    }

    /// The user of the call, for turns.
    pub(super) fn user(&self) -> User {
        match &self.caller {
            Some(caller) => self.state.user(caller),
            None => User { name: Arc::default(), weight: 1 },
        }
    }

    /// Who holds the memory of the call's messages.
    pub(super) fn holder(&self) -> Holder {
        let user = self.caller.as_ref().map(|caller| caller.user.clone()).unwrap_or_default();
        // cluster-autoscaler names every pod for every option, in up to 128 MiB.
        let may_have_all = self.method.is_of_expander();
        // The connection of a replica is that of all its callers.
        let connection = self.peer.as_ref().filter(|_| !self.is_forwarded);
        Holder { may_have_all, ..Holder::of(user, connection) }
    }

    /// Authenticates the caller and checks its role; the handler finds the caller in the request's extensions.
    pub(super) fn authorize(&mut self, request: &mut Request<Body>) -> Result<(), CallError> {
        // Health and reflection are open to every caller, whatever its credentials.
        let Some(role) = self.method.role else { return Ok(()) };
        let caller = self
            .state
            .auth
            .authenticate(self.peer.as_deref().map(|peer| &peer.identity), request.headers())?;
        self.in_use = self.peer.as_ref().map(|peer| InUse::begin(peer, &caller.user));
        let original = read_caller(&caller, request.headers())?;
        self.is_forwarded = original.is_some();
        let caller = original.unwrap_or(caller);
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
        if let Some(supposed) = request.extensions().get::<Supposed>() {
            supposed.note_access(Access::of(request.extensions()));
        }
        allowed?;
        if self.method.effect == Effect::Changes {
            Access::of(request.extensions()).check_declared()?;
        }
        match request.headers().get(REQUEST_ID) {
            Some(_) => self.check_request_id(),
            None => Ok(()),
        }
    }

    pub(super) fn check_request_id(&self) -> Result<(), CallError> {
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

    /// Sets the time at which the call has to end; returns the caller's deadline, which is the only one that handlers
    /// see: the server's limit ends a call by dropping it.
    pub(super) fn limit(&mut self, headers: &HeaderMap) -> Deadline {
        let timeout = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
        let timeout = timeout.and_then(parse_timeout);
        let deadline = timeout.and_then(|timeout| self.arrived.checked_add(timeout));
        let limit = self.method.lane.is_unary().then(|| self.arrived.checked_add(self.max_time()));
        self.until = deadline.into_iter().chain(limit.flatten()).min();
        Deadline(deadline)
    }

    pub(super) fn max_time(&self) -> Duration {
        self.method.lane.call_limit(self.state.limits.load.max_call_time)
    }

    /// Whether the request has an id, so that it may be sent again but is carried out once.
    pub(super) fn is_named(&self) -> bool {
        self.request_id.is_some()
            && self.caller.is_some()
            && self.method.effect != Effect::Reads
            && self.method.lane.is_unary()
    }

    /// Admits the call, and begins to audit one that always changes something.
    pub(super) fn enter(&mut self) -> Result<(), CallError> {
        self.admit()?;
        self.begin_audit()
    }

    /// Begins to audit a call that always changes something.
    pub(super) fn begin_audit(&mut self) -> Result<(), CallError> {
        match &self.changes {
            Some(changes) if self.method.effect == Effect::Changes => Ok(changes.begin()?),
            // The handler reports whether it does.
            Some(_) | None => Ok(()),
        }
    }

    /// Admits the call. Called when the call first gets a thread, so that its wait for one counts.
    pub(super) fn admit(&mut self) -> Result<(), CallError> {
        let user = self.user();
        let now = clock::now();
        let waited = now.saturating_duration_since(self.arrived);
        let admission = &self.state.admission;
        self.entered = Some(admission.enter(self.method.lane, now, waited, self.until, &user)?);
        if self.method.lane == Lane::Stream && !self.state.auth.is_open() {
            self.stream = Some(self.state.admission.open_stream(&user)?);
        }
        Ok(())
    }

    /// Ends the call if `headers`, or trailers, contain its status.
    pub(super) fn note_status(&mut self, headers: &HeaderMap) {
        let code = headers
            .get("grpc-status")
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse().ok());
        if let Some(code) = code {
            self.end(code);
        }
    }

    pub(super) fn end(&mut self, code: i32) {
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
        self.state.admission.leave(self.method.lane, self.entered);
    }
}
