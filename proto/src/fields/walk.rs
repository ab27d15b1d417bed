//! Walks through a value by the table of Kubernetes' fields, and tells a receiver of the fields that are not in it.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Content, Message};

/// Receives what a walk comes past.
pub trait Receiver {
    /// One step down, to the value of a key or to an element. The text of a key without escapes is a piece of the text
    /// that is read.
    fn enter(&mut self, step: Step<'_>);

    /// The step back up.
    fn leave(&mut self);

    /// The field of the last step is one that `message` does not have in Kubernetes.
    ///
    /// # Errors
    /// The reason to end the walk.
    fn unknown(&mut self, message: Message, key: &str) -> Result<(), String>;
}

/// A step of a walk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Step<'k> {
    /// To a field of a message.
    Field(&'k str),
    /// To the value of a key of a map.
    Key(&'k str),
    /// To an element of a list.
    Index(usize),
}

/// Walks through the value of a deserializer, whose content is known. Values that may have any key are skipped, to any
/// depth.
///
/// # Errors
/// A value that cannot be read, and the errors of the receiver.
pub fn walk<'de, D: Deserializer<'de>, R: Receiver>(
    content: Content,
    deserializer: D,
    receiver: &mut R,
) -> Result<(), D::Error> {
    Value { receiver, content, is_element: false }.deserialize(deserializer)
}

/// A value to walk through.
struct Value<'r, R> {
    receiver: &'r mut R,
    content: Content,
    /// Whether the value is an element of a list; lists of lists are in no message.
    is_element: bool,
}

impl<'de, R: Receiver> DeserializeSeed<'de> for Value<'_, R> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.content {
            // Skipping like this has no limit of depth.
            Content::Free => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ()),
            Content::Message(_) | Content::Map(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de, R: Receiver> Visitor<'de> for Value<'_, R> {
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
        let Value { receiver, content, is_element } = self;
        let content = if is_element { Content::Free } else { content };
        for index in 0.. {
            receiver.enter(Step::Index(index));
            let element = Value { receiver: &mut *receiver, content, is_element: true };
            let is_end = list.next_element_seed(element)?.is_none();
            receiver.leave();
            if is_end {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Value { receiver, content: of, .. } = self;
        while let Some(content) = map.next_key_seed(Key { receiver: &mut *receiver, of })? {
            map.next_value_seed(Value { receiver: &mut *receiver, content, is_element: false })?;
            receiver.leave();
        }
        Ok(())
    }
}

/// Reads a key, and returns the content of its value.
struct Key<'r, R> {
    receiver: &'r mut R,
    of: Content,
}

impl<'de, R: Receiver> DeserializeSeed<'de> for Key<'_, R> {
    type Value = Content;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<R: Receiver> Visitor<'_> for Key<'_, R> {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Content, E> {
        let Key { receiver, of } = self;
        let message = match of {
            Content::Message(message) => message,
            Content::Map(message) => {
                receiver.enter(Step::Key(key));
                return Ok(Content::Message(message));
            }
            Content::Free => {
                receiver.enter(Step::Key(key));
                return Ok(Content::Free);
            }
        };
        receiver.enter(Step::Field(key));
        match message.field(key) {
            Some(content) => Ok(content),
            None => receiver.unknown(message, key).map(|()| Content::Free).map_err(E::custom),
        }
    }
}

/// Path of a walk, for example `spec.containers[0].image`.
#[derive(Clone, Debug, Default)]
pub struct Path {
    text: String,
    /// Length of the text before each step.
    lengths: Vec<usize>,
}

impl Path {
    /// Adds a step.
    pub fn enter(&mut self, step: Step<'_>) {
        self.lengths.push(self.text.len());
        match step {
            Step::Field(name) => {
                if !self.text.is_empty() {
                    self.text.push('.');
                }
                self.text.push_str(name);
            }
            Step::Key(key) => self.text.extend(["[", key, "]"]),
            Step::Index(index) => self.text.push_str(&format!("[{index}]")),
        }
    }

    /// Takes the last step back.
    pub fn leave(&mut self) {
        let length = self.lengths.pop().unwrap_or_default();
        self.text.truncate(length);
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The unknown fields by path; the walk ends after so many.
    struct List {
        path: Path,
        found: Vec<String>,
        limit: usize,
    }

    impl Receiver for List {
        fn enter(&mut self, step: Step<'_>) {
            self.path.enter(step);
        }

        fn leave(&mut self) {
            self.path.leave();
        }

        fn unknown(&mut self, message: Message, key: &str) -> Result<(), String> {
            if self.found.len() == self.limit {
                return Err("enough".to_owned());
            }
            let (path, message) = (self.path.as_str(), message.name());
            assert!(path.ends_with(key), "{path}");
            self.found.push(format!("{message} {path}"));
            Ok(())
        }
    }

    fn find(json: &str, limit: usize) -> (Vec<String>, bool) {
        let mut list = List { path: Path::default(), found: Vec::new(), limit };
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let pod = Content::Message(Message::named("Pod").unwrap());
        let is_whole = walk(pod, &mut deserializer, &mut list).is_ok();
        (list.found, is_whole)
    }

    #[test]
    fn every_unknown_field_is_told_with_its_path() {
        let json = r#"{"x": 1, "metadata": {"labels": {"x": 1}}, "spec": {"containers": [{"y": {"z": []}},
            {"resources": {"limits": {"any": 1}, "limit": null}}, [{"w": 1}]], "volumes": 7}}"#;
        let found = find(json, 9);
        let expected = [
            "Pod x",
            "Container spec.containers[0].y",
            "ResourceRequirements spec.containers[1].resources.limit",
        ];
        assert_eq!(found, (expected.map(str::to_owned).to_vec(), true));
        assert_eq!(find(json, 1), (vec!["Pod x".to_owned()], false));
        assert_eq!(find("{}", 0), (Vec::new(), true));
    }
}
