//! Requests that are encoded already: a generator that sends 100,000 pods a second must not build and encode each of
//! them anew, for it would measure itself.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::BufMut as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Sends bytes as they are, reads answers as `T`.
#[derive(Debug)]
pub(super) struct Encoded<T>(PhantomData<fn() -> T>);

impl<T> Encoded<T> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Message + Default + 'static> Codec for Encoded<T> {
    type Encode = Vec<u8>;
    type Decode = T;
    type Encoder = AsIs;
    type Decoder = Typed<T>;

    fn encoder(&mut self) -> AsIs {
        AsIs
    }

    fn decoder(&mut self) -> Typed<T> {
        Typed(PhantomData)
    }
}

#[derive(Debug)]
pub(super) struct AsIs;

impl Encoder for AsIs {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put_slice(&message);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Typed<T>(PhantomData<fn() -> T>);

impl<T: Message + Default + 'static> Decoder for Typed<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        T::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
