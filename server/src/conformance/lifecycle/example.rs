//! One worked example as written in its file, and the reader of such files.
//!
//! An unknown or missing key is an error: an example that expects nothing must not pass.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use crate::conformance::ConformanceError;
use crate::conformance::file;
use crate::lifecycle::Function;

/// One example.
#[derive(Clone, Debug)]
pub struct Example {
    /// Name of the example, unique in its file.
    pub id: String,
    /// The function that the example calls.
    pub function: &'static Function,
    /// Ids of the requirements that the example covers.
    pub requirement: Vec<String>,
    /// The function's request, a JSON object.
    pub input: Value,
    /// The expected part of the answer; never empty.
    pub expect: Map<String, Value>,
}

/// The examples of a file, in its order.
///
/// Errors: an unreadable file, no JSON array, an empty one, an element that is no example (named by its index and id,
/// with the key at fault).
pub fn read(path: &Path) -> Result<Vec<Example>, ConformanceError> {
    let text = file::read(path)?;
    let not_examples = |reason| ConformanceError::NotExamples { path: path.to_owned(), reason };
    let elements = match serde_json::from_str(&text) {
        Ok(Value::Array(elements)) => elements,
        Ok(_) => return Err(not_examples("it is one value of another kind".to_owned())),
        Err(error) => return Err(not_examples(error.to_string())),
    };
    if elements.is_empty() {
        return Err(ConformanceError::NoCase { path: path.to_owned() });
    }
    let mut ids = BTreeSet::new();
    let mut examples = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        let id = element.get("id").and_then(Value::as_str).map(str::to_owned);
        let example = parse(element).and_then(|example| {
            if ids.insert(example.id.clone()) {
                Ok(example)
            } else {
                Err("`id`: another example has it too".to_owned())
            }
        });
        let named = |reason| {
            let id = id.map(|id| format!(" (`{id}`)")).unwrap_or_default();
            ConformanceError::Example { path: path.to_owned(), index, id, reason }
        };
        examples.push(example.map_err(named)?);
    }
    Ok(examples)
}

fn parse(element: Value) -> Result<Example, String> {
    let Value::Object(mut keys) = element else {
        return Err("must be an object".to_owned());
    };
    let id = text(&mut keys, "id")?;
    let group = text(&mut keys, "group")?;
    let function = function(&group, &text(&mut keys, "function")?)?;
    for key in ["title", "origin"] {
        text(&mut keys, key)?;
    }
    let requirement = requirements(&mut keys)?;
    let input = Value::Object(object(&mut keys, "input")?);
    let expect = object(&mut keys, "expect")?;
    if expect.is_empty() {
        return Err("`expect`: must not be empty".to_owned());
    }
    match keys.keys().next() {
        Some(key) => Err(format!("`{key}`: unknown key")),
        None => Ok(Example { id, function, requirement, input, expect }),
    }
}

fn function(group: &str, name: &str) -> Result<&'static Function, String> {
    match Function::named(name) {
        None => Err(format!("`function`: unknown function `{name}`")),
        Some(function) if function.group != group => Err(format!(
            "`group`: `{name}` is a function of `{}`, not of `{group}`",
            function.group
        )),
        Some(function) => Ok(function),
    }
}

fn text(keys: &mut Map<String, Value>, key: &str) -> Result<String, String> {
    match take(keys, key)? {
        Value::String(text) if !text.is_empty() => Ok(text),
        _ => Err(format!("`{key}`: must be a string that is not empty")),
    }
}

fn requirements(keys: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    let key = "requirement";
    let ids = match take(keys, key)? {
        Value::Array(ids) => ids
            .into_iter()
            .map(|id| match id {
                Value::String(id) => Some(id),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    ids.filter(|ids: &Vec<String>| !ids.is_empty())
        .ok_or_else(|| format!("`{key}`: must be a list of requirement ids, with at least one"))
}

fn object(keys: &mut Map<String, Value>, key: &str) -> Result<Map<String, Value>, String> {
    match take(keys, key)? {
        Value::Object(object) => Ok(object),
        _ => Err(format!("`{key}`: must be an object")),
    }
}

fn take(keys: &mut Map<String, Value>, key: &str) -> Result<Value, String> {
    keys.remove(key).ok_or_else(|| format!("`{key}`: is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "id": "A-1", "group": "gates", "function": "SameIncarnation", "requirement": ["L-GATE-1"],
            "title": "t", "origin": "o", "input": {}, "expect": {"samePod": true}
        })
    }

    #[test]
    fn an_example_has_all_its_keys_and_no_other() {
        assert_eq!(parse(good()).unwrap().function.name, "SameIncarnation");
        for key in ["id", "group", "function", "requirement", "title", "origin", "input", "expect"]
        {
            let mut missing = good();
            missing.as_object_mut().unwrap().remove(key);
            assert_eq!(parse(missing).unwrap_err(), format!("`{key}`: is missing"));
            let mut wrong = good();
            wrong[key] = json!(7);
            assert!(parse(wrong).unwrap_err().starts_with(&format!("`{key}`: must be ")));
        }
        let mut more = good();
        more["expected"] = json!({});
        assert_eq!(parse(more).unwrap_err(), "`expected`: unknown key");
        assert_eq!(parse(json!([])).unwrap_err(), "must be an object");
    }

    #[test]
    fn functions_and_groups_are_known_and_belong_together() {
        let with = |key: &str, value: Value| {
            let mut example = good();
            example[key] = value;
            parse(example).unwrap_err()
        };
        assert_eq!(
            with("function", json!("sameIncarnation")),
            "`function`: unknown function `sameIncarnation`"
        );
        let reason = "`group`: `SameIncarnation` is a function of `gates`, not of `phase`";
        assert_eq!(with("group", json!("phase")), reason);
        assert_eq!(with("expect", json!({})), "`expect`: must not be empty");
        let reason = "`requirement`: must be a list of requirement ids, with at least one";
        assert_eq!(with("requirement", json!([])), reason);
        assert_eq!(with("requirement", json!(["L-GATE-1", 2])), reason);
    }

    #[test]
    fn errors_name_the_example_by_index_and_id() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("examples.json");
        let error = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).unwrap_err().to_string().replace(&path.display().to_string(), "F")
        };
        assert_eq!(error("[]"), "`F` holds no case");
        assert_eq!(
            error("{}"),
            "`F` is not an array of lifecycle examples: it is one value of another kind"
        );
        assert!(error("[\n{\"id\": }]").ends_with("expected value at line 2 column 8"));
        let twice = json!([good(), good()]).to_string();
        assert_eq!(error(&twice), "`F`: [1] (`A-1`): `id`: another example has it too");
        assert_eq!(error("[{}]"), "`F`: [0]: `id`: is missing");
    }
}
