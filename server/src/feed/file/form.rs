//! Tells JSON from YAML, whose flow style looks like JSON.

use std::sync::Arc;

use serde::de::IgnoredAny;

use super::source::Source;
use super::yaml;
use crate::feed::FeedError;

/// Number of bytes that are read before the form is told: enough for what people write by hand.
const HEAD_BYTES: usize = 1 << 20;

/// The beginning of a source.
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
    /// Whether this is all of it.
    is_whole: bool,
}

/// Reads the beginning of a source, beyond leading white space.
pub(super) fn head(source: &mut Source<'_>) -> Result<Head, FeedError> {
    let mut bytes = Vec::new();
    loop {
        if source.read_some(&mut bytes, HEAD_BYTES)? < HEAD_BYTES {
            return Ok(Head { bytes, is_whole: true });
        }
        if !bytes.trim_ascii_start().is_empty() {
            return Ok(Head { bytes, is_whole: false });
        }
    }
}

/// Whether a source is to be read as JSON: it begins like JSON and, if it is small enough to be looked at as a whole,
/// is JSON or else not YAML either, so that its author is told what is wrong with the JSON.
pub(super) fn is_json(path: &Arc<str>, head: &Head) -> bool {
    let text = head.bytes.trim_ascii_start();
    match begins_like_json(text) {
        Some(true) if head.is_whole => match str::from_utf8(text) {
            Ok(text) => are_values(text) || yaml::items(path, text).is_err(),
            Err(_) => true,
        },
        Some(true) => true,
        Some(false) | None => false,
    }
}

/// Whether a text that begins like JSON goes on like JSON: an object has a key in quotes, or none. `None` if the text
/// does not begin like JSON.
pub(super) fn begins_like_json(text: &[u8]) -> Option<bool> {
    match text.split_first()? {
        (b'{', rest) => {
            Some(matches!(rest.trim_ascii_start().first(), None | Some(b'"' | b'}' | b'{' | b'[')))
        }
        (b'[', _) => Some(true),
        _ => None,
    }
}

/// Whether the text is JSON values, one after another.
fn are_values(text: &str) -> bool {
    let values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.into_iter().all(|value| value.is_ok())
}
