//! JSON merge patch (RFC 7396): objects merge, null deletes, other values replace.

use serde_json::{Map, Value};

pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), String> {
    if !patch.is_object() {
        return Err("a merge patch must be an object".into());
    }
    merge(object, patch);
    Ok(())
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_merge_and_other_values_replace() {
        let mut object = json!({"a": {"b": 1, "c": [1]}, "d": 2});
        apply(&mut object, &json!({"a": {"b": null, "c": [2, 3], "n": {"x": null}}, "e": "f"}))
            .unwrap();
        assert_eq!(object, json!({"a": {"c": [2, 3], "n": {}}, "d": 2, "e": "f"}));
        assert!(apply(&mut object, &json!([])).is_err());
    }
}
