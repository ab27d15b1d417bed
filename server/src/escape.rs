//! Makes text from outside safe to show: it can neither control a terminal nor begin a log line of its own.

use std::borrow::Cow;

/// Escapes every character of `text` that would move the cursor or turn the writing direction, as in `\n` or `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string())
}

/// Escapes like [`printable`], for text whose line breaks are its own.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| if c == '\n' { "\n".to_owned() } else { c.escape_default().to_string() })
}

/// Number of bytes that [`clipped`] keeps of a long text: its beginning, and its end, which has the reason.
const KEPT_HEAD: usize = 700;
const KEPT_TAIL: usize = 200;

/// Cuts the middle of a long text: an error quotes what was sent, which may be megabytes.
pub fn clipped(text: &str) -> Cow<'_, str> {
    if text.len() <= KEPT_HEAD + KEPT_TAIL {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(KEPT_HEAD)];
    let tail = &text[text.ceil_char_boundary(text.len() - KEPT_TAIL)..];
    Cow::Owned(format!("{head}…{tail}"))
}

/// Maximum number of characters of one quoted name or value in an error.
const MAX_QUOTED_CHARS: usize = 200;
/// Maximum number of bytes of an error's text: a status travels in headers, and a caller's transport refuses headers of
/// more than a few kilobytes.
const MAX_TEXT_BYTES: usize = 1_000;

/// Prepares `text` for an error: quotations in backticks are clipped, and control characters are escaped.
pub(crate) fn presentable(text: &str) -> String {
    let mut parts = text.split('`').enumerate();
    let mut out = String::with_capacity(text.len().min(MAX_TEXT_BYTES));
    if let Some((_, first)) = parts.next() {
        out.push_str(first);
    }
    for (index, part) in parts {
        out.push('`');
        // Every second part is between backticks.
        out.push_str(&if index % 2 == 1 { clip(part) } else { Cow::Borrowed(part) });
    }
    let mut out = printable(&out).into_owned();
    if out.len() > MAX_TEXT_BYTES {
        out.truncate(out.floor_char_boundary(MAX_TEXT_BYTES));
        out.push('…');
    }
    out
}

/// The first [`MAX_QUOTED_CHARS`] characters, with an ellipsis if more follow.
fn clip(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// A field path in printable form, since paths may contain keys from outside.
pub(crate) fn presentable_path(field: &str) -> String {
    printable(&clip(field)).into_owned()
}

/// Escapes JSON text, in whose strings alone such characters occur, as in `\u009b`; its own line breaks stay.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| match c {
        '\n' => "\n".to_owned(),
        c => format!("\\u{:04x}", u32::from(c)),
    })
}

/// Replaces every character of `text` that [`steers`] with the result of `escape`.
pub(crate) fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) { out.push_str(&escape(c)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Whether a character controls a terminal or the layout: control characters of both sets, line separators, and
/// overrides of the writing direction.
pub(crate) fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends() {
        let short = "x".repeat(900);
        assert!(matches!(clipped(&short), Cow::Borrowed(_)));
        let long = format!("a{}b", "ж".repeat(1 << 20));
        let kept = clipped(&long);
        assert!(kept.starts_with("aж") && kept.ends_with("жb") && kept.contains("ж…ж"));
        assert!(kept.len() < 910, "{}", kept.len());
    }

    #[test]
    fn control_characters_are_written_out() {
        assert!(matches!(printable("plain ж 日本"), Cow::Borrowed(_)));
        assert_eq!(printable("a\n\u{1b}[31m\u{202e}b\t"), "a\\n\\u{1b}[31m\\u{202e}b\\t");
    }
}
