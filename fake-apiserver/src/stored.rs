//! [`Stored`]: one state of an object, with its text and the values that selectors read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::event;
use crate::field;
use crate::resource::Resource;

/// An immutable state of an object. As in lists, the text has no `kind` and `apiVersion`; they are added in front for a
/// single object.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) version: u64,
    text: Box<str>,
    /// The values of [`Resource::fields`], in their order.
    fields: Box<[Box<str>]>,
}

#[derive(Default, Deserialize)]
struct Labelled<'a> {
    #[serde(borrow, default)]
    metadata: Labels<'a>,
}

#[derive(Default, Deserialize)]
struct Labels<'a> {
    #[serde(borrow, default)]
    labels: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

impl Stored {
    /// Renders `object` with this version in its metadata.
    pub(crate) fn new(resource: &Resource, version: u64, mut object: Value) -> Stored {
        if let Value::Object(fields) = &mut object {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        let metadata = field::object(&mut object, "metadata");
        metadata.insert("resourceVersion".into(), Value::String(version.to_string()));
        let of = |(path, absent): &(&str, &str)| match field::at(&object, path) {
            Value::Null => (*absent).into(),
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        };
        let fields = resource.fields.iter().map(of).collect();
        Stored { version, text: object.to_string().into(), fields }
    }

    pub(crate) fn n_bytes(&self) -> usize {
        self.text.len()
    }

    /// The value of a field label by its position in [`Resource::fields`].
    pub(crate) fn field(&self, position: usize) -> &str {
        self.fields.get(position).map_or("", |text| text)
    }

    /// Whether the object's labels match. Labels are parsed from the text, because few watches select by them.
    pub(crate) fn has_label(
        &self,
        matches: impl FnOnce(&BTreeMap<Cow<'_, str>, Cow<'_, str>>) -> bool,
    ) -> bool {
        // The text was rendered here, so parsing fails only for labels that are not strings, which match nothing.
        let labelled: Labelled<'_> = serde_json::from_str(&self.text).unwrap_or_default();
        matches(&labelled.metadata.labels)
    }

    /// The object in its stored form, without `kind` and `apiVersion`.
    pub(crate) fn to_plain(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The object in the form of `resource`, with `kind` and `apiVersion`.
    pub(crate) fn to_value(&self, resource: &Resource) -> Value {
        let mut value = resource.shown(self.to_plain());
        if let Value::Object(fields) = &mut value {
            fields.insert("kind".into(), resource.kind.into());
            fields.insert("apiVersion".into(), resource.api_version().into());
        }
        value
    }

    /// Writes the text of the object in the form of `resource`, `kind` and `apiVersion` first.
    pub(crate) fn write(&self, resource: &Resource, out: &mut Vec<u8>) {
        out.extend_from_slice(resource.opening().as_bytes());
        self.write_rest(resource, out);
    }

    /// Writes the text after [`Resource::opening`]: the fields and the closing brace.
    pub(crate) fn write_rest(&self, resource: &Resource, out: &mut Vec<u8>) {
        if std::ptr::eq(resource, resource.kept_as()) {
            out.extend_from_slice(&self.text.as_bytes()[1..]);
        } else {
            let shown = resource.shown(self.to_plain()).to_string();
            out.extend_from_slice(&shown.as_bytes()[1..]);
        }
    }
}

impl Resource {
    /// Start of the text of an object of this resource: `{"kind":"Pod","apiVersion":"v1",`.
    pub(crate) fn opening(&self) -> String {
        format!(r#"{{"kind":"{}","apiVersion":"{}","#, self.kind, self.api_version())
    }

    /// Converts an object of this resource to its stored form.
    pub(crate) fn to_kept(&self, mut object: Value) -> Value {
        if !object.is_object() {
            object = Value::Object(Map::new());
        }
        field::object(&mut object, "metadata");
        if std::ptr::eq(self, self.kept_as()) { object } else { event::from_core(object) }
    }

    /// Converts a stored object to the form of this resource.
    pub(crate) fn shown(&self, object: Value) -> Value {
        if std::ptr::eq(self, self.kept_as()) { object } else { event::to_core(object) }
    }
}
