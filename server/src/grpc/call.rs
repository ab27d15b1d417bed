//! What happens to every call before and after its handler: the deadline is noted and kept, transport trouble is put
//! into the caller's terms, and the end of the call is counted. The only layer there is.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower_service::Service;

use super::deadline::{Deadline, parse_timeout};
use super::status::{CallError, of_transport};
use super::{State, until_draining};
use crate::clock;

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
    type Response = Response<CountedBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let timeout = request
            .headers()
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok())
            .and_then(parse_timeout);
        let deadline = timeout.and_then(|timeout| clock::now().checked_add(timeout));
        request.extensions_mut().insert(Deadline(deadline));
        let mut call = CountedCall {
            state: self.state.clone(),
            path: request.uri().path().into(),
            counted: false,
        };
        let answer = self.routes.call(request);
        Box::pin(async move {
            let response = match deadline {
                None => answer.await,
                // The transport would answer CANCELLED at the same instant; this answer is looked at first.
                Some(at) => match tokio::time::timeout_at(at.into(), answer).await {
                    Ok(response) => response,
                    Err(_) => Ok(Status::from(CallError::DeadlineExceeded).into_http()),
                },
            };
            let max_message_bytes = call.state.max_message_bytes(&call.path);
            let response = in_callers_terms(response?, &call.path, max_message_bytes);
            call.note_headers(response.headers());
            let end = (!call.counted && ENDLESS.contains(&&*call.path))
                .then(|| drained(call.state.draining.clone()));
            Ok(response.map(|body| CountedBody { body, call, end }))
        })
    }
}

/// Streams of services that are not ours and that would hold a drain until its grace period is over.
const ENDLESS: [&str; 3] = [
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// Long enough for a watcher of health to be told `NOT_SERVING` first.
const LAST_WORDS: Duration = Duration::from_millis(200);

type End = Pin<Box<dyn Future<Output = ()> + Send>>;

fn drained(draining: watch::Receiver<bool>) -> End {
    Box::pin(async move {
        until_draining(draining).await;
        tokio::time::sleep(LAST_WORDS).await;
    })
}

/// Only a response without a body says its status in the headers: there the transport speaks, or a unary handler.
fn in_callers_terms(
    response: Response<Body>,
    path: &str,
    max_message_bytes: usize,
) -> Response<Body> {
    match Status::from_header_map(response.headers()) {
        // A handler that gives this code says why; the router does not.
        Some(status) if status.code() == Code::Unimplemented && status.message().is_empty() => {
            Status::from(CallError::NoSuchMethod { path: path.to_owned() }).into_http()
        }
        Some(status) if matches!(status.code(), Code::OutOfRange | Code::Internal) => {
            of_transport(status, max_message_bytes).into_http()
        }
        Some(_) | None => response,
    }
}

/// One call on its way to being counted, exactly once.
struct CountedCall {
    state: Arc<State>,
    path: Box<str>,
    counted: bool,
}

impl CountedCall {
    fn note_headers(&mut self, headers: &HeaderMap) {
        let code = headers
            .get("grpc-status")
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse().ok());
        if let Some(code) = code {
            self.count(code);
        }
    }

    fn count(&mut self, code: i32) {
        if !self.counted {
            self.counted = true;
            self.state.metrics.calls().count(&self.path, code);
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        // No status was sent: the client went away.
        self.count(Code::Cancelled as i32);
    }
}

/// A response body that looks for the status in its trailers, and ends an endless stream when the server drains.
pub(crate) struct CountedBody {
    body: Body,
    call: CountedCall,
    end: Option<End>,
}

impl HttpBody for CountedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            self.call.note_headers(trailers);
        }
        if frame.is_pending()
            && let Some(end) = &mut self.end
            && end.as_mut().poll(cx).is_ready()
        {
            self.end = None;
            self.body = Body::empty();
            let trailers =
                Status::from(CallError::Draining).into_http::<Body>().into_parts().0.headers;
            self.call.note_headers(&trailers);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policy::Profiles;
    use crate::grpc::{Limits, routes};
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
    ) -> Response<CountedBody> {
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
