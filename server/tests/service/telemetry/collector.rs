//! A collector of spans that acts as an OTLP receiver.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A collector that keeps every received request.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub(crate) async fn start() -> (Collector, SocketAddr) {
        let collector = Collector::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(collector.clone());
        let serving = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        (collector, address)
    }

    /// Returns all spans so far, each with the name of the service that sent it.
    pub(crate) fn spans(&self) -> Vec<(String, Span)> {
        let received = self.0.lock().unwrap();
        let of_service = received.iter().flat_map(|request| &request.resource_spans);
        let spans = of_service.flat_map(|sent| {
            let attributes = sent.resource.iter().flat_map(|resource| &resource.attributes);
            let name = attributes
                .filter(|attribute| attribute.key == "service.name")
                .filter_map(|attribute| text(attribute.value.as_ref()?.value.as_ref()?))
                .next()
                .unwrap_or_default();
            let spans = sent.scope_spans.iter().flat_map(|scope| scope.spans.clone());
            spans.map(move |span| (name.clone(), span))
        });
        spans.collect()
    }
}

fn text(value: &any_value::Value) -> Option<String> {
    match value {
        any_value::Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

/// Returns the value of an attribute of a span, as text.
pub(crate) fn fact(span: &Span, name: &str) -> Option<String> {
    let fact = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match fact.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(n) => Some(n.to_string()),
        _ => None,
    }
}
