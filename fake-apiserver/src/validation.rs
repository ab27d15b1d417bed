//! Validation of fields: which fields of a written object Kubernetes does not know.

use berth_proto::fields::{Content, Message, Path, Receiver, Step, walk};
use http::HeaderValue;
use serde_json::Value;

use crate::resource::Resource;
use crate::status::Refusal;

/// Treatment of unknown fields, as the query parameter `fieldValidation` of a write says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    /// Parses the parameter; the default is that of the real server.
    pub(crate) fn parse(text: &str) -> Result<FieldValidation, Refusal> {
        match text {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => Err(Refusal::bad_request(format!(
                "fieldValidation: Unsupported value: \"{other}\": supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
    }

    /// Checks `object`; returns the values of `Warning` headers.
    pub(crate) fn check(
        self,
        resource: &Resource,
        object: &Value,
    ) -> Result<Vec<HeaderValue>, Refusal> {
        if self == FieldValidation::Ignore {
            return Ok(Vec::new());
        }
        let unknown = unknown_fields(resource, object);
        let texts: Vec<String> =
            unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        if self == FieldValidation::Strict && !texts.is_empty() {
            let (kind, version) = (resource.kind, resource.version);
            return Err(Refusal::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
                texts.join(", ")
            )));
        }
        let header = |text: &String| {
            HeaderValue::try_from(format!("299 - \"{}\"", text.replace('"', "\\\""))).ok()
        };
        Ok(texts.iter().filter_map(header).collect())
    }
}

/// Paths of the fields that Kubernetes does not know.
fn unknown_fields(resource: &Resource, object: &Value) -> Vec<String> {
    #[derive(Default)]
    struct Unknown {
        path: Path,
        found: Vec<String>,
    }
    impl Receiver for Unknown {
        fn enter(&mut self, step: Step<'_>) {
            self.path.enter(step);
        }

        fn leave(&mut self) {
            self.path.leave();
        }

        fn unknown(&mut self, _: Message, _: &str) -> Result<(), String> {
            self.found.push(self.path.as_str().to_owned());
            Ok(())
        }
    }
    let Some(message) = Message::named(resource.kind) else { return Vec::new() };
    let mut unknown = Unknown::default();
    // A value that was parsed is read again without an error.
    drop(walk(Content::Message(message), object, &mut unknown));
    unknown.found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::PODS;

    #[test]
    fn unknown_fields_are_refused_or_told_as_the_caller_wants() {
        let pod = serde_json::json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "annotations": {"any": "x"}},
            "spec": {"containers": [{"nam": "c"}], "nodeSelctor": {}},
        });
        let check = |text: &str| FieldValidation::parse(text).unwrap().check(PODS, &pod);
        let refusal = check("Strict").unwrap_err();
        assert_eq!(
            refusal.message,
            "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: \
             unknown field \"spec.containers[0].nam\", unknown field \"spec.nodeSelctor\""
        );
        let warnings = check("").unwrap();
        assert_eq!(warnings[1], "299 - \"unknown field \\\"spec.nodeSelctor\\\"\"");
        assert_eq!(check("Ignore").unwrap().len(), 0);
        assert!(FieldValidation::parse("Maybe").is_err());
    }
}
