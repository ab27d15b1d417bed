//! Skips the values of keys that no message has a field for, and notes those that Kubernetes does not know.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::fields::{Content, Message};

/// Whether unknown fields are noted on this thread.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Noting {
    Off,
    On,
    Found,
}

thread_local! {
    /// Deserialization has no argument to pass this through the derived types of serde and the standard library.
    static NOTING: Cell<Noting> = const { Cell::new(Noting::Off) };
}

/// Runs `read`, and returns whether an object that it read on this thread has a field that Kubernetes does not know.
pub(crate) fn noting_unknown_fields<T>(read: impl FnOnce() -> T) -> (T, bool) {
    struct Restore(Noting);
    impl Drop for Restore {
        fn drop(&mut self) {
            NOTING.set(self.0);
        }
    }
    let restore = Restore(NOTING.replace(Noting::On));
    let value = read();
    let has_unknown = NOTING.get() == Noting::Found;
    drop(restore);
    (value, has_unknown)
}

/// Content of the field `key`, which is skipped; notes the key if Kubernetes does not know it.
pub(super) fn content(message: Option<Message>, key: &str) -> Content {
    let Some(message) = message.filter(|_| NOTING.get() != Noting::Off) else {
        return Content::Free;
    };
    message.field(key).unwrap_or_else(|| {
        NOTING.set(Noting::Found);
        Content::Free
    })
}

/// Skips a value, and notes the unknown fields in it.
#[derive(Copy, Clone)]
pub(super) struct Unread {
    content: Content,
    /// Whether the value is an element of a list; lists of lists are in no message.
    is_element: bool,
}

impl From<Content> for Unread {
    fn from(content: Content) -> Unread {
        Unread { content, is_element: false }
    }
}

impl<'de> DeserializeSeed<'de> for Unread {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.content {
            // Skipping like this has no limit of depth.
            Content::Free => IgnoredAny::deserialize(deserializer).map(|_| ()),
            Content::Message(_) | Content::Map(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Unread {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let content = if self.is_element { Content::Free } else { self.content };
        let element = Unread { content, is_element: true };
        while list.next_element_seed(element)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(content) = map.next_key_seed(UnreadKey(self.content))? {
            map.next_value_seed(Unread::from(content))?;
        }
        Ok(())
    }
}

/// Reads a key of an object that is skipped, as the content of its value.
struct UnreadKey(Content);

impl<'de> DeserializeSeed<'de> for UnreadKey {
    type Value = Content;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for UnreadKey {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Content, E> {
        Ok(match self.0 {
            Content::Free => Content::Free,
            Content::Map(message) => Content::Message(message),
            Content::Message(message) => content(Some(message), key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core_v1::Pod;

    fn has_unknown(json: &str) -> bool {
        let (read, has_unknown) = noting_unknown_fields(|| serde_json::from_str::<Pod>(json));
        read.unwrap();
        has_unknown
    }

    #[test]
    fn unknown_fields_are_noted_at_any_depth() {
        for known in [
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"any": "x"}, "selfLink": "y"}}"#,
            r#"{"metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:any": {"x": {}}}}]}}"#,
            r#"{"spec": {"containers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}]}]}}"#,
            r#"{"spec": {"nodeSelector": {"any": "x"}, "overhead": {"any": 1}, "securityContext": null}}"#,
            r#"{"spec": {"containers": [{"env": 7, "securityContext": "wrong, and not read", "envFrom": [[[{"x": 1}]]]}]}}"#,
        ] {
            assert!(!has_unknown(known), "{known}");
        }
        for unknown in [
            r#"{"Kind": "Pod"}"#,
            r#"{"spec": {"nodeSelctor": {}}}"#,
            r#"{"spec": {"containers": [{"env": [{"nmae": "A"}]}]}}"#,
            r#"{"spec": {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"keys": "k"}}}]}]}}"#,
            r#"{"spec": {"securityContext": {"runasUser": 1}}}"#,
            r#"{"spec": {"volumes": [{"name": "v", "configmap": {}}]}}"#,
        ] {
            assert!(has_unknown(unknown), "{unknown}");
        }
    }

    #[test]
    fn nothing_is_noted_outside() {
        let unknown = r#"{"spec": {"nodeSelctor": {}}}"#;
        assert!(has_unknown(unknown));
        serde_json::from_str::<Pod>(unknown).unwrap();
        assert!(!has_unknown("{}"));
        // An inner reading says nothing of the outer one.
        let (inner, outer) = noting_unknown_fields(|| has_unknown(unknown));
        assert_eq!((inner, outer), (true, false));
    }

    #[test]
    fn depth_is_bounded_by_the_messages() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!has_unknown(&format!(r#"{{"spec": {{"securityContext": {deep}}}}}"#)));
        assert!(has_unknown(&format!(r#"{{"spec": {{"x": {deep}}}}}"#)));
    }
}
