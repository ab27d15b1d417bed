//! Reading and writing of messages as Kubernetes' JSON (W-JS). `build/json.rs` writes a table for each message; the
//! tables call the functions of this module.
//!
//! Names are matched exactly (W-JS-1), 64-bit numbers are JSON numbers (W-JS-2), an empty object is a present message
//! (W-JS-5), and serde_json escapes and unescapes strings (W-JS-9). A time may be absent or `null` (W-JS-10).
//!
//! Reading buffers no value, skips unknown keys and takes the last of two equal keys (W-JS-8); inside
//! [`noting_unknown_fields`] it notes whether Kubernetes knows the keys that it skips, at any depth, and inside
//! [`refusing_unknown_fields`] it refuses those that Kubernetes does not know. Berth's own
//! messages, which people write by hand, refuse unknown keys and a second member of a `oneof`; they take a number also
//! as a string, and a value of an enum by its name or its number, as protobuf's JSON does. An error names the field:
//! ``field `spec.containers[0].image`: invalid type …``.

mod unread;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::mem::discriminant;
use std::str::FromStr;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fields::Message;
use unread::Unread;
pub(crate) use unread::{noting_unknown_fields, refusing_unknown_fields};

/// A message that is read from a JSON object.
pub(crate) trait ReadObject: Default {
    /// The message's name, for errors.
    const KIND: &'static str;

    /// Whether a key that names no field is an error; otherwise it is skipped.
    const IS_STRICT: bool;

    /// All fields that Kubernetes knows of the message; `None` if it is not in the table of those.
    const FIELDS: Option<Message>;

    /// Position of the field that `key` names; `None` when the message has no such field.
    fn position(key: &str) -> Option<u32>;

    /// Reads the next value of `map` into the field at `position`, replacing its value.
    fn read<'de, A: MapAccess<'de>>(&mut self, position: u32, map: &mut A) -> Result<(), A::Error>;
}

/// A message that is written as a JSON object.
pub(crate) trait WriteObject {
    /// Writes every field that is not absent.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// The type of a field that is read: `null` is its absent value (W-JS-4).
pub(crate) trait ReadField: Sized {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// The type of a field that is written, unless it is absent: unset, zero or empty.
pub(crate) trait WriteField: Serialize {
    fn is_absent(&self) -> bool;
}

/// Reads a whole object.
pub(crate) fn read_object<'de, T: ReadObject, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

/// Writes a whole object.
pub(crate) fn write_object<T: WriteObject, S: Serializer>(
    object: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    object.write(&mut map)?;
    map.end()
}

/// Reads the value of the field `name`.
pub(crate) fn read_field<'de, T: ReadField, A: MapAccess<'de>>(
    name: &str,
    map: &mut A,
) -> Result<T, A::Error> {
    map.next_value_seed(FieldSeed(PhantomData)).map_err(|error| in_field(name, &error))
}

/// Reads the whole number or numbers of the field `name`, each a JSON number or a string with its digits.
pub(crate) fn read_integer<'de, T: ReadInteger, A: MapAccess<'de>>(
    name: &str,
    map: &mut A,
) -> Result<T, A::Error> {
    let read = map.next_value::<Option<T::Form>>().map_err(|error| in_field(name, &error))?;
    Ok(read.map(T::of).unwrap_or_default())
}

/// Reads the enum of the field `name`: the name of a value, or any number; `null` is 0.
pub(crate) fn read_enum<'de, A: MapAccess<'de>>(
    name: &str,
    names: &'static [(&'static str, i32)],
    map: &mut A,
) -> Result<i32, A::Error> {
    map.next_value_seed(EnumSeed(names)).map_err(|error| in_field(name, &error))
}

/// Writes a value of an enum by its name, or by its number if this version has no name for it.
pub(crate) fn write_enum<M: SerializeMap>(
    map: &mut M,
    field: &'static str,
    names: &[(&str, i32)],
    value: i32,
) -> Result<(), M::Error> {
    match names.iter().find(|(_, number)| *number == value) {
        Some((name, _)) => map.serialize_entry(field, name),
        None => map.serialize_entry(field, &value),
    }
}

