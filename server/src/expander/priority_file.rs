//! The file of the strategy `priority`: the value of the ConfigMap key `priorities`, or the ConfigMap around it.

use std::path::Path;

use super::pattern::Pattern;
use super::priority::Priorities;
use crate::document::decode::{self, Cursor, Fields, Reader};
use crate::document::{self, ConfigError, Document, Value, described_kind};

/// The priorities in a file: the value of the ConfigMap's key `priorities`, or the ConfigMap around it.
///
/// # Errors
/// [`ConfigError`] with file and line.
pub(crate) fn read_priorities(path: &Path) -> Result<Priorities, ConfigError> {
    let (origin, text) = (path.display().to_string(), crate::document::read(path)?);
    let document = crate::document::parse(&origin, &text)?;
    if !is_object(&document) {
        return priorities_of(&origin, &document);
    }
    let reader = Reader::default();
    let inner = reader.root(&document).object(config_map).flatten();
    crate::document::located(&origin, &document, reader.into_problems())?;
    // Lines in there are counted from its own beginning.
    let origin = format!("{origin} (data.priorities)");
    let text = inner.unwrap_or_default();
    priorities_of(&origin, &crate::document::parse(&origin, &text)?)
}

/// Whether this is a Kubernetes object rather than the list itself, whose keys are numbers.
fn is_object(document: &Document) -> bool {
    let Value::Map(entries) = &document.value else { return false };
    entries.iter().any(|entry| ["apiVersion", "kind", "data"].contains(&entry.key.as_str()))
}

fn config_map(fields: &mut Fields<'_>) -> Option<String> {
    let api_version = fields.take_or_default("apiVersion", decode::text);
    let kind = fields.take_or_default("kind", decode::text);
    if (api_version.as_str(), kind.as_str()) != ("v1", "ConfigMap") {
        let got = described_kind(&kind, &api_version);
        fields.object().report(format!("expected `ConfigMap` of `v1`, got {got}"));
        fields.ignore_rest();
        return None;
    }
    fields.ignore(&["metadata", "immutable", "binaryData"]);
    let text = fields.take("data", |data| {
        data.object(|data| {
            let text = data.take("priorities", decode::text);
            data.ignore_rest();
            text
        })
    });
    let text = text.flatten();
    if text.is_none() {
        fields.object().report("has no `data.priorities`");
    }
    text
}

fn priorities_of(origin: &str, document: &Document) -> Result<Priorities, ConfigError> {
    let reader = Reader::default();
    let read = priorities(reader.root(document));
    crate::document::located(origin, document, reader.into_problems())?;
    Ok(read.unwrap_or_default())
}

/// Numbers, and under each a list of patterns.
pub(crate) fn priorities(value: Cursor<'_>) -> Option<Priorities> {
    let levels = value.entries(|key, patterns| {
        let number = key.parse::<i64>();
        if number.is_err() {
            patterns.report(format!("`{key}` is not a whole number"));
        }
        let patterns = patterns.list(pattern)?;
        number.ok().map(|number| (number, patterns))
    })?;
    if levels.is_empty() {
        value.report("names no priority");
        return None;
    }
    Some(Priorities { levels })
}

pub(crate) fn pattern(value: Cursor<'_>) -> Option<Pattern> {
    let text = decode::text(value)?;
    Pattern::new(&text).map_err(|reason| value.report(reason)).ok()
}
