//! A YAML or JSON text as a tree that keeps everything a strict reader needs: lines, order and duplicate keys.
//!
//! Typed decoding through serde would stop at the first error and would see a duplicate key once; S-CFG-2 and S-CFG-4
//! demand every error.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, Spanned};
use std::fmt;

use super::error::Problem;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Line of the value's first character, from 1.
    pub line: u64,
    /// The value.
    pub value: Value,
}

/// A value in a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null: `null`, `~` or nothing at all.
    Null,
    /// A boolean: `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Any other scalar.
    Text(String),
    /// A sequence.
    List(Vec<Document>),
    /// A mapping, in the order written, duplicates included.
    Map(Vec<Entry>),
}

/// One entry `key: value` of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Text of the key.
    pub key: String,
    /// Line of the key, from 1.
    pub line: u64,
    /// Value of the key.
    pub value: Document,
}

/// Parses exactly one document; JSON is parsed as the YAML that it is.
///
/// The error has a line and no field. Nesting, aliases and sizes are limited by the parser's budget.
pub fn parse(text: &str) -> Result<Document, Problem> {
    // Mappings stream their entries to the visitor under this policy, so duplicates arrive and can be reported by path.
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins, with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options(text, options);
    let document: Document = parsed.map_err(|error| syntax_problem(text, &error))?;
    if has_number_keys(&document.value) {
        // If number keys are equal, the policy keeps the last and hides the others; the strict policy reports them.
        let strict = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::Error, with_snippet: false };
        serde_saphyr::from_str_with_options::<IgnoredAny>(text, strict)
            .map_err(|error| syntax_problem(text, &error))?;
    }
    Ok(document)
}

/// Whether some key is a whole number, however it is written.
fn has_number_keys(value: &Value) -> bool {
    match value {
        Value::Map(entries) => entries.iter().any(|entry| {
            entry.key.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-')
                || has_number_keys(&entry.value.value)
        }),
        Value::List(items) => items.iter().any(|item| has_number_keys(&item.value)),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) => {
            false
        }
    }
}

const TOO_LARGE: &str = "the document is nested too deeply or too large";
const TOO_MANY_ALIASES: &str = "the aliases stand for too much text";

/// Converts the parser's error, without its own notation of positions, and in words that a reader of the file knows.
fn syntax_problem(text: &str, error: &Error) -> Problem {
    let error = error.without_snippet();
    let line = error.location().map_or(0, |location| location.line());
    if let Some(line) = tab_indented(text, line) {
        let reason = TAB_INDENTED;
        return Problem { line, ..Problem::new("", reason) };
    }
    let reason = match error {
        Error::MultipleDocuments { .. } => {
            "another document starts here, one is expected".to_owned()
        }
        Error::Budget { .. } => TOO_LARGE.to_owned(),
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_MANY_ALIASES.to_owned(),
        // Some error inside the value that an alias refers to.
        Error::AliasError { error, .. }
            if matches!(error.without_snippet(), Error::Budget { .. }) =>
        {
            TOO_MANY_ALIASES.to_owned()
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is given twice"),
        // The parser's own guard, which has no variant of its own.
        other if other.to_string().contains("recursion limit") => TOO_LARGE.to_owned(),
        other => in_plain_words(&other.to_string()),
    };
    Problem { line, ..Problem::new("", reason) }
}

/// Reason for refusing a line that [`tab_indented`] finds.
pub(crate) const TAB_INDENTED: &str =
    "the line is indented with a tab, YAML allows only spaces there";

/// Line of the tab that the parser rejects: the parser names the line before, whose scalar it expects to continue.
pub(crate) fn tab_indented(text: &str, line: u64) -> Option<u64> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let is_indented = |text: &str| {
        let indent = &text[..text.len() - text.trim_start_matches([' ', '\t']).len()];
        indent.contains('\t')
    };
    let lines = text.lines().zip(1..);
    let mut near = lines.filter(|(_, number)| (line..=line.saturating_add(1)).contains(number));
    near.find(|(text, _)| !is_json && is_indented(text)).map(|(_, number)| number)
}

