//! Span: one piece of a server's work for a trace, which is a call that it handles or a request that it makes for a
//! call.
//!
//! Work that runs in a [`Scope`] logs the ids of its trace, and its requests to the API server belong to the trace too.
//! Work in another task enters the scope with [`followed`].

use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue};
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::SpanData;
use tracing::Instrument as _;

use super::export::{Export, TracingError};
use super::ids::Ids;
use super::{TRACEPARENT, TRACESTATE, TraceContext, TracingOptions, state};
use crate::clock;

/// Status codes that are failures of the server by OpenTelemetry's conventions: UNKNOWN, DEADLINE_EXCEEDED,
/// UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
const SERVERS_FAULT: [i32; 6] = [2, 4, 12, 13, 14, 15];
const MILLION: u64 = 1_000_000;

tokio::task_local! {
    static CURRENT: Scope;
}

/// Role of a span in its trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A call to this server.
    Server,
    /// A request by this server.
    Client,
}

/// Decides which calls are traced, and sends their spans.
pub(crate) struct Tracer {
    shared: Arc<Shared>,
    /// Calls of a million without a trace that begin one.
    sampling_rate: u64,
}

struct Shared {
    ids: Ids,
    export: Option<Export>,
}

impl Tracer {
    /// A tracer that sends no spans: traces of callers continue in the log, and no trace begins here.
    pub(crate) fn off() -> Tracer {
        Tracer { shared: Arc::new(Shared { ids: Ids::new(), export: None }), sampling_rate: 0 }
    }

    /// A tracer that sends spans to a collector. The caller runs in a tokio runtime.
    ///
    /// # Errors
    /// [`TracingError`] for an endpoint that cannot be used.
    pub(crate) fn new(options: &TracingOptions) -> Result<Tracer, TracingError> {
        let export = Some(Export::to(&options.endpoint)?);
        Ok(Tracer {
            shared: Arc::new(Shared { ids: Ids::new(), export }),
            sampling_rate: u64::from(options.sampling_rate_per_million),
        })
    }

    /// The span of a call with these headers; `None` if the call belongs to no trace and begins none.
    pub(crate) fn begin(&self, headers: &HeaderMap, name: &'static str) -> Option<Span> {
        let shared = &self.shared;
        let (parent, state) = match TraceContext::of(headers) {
            Some(parent) => (parent, state::of(headers)),
            None if self.samples() => {
                let trace_id = shared.ids.trace();
                (TraceContext { trace_id, parent_id: 0, is_sampled: true }, None)
            }
            None => return None,
        };
        let state = state.map(Arc::from);
        Some(Span::new(shared.clone(), parent, state, name, Kind::Server))
    }

    fn samples(&self) -> bool {
        self.sampling_rate > 0 && self.shared.ids.any() % MILLION < self.sampling_rate
    }

    /// Sends the remaining spans, within a time limit. Blocks.
    pub(crate) fn finish(&self) {
        if let Some(export) = &self.shared.export {
            export.finish();
        }
    }
}

/// A span that has begun. It ends when dropped.
pub(crate) struct Span {
    scope: Scope,
    /// 0 if the trace begins here.
    parent_id: u64,
    name: &'static str,
    kind: Kind,
    started: SystemTime,
    attributes: Vec<KeyValue>,
    is_error: bool,
}

/// The context in which the work of a span runs. Clones share it.
#[derive(Clone)]
pub(crate) struct Scope {
    shared: Arc<Shared>,
    /// The trace, with the span's own id as the parent of spans below it.
    context: TraceContext,
    state: Option<Arc<str>>,
    log: tracing::Span,
}

impl Span {
    fn new(
        shared: Arc<Shared>,
        parent: TraceContext,
        state: Option<Arc<str>>,
        name: &'static str,
        kind: Kind,
    ) -> Span {
        let context = TraceContext { parent_id: shared.ids.span(), ..parent };
        let TraceContext { trace_id, parent_id: span_id, .. } = context;
        // The level that a filter turns off last, because the ids belong to every line.
        let log = tracing::error_span!(
            "call",
            trace_id = %format_args!("{trace_id:032x}"),
            span_id = %format_args!("{span_id:016x}"),
        );
        Span {
            scope: Scope { shared, context, state, log },
            parent_id: parent.parent_id,
            name,
            kind,
            started: clock::wall(),
            attributes: Vec::new(),
            is_error: false,
        }
    }

    /// Id of the trace.
    pub(crate) fn trace_id(&self) -> u128 {
        self.scope.context.trace_id
    }

    /// The scope for the work of this span.
    pub(crate) fn scope(&self) -> Scope {
        self.scope.clone()
    }

    /// Adds an attribute by its name in OpenTelemetry's conventions.
    pub(crate) fn set_attribute(&mut self, name: &'static str, value: impl Into<Value>) {
        if self.is_exported() {
            self.attributes.push(KeyValue::new(name, value));
        }
    }

