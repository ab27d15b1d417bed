//! The table of the strategy `priority`: patterns by number, in the configuration or in a file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::pattern::Pattern;
use crate::document::decode::{self, Cursor, Fields, Reader};
use crate::document::{ConfigError, Document, Value, described_kind};

/// Patterns by their priority; the order of levels is irrelevant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Priorities {
    /// Levels, at least one, each number once.
    pub levels: Vec<(i64, Vec<Pattern>)>,
}

/// Source of the priorities.
#[derive(Clone, Debug, PartialEq)]
pub enum PrioritySource {
    /// Priorities in the configuration.
    Inline(Priorities),
    /// A file that is read for every request: the ConfigMap as it is applied, or its key `priorities` as a volume holds
    /// it.
    File(PathBuf),
}

impl PrioritySource {
    /// Reads the current priorities.
    ///
    /// # Errors
    /// [`ConfigError`] with the line of the error in the file.
    pub fn read(&self) -> Result<Cow<'_, Priorities>, ConfigError> {
        match self {
            PrioritySource::Inline(priorities) => Ok(Cow::Borrowed(priorities)),
            PrioritySource::File(path) => read_priorities(path).map(Cow::Owned),
        }
    }
}

/// Reads the priorities in a file: the value of the ConfigMap's key `priorities`, or the ConfigMap around it.
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
    // Line numbers of the inner document count from its own beginning.
    let origin = format!("{origin} (data.priorities)");
    let text = inner.unwrap_or_default();
    priorities_of(&origin, &crate::document::parse(&origin, &text)?)
}

/// Whether the document is a Kubernetes object rather than the list itself, whose keys are numbers.
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

/// Reads a list of patterns for each priority.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_priorities_may_be_the_configmap_or_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("priorities.yaml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_priorities(&path).map_err(|error| error.to_string())
        };
        let config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cluster-autoscaler-priority-expander}\ndata:\n  priorities: |-\n    10:\n      - .*t2.*\n    50:\n      - .*m4.*\n";
        let plain = "10:\n  - .*t2.*\n50:\n  - .*m4.*\n";
        assert_eq!(read(config_map).unwrap(), read(plain).unwrap());
        assert_eq!(read(plain).unwrap().levels.len(), 2);
        for (text, expected) in [
            ("", "the document is empty"),
            ("10: [a]\n10: [b]\n", "line 2: `10` is given twice"),
            ("10: ['(']", "line 1: `10[0]`: `(` is not a regular expression"),
            (
                "kind: Secret\napiVersion: v1\n",
                "expected `ConfigMap` of `v1`, got `Secret` of `v1`",
            ),
            ("kind: ConfigMap\napiVersion: v1\n", "has no `data.priorities`"),
            (
                "kind: ConfigMap\napiVersion: v1\ndata:\n  priorities: |\n    1: [a]\n    x: [b]\n",
                "(data.priorities)` line 2: `x`",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