/// The first line of a message, without the position at its end.
fn in_plain_words(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let is_place = |tail: &str| tail.contains(" line ") || tail.contains(" column ");
    let reason = match first.rfind(" at line ").or_else(|| first.rfind(" (defined at")) {
        Some(end) if is_place(&first[end..]) || first[end..].starts_with(" (") => &first[..end],
        _ => first,
    };
    if reason.is_empty() { "unreadable".to_owned() } else { reason.replace('\'', "`") }
}

impl Document {
    /// The line of the field at `path` (`profiles[0].plugins`), or of the deepest value on the way to it that exists.
    pub fn line_of(&self, path: &str) -> u64 {
        let mut here = self;
        let mut line = self.line;
        for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
            let next = match &here.value {
                Value::Map(entries) => entries
                    .iter()
                    .find(|entry| entry.key == step)
                    .map(|entry| (entry.line, &entry.value)),
                Value::List(items) => step
                    .trim_end_matches(']')
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index))
                    .map(|item| (item.line, item)),
                Value::Null
                | Value::Bool(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Text(_) => None,
            };
            let Some((next_line, value)) = next else {
                break;
            };
            line = next_line;
            here = value;
        }
        line
    }
}

impl Value {
    /// Name of the value's type in error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a number with a fraction",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Document, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Document { line: spanned.referenced.line(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Document>()? {
            map.push(Entry { line: key.referenced.line(), key: key.value, value });
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_lines_order_and_duplicates() {
        let document = parse("b: 1\na:\n  - x: y\nb: 2\n").unwrap();
        let Value::Map(entries) = &document.value else { panic!("not a map: {document:?}") };
        let keys: Vec<(&str, u64)> =
            entries.iter().map(|entry| (entry.key.as_str(), entry.line)).collect();
        assert_eq!(keys, [("b", 1), ("a", 2), ("b", 4)]);
        assert_eq!(document.line_of("a[0].x"), 3);
        assert_eq!(document.line_of("a[7].x"), 2, "the deepest existing ancestor");
        assert_eq!(document.line_of(""), 1);
    }

    #[test]
    fn reads_tab_indented_json() {
        let document =
            parse("{\n\t\"a\": {\n\t\t\"b\": [1, \"2\", 0.5, null, true]\n\t}\n}").unwrap();
        assert_eq!(document.line_of("a.b[1]"), 3);
        let Value::Map(entries) = &document.value else { panic!("not a map") };
        let Value::Map(inner) = &entries[0].value.value else { panic!("not a map") };
        let Value::List(items) = &inner[0].value.value else { panic!("not a list") };
        let kinds: Vec<&str> = items.iter().map(|item| item.value.kind()).collect();
        assert_eq!(
            kinds,
            ["an integer", "a string", "a number with a fraction", "null", "a boolean"]
        );
    }

    #[test]
    fn syntax_errors_name_their_line_in_plain_words() {
        for (text, line, expected) in [
            ("a: 1\n---\nb: 2\n", 3, "another document starts here, one is expected"),
            (
                "a: 1\nb: x\n\tc: 1\n",
                3,
                "the line is indented with a tab, YAML allows only spaces there",
            ),
            ("a: 1\nb: *none\n", 2, ""),
            ("{\"a\": }}", 1, ""),
            ("a: [1\n", 1, ""),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!(problem.line, line, "{text:?}: {problem}");
            assert!(expected.is_empty() || problem.reason == expected, "{text:?}: {problem}");
            let reason = problem.reason;
            for alien in ["from_str", " at line", " column ", "\n", "'"] {
                assert!(!reason.is_empty() && !reason.contains(alien), "{text:?}: {reason}");
            }
        }
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
        for (name, of) in "bcdefghij".chars().zip("abcdefghi".chars()) {
            text += &format!(
                "{name}: &{name} [*{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}]\n"
            );
        }
        assert_eq!(parse(&text).unwrap_err().reason, TOO_MANY_ALIASES);
        let deep = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(
            parse(&deep).unwrap_err().reason,
            "the document is nested too deeply or too large"
        );
    }
}
