//! `IntOrString`: a number, or a text such as `25%` (wire section 3).

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number or a text; a text stays a text even when it reads as a number.
///
/// Protobuf: `{ type = 1 int64 (0 int, 1 string), intVal = 2 int32, strVal = 3 string }`. JSON: the bare number or
/// text. The default is the empty message, which reads as the number 0; Kubernetes never writes it. Equality is that of
/// values.
#[derive(Clone, prost::Message)]
pub struct IntOrString {
    #[prost(int64, optional, tag = "1")]
    kind: Option<i64>,
    #[prost(int32, tag = "2")]
    int: i32,
    #[prost(string, tag = "3")]
    string: String,
}

/// Value of an [`IntOrString`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrStringValue<'a> {
    /// A number.
    Int(i32),
    /// A text.
    String(&'a str),
}

const INT: i64 = 0;
const STRING: i64 = 1;

impl IntOrString {
    /// The value; `None` when a protobuf writer sent a type that is neither 0 nor 1.
    pub fn value(&self) -> Option<IntOrStringValue<'_>> {
        match self.kind.unwrap_or(INT) {
            INT => Some(IntOrStringValue::Int(self.int)),
            STRING => Some(IntOrStringValue::String(&self.string)),
            _ => None,
        }
    }

    /// Whether a protobuf writer sent neither a type nor a value.
    pub fn is_unset(&self) -> bool {
        self.kind.is_none() && self.int == 0 && self.string.is_empty()
    }

    fn parts(&self) -> (i64, i32, &str) {
        (self.kind.unwrap_or(INT), self.int, &self.string)
    }
}

impl PartialEq for IntOrString {
    fn eq(&self, other: &IntOrString) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for IntOrString {}

impl Hash for IntOrString {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl From<i32> for IntOrString {
    fn from(int: i32) -> IntOrString {
        IntOrString { kind: Some(INT), int, string: String::new() }
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> IntOrString {
        IntOrString::from(text.to_owned())
    }
}

impl From<String> for IntOrString {
    fn from(string: String) -> IntOrString {
        IntOrString { kind: Some(STRING), int: 0, string }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value() {
            Some(IntOrStringValue::Int(int)) => serializer.serialize_i32(int),
            Some(IntOrStringValue::String(text)) => serializer.serialize_str(text),
            None => Err(serde::ser::Error::custom(format_args!(
                "`IntOrString` of unknown type `{}`",
                self.kind.unwrap_or(INT)
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IntOrString, D::Error> {
        deserializer.deserialize_any(IntOrStringVisitor)
    }
}

struct IntOrStringVisitor;

impl Visitor<'_> for IntOrStringVisitor {
    type Value = IntOrString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a 32-bit number or a string")
    }

    fn visit_i64<E: Error>(self, int: i64) -> Result<IntOrString, E> {
        i32::try_from(int)
            .map(IntOrString::from)
            .map_err(|_| E::custom(format_args!("`{int}` does not fit in 32 bits")))
    }

    fn visit_u64<E: Error>(self, int: u64) -> Result<IntOrString, E> {
        i32::try_from(int)
            .map(IntOrString::from)
            .map_err(|_| E::custom(format_args!("`{int}` does not fit in 32 bits")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<IntOrString, E> {
        Ok(IntOrString::from(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<IntOrString, E> {
        Ok(IntOrString::from(text))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn json_is_the_bare_value() {
        for (text, value) in [
            ("5", IntOrString::from(5)),
            ("-3", IntOrString::from(-3)),
            ("0", IntOrString::default()),
            (r#""25%""#, IntOrString::from("25%")),
            (r#""5""#, IntOrString::from("5")),
        ] {
            assert_eq!(serde_json::from_str::<IntOrString>(text).unwrap(), value, "{text}");
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
    }

    #[test]
    fn json_refuses_other_shapes_and_ranges() {
        for text in ["2147483648", "-2147483649", "18446744073709551615", "1.5", "true", "{}", "[]"]
        {
            assert!(serde_json::from_str::<IntOrString>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn protobuf_has_the_three_fields() {
        let text = IntOrString::from("25%");
        assert_eq!(text.encode_to_vec(), b"\x08\x01\x1a\x0325%");
        // Upstream writes every field, zero values included (W-PB-1).
        assert_eq!(IntOrString::decode(&b"\x08\x01\x10\x00\x1a\x0325%"[..]).unwrap(), text);
        let int = IntOrString::decode(&b"\x08\x00\x10\x07\x1a\x00"[..]).unwrap();
        assert_eq!(int.value(), Some(IntOrStringValue::Int(7)));
        let unset = IntOrString::decode(&b""[..]).unwrap();
        assert_eq!((unset.value(), unset.is_unset()), (Some(IntOrStringValue::Int(0)), true));
        assert!(
            ![int, text, IntOrString::from(0), IntOrString::from("")]
                .iter()
                .any(IntOrString::is_unset)
        );
        assert_eq!(IntOrString::from(0).encode_to_vec(), b"\x08\x00");
    }

    #[test]
    fn an_unknown_type_has_no_value() {
        let odd = IntOrString::decode(&b"\x08\x02\x10\x07"[..]).unwrap();
        assert_eq!(odd.value(), None);
        assert!(serde_json::to_string(&odd).is_err());
    }
}
