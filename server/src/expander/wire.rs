//! Fields of a message in wire format. cluster-autoscaler's requests are the largest that Berth receives, and decoded
//! they would be many times larger: an empty pod is two bytes here and hundreds in memory. So objects stay encoded,
//! sharing the bytes of the request, until one is needed.

use prost::bytes::{Buf as _, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A varint of any integer type.
    Number(u64),
    /// A string, a message or bytes.
    Bytes(Bytes),
}

/// Reason why bytes are not a message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error(transparent)]
    Field(#[from] prost::DecodeError),
    #[error("field {tag} is longer than the message")]
    Truncated { tag: u32 },
}

/// The fields of a message in their order, up to the first malformed one. Fields of other wire types are skipped, like
/// unknown fields.
pub(super) struct Fields(Bytes);

impl Fields {
    pub(super) fn of(message: Bytes) -> Fields {
        Fields(message)
    }

    fn read(&mut self) -> Result<Option<(u32, Value)>, Malformed> {
        while self.0.has_remaining() {
            let (tag, wire_type) = decode_key(&mut self.0)?;
            match wire_type {
                WireType::Varint => {
                    return Ok(Some((tag, Value::Number(decode_varint(&mut self.0)?))));
                }
                WireType::LengthDelimited => {
                    let length = usize::try_from(decode_varint(&mut self.0)?).ok();
                    let length = length.filter(|length| *length <= self.0.len());
                    let length = length.ok_or(Malformed::Truncated { tag })?;
                    return Ok(Some((tag, Value::Bytes(self.0.split_to(length)))));
                }
                _ => skip_field(wire_type, tag, &mut self.0, DecodeContext::default())?,
            }
        }
        Ok(None)
    }
}

impl Iterator for Fields {
    type Item = Result<(u32, Value), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.0.clear();
        }
        read.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_up_to_the_first_that_is_malformed() {
        // 1: 300; 2: "ab"; 3: a double, skipped; 4: five bytes of which only one is there.
        let message = b"\x08\xac\x02\x12\x02ab\x19\0\0\0\0\0\0\0\0\x22\x05x";
        let mut fields = Fields::of(Bytes::from_static(message));
        assert_eq!(fields.next().unwrap().unwrap(), (1, Value::Number(300)));
        assert_eq!(fields.next().unwrap().unwrap(), (2, Value::Bytes(Bytes::from_static(b"ab"))));
        let error = fields.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "field 4 is longer than the message");
        assert!(fields.next().is_none());
        for malformed in [&b"\x08"[..], b"\x08\xff", b"\x07", b"\0", b"\x19\0", b"\x0c"] {
            let mut fields = Fields::of(Bytes::from_static(malformed));
            assert!(fields.next().unwrap().is_err() && fields.next().is_none(), "{malformed:?}");
        }
    }
}