/// Reads the field `name`, a member of `oneof`, unless it is `null`.
///
/// # Errors
/// If another member is set already.
pub(crate) fn read_member<'de, T: DeserializeOwned, O, A: MapAccess<'de>>(
    name: &str,
    oneof: &str,
    slot: &mut Option<O>,
    variant: fn(T) -> O,
    map: &mut A,
) -> Result<(), A::Error> {
    let value: Option<T> = map.next_value().map_err(|error| in_field(name, &error))?;
    let Some(member) = value.map(variant) else { return Ok(()) };
    if slot.as_ref().is_some_and(|set| discriminant(set) != discriminant(&member)) {
        return Err(Error::custom(format_args!(
            "{FIELD}{name}`: another field of `{oneof}` is set, and at most one may be"
        )));
    }
    *slot = Some(member);
    Ok(())
}

/// Writes the field `name`, unless it is absent.
pub(crate) fn write_field<T: WriteField, M: SerializeMap>(
    map: &mut M,
    name: &'static str,
    value: &T,
) -> Result<(), M::Error> {
    if value.is_absent() { Ok(()) } else { map.serialize_entry(name, value) }
}

/// Reads a list where a whole message is expected.
pub(crate) fn read_list<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    <Vec<T> as ReadField>::read(deserializer)
}

/// Skips the next value.
pub(crate) fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// Positions at and past this belong to the inlined message; field numbers stay far below.
const INLINED: u32 = 1 << 30;

/// Position of the field of the inlined message `T` that the key names (W-JS-3).
pub(crate) fn inlined_position<T: ReadObject>(key: &str) -> Option<u32> {
    T::position(key).map(|position| INLINED + position)
}

/// Reads a field of an inlined message, and creates the message with the first one.
pub(crate) fn read_inlined<'de, T: ReadObject, A: MapAccess<'de>>(
    inlined: &mut Option<T>,
    position: u32,
    map: &mut A,
) -> Result<(), A::Error> {
    match position.checked_sub(INLINED) {
        Some(position) => inlined.get_or_insert_default().read(position, map),
        None => skip(map),
    }
}

/// Writes the fields of an inlined message into the object around it.
pub(crate) fn write_inlined<T: WriteObject, M: SerializeMap>(
    map: &mut M,
    inlined: Option<&T>,
) -> Result<(), M::Error> {
    inlined.map_or(Ok(()), |inlined| inlined.write(map))
}

macro_rules! plain_field {
    ($($type:ty),*) => {$(
        impl ReadField for $type {
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Option::deserialize(deserializer)?.unwrap_or_default())
            }
        }

        impl WriteField for $type {
            fn is_absent(&self) -> bool {
                *self == <$type>::default()
            }
        }
    )*};
}

plain_field!(String, bool, f64, i32, i64, u32, u64);

impl<T: DeserializeOwned> ReadField for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer)
    }
}

impl<T: Serialize> WriteField for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: DeserializeOwned + Default> ReadField for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(ListVisitor(PhantomData))
    }
}

impl<T: Serialize> WriteField for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: DeserializeOwned + Default> ReadField for BTreeMap<String, T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(MapVisitor(PhantomData))
    }
}

impl<T: Serialize> WriteField for BTreeMap<String, T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// The type of a field with whole numbers: one, an optional one, or a list.
pub(crate) trait ReadInteger: Default {
    /// The type that is read.
    type Form: DeserializeOwned;

    fn of(read: Self::Form) -> Self;
}

/// A whole number that is read from a JSON number or a string.
#[derive(Default)]
pub(crate) struct Integer<T>(T);

/// A type of whole numbers.
pub(crate) trait IsInteger: FromStr + TryFrom<i64> + TryFrom<u64> + Default {
    /// Name of the type, for errors.
    const NAME: &'static str;
}

impl<'de, T: IsInteger> Deserialize<'de> for Integer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor(PhantomData))
    }
}

struct IntegerVisitor<T>(PhantomData<T>);

