//! Finds the fields of an object that Kubernetes does not know, each with its line, its path and the nearest known
//! name.
//!
//! Reading only notes that there is one ([`berth_proto::fields::noting_unknown_fields`]); this walk is made for such
//! objects alone.

use std::fmt;

use berth_proto::fields::{Content, Message};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::escape::clipped;

/// Maximum number of unknown fields that are listed of one object; the others are counted.
const MAX_LISTED: usize = 8;

/// A field that Kubernetes does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    /// Position of the field in the text of the object.
    pub(super) offset: usize,
    /// Path of the field, for example `spec.containers[0].imgae`.
    pub(super) path: String,
    /// The known name of the message that is nearest to it.
    nearest: Option<&'static str>,
}

/// The unknown fields of one object.
#[derive(Debug, Default)]
pub(super) struct UnknownFields {
    /// In the order of the text, as many as are listed.
    pub(super) listed: Vec<Unknown>,
    n_more: usize,
}

/// Finds the unknown fields of the object in `json`, which is well-formed.
pub(super) fn find(message: Message, json: &str) -> UnknownFields {
    let mut walk = Walk { json, offset: 0, path: Vec::new(), found: UnknownFields::default() };
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let seed = Value { walk: &mut walk, content: Content::Message(message), is_element: false };
    // What stands before an error was found, and the error itself is reported by the reader.
    drop(seed.deserialize(&mut deserializer));
    walk.found
}

impl UnknownFields {
    /// The reason for refusing the first one, and the others. `line_at` is the line of a position in the text.
    pub(super) fn reason(&self, line_at: impl Fn(usize) -> u64) -> String {
        let mut listed = self.listed.iter();
        let mut text = match listed.next().and_then(|first| first.nearest) {
            Some(nearest) => format!("unknown field; did you mean `{nearest}`?"),
            None => "unknown field".to_owned(),
        };
        for Unknown { offset, path, nearest } in listed {
            let line = line_at(*offset);
            text += &format!("; line {line}: `{}`: unknown field", clipped(path));
            if let Some(nearest) = nearest {
                text += &format!("; did you mean `{nearest}`?");
            }
        }
        if self.n_more > 0 {
            text += &format!("; {} more unknown", self.n_more);
        }
        text
    }
}

/// The name of `known` that is nearest to `name`, if one is near enough to be meant: equal but for case, or a few
/// letters apart.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // Neither a name of Kubernetes nor a misspelt one is as long.
    const MAX_LENGTH: usize = 100;
    if name.len() > MAX_LENGTH {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let distance = |known: &&str| strsim::osa_distance(&lower, &known.to_ascii_lowercase());
    let n_letters = name.chars().count();
    let limit = if n_letters < 5 { 1 } else { (n_letters / 3).max(2) };
    known.map(|known| (distance(&known), known)).filter(|(n, _)| *n <= limit).min().map(|(_, k)| k)
}

/// The state of the walk.
struct Walk<'j> {
    json: &'j str,
    /// Position of the last key.
    offset: usize,
    path: Vec<Step>,
    found: UnknownFields,
}

enum Step {
    Field(String),
    Key(String),
    Index(usize),
}

impl Walk<'_> {
    fn note(&mut self, message: Message, key: &str) {
        if self.found.listed.len() == MAX_LISTED {
            self.found.n_more += 1;
            return;
        }
        self.found.listed.push(Unknown {
            offset: self.offset,
            path: written(&self.path),
            nearest: nearest(key, message.field_names()),
        });
    }

    /// Notes where a key is. A key with escapes is no piece of the text; its position is that of the key before.
    fn advance(&mut self, key: &str) {
        self.offset = (key.as_ptr() as usize).wrapping_sub(self.json.as_ptr() as usize);
    }
}

fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text.push_str(&format!(".{name}")),
            Step::Key(key) => text.push_str(&format!("[{key}]")),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// Walks through a value.
struct Value<'w, 'j> {
    walk: &'w mut Walk<'j>,
    content: Content,
    is_element: bool,
}

impl<'j> DeserializeSeed<'j> for Value<'_, 'j> {
    type Value = ();

