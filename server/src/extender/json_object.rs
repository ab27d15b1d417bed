//! JSON objects that are read member by member. Keys are Go's field names in any case (W-JS-11); an absent member
//! equals `null`, and unknown keys are skipped (S-EXT-3).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// An object of the protocol that is read member by member.
pub(super) trait JsonObject<'de>: Default {
    /// Takes the value of a member; returns `false` if the object has no such member.
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error>;
}

/// Reads one JSON value, which must be the whole body.
pub(super) fn read<'de, T: JsonObject<'de>>(body: &'de [u8]) -> Result<T, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = Object::default().deserialize(&mut json)?;
    json.end()?;
    Ok(read)
}

/// Reads the value of a member; an error names it.
pub(super) fn member<'de, T, A: MapAccess<'de>>(
    name: &str,
    value: &mut A,
    seed: impl DeserializeSeed<'de, Value = T>,
) -> Result<T, A::Error> {
    value.next_value_seed(seed).map_err(|error| A::Error::custom(format!("`{name}`: {error}")))
}

/// Seed for an object; `null` is read as one without members.
pub(super) struct Object<T>(PhantomData<T>);

impl<T> Default for Object<T> {
    fn default() -> Object<T> {
        Object(PhantomData)
    }
}

impl<T> Copy for Object<T> {}

impl<T> Clone for Object<T> {
    fn clone(&self) -> Object<T> {
        *self
    }
}

impl<'de, T: JsonObject<'de>> DeserializeSeed<'de> for Object<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: JsonObject<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut read = T::default();
        while let Some(key) = map.next_key_seed(Text)? {
            if !read.take(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(read)
    }
}

/// Most elements of a list, and members of a map: no cluster has more nodes.
const MAX_ITEMS: usize = 200_000;

/// Checks that another element may follow so many.
pub(super) fn check_number<E: Error>(n: usize) -> Result<(), E> {
    if n > MAX_ITEMS {
        return Err(E::custom(format!("more than {MAX_ITEMS} elements")));
    }
    Ok(())
}

/// Seed for a list; `null` is read as an empty one.
pub(super) struct List<S>(pub(super) S);

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for List<S> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<S::Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for List<S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<Vec<S::Value>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<S::Value>, A::Error> {
        let mut list = Vec::new();
        loop {
            check_number(list.len())?;
            let item = items.next_element_seed(self.0);
            match item.map_err(|error| A::Error::custom(format!("`[{}]`: {error}", list.len())))? {
                Some(item) => list.push(item),
                None => return Ok(list),
            }
        }
    }
}

/// Seed for a string, borrowed if it has no escapes; `null` is read as an empty one, as in Go.
#[derive(Copy, Clone)]
pub(super) struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_unit<E>(self) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// The text at `metadata.NAME` of an object in its unparsed form; the rest after it is not read. Empty if there is
/// none.
pub(super) fn in_metadata<'de>(
    raw: &'de str,
    name: &str,
) -> Result<Cow<'de, str>, serde_json::Error> {
    let mut found = None;
    let path: [&str; 2] = ["metadata", name];
    let search = Search { path: &path, found: &mut found };
    match search.deserialize(&mut serde_json::Deserializer::from_str(raw)) {
        Err(error) if found.is_none() => Err(error),
        Ok(()) | Err(_) => Ok(found.unwrap_or_default()),
    }
}

struct Search<'s, 'de> {
    path: &'s [&'s str],
    found: &'s mut Option<Cow<'de, str>>,
}

impl<'de> DeserializeSeed<'de> for Search<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            *self.found = Some(Text.deserialize(deserializer)?);
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((wanted, path)) = self.path.split_first() else { return Ok(()) };
        while let Some(key) = map.next_key_seed(Text)? {
            if key != *wanted {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            map.next_value_seed(Search { path, found: &mut *self.found })?;
            if self.found.is_some() {
                // Returning an error is the only way to leave an object before its end.
                return Err(A::Error::custom("found"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_after_the_name_is_not_read() {
        let check = |raw: &str, expected: &str| {
            assert_eq!(in_metadata(raw, "name").unwrap(), expected, "{raw}");
        };
        check(r#"{"metadata":{"name":"a","labels":{"x"#, "a");
        check(r#"{"spec":{"name":"no"},"metadata":{"uid":"u","name":"a\u0062"}}"#, "ab");
        for none in ["null", "{}", r#"{"metadata":null}"#, r#"{"metadata":{"name":null}}"#] {
            check(none, "");
        }
        for bad in ["", "[]", "7", r#"{"metadata":7}"#, r#"{"metadata":{"name":7}}"#, r#"{"a":"#] {
            assert!(in_metadata(bad, "name").is_err(), "{bad}");
        }
    }
}