    /// Marks the span as failed.
    pub(crate) fn fail(&mut self) {
        self.is_error = true;
    }

    /// Ends the span of a gRPC call. `code` is the number in `grpc-status`.
    pub(crate) fn end_call(mut self, path: &'static str, code: i32) {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
        self.set_attribute("rpc.system", "grpc");
        self.set_attribute("rpc.service", service);
        self.set_attribute("rpc.method", method);
        self.set_attribute("rpc.grpc.status_code", i64::from(code));
        self.is_error = SERVERS_FAULT.contains(&code);
    }

    /// Writes the trace into the headers of a request.
    pub(crate) fn inject(&self, headers: &mut HeaderMap) {
        let Scope { context, state, .. } = &self.scope;
        if let Ok(value) = HeaderValue::from_str(&context.written()) {
            headers.insert(&TRACEPARENT, value);
        }
        if let Some(value) = state.as_deref().and_then(|state| HeaderValue::from_str(state).ok()) {
            headers.insert(&TRACESTATE, value);
        }
    }

    fn is_exported(&self) -> bool {
        self.scope.context.is_sampled && self.scope.shared.export.is_some()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if !self.is_exported() {
            return;
        }
        let Scope { shared, context, state, .. } = &self.scope;
        let Some(export) = &shared.export else { return };
        let state = state.as_deref().and_then(|state| state.parse::<TraceState>().ok());
        export.send(SpanData {
            span_context: SpanContext::new(
                context.trace_id.into(),
                context.parent_id.into(),
                TraceFlags::SAMPLED,
                false,
                state.unwrap_or_default(),
            ),
            parent_span_id: self.parent_id.into(),
            parent_span_is_remote: self.kind == Kind::Server && self.parent_id != 0,
            span_kind: match self.kind {
                Kind::Server => SpanKind::Server,
                Kind::Client => SpanKind::Client,
            },
            name: self.name.into(),
            start_time: self.started,
            end_time: clock::wall().max(self.started),
            attributes: std::mem::take(&mut self.attributes),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: if self.is_error { Status::error("") } else { Status::Unset },
            instrumentation_scope: export.instrumentation_scope(),
        });
    }
}

impl Scope {
    /// Runs `work` in the scope.
    pub(crate) fn carry<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        let log = self.log.clone();
        CURRENT.scope(self, work).instrument(log)
    }
}

/// Wraps `work` for another task, so that it runs in the scope of this one.
pub(crate) fn followed<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let scope = CURRENT.try_with(Scope::clone).ok();
    async move {
        match scope {
            Some(scope) => scope.carry(work).await,
            None => work.await,
        }
    }
}

/// The span of a request that this task makes to another server; `None` outside of a trace.
pub(crate) fn outgoing(name: &'static str) -> Option<Span> {
    let scope = CURRENT.try_with(Scope::clone).ok()?;
    Some(Span::new(scope.shared, scope.context, scope.state, name, Kind::Client))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        headers.insert(&TRACEPARENT, HeaderValue::from_static(parent));
        headers.insert(&TRACESTATE, HeaderValue::from_static("rojo=1"));
        headers
    }

    #[tokio::test]
    async fn a_request_for_a_call_belongs_to_its_trace() {
        let tracer = Tracer::off();
        let span = tracer.begin(&headers(), "call").unwrap();
        assert_eq!(span.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        let own = span.scope.context.parent_id;
        assert_ne!(own, 0x00f0_67aa_0ba9_02b7);
        let sent = span.scope().carry(async {
            let elsewhere = tokio::spawn(followed(async {
                outgoing("bind").map(|span| {
                    (span.parent_id, span.scope.context.parent_id, {
                        let mut headers = HeaderMap::new();
                        span.inject(&mut headers);
                        headers
                    })
                })
            }));
            elsewhere.await.unwrap().unwrap()
        });
        let (parent, id, headers) = sent.await;
        assert_eq!(parent, own);
        let expected = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{id:016x}-00");
        assert_eq!(headers[&TRACEPARENT].to_str().unwrap(), expected);
        assert_eq!(headers[&TRACESTATE], "rojo=1");
        assert!(outgoing("bind").is_none(), "no scope here");
    }

    #[test]
    fn a_call_without_a_trace_begins_none_unless_sampled() {
        let mut tracer = Tracer::off();
        assert!(tracer.begin(&HeaderMap::new(), "call").is_none());
        tracer.sampling_rate = MILLION;
        assert!(tracer.begin(&HeaderMap::new(), "call").unwrap().scope.context.is_sampled);
        tracer.sampling_rate = MILLION / 2;
        let begun =
            (0..1_000).filter(|_| tracer.begin(&HeaderMap::new(), "call").is_some()).count();
        assert!((300..700).contains(&begun), "{begun}");
    }
}