    fn deserialize<D: Deserializer<'j>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.content {
            Content::Free => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ()),
            Content::Message(_) | Content::Map(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'j> Visitor<'j> for Value<'_, 'j> {
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

    fn visit_seq<A: SeqAccess<'j>>(self, mut list: A) -> Result<(), A::Error> {
        // Lists of lists are in no message.
        let content = if self.is_element { Content::Free } else { self.content };
        for index in 0.. {
            self.walk.path.push(Step::Index(index));
            let element = Value { walk: self.walk, content, is_element: true };
            let is_end = list.next_element_seed(element)?.is_none();
            self.walk.path.pop();
            if is_end {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(content) = map.next_key_seed(Key { walk: self.walk, of: self.content })? {
            map.next_value_seed(Value { walk: self.walk, content, is_element: false })?;
            self.walk.path.pop();
        }
        Ok(())
    }
}

/// Reads a key, adds it to the path, and returns the content of its value.
struct Key<'w, 'j> {
    walk: &'w mut Walk<'j>,
    of: Content,
}

impl<'j> DeserializeSeed<'j> for Key<'_, 'j> {
    type Value = Content;

    fn deserialize<D: Deserializer<'j>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'j> Visitor<'j> for Key<'_, 'j> {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'j str) -> Result<Content, E> {
        self.walk.advance(key);
        self.visit_str(key)
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Content, E> {
        let Key { walk, of } = self;
        let Content::Message(message) = of else {
            walk.path.push(Step::Key(key.to_owned()));
            return Ok(match of {
                Content::Map(message) => Content::Message(message),
                Content::Free | Content::Message(_) => Content::Free,
            });
        };
        walk.path.push(Step::Field(key.to_owned()));
        Ok(message.field(key).unwrap_or_else(|| {
            walk.note(message, key);
            Content::Free
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Message {
        Message::named("Pod").unwrap()
    }

    #[test]
    fn each_unknown_field_has_line_path_and_nearest_name() {
        let json = "{\"kind\": \"Pod\", \"spec\": {\n\"nodeSelctor\": {\"any\": {\"x\": 1}},\n\
                    \"containers\": [{}, {\"env\": [{\"Name\": \"A\"}],\n\n\"zzz\": 1}],\n\"overhead\": {\"any\": 1}}}";
        let found = find(pod(), json);
        let line_at = |offset: usize| json[..offset].matches('\n').count() as u64;
        let shown: Vec<_> = found
            .listed
            .iter()
            .map(|unknown| (line_at(unknown.offset), unknown.path.as_str(), unknown.nearest))
            .collect();
        assert_eq!(
            shown,
            [
                (1, "spec.nodeSelctor", Some("nodeSelector")),
                (2, "spec.containers[1].env[0].Name", Some("name")),
                (4, "spec.containers[1].zzz", None),
            ]
        );
        assert_eq!(
            found.reason(|offset| 10 + line_at(offset)),
            "unknown field; did you mean `nodeSelector`?; line 12: `spec.containers[1].env[0].Name`: unknown field; \
             did you mean `name`?; line 14: `spec.containers[1].zzz`: unknown field"
        );
    }

    #[test]
    fn many_are_counted() {
        let many: Vec<String> = (0..20).map(|i| format!("\"x{i}\": {i}")).collect();
        let found = find(pod(), &format!("{{{}}}", many.join(",")));
        assert_eq!(found.listed.len(), MAX_LISTED);
        assert!(found.reason(|_| 1).ends_with("; 12 more unknown"), "{}", found.reason(|_| 1));
    }

    #[test]
    fn a_name_is_near_when_it_is_meant() {
        let near = |name, message| nearest(name, Message::named(message).unwrap().field_names());
        assert_eq!(near("contianers", "PodSpec"), Some("containers"));
        assert_eq!(near("request", "ResourceRequirements"), Some("requests"));
        assert_eq!(near("priorityclassname", "PodSpec"), Some("priorityClassName"));
        assert_eq!(near("toleration", "PodSpec"), Some("tolerations"));
        assert_eq!(near("replicas", "PodSpec"), None);
        assert_eq!(near("x", "PodSpec"), None);
        assert_eq!(near(&"x".repeat(100_000), "PodSpec"), None);
        assert_eq!(nearest("Nod", ["Pod", "Node"].into_iter()), Some("Node"));
    }

    #[test]
    fn keys_with_escapes_and_deep_values_do_no_harm() {
        let found = find(pod(), "{\n\"spec\": {\n\"\\u0078y\": 1}}");
        assert_eq!((found.listed[0].offset, found.listed[0].path.as_str()), (3, "spec.xy"));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(find(pod(), &format!("{{\"x\": {deep}}}")).listed.len(), 1);
        assert!(find(pod(), &format!("{{\"spec\": {deep}}}")).listed.is_empty());
    }
}
