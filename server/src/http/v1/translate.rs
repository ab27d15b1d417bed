//! Translates a body into the protobuf message of an RPC. A body is either the JSON form of the request, or bare
//! objects of Kubernetes, which have a `kind`; both in JSON or YAML.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::compose::{Composed, compose};
use super::expanded::Scene;
use super::failure::Failure;
use super::objects::BODY;
use super::parameters::{Parameters, properties};
use super::route::Route;
use super::told::Told;
use crate::feed::FeedError;
use crate::feed::file;
use crate::service::Fork;

/// The key that every object of Kubernetes has.
const KIND: &str = "kind";

/// Text format of a body.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// YAML, or JSON, which is nearly a part of it.
    Yaml,
}

/// A translated body.
#[derive(Clone, Debug)]
pub(crate) struct Translated {
    /// The call that answers.
    pub(crate) route: &'static Route,
    /// Its request in protobuf.
    pub(crate) message: Vec<u8>,
    /// What the answer tells of the body.
    pub(super) told: Told,
    /// The fork with what the request supposes, if it supposes anything.
    pub(super) fork: Option<Fork>,
}

/// Translates a body; an empty one is the request without any field.
///
/// # Errors
/// A text that is neither JSON nor YAML, an unknown field, a value of the wrong type, an object that the call has no
/// use for, a bad parameter.
pub(crate) fn translate(
    route: &'static Route,
    form: Form,
    parameters: &Parameters,
    body: &[u8],
    scene: &Scene<'_>,
) -> Result<Translated, Failure> {
    let text = std::str::from_utf8(body).map_err(|_| Failure::invalid("the body is not UTF-8"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let begins_json = text.trim_start().starts_with(['{', '[']);
    if text.trim().is_empty() {
        parameters.check_no_options()?;
        return request(route, "{}", parameters);
    }
    if form == Form::Json || begins_json && is_json(text) {
        return match is_object(text, route) {
            true => objects(route, text, parameters, scene),
            false => {
                parameters.check_no_options()?;
                request(route, text, parameters)
            }
        };
    }
    let (as_json, is_stream) = match file::as_json(&BODY.into(), text) {
        Ok(json) => (json, false),
        // Several documents are objects: a request is one.
        Err(error) if has_documents(text) => {
            match file::parse(&BODY.into(), text, parameters.unknown_fields()) {
                Ok(_) => (String::new(), true),
                Err(_) => return Err(unreadable(&error)),
            }
        }
        Err(error) => return Err(unreadable(&error)),
    };
    if is_stream || is_object(&as_json, route) {
        // The reader of objects takes a text that begins like JSON for JSON.
        return objects(route, if begins_json { &as_json } else { text }, parameters, scene);
    }
    parameters.check_no_options()?;
    request(route, &as_json, parameters)
}

fn request(
    route: &'static Route,
    json: &str,
    parameters: &Parameters,
) -> Result<Translated, Failure> {
    let (message, notes) = match route.encode(json) {
        Err(failure) if parameters.is_lenient => {
            (route.encode_leniently(json)?, vec![failure.message().to_owned()])
        }
        encoded => (encoded?, Vec::new()),
    };
    Ok(Translated { route, message, told: Told::of_notes(notes), fork: None })
}

fn objects(
    route: &'static Route,
    text: &str,
    parameters: &Parameters,
    scene: &Scene<'_>,
) -> Result<Translated, Failure> {
    let name: Arc<str> = BODY.into();
    let dump = file::parse(&name, text, parameters.unknown_fields());
    let dump = dump.map_err(|error| unreadable(&error))?;
    let Composed { route, request, told, fork } = compose(route, dump, parameters, scene)?;
    Ok(Translated { route, message: route.encode(&request.to_string())?, told, fork })
}

fn unreadable(error: &FeedError) -> Failure {
    Failure::invalid(format!("the body cannot be read: {error}"))
}

/// Whether a line of the text separates documents.
fn has_documents(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "---" || line.starts_with("--- "))
}

fn is_json(text: &str) -> bool {
    let values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.into_iter().all(|value| value.is_ok())
}

/// Whether the first value of a JSON text is an object of Kubernetes: it has a `kind`, and an `apiVersion` where the
/// request has a field `kind` of its own.
pub(super) fn is_object(text: &str, route: &Route) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Head>();
    let Some(Ok(head)) = values.next() else { return false };
    head.has_kind && (head.has_version || !properties(route.operation.request).contains_key(KIND))
}

