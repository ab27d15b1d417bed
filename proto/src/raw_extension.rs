//! RawExtension: the JSON form of an object of any kind. In JSON it is the nested value itself, of any shape; its bytes
//! are the text of that value. Keys keep their order.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::runtime::RawExtension;

impl<'de> Deserialize<'de> for RawExtension {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawExtension, D::Error> {
        let raw = serde_json::to_vec(&Copied::of(deserializer)).map_err(D::Error::custom)?;
        Ok(RawExtension { raw })
    }
}

impl Serialize for RawExtension {
    /// # Errors
    /// If the bytes are not JSON.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.raw.is_empty() {
            return serializer.serialize_unit();
        }
        let mut json = serde_json::Deserializer::from_slice(&self.raw);
        let written = Copied::of(&mut json).serialize(serializer)?;
        json.end().map_err(S::Error::custom)?;
        Ok(written)
    }
}

/// A value that is read while it is written, once.
struct Copied<D>(Cell<Option<D>>);

impl<'de, D: Deserializer<'de>> Copied<D> {
    fn of(deserializer: D) -> Copied<D> {
        Copied(Cell::new(Some(deserializer)))
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Copied<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let deserializer = self.0.take().ok_or_else(|| S::Error::custom("is read twice"))?;
        deserializer.deserialize_any(Copy(serializer)).map_err(S::Error::custom)
    }
}

/// Writes the value that it visits.
struct Copy<S>(S);

macro_rules! scalars {
    ($($visit:ident $serialize:ident $type:ty;)+) => {
        $(fn $visit<E: serde::de::Error>(self, value: $type) -> Result<S::Ok, E> {
            self.0.$serialize(value).map_err(E::custom)
        })+
    };
}

impl<'de, S: Serializer> Visitor<'de> for Copy<S> {
    type Value = S::Ok;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    scalars! {
        visit_bool serialize_bool bool;
        visit_i64 serialize_i64 i64;
        visit_u64 serialize_u64 u64;
        visit_f64 serialize_f64 f64;
        visit_str serialize_str &str;
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Ok, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<S::Ok, A::Error> {
        let mut written = self.0.serialize_seq(list.size_hint()).map_err(A::Error::custom)?;
        while list.next_element_seed(Element(&mut written))?.is_some() {}
        written.end().map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<S::Ok, A::Error> {
        let mut written = self.0.serialize_map(map.size_hint()).map_err(A::Error::custom)?;
        while let Some(key) = map.next_key::<String>()? {
            written.serialize_key(&key).map_err(A::Error::custom)?;
            map.next_value_seed(Entry(&mut written))?;
        }
        written.end().map_err(A::Error::custom)
    }
}

/// Writes an element of a list.
struct Element<'a, S>(&'a mut S);

impl<'de, S: SerializeSeq> DeserializeSeed<'de> for Element<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.serialize_element(&Copied::of(deserializer)).map_err(D::Error::custom)
    }
}

/// Writes a value of a map.
struct Entry<'a, S>(&'a mut S);

impl<'de, S: SerializeMap> DeserializeSeed<'de> for Entry<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.serialize_value(&Copied::of(deserializer)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_keeps_its_text() {
        for json in [
            r#"{"b":[1,-2,1.5,"x\n\u0000",{}],"a":{"b":null,"a":true},"c":18446744073709551615}"#,
            "[]",
            "0",
            "\"\"",
            "false",
        ] {
            let read: RawExtension = serde_json::from_str(json).unwrap();
            assert_eq!(String::from_utf8(read.raw.clone()).unwrap(), json);
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
        let spaced: RawExtension = serde_json::from_str(r#" {"a" : [ 1 ]} "#).unwrap();
        assert_eq!(spaced.raw, br#"{"a":[1]}"#);
        let yaml: RawExtension = serde_saphyr::from_str("b: [1, true, x]\na: {c: null}").unwrap();
        assert_eq!(yaml.raw, br#"{"b":[1,true,"x"],"a":{"c":null}}"#);
    }

    #[test]
    fn no_bytes_are_null_and_other_bytes_are_refused() {
        assert_eq!(serde_json::to_string(&RawExtension::default()).unwrap(), "null");
        for raw in ["{", "{} {}", "\u{1}", "nul"] {
            assert!(serde_json::to_string(&RawExtension { raw: raw.into() }).is_err(), "{raw}");
        }
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(serde_json::from_str::<RawExtension>(&deep).is_err());
        assert!(serde_json::to_string(&RawExtension { raw: deep.into() }).is_err());
    }
}
