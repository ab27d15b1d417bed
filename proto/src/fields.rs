//! The names of all fields of Kubernetes' objects, also of those that Berth's messages lack, so that a misspelt field
//! can be told from one that decisions do not read. `kubernetes/fields.txt` says where the names are from.

mod nearest;
mod walk;

use std::fmt;

pub use nearest::{nearest, unknown_field};
pub use walk::{Path, Receiver, Step, walk};

/// A message of Kubernetes, with the names of all its fields.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Message(pub(crate) u16);

/// Content of a field.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A scalar, or an object that may have any key.
    Free,
    /// A message, or a list of messages.
    Message(Message),
    /// A map from any key to a message.
    Map(Message),
}

impl Message {
    /// The message of this name, which for an object is its kind.
    pub fn named(name: &str) -> Option<Message> {
        let at = MESSAGES.binary_search_by_key(&name, |(message, _)| message).ok()?;
        u16::try_from(at).ok().map(Message)
    }

    /// Name of the message.
    pub fn name(self) -> &'static str {
        MESSAGES.get(usize::from(self.0)).map_or("", |(name, _)| name)
    }

    /// Names of the fields, sorted.
    pub fn field_names(self) -> impl Iterator<Item = &'static str> {
        self.fields().iter().map(|(name, _)| *name)
    }

    /// Content of the field `name`; `None` if Kubernetes has no such field. Names are matched exactly (W-JS-1).
    pub fn field(self, name: &str) -> Option<Content> {
        let fields = self.fields();
        let at = fields.binary_search_by_key(&name, |(field, _)| field).ok()?;
        fields.get(at).map(|(_, content)| *content)
    }

    fn fields(self) -> &'static [(&'static str, Content)] {
        MESSAGES.get(usize::from(self.0)).map_or(&[], |(_, fields)| fields)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names of the kinds of Kubernetes' own groups, sorted, in any version; kinds of lists are left out.
pub fn kinds() -> &'static [&'static str] {
    &KINDS
}

/// Runs `read`, and returns whether a Kubernetes object that it read from JSON on this thread has a field, at any
/// depth, that Kubernetes does not know. Reading goes on as without: unknown fields are skipped (W-JS-8).
///
/// Cost: a look-up in a table for every field that the messages lack.
pub fn noting_unknown_fields<T>(read: impl FnOnce() -> T) -> (T, bool) {
    crate::json::noting_unknown_fields(read)
}

/// Runs `read`, in which a field that Kubernetes does not know, at any depth of an object of Kubernetes, is an error with
/// the field's path and the nearest known name.
pub fn refusing_unknown_fields<T>(read: impl FnOnce() -> T) -> T {
    crate::json::refusing_unknown_fields(read)
}

include!(concat!(env!("OUT_DIR"), "/fields.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_exactly() {
        let pod = Message::named("Pod").unwrap();
        assert_eq!(pod.name(), "Pod");
        let Some(Content::Message(spec)) = pod.field("spec") else { panic!("no spec") };
        assert_eq!(spec.name(), "PodSpec");
        assert_eq!(spec.field("nodeSelector"), Some(Content::Free));
        assert_eq!((spec.field("NodeSelector"), spec.field("nodeSelctor")), (None, None));
        let Some(Content::Message(container)) = spec.field("containers") else { panic!() };
        assert!(container.field_names().any(|name| name == "envFrom"));
        let device = Message::named("Device").unwrap();
        assert!(matches!(device.field("attributes"), Some(Content::Map(_))));
        assert_eq!(Message::named("Nod"), None);
        assert!(kinds().contains(&"Secret") && !kinds().contains(&"Nod"));
    }

    #[test]
    fn tables_are_sorted() {
        assert!(MESSAGES.is_sorted_by_key(|(name, _)| name));
        assert!(MESSAGES.iter().all(|(_, fields)| fields.is_sorted_by_key(|(name, _)| name)));
        assert!(KINDS.is_sorted());
    }
}
