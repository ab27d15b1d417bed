//! Label and field selectors of lists and watches.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::resource::Resource;
use crate::status::Refusal;
use crate::stored::Stored;

/// Selector of a list or a watch; the default selects all objects.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Label>,
    fields: Vec<Field>,
}

#[derive(Debug, PartialEq)]
struct Label {
    key: String,
    test: Test,
}

#[derive(Debug, PartialEq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Debug)]
struct Field {
    source: FieldSource,
    value: String,
    equal: bool,
}

#[derive(Debug)]
enum FieldSource {
    Name,
    Namespace,
    /// Position in [`Resource::fields`].
    At(usize),
}

impl Selector {
    /// Parses the `labelSelector` and `fieldSelector` of a request for `resource`.
    pub(crate) fn parse(
        resource: &Resource,
        labels: &str,
        fields: &str,
    ) -> Result<Selector, Refusal> {
        Ok(Selector { labels: parse_labels(labels)?, fields: parse_fields(resource, fields)? })
    }

    /// Whether the selector selects all objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the selector selects this state of the object at `key` (`namespace/name` or `name`).
    pub(crate) fn selects(&self, key: &str, object: &Stored) -> bool {
        let (namespace, name) = key.rsplit_once('/').unwrap_or(("", key));
        let fields = self.fields.iter().all(|field| {
            let value = match field.source {
                FieldSource::Name => name,
                FieldSource::Namespace => namespace,
                FieldSource::At(position) => object.field(position),
            };
            (value == field.value) == field.equal
        });
        fields
            && (self.labels.is_empty()
                || object.has_label(|labels| self.labels.iter().all(|label| label.holds(labels))))
    }
}

/// Whether `selector` (a `LabelSelector` object) selects an object with these labels; an empty one selects all.
pub(crate) fn selects_labels(selector: &serde_json::Value, object: &Stored) -> bool {
    let mut labels = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let values = vec![value.as_str().unwrap_or_default().to_owned()];
        labels.push(Label { key: key.clone(), test: Test::In(values) });
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let values = || {
            let values = expression["values"].as_array().into_iter().flatten();
            values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let test = match expression["operator"].as_str() {
            Some("In") => Test::In(values()),
            Some("NotIn") => Test::NotIn(values()),
            Some("Exists") => Test::Exists,
            Some("DoesNotExist") => Test::Absent,
            _ => return false,
        };
        labels.push(Label { key: expression["key"].as_str().unwrap_or_default().into(), test });
    }
    object.has_label(|of| labels.iter().all(|label| label.holds(of)))
}

impl Label {
    fn holds(&self, labels: &BTreeMap<Cow<'_, str>, Cow<'_, str>>) -> bool {
        let value = labels.get(self.key.as_str());
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            Test::NotIn(values) => !value.is_some_and(|value| values.iter().any(|v| v == value)),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<Field>, Refusal> {
    text.split(',')
        .filter(|term| !term.is_empty())
        .map(|term| parse_field(resource, term))
        .collect()
}

/// Reads `field=value`, `field==value` or `field!=value` (W-FLD-2); a value with an escape in it is taken as written.
fn parse_field(resource: &Resource, term: &str) -> Result<Field, Refusal> {
    let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (path, value, true)
    } else {
        let message = format!("invalid selector: '{term}'; can't understand '{term}'");
        return Err(Refusal::bad_request(message));
    };
    // The core group has another name for an event's subject than the stored form (recording 15).
    let kept = path.replacen("involvedObject.", "regarding.", 1);
    let source = match path {
        "metadata.name" => FieldSource::Name,
        "metadata.namespace" if resource.namespaced => FieldSource::Namespace,
        _ => {
            let row = resource.kept_as();
            let position = row.fields.iter().position(|(label, _)| *label == kept);
            let unsupported = || Refusal::bad_request(format!("field label not supported: {path}"));
            FieldSource::At(position.ok_or_else(unsupported)?)
        }
    };
    Ok(Field { source, value: value.to_owned(), equal })
}

fn parse_labels(text: &str) -> Result<Vec<Label>, Refusal> {
    let mut rest = text.trim();
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, after) = parse_label(rest)?;
        labels.push(label);
        rest = after.trim_start();
        if let Some(next) = rest.strip_prefix(',') {
            rest = next.trim_start();
        } else if !rest.is_empty() {
            return Err(unexpected(rest, "',' or 'end of string'"));
        }
    }
    Ok(labels)
}

