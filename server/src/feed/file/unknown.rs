//! Finds the fields of an object that Kubernetes does not know, each with its line, its path and the nearest known
//! name.
//!
//! Reading only notes that there is one ([`berth_proto::fields::noting_unknown_fields`]); this walk is made for such
//! objects alone.

use berth_proto::fields::{Content, Message, Path, Receiver, Step, unknown_field, walk};

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
    /// The reason for refusing it, with the known name that is nearest to it.
    reason: String,
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
    let (path, found) = (Path::default(), UnknownFields::default());
    let mut finder = Finder { json, offset: 0, path, found };
    let mut deserializer = serde_json::Deserializer::from_str(json);
    // What stands before an error was found, and the error itself is reported by the reader.
    drop(walk(Content::Message(message), &mut deserializer, &mut finder));
    finder.found
}

impl UnknownFields {
    /// The reason for refusing the first one, and the others. `line_at` is the line of a position in the text.
    pub(super) fn reason(&self, line_at: impl Fn(usize) -> u64) -> String {
        let mut listed = self.listed.iter();
        let mut text = listed.next().map(|first| first.reason.clone()).unwrap_or_default();
        for Unknown { offset, path, reason } in listed {
            let line = line_at(*offset);
            text += &format!("; line {line}: `{}`: {reason}", clipped(path));
        }
        if self.n_more > 0 {
            text += &format!("; {} more unknown", self.n_more);
        }
        text
    }
}

/// Receives the unknown fields of the object in `json`.
struct Finder<'j> {
    json: &'j str,
    /// Position of the last key.
    offset: usize,
    path: Path,
    found: UnknownFields,
}

impl Receiver for Finder<'_> {
    fn enter(&mut self, step: Step<'_>) {
        self.path.enter(step);
        if let Step::Field(key) | Step::Key(key) = step {
            // A key with escapes is no piece of the text; its position is that of the key before.
            let offset = (key.as_ptr() as usize).wrapping_sub(self.json.as_ptr() as usize);
            if offset < self.json.len() {
                self.offset = offset;
            }
        }
    }

    fn leave(&mut self) {
        self.path.leave();
    }

    fn unknown(&mut self, message: Message, key: &str) -> Result<(), String> {
        if self.found.listed.len() == MAX_LISTED {
            self.found.n_more += 1;
            return Ok(());
        }
        self.found.listed.push(Unknown {
            offset: self.offset,
            path: self.path.as_str().to_owned(),
            reason: unknown_field(message, key),
        });
        Ok(())
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
            .map(|unknown| {
                (line_at(unknown.offset), unknown.path.as_str(), unknown.reason.as_str())
            })
            .collect();
        assert_eq!(
            shown,
            [
                (1, "spec.nodeSelctor", "unknown field; did you mean `nodeSelector`?"),
                (2, "spec.containers[1].env[0].Name", "unknown field; did you mean `name`?"),
                (4, "spec.containers[1].zzz", "unknown field"),
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
    fn keys_with_escapes_and_deep_values_do_no_harm() {
        let found = find(pod(), "{\n\"spec\": {\n\"\\u0078y\": 1}}");
        assert_eq!((found.listed[0].offset, found.listed[0].path.as_str()), (3, "spec.xy"));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(find(pod(), &format!("{{\"x\": {deep}}}")).listed.len(), 1);
        assert!(find(pod(), &format!("{{\"spec\": {deep}}}")).listed.is_empty());
    }
}
