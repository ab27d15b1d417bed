//! Conditions in the status of objects.

use serde_json::Value;

use crate::clock::time;
use crate::field;

/// Adds or replaces the condition of its type. `lastTransitionTime` changes only together with the status.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    let status = field::object(object, "status");
    let conditions = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let Value::Array(conditions) = conditions else { return };
    let mut condition = condition;
    condition["lastTransitionTime"] = time(0).into();
    match conditions.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => {
            if known["status"] == condition["status"] && !known["lastTransitionTime"].is_null() {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

/// The `status` of the condition with type `name`; empty if there is none.
pub(crate) fn condition_status<'a>(object: &'a Value, name: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == name);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}
