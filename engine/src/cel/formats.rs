//! Named formats of strings, with the reasons why a string does not have one (S-DRA-115).

use super::pattern;
use super::time::Timestamp;
use super::url::Url;

/// A format by name.
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    /// The length of a pattern for which the cost of `validate` is counted.
    pub(crate) pattern_length: u64,
    /// Whether a string has the format.
    pub(crate) is_valid: fn(&str) -> bool,
}

const fn format(
    name: &'static str,
    pattern_length: u64,
    is_valid: fn(&str) -> bool,
) -> NamedFormat {
    NamedFormat { name, pattern_length, is_valid }
}

/// All formats.
pub(crate) const FORMATS: &[NamedFormat] = &[
    format("dns1123Label", 30, |text| is_label(text, 63)),
    format("dns1123Subdomain", 60, is_subdomain),
    format("dns1035Label", 30, is_dns1035),
    format("qualifiedName", 60, is_qualified_name),
    format("dns1123LabelPrefix", 30, |text| is_label(&unmasked(text), 63)),
    format("dns1123SubdomainPrefix", 60, |text| is_subdomain(&unmasked(text))),
    format("dns1035LabelPrefix", 30, |text| is_dns1035(&unmasked(text))),
    format("labelValue", 40, is_label_value),
    format("uri", 1000, |text| Url::parse(text).is_some()),
    format("uuid", 1000, is_uuid),
    format("byte", 1000, is_base64),
    format("date", 1000, is_date),
    format("datetime", 1000, |text| Timestamp::parse(text).is_some()),
];

/// The position of a format in the table.
pub(crate) fn find(name: &str) -> Option<usize> {
    FORMATS.iter().position(|format| format.name == name)
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str, max: usize) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= max
        && ends.iter().all(|end| end.is_some_and(|byte| is_lower_alphanumeric(*byte)))
        && bytes.iter().all(|byte| is_lower_alphanumeric(*byte) || *byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| is_label(label, usize::MAX))
}

fn is_dns1035(text: &str) -> bool {
    is_label(text, 63) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The name that a prefix is checked as: a trailing dash is hidden.
fn unmasked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(before) if !before.is_empty() => format!("{before}a"),
        _ => text.to_owned(),
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_uuid(text: &str) -> bool {
    pattern::compile("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
        .is_ok_and(|uuid| uuid.is_match(text))
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}
