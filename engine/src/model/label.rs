//! Syntax of label keys and values (W-SEL-4). Resource names and selectors follow the same rules.

use std::collections::BTreeMap;

use super::ModelError;
use super::intern::{Interner, Symbol};

const MAX_PREFIX: usize = 253;
const MAX_NAME: usize = 63;

/// Labels of an object, by key symbol.
pub(crate) type Labels = Box<[(Symbol, Symbol)]>;

/// Interns an object's labels, sorted by key symbol; an illegal key or value is an error at `metadata.labels[KEY]`.
pub(crate) fn compile(
    labels: &BTreeMap<String, String>,
    names: &Interner,
) -> Result<Labels, ModelError> {
    let mut compiled = Vec::with_capacity(labels.len());
    for (key, value) in labels {
        check(key, value)?;
        compiled.push((names.intern(key), names.intern(value)));
    }
    compiled.sort_unstable();
    Ok(compiled.into())
}

/// Checks a label; an illegal one is an error at `metadata.labels[KEY]`.
pub(crate) fn check(key: &str, value: &str) -> Result<(), ModelError> {
    if !is_qualified_name(key) {
        return Err(ModelError::new(
            format!("metadata.labels[{}]", clip(key)),
            "is not a legal label key",
        ));
    }
    if !is_label_value(value) {
        let reason = format!("`{}` is not a legal label value", clip(value));
        return Err(ModelError::new(format!("metadata.labels[{key}]"), reason));
    }
    Ok(())
}

/// Whether a key is an optional DNS-subdomain prefix with `/`, then a name of 1 to 63 characters.
pub(crate) fn is_qualified_name(key: &str) -> bool {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if !is_dns_subdomain(prefix) {
                return false;
            }
            name
        }
        None => key,
    };
    !name.is_empty() && is_label_value(name)
}

/// Whether a value has at most 63 characters and is empty, or has `[A-Za-z0-9]` at both ends and also `-_.` inside.
pub(crate) fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.len() <= MAX_NAME
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether a name consists of lower-case words of `[a-z0-9-]` joined by dots, at most 253 characters.
pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    let is_word = |word: &str| {
        let bytes = word.as_bytes();
        let is_end = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(is_end)
            && bytes.last().is_some_and(is_end)
            && bytes.iter().all(|b| is_end(b) || *b == b'-')
    };
    name.len() <= MAX_PREFIX && name.split('.').all(is_word)
}

/// Checks the name of an object.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), ModelError> {
    if name.is_empty() {
        return Err(ModelError::new(field, "is missing"));
    }
    if !is_dns_subdomain(name) {
        return Err(ModelError::new(field, format!("`{}` is not a legal name", clip(name))));
    }
    Ok(())
}

/// The beginning of an external text, to keep error messages short.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for key in ["a", "app", "A.b_c-1", "example.com/x", "a-b.c/Name"] {
            assert!(is_qualified_name(key), "{key}");
        }
        let long = "x".repeat(64);
        for key in [
            "",
            "/",
            "a/",
            "/a",
            "-a",
            "a-",
            "A.com/x",
            "a..b/x",
            "a/b/c",
            "a b",
            "ü",
            long.as_str(),
        ] {
            assert!(!is_qualified_name(key), "{key}");
        }
    }

    #[test]
    fn values() {
        for value in ["", "1", "v1.2_3-x", &"x".repeat(63)] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["-1", "+7", "a/b", " ", "x-", &"x".repeat(64)] {
            assert!(!is_label_value(value), "{value}");
        }
    }

    #[test]
    fn a_huge_label_is_refused_shortly() {
        let labels = BTreeMap::from([("k".to_owned(), "x".repeat(10 << 20))]);
        let error = compile(&labels, &Interner::new()).unwrap_err();
        assert_eq!(error.field, "metadata.labels[k]");
        assert!(error.reason.len() < 200);
    }
}
