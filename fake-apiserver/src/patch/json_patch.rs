//! JSON patch (RFC 6902): a list of operations on paths.

use serde_json::Value;

pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), String> {
    let operations = patch.as_array().ok_or("a JSON patch must be a list")?;
    for operation in operations {
        let word = operation["op"].as_str().unwrap_or_default();
        let path = operation["path"].as_str().ok_or("an operation lacks its `path`")?;
        let value =
            || operation.get("value").cloned().ok_or_else(|| format!("`{word}` lacks its `value`"));
        let from =
            || operation["from"].as_str().ok_or_else(|| format!("`{word}` lacks its `from`"));
        match word {
            "add" => add(object, path, value()?)?,
            "remove" => drop(remove(object, path)?),
            "replace" => {
                let target = object.pointer_mut(path).ok_or_else(|| missing(path))?;
                *target = value()?;
            }
            "test" => {
                if object.pointer(path) != Some(&value()?) {
                    return Err(format!("testing value {path} failed"));
                }
            }
            "move" => {
                let value = remove(object, from()?)?;
                add(object, path, value)?;
            }
            "copy" => {
                let value = object.pointer(from()?).cloned().ok_or_else(|| missing(path))?;
                add(object, path, value)?;
            }
            other => return Err(format!("unexpected kind: {other}")),
        }
    }
    Ok(())
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (parent, name) = split(path)?;
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.insert(name, value)),
        Some(Value::Array(items)) if name == "-" => items.push(value),
        Some(Value::Array(items)) => {
            let at =
                name.parse().ok().filter(|at| *at <= items.len()).ok_or_else(|| missing(path))?;
            items.insert(at, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, name) = split(path)?;
    let removed = match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&name),
        Some(Value::Array(items)) => {
            let at = name.parse().ok().filter(|at| *at < items.len());
            at.map(|at: usize| items.remove(at))
        }
        _ => None,
    };
    removed.ok_or_else(|| missing(path))
}

/// Splits a path into that of the parent and the last name, unescaped.
fn split(path: &str) -> Result<(&str, String), String> {
    let (parent, name) = path.rsplit_once('/').ok_or_else(|| missing(path))?;
    Ok((parent, name.replace("~1", "/").replace("~0", "~")))
}

fn missing(path: &str) -> String {
    format!("doc is missing path: \"{path}\": missing value")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_apply_in_order() {
        let mut object = json!({"a": {"b/c": 1}, "l": [1, 3]});
        let patch = json!([
            {"op": "test", "path": "/a/b~1c", "value": 1},
            {"op": "replace", "path": "/a/b~1c", "value": 2},
            {"op": "add", "path": "/l/1", "value": 2},
            {"op": "add", "path": "/l/-", "value": 4},
            {"op": "remove", "path": "/l/0"},
            {"op": "copy", "from": "/a", "path": "/copied"},
            {"op": "move", "from": "/a", "path": "/moved"},
        ]);
        apply(&mut object, &patch).unwrap();
        assert_eq!(object, json!({"copied": {"b/c": 2}, "moved": {"b/c": 2}, "l": [2, 3, 4]}));
    }

    #[test]
    fn what_cannot_be_done_is_an_error() {
        for patch in [
            json!({}),
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "replace", "path": "/none", "value": 1}]),
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "add", "path": "/l/9", "value": 1}]),
            json!([{"op": "add", "path": "/l/0"}]),
            json!([{"op": "turn", "path": "/a"}]),
        ] {
            assert!(apply(&mut json!({"a": 1, "l": []}), &patch).is_err(), "{patch}");
        }
    }
}