/// Parses one requirement; returns it with the rest of the text.
fn parse_label(text: &str) -> Result<(Label, &str), Refusal> {
    let (absent, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let (key, rest) = word(text);
    if key.is_empty() {
        return Err(unexpected(rest, "identifier"));
    }
    let label = |test| Label { key: key.to_owned(), test };
    if absent {
        return Ok((label(Test::Absent), rest));
    }
    let rest = rest.trim_start();
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(rest) = rest.strip_prefix(sign) {
            let (value, rest) = word(rest.trim_start());
            let values = vec![value.to_owned()];
            return Ok((label(if equal { Test::In(values) } else { Test::NotIn(values) }), rest));
        }
    }
    for (sign, above) in [('>', true), ('<', false)] {
        if let Some(rest) = rest.strip_prefix(sign) {
            let (value, rest) = word(rest.trim_start());
            let bound = value.parse().map_err(|_| unexpected(value, "integer"))?;
            return Ok((label(if above { Test::Above(bound) } else { Test::Below(bound) }), rest));
        }
    }
    match word(rest) {
        ("in", rest) => values(rest).map(|(values, rest)| (label(Test::In(values)), rest)),
        ("notin", rest) => values(rest).map(|(values, rest)| (label(Test::NotIn(values)), rest)),
        ("", _) => Ok((label(Test::Exists), rest)),
        (other, _) => Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
    }
}

fn values(text: &str) -> Result<(Vec<String>, &str), Refusal> {
    let text = text.trim_start();
    let Some(inner) = text.strip_prefix('(') else { return Err(unexpected(text, "'('")) };
    let Some((inner, rest)) = inner.split_once(')') else {
        return Err(unexpected("", "',' or ')'"));
    };
    Ok((inner.split(',').map(|value| value.trim().to_owned()).collect(), rest))
}

/// Splits off the leading characters of a key or a value.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || "(),!=<>".contains(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn unexpected(found: &str, expected: &str) -> Refusal {
    let expected = expected.trim_matches('\'');
    let found = word(found).0;
    Refusal::bad_request(format!(
        "unable to parse requirement: found '{found}' expected: '{expected}'"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{NODES, PODS};

    fn selects(resource: &Resource, labels: &str, fields: &str) -> Result<bool, Refusal> {
        let object = json!({
            "metadata": {"name": "p", "namespace": "lab", "labels": {"app": "web", "tier": "3"}},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"},
        });
        let stored = Stored::new(resource, 1, object);
        Ok(Selector::parse(resource, labels, fields)?.selects("lab/p", &stored))
    }

    #[test]
    fn labels_select_by_value_set_presence_and_number() {
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web),!other", true),
            ("app notin (db,web)", false),
            ("other notin (db)", true),
            ("tier>2", true),
            ("tier<3", false),
            ("!app", false),
            ("other", false),
        ] {
            assert_eq!(selects(PODS, selector, "").unwrap(), expected, "{selector}");
        }
    }

    #[test]
    fn fields_select_and_unknown_ones_are_refused() {
        for (selector, expected) in [
            ("spec.nodeName=", false),
            ("spec.nodeName=n1", true),
            ("status.phase!=Succeeded,status.phase!=Failed", true),
            ("metadata.name=p,metadata.namespace=lab", true),
            ("metadata.name==q", false),
            ("spec.hostNetwork=false", true),
        ] {
            assert_eq!(selects(PODS, "", selector).unwrap(), expected, "{selector}");
        }
        let refusal = selects(PODS, "", "spec.hostname=x").unwrap_err();
        assert_eq!(refusal.message, "field label not supported: spec.hostname");
        assert_eq!(selects(NODES, "", "spec.unschedulable=false"), Ok(true));
    }

    #[test]
    fn broken_selectors_are_refused_in_the_servers_words() {
        let refusal = selects(PODS, "a in x", "").unwrap_err();
        let expected = "unable to parse requirement: found 'x' expected: '('";
        assert_eq!((refusal.code, refusal.message.as_str()), (400, expected));
        for broken in ["a in (b", "a b", "=b", "a>x", "a=b c=d"] {
            assert_eq!(selects(PODS, broken, "").unwrap_err().code, 400, "{broken}");
        }
    }
}
