//! Skips the values of keys that no message has a field for, and notes or refuses those that Kubernetes does not know.

use std::cell::Cell;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny};

use super::FIELD;
use crate::fields::{Content, Message, Path, Receiver, Step, unknown_field, walk};

/// What becomes of unknown fields on this thread.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Noting {
    Off,
    On,
    Found,
    Refusing,
}

thread_local! {
    /// Deserialization has no argument to pass this through the derived types of serde and the standard library.
    static NOTING: Cell<Noting> = const { Cell::new(Noting::Off) };
}

/// Sets what becomes of unknown fields, until it is dropped.
struct Scope(Noting);

impl Scope {
    fn begin(noting: Noting) -> Scope {
        Scope(NOTING.replace(noting))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        NOTING.set(self.0);
    }
}

/// Runs `read`, and returns whether an object that it read on this thread has a field that Kubernetes does not know.
pub(crate) fn noting_unknown_fields<T>(read: impl FnOnce() -> T) -> (T, bool) {
    let scope = Scope::begin(Noting::On);
    let value = read();
    let has_unknown = NOTING.get() == Noting::Found;
    drop(scope);
    (value, has_unknown)
}

/// Runs `read`, in which a field of an object that Kubernetes does not know is an error.
pub(crate) fn refusing_unknown_fields<T>(read: impl FnOnce() -> T) -> T {
    let _scope = Scope::begin(Noting::Refusing);
    read()
}

/// The field `key`, whose value is skipped; notes the key if Kubernetes does not know it.
///
/// # Errors
/// The key, if unknown ones are refused.
pub(super) fn field<E: Error>(message: Option<Message>, key: &str) -> Result<Unread, E> {
    const FREE: Unread = Unread { content: Content::Free, key: String::new() };
    let noting = NOTING.get();
    let Some(message) = message.filter(|_| noting != Noting::Off) else {
        return Ok(FREE);
    };
    match message.field(key) {
        Some(Content::Free) => Ok(FREE),
        Some(content) if noting == Noting::Refusing => Ok(Unread { content, key: key.to_owned() }),
        Some(content) => Ok(Unread { content, key: String::new() }),
        None if noting == Noting::Refusing => {
            let reason = unknown_field(message, key);
            Err(E::custom(format_args!("{FIELD}{key}`: {reason}")))
        }
        None => {
            NOTING.set(Noting::Found);
            Ok(FREE)
        }
    }
}

/// Skips a value, and notes or refuses the unknown fields in it.
pub(super) struct Unread {
    content: Content,
    /// Key of the value, where it is needed for an error.
    key: String,
}

impl<'de> DeserializeSeed<'de> for Unread {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match NOTING.get() {
            // Skipping like this has no limit of depth.
            Noting::Off => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ()),
            Noting::On | Noting::Found => walk(self.content, deserializer, &mut Note),
            Noting::Refusing => {
                let mut refusal = Refusal::default();
                refusal.enter(Step::Field(&self.key));
                walk(self.content, deserializer, &mut refusal)
            }
        }
    }
}

/// Notes that there is an unknown field.
struct Note;

impl Receiver for Note {
    fn enter(&mut self, _: Step<'_>) {}

    fn leave(&mut self) {}

    fn unknown(&mut self, _: Message, _: &str) -> Result<(), String> {
        NOTING.set(Noting::Found);
        Ok(())
    }
}

/// Refuses the first unknown field.
#[derive(Default)]
struct Refusal(Path);

impl Receiver for Refusal {
    fn enter(&mut self, step: Step<'_>) {
        self.0.enter(step);
    }

    fn leave(&mut self) {
        self.0.leave();
    }

    fn unknown(&mut self, message: Message, key: &str) -> Result<(), String> {
        Err(format!("{FIELD}{}`: {}", self.0.as_str(), unknown_field(message, key)))
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
    fn unknown_fields_are_refused_with_their_paths() {
        let read = |json: &str| {
            let read = || serde_json::from_str::<Pod>(json);
            refusing_unknown_fields(read).map(|_| ()).map_err(|error| error.to_string())
        };
        for (json, expected) in [
            (r#"{"Kind": "Pod"}"#, "field `Kind`: unknown field; did you mean `kind`?"),
            (
                r#"{"spec": {"containers": [{}, {"imgae": "x"}]}}"#,
                "field `spec.containers[1].imgae`: unknown field; did you mean `image`?",
            ),
            (
                r#"{"spec": {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"keys": 1}}}]}]}}"#,
                "field `spec.containers[0].env[0].valueFrom.secretKeyRef.keys`: unknown field; did you mean `key`?",
            ),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(read(r#"{"spec": {"securityContext": {"runAsUser": 1}}}"#), Ok(()));
        serde_json::from_str::<Pod>(r#"{"Kind": "Pod"}"#).unwrap();
    }

    #[test]
    fn depth_is_bounded_by_the_messages() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!has_unknown(&format!(r#"{{"spec": {{"securityContext": {deep}}}}}"#)));
        assert!(has_unknown(&format!(r#"{{"spec": {{"x": {deep}}}}}"#)));
    }
}
