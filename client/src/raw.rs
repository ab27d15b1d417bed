//! Calls whose requests and responses stay encoded, so that the caller decodes only the responses it needs.

use std::time::Duration;

use prost::bytes::{Buf as _, BufMut as _, Bytes};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use crate::caller::with_lost_connection_unavailable;
use crate::{Channel, Client};

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

    /// Sends one encoded request to the method at `path` with `timeout`, and returns the encoded response.
    ///
    /// Errors: the server's status, or UNAVAILABLE when the connection failed.
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
        let answer = service.unary(request, path, RawBytes).await;
        answer.map(tonic::Response::into_inner).map_err(with_lost_connection_unavailable)
    }
}

/// Codec that leaves requests and responses encoded.
#[derive(Debug, Clone, Copy)]
struct RawBytes;

impl Codec for RawBytes {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        RawBytes
    }

    fn decoder(&mut self) -> Self {
        RawBytes
    }
}

impl Encoder for RawBytes {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for RawBytes {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let n_bytes = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(n_bytes)))
    }
}