/// The keys of an object, as far as they say what it is.
struct Head {
    has_kind: bool,
    has_version: bool,
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Head, D::Error> {
        struct HeadVisitor;
        impl<'de> Visitor<'de> for HeadVisitor {
            type Value = Head;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
                let mut head = Head { has_kind: false, has_version: false };
                while let Some(key) = map.next_key::<String>()? {
                    head.has_kind |= key == KIND;
                    head.has_version |= key == "apiVersion";
                    map.next_value::<IgnoredAny>()?;
                }
                Ok(head)
            }
        }
        deserializer.deserialize_map(HeadVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::v1::route::find;
    use crate::service::Target;
    use berth_proto::berth_v1::{DecideRestartRequest, PlaceBatchRequest, PlaceMode, PlaceRequest};
    use prost::Message as _;

    /// An empty cluster.
    fn empty() -> Scene<'static> {
        let base = &|_: &str| Ok(Target::Live(Arc::default()));
        Scene { base, max_pods: 1_000, max_bytes: 1 << 20 }
    }

    fn read(path: &str, form: Form, query: &str, body: &str) -> Result<Translated, String> {
        let parameters = Parameters::of(query).unwrap();
        let translated =
            translate(find(path).unwrap(), form, &parameters, body.as_bytes(), &empty());
        translated.map_err(|failure| failure.to_status().message().to_owned())
    }

    #[test]
    fn a_request_and_a_bare_object_are_the_same_call() {
        let forms = [
            (
                Form::Json,
                "",
                r#"{"pod": {"metadata": {"name": "p"}, "spec": {"priority": 7, "containers": [{"name": "c"}]}}, "mode": 2}"#,
            ),
            (
                Form::Yaml,
                "",
                "pod: {metadata: {name: p}, spec: {priority: 7, containers: [{name: c}]}}\nmode: PLACE_MODE_ASSUME\n",
            ),
            (
                Form::Json,
                "mode=assume",
                r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": 7, "containers": [{"name": "c"}]}}"#,
            ),
            (
                Form::Yaml,
                "mode=assume",
                "kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec:\n  priority: 7\n  containers: [{name: c}]\n",
            ),
            (
                Form::Yaml,
                "mode=assume",
                "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {priority: 7, containers: [{name: c}]}}",
            ),
            (
                Form::Yaml,
                "mode=assume",
                r#"{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": 7, "containers": [{"name": "c"}]}}"#,
            ),
        ];
        for (form, query, body) in forms {
            let translated = read("/v1/place", form, query, body).unwrap();
            let place = PlaceRequest::decode(&*translated.message).unwrap();
            assert_eq!(place.mode(), PlaceMode::Assume, "{body}");
            let pod = place.pod.unwrap().to_pod().unwrap();
            assert_eq!(pod.metadata.unwrap().name, "p");
            assert_eq!(pod.spec.unwrap().priority, Some(7));
        }
    }

    #[test]
    fn several_documents_are_objects() {
        let yaml = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n---\n\
                    kind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: c}]}\n";
        let json = r#"{"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
                      {"kind": "Pod", "metadata": {"name": "b"}, "spec": {"containers": [{"name": "c"}]}}"#;
        for (form, body) in [(Form::Yaml, yaml), (Form::Json, json), (Form::Yaml, json)] {
            let translated = read("/v1/place", form, "", body).unwrap();
            assert_eq!(translated.route.path, "/v1/place-batch");
            let batch = PlaceBatchRequest::decode(&*translated.message).unwrap();
            assert_eq!(batch.entries.len(), 2, "{body}");
        }
        let requests = "pod: {}\n---\npod: {}\n";
        assert!(read("/v1/place", Form::Yaml, "", requests).is_err());
    }

    #[test]
    fn a_request_may_have_a_kind_of_its_own() {
        let body = r#"{"kind": "sidecar", "podDeleting": true}"#;
        let translated = read("/v1/lifecycle/decide-restart", Form::Json, "", body).unwrap();
        let request = DecideRestartRequest::decode(&*translated.message).unwrap();
        assert_eq!(request.kind, "sidecar");
    }

    #[test]
    fn bad_bodies_are_refused_with_a_reason() {
        let error =
            |form, query: &str, body: &str| read("/v1/place", form, query, body).unwrap_err();
        assert!(error(Form::Json, "", "{").starts_with("the body is no JSON: line 1, column 1: "));
        assert!(error(Form::Json, "", "a: 1").starts_with("the body is no JSON: line 1, column 1"));
        assert_eq!(error(Form::Yaml, "", "a: 1"), "`a`: unknown field");
        assert!(error(Form::Yaml, "", "a: [1").starts_with("the body cannot be read: body:1:"));
        assert!(error(Form::Yaml, "", "pod: 1\npod: 2").contains("the key is given twice"));
        assert!(error(Form::Json, "mode=assume", "{}").starts_with("`mode`: a query parameter is"));
        assert!(error(Form::Json, "mode=assume", "").starts_with("`mode`: a query parameter is"));
        let nested = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        for form in [Form::Json, Form::Yaml] {
            let body = format!("{{\"pod\": {nested}}}");
            assert!(!error(form, "", &body).is_empty());
        }
        assert!(read("/v1/place", Form::Json, "", " \n").unwrap().message.is_empty());
    }
}
