//! The service like one that tonic generates, except that requests arrive undecoded. Decoding takes as much time and
//! memory as the caller likes, so it is done off the reactor, with limits.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use berth_proto::grpcplugin::BestOptionsResponse;
use berth_proto::grpcplugin::expander_server::SERVICE_NAME;
use prost::Message as _;
use prost::bytes::{Buf as _, Bytes};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Code, Request, Response, Status};
use tower_service::Service;

use super::best_options;
use crate::service::{State, method};

/// Path of the service's only method.
const BEST_OPTIONS: &str = "/grpcplugin.Expander/BestOptions";

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

#[derive(Clone)]
pub(crate) struct ExpanderService {
    state: Arc<State>,
}

impl ExpanderService {
    pub(crate) fn new(state: Arc<State>) -> ExpanderService {
        ExpanderService { state }
    }
}

impl NamedService for ExpanderService {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<http::Request<Body>> for ExpanderService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != BEST_OPTIONS {
                return Ok(Status::new(Code::Unimplemented, "").into_http());
            }
            let limit = service.state.max_message_bytes(method::find(BEST_OPTIONS));
            let mut grpc = Grpc::new(Undecoded).max_decoding_message_size(limit);
            Ok(grpc.unary(service, request).await)
        })
    }
}

impl UnaryService<Bytes> for ExpanderService {
    type Response = BestOptionsResponse;
    type Future = Answering<Response<BestOptionsResponse>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(best_options(self.state.clone(), request))
    }
}

/// Codec that leaves requests as bytes and encodes responses as usual.
#[derive(Copy, Clone)]
struct Undecoded;

impl Codec for Undecoded {
    type Encode = BestOptionsResponse;
    type Decode = Bytes;
    type Encoder = Undecoded;
    type Decoder = Undecoded;

    fn encoder(&mut self) -> Undecoded {
        Undecoded
    }

    fn decoder(&mut self) -> Undecoded {
        Undecoded
    }
}

impl Decoder for Undecoded {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

impl Encoder for Undecoded {
    type Item = BestOptionsResponse;
    type Error = Status;

    fn encode(
        &mut self,
        answer: BestOptionsResponse,
        target: &mut EncodeBuf<'_>,
    ) -> Result<(), Status> {
        answer.encode(target).map_err(|error| Status::new(Code::Internal, error.to_string()))
    }
}
