//! Calls whose messages are bytes on both sides: what an answer holds is read by whoever wants to know, or by nobody.

use std::time::Duration;

use prost::bytes::{Buf as _, BufMut as _, Bytes};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use super::caller::of_transport;
use super::{Channel, Client};

/// Sends encoded requests over one connection. Cheap to clone: clones share the connection.
#[derive(Debug, Clone)]
pub struct RawCaller {
    service: Grpc<Channel>,
}

impl RawCaller {
    /// A caller over connection `connection` of `client`.
    pub fn new(client: &Client, connection: usize) -> Self {
        Self { service: client.grpc(connection) }
    }

    /// Sends one encoded message to the method at `path`, which gives up after `timeout`; the encoded answer.
    ///
    /// Errors: the server's refusal, or UNAVAILABLE for a connection that could not be made or broke.
    pub async fn call(
        &self,
        path: PathAndQuery,
        message: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, Status> {
        let mut service = self.service.clone();
        if let Err(error) = service.ready().await {
            return Err(Status::unavailable(format!("cannot connect: {error}")));
        }
        let mut request = Request::new(message);
        request.set_timeout(timeout);
        let answer = service.unary(request, path, AsIs).await;
        answer.map(tonic::Response::into_inner).map_err(of_transport)
    }
}

/// Bytes as they are, both ways.
#[derive(Debug, Clone, Copy)]
struct AsIs;

impl Codec for AsIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        AsIs
    }

    fn decoder(&mut self) -> Self {
        AsIs
    }
}

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let n_bytes = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(n_bytes)))
    }
}
