//! Strategic merge patch: a merge patch that matches the items of lists by a key.

use serde_json::{Map, Value};

/// Lists whose items merge, by the field's name, with the key of the items. A field's name has the same key in all
/// served kinds.
const KEYS: [(&str, &str); 16] = [
    ("conditions", "type"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "port"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("schedulingGates", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("taints", "key"),
    ("addresses", "type"),
    ("ownerReferences", "uid"),
];

/// Lists of plain values that merge as sets.
const SETS: [&str; 1] = ["finalizers"];

pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), String> {
    let Value::Object(changes) = patch else {
        return Err("a strategic merge patch must be an object".into());
    };
    merge_object(object, changes)
}

fn merge_object(target: &mut Value, changes: &Map<String, Value>) -> Result<(), String> {
    if changes.get("$patch").is_some_and(|word| word == "replace") {
        let mut fields = changes.clone();
        fields.remove("$patch");
        *target = Value::Object(fields);
        return Ok(());
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return Ok(()) };
    for (name, change) in changes {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = change.as_array().ok_or_else(|| format!("`{name}` must be a list"))?;
            if let Some(Value::Array(items)) = fields.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
        } else if name.starts_with('$') {
            // `$setElementOrder/…` and `$retainKeys` are ignored: the order of items has no effect here.
        } else if change.is_null() {
            fields.remove(name);
        } else {
            merge_field(fields.entry(name.clone()).or_insert(Value::Null), name, change)?;
        }
    }
    Ok(())
}

fn merge_field(field: &mut Value, name: &str, change: &Value) -> Result<(), String> {
    match change {
        Value::Object(changes) if changes.get("$patch").is_some_and(|word| word == "delete") => {
            *field = Value::Null;
            Ok(())
        }
        Value::Object(changes) => merge_object(field, changes),
        Value::Array(items) => {
            if let Some((_, key)) = KEYS.iter().find(|(list, _)| *list == name) {
                // The ports of a container have the key `containerPort`, those of a service `port`.
                let is_container_port =
                    items.iter().any(|item| item.get("containerPort").is_some());
                let key = if is_container_port { "containerPort" } else { key };
                merge_items(field, key, items)
            } else {
                merge_values(field, name, items);
                Ok(())
            }
        }
        plain => {
            *field = plain.clone();
            Ok(())
        }
    }
}

fn merge_values(field: &mut Value, name: &str, items: &[Value]) {
    match field {
        Value::Array(known) if SETS.contains(&name) => {
            for item in items {
                if !known.contains(item) {
                    known.push(item.clone());
                }
            }
        }
        _ => *field = Value::Array(items.to_vec()),
    }
}

fn merge_items(field: &mut Value, key: &str, items: &[Value]) -> Result<(), String> {
    if items.iter().any(|item| item.get("$patch").is_some_and(|word| word == "replace")) {
        let kept = items.iter().filter(|item| item.get("$patch").is_none()).cloned();
        *field = Value::Array(kept.collect());
        return Ok(());
    }
    let known = match field.take() {
        Value::Array(known) => known,
        _ => Vec::new(),
    };
    let position = |id: &Value| known.iter().position(|item| item.get(key) == Some(id));
    let is_named = |item: &Value| items.iter().any(|change| change.get(key) == item.get(key));
    // Items that the patch does not name keep their position relative to their successor; new items come first
    // (recording 09).
    let mut unnamed = known.iter().enumerate().filter(|(_, item)| !is_named(item)).peekable();
    let mut merged = Vec::with_capacity(known.len() + items.len());
    for item in items {
        let Value::Object(changes) = item else {
            return Err(format!("items that merge by `{key}` must be objects"));
        };
        let id = item.get(key).filter(|id| !id.is_null());
        let id = id.ok_or_else(|| format!("an item lacks its merge key `{key}`"))?;
        let position = position(id);
        while let Some((_, before)) = unnamed.next_if(|(at, _)| position.is_some_and(|p| *at < p)) {
            merged.push(before.clone());
        }
        if changes.get("$patch").is_none_or(|word| word != "delete") {
            let mut target = position.map_or(Value::Null, |position| known[position].clone());
            merge_object(&mut target, changes)?;
            merged.push(target);
        }
    }
    merged.extend(unnamed.map(|(_, item)| item.clone()));
    *field = Value::Array(merged);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut object: Value, patch: &Value) -> Value {
        apply(&mut object, patch).unwrap();
        object
    }

    #[test]
    fn conditions_merge_by_type() {
        let object = json!({"status": {"conditions": [{"type": "A", "status": "False", "reason": "r"}, {"type": "B"}]}});
        let patch = json!({"status": {"conditions": [{"type": "A", "status": "True", "reason": null}, {"type": "C"}]}});
        let expected = json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "C"}, {"type": "B"}]}});
        assert_eq!(patched(object, &patch), expected);
    }

    #[test]
    fn other_lists_replace_and_sets_grow() {
        let object =
            json!({"metadata": {"finalizers": ["a"]}, "spec": {"tolerations": [{"key": "x"}]}});
        let patch = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"tolerations": []}});
        let grown = patched(object, &patch);
        assert_eq!(
            grown,
            json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"tolerations": []}})
        );
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(patched(grown, &patch)["metadata"], json!({"finalizers": ["b"]}));
    }

    #[test]
    fn directives_delete_and_replace() {
        let object = json!({"spec": {"taints": [{"key": "a"}, {"key": "b"}], "x": {"y": 1}}});
        let patch = json!({"spec": {"taints": [{"key": "a", "$patch": "delete"}], "x": {"$patch": "replace", "z": 2}}});
        let expected = json!({"spec": {"taints": [{"key": "b"}], "x": {"z": 2}}});
        assert_eq!(patched(object, &patch), expected);
        assert!(apply(&mut json!({}), &json!({"taints": [{"value": "no key"}]})).is_err());
    }
}
