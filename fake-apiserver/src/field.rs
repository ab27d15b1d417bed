//! Fields of JSON objects by their path.

use serde_json::{Map, Value};

const NULL: Value = Value::Null;

/// The value at a dotted path; null if absent.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').try_fold(value, |value, name| value.get(name)).unwrap_or(&NULL)
}

/// The string at a dotted path; empty if absent.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The object at `name`, which is created if absent.
pub(crate) fn object<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let inner = &mut value[name];
    if !inner.is_object() {
        *inner = Value::Object(Map::new());
    }
    match inner {
        Value::Object(map) => map,
        _ => unreachable!("an object was put there"),
    }
}

/// Removes a field and returns its value, if present.
pub(crate) fn remove(value: &mut Value, parent: &str, name: &str) -> Option<Value> {
    value.get_mut(parent)?.as_object_mut()?.remove(name)
}
