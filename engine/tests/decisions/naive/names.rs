//! Valid names, and resources that are tracked. Rules: W-SEL-4, S-FIT-6.

/// Whether the resource is tracked at all (S-FIT-6).
pub(crate) fn is_tracked(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_scalar(name)
}

/// Whether the resource is a scalar one: an extended resource or one of three more families (S-FIT-6).
pub(crate) fn is_scalar(name: &str) -> bool {
    is_extended(name)
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

/// Whether the resource is an extended one (S-FIT-6).
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && is_label_key(&format!("requests.{name}"))
}

/// W-SEL-4
pub(crate) fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// W-SEL-4
pub(crate) fn is_label_value(value: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && value.chars().all(is_inside)
        && is_end(value.chars().next())
        && is_end(value.chars().last())
}

fn is_dns_subdomain(prefix: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    prefix.len() <= 253
        && prefix.split('.').all(|word| {
            word.chars().all(is_inside)
                && is_end(word.chars().next())
                && is_end(word.chars().last())
        })
}
