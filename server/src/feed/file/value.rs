//! Reads one JSON or YAML value of any shape, such as a request that a person wrote.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::source::{Position, Source};
use super::{form, item, yaml};
use crate::feed::FeedError;

/// Reads one value from a file or, for `-`, standard input. Of two equal keys of an object the last counts in JSON
/// (W-JS-8); in YAML they are an error.
///
/// # Errors
/// [`FeedError`] for a file that cannot be read, that is neither JSON nor YAML, or that holds any other number of
/// values.
pub fn read_value(path: &Path) -> Result<Value, FeedError> {
    let source = Source::open(path)?;
    let name = source.path.clone();
    parse(&name, &source.into_text(Vec::new())?)
}

/// Converts the one YAML value of `text`, whatever its shape, to JSON text; `name` is used in errors.
///
/// # Errors
/// [`FeedError::Syntax`] if the text is no YAML, or has any other number of documents.
pub(crate) fn as_json(name: &Arc<str>, text: &str) -> Result<String, FeedError> {
    yaml::value(name, text)
}

fn parse(name: &Arc<str>, text: &str) -> Result<Value, FeedError> {
    let in_json = |error: &serde_json::Error| {
        let place =
            Position { line: error.line().max(1) as u64, column: error.column().max(1) as u64 };
        place.error(name, item::without_position(error))
    };
    let in_yaml = || {
        let json = yaml::value(name, text)?;
        serde_json::from_str(&json).map_err(|error| in_json(&error))
    };
    match form::begins_like_json(text.trim_start().as_bytes()) {
        // A text that is neither gets JSON's error messages.
        Some(true) => serde_json::from_str(text)
            .or_else(|error| in_yaml().map_err(|_: FeedError| in_json(&error))),
        Some(false) | None => in_yaml(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_any_shape_are_read() {
        let read = |text: &str| parse(&Arc::from("f"), text).unwrap();
        let expected =
            json!({"a": [1, "x", null, true], "b": {"c": 0.5, "d": "2026-01-10T12:00:00Z"}});
        assert_eq!(read(&expected.to_string()), expected);
        let yaml = "# said of it\na: [1, x, null, true]\nb:\n  c: 0.5\n  d: 2026-01-10T12:00:00Z\n";
        assert_eq!(read(yaml), expected);
        assert_eq!(read("- no\n- \"1\""), json!(["no", "1"]));
        assert_eq!(read("7"), json!(7));
        // Flow style, which looks like JSON and is not.
        assert_eq!(read("{a: [1], \"b\": x,}"), json!({"a": [1], "b": "x"}));
    }

    #[test]
    fn what_is_no_value_is_told_by_line_and_column() {
        let error = |text: &str| parse(&Arc::from("f"), text).unwrap_err().to_string();
        assert_eq!(error("{\n\"a\": \"\\q\"}"), "f:2:8: invalid escape");
        assert_eq!(error("{} {}"), "f:1:4: trailing characters");
        assert_eq!(error(""), "f:1:1: the file is empty");
        assert_eq!(error("a: 1\n---\nb: 2\n"), "f:3:1: a second document, one is expected");
        assert_eq!(error("a:\n  b: 1\n  b: 2\n"), "f:1:1: `a.b`: the key is given twice");
        assert!(error("a: [1").starts_with("f:1:"), "{}", error("a: [1"));
        assert!(error(&"[".repeat(1_000)).contains("recursion limit"));
    }
}