impl<T: IsInteger> Visitor<'_> for IntegerVisitor<T> {
    type Value = Integer<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Integer<T>, E> {
        let number = T::try_from(value);
        number.map(Integer).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Integer<T>, E> {
        let number = T::try_from(value);
        number.map(Integer).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Integer<T>, E> {
        let number = if text.starts_with('+') { None } else { text.parse().ok() };
        number.map(Integer).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl IsInteger for $type {
            const NAME: &'static str = stringify!($type);
        }

        impl ReadInteger for $type {
            type Form = Integer<$type>;

            fn of(read: Integer<$type>) -> $type {
                read.0
            }
        }

        impl ReadInteger for Option<$type> {
            type Form = Integer<$type>;

            fn of(read: Integer<$type>) -> Option<$type> {
                Some(read.0)
            }
        }

        impl ReadInteger for Vec<$type> {
            type Form = Integers<$type>;

            fn of(read: Integers<$type>) -> Vec<$type> {
                read.0
            }
        }
    )*};
}

integers!(i32, i64, u32, u64);

/// A list of whole numbers.
pub(crate) struct Integers<T>(Vec<T>);

impl<'de, T: IsInteger> Deserialize<'de> for Integers<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read: Vec<Integer<T>> = read_list(deserializer)?;
        Ok(Integers(read.into_iter().map(|number| number.0).collect()))
    }
}

/// Reads a value of the enum with these names.
struct EnumSeed(&'static [(&'static str, i32)]);

impl<'de> DeserializeSeed<'de> for EnumSeed {
    type Value = i32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<i32, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for EnumSeed {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        write!(f, "one of {}", names.join(", "))
    }

    fn visit_unit<E: Error>(self) -> Result<i32, E> {
        Ok(0)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i32, E> {
        let value = self.0.iter().find(|(name, _)| *name == text);
        value
            .map(|(_, number)| *number)
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

struct FieldSeed<T>(PhantomData<T>);

impl<'de, T: ReadField> DeserializeSeed<'de> for FieldSeed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

/// Reads a key as the position of its field, without keeping its text.
struct KeySeed<T>(PhantomData<T>);

/// The field that a key names.
enum Key {
    /// A field of the message, by its position.
    Read(u32),
    /// A field that is skipped.
    Unread(Unread),
}

impl<'de, T: ReadObject> DeserializeSeed<'de> for KeySeed<T> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<T: ReadObject> Visitor<'_> for KeySeed<T> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a field name of {}", T::KIND)
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
        match T::position(key) {
            Some(position) => Ok(Key::Read(position)),
            None if T::IS_STRICT => Err(E::custom(format_args!("{FIELD}{key}`: unknown field"))),
            None => unread::field(T::FIELDS, key).map(Key::Unread),
        }
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: ReadObject> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object ({})", T::KIND)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        while let Some(key) = map.next_key_seed(KeySeed::<T>(PhantomData))? {
            match key {
                Key::Read(position) => object.read(position, &mut map)?,
                Key::Unread(unread) => map.next_value_seed(unread)?,
            }
        }
        Ok(object)
    }
}

/// Reads a list; `null` is the empty list, and a `null` element the zero element.
struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_none<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        loop {
            match seq.next_element::<Option<T>>() {
                Ok(Some(element)) => list.push(element.unwrap_or_default()),
                Ok(None) => return Ok(list),
                Err(error) => return Err(in_field(&format!("[{}]", list.len()), &error)),
            }
        }
    }
}

/// Reads a map; `null` is the empty map, and a `null` value the zero value. The last of two equal keys wins.
struct MapVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for MapVisitor<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            match map.next_value::<Option<T>>() {
                Ok(value) => entries.insert(key, value.unwrap_or_default()),
                Err(error) => return Err(in_field(&format!("[{key}]"), &error)),
            };
        }
        Ok(entries)
    }
}

/// Puts `segment` in front of the field path in `error`, or starts the path if the error has none.
///
/// serde_json finds the line and column again at the end of the new text.
fn in_field<E: Error>(segment: &str, error: &E) -> E {
    let text = error.to_string();
    let Some(inner) = text.strip_prefix(FIELD) else {
        return E::custom(format_args!("{FIELD}{segment}`: {text}"));
    };
    let dot = if inner.starts_with('[') { "" } else { "." };
    E::custom(format_args!("{FIELD}{segment}{dot}{inner}"))
}

/// Beginning of the text of an error with a field path.
const FIELD: &str = "field `";
