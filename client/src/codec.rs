//! A codec for requests that are already encoded: a load generator that sends 100,000 pods a second would measure
//! itself if it built and encoded each request anew.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::BufMut as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Codec that sends bytes unchanged and decodes responses as `T`.
#[derive(Debug)]
pub(crate) struct Encoded<T>(PhantomData<fn() -> T>);

impl<T> Encoded<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Message + Default + 'static> Codec for Encoded<T> {
    type Encode = Vec<u8>;
    type Decode = T;
    type Encoder = Verbatim;
    type Decoder = Typed<T>;

    fn encoder(&mut self) -> Verbatim {
        Verbatim
    }

    fn decoder(&mut self) -> Typed<T> {
        Typed(PhantomData)
    }
}

/// Encoder that copies bytes into the message.
#[derive(Debug)]
pub(crate) struct Verbatim;

impl Encoder for Verbatim {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put_slice(&message);
        Ok(())
    }
}

/// Decoder of responses of type `T`.
#[derive(Debug)]
pub(crate) struct Typed<T>(PhantomData<fn() -> T>);

impl<T: Message + Default + 'static> Decoder for Typed<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        T::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
