//! Names that Kubernetes accepts: label keys and extended resources (W-SEL-4, S-FIT-6).

/// Checks a label key or resource name: an optional DNS subdomain and `/`, then 1 to 63 characters.
pub(crate) fn qualified_name(text: &str) -> Result<(), String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        dns_subdomain(prefix).map_err(|reason| format!("`{text}`: prefix part {reason}"))?;
    }
    let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: char| c.is_ascii_alphanumeric();
    if name.is_empty() || name.len() > 63 || !name.chars().all(inside) {
        return Err(format!(
            "`{text}`: name part must be 1 to 63 letters, digits, `-`, `_` or `.`"
        ));
    }
    if !name.starts_with(ends) || !name.ends_with(ends) {
        return Err(format!("`{text}`: name part must start and end with a letter or digit"));
    }
    Ok(())
}

/// Checks an extended resource (S-FIT-6): a qualified name with a domain that is not Kubernetes' own, and that is still
/// qualified after the prefix `requests.`.
pub(super) fn extended_resource_name(text: &str) -> Result<(), String> {
    qualified_name(text)?;
    if !text.contains('/') || text.contains("kubernetes.io/") {
        return Err(format!(
            "`{text}` is not an extended resource: a domain other than kubernetes.io is needed"
        ));
    }
    if text.starts_with("requests.") {
        return Err(format!(
            "`{text}` is not an extended resource: it must not start with `requests.`"
        ));
    }
    qualified_name(&format!("requests.{text}"))
}

pub(crate) fn dns_subdomain(text: &str) -> Result<(), String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if text.len() <= 253 && text.split('.').all(label) {
        Ok(())
    } else {
        Err("must be a lower-case DNS subdomain of at most 253 characters".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names() {
        for name in ["a", "A-b_c.9", "example.com/gpu", "x.y/Z"] {
            assert_eq!(qualified_name(name), Ok(()), "{name}");
        }
        for name in
            ["", "-a", "a-", "a b", "/a", "a/", "Ex.com/a", "a/b/c", &"a".repeat(64), "a..b/c"]
        {
            assert!(qualified_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn extended_resources() {
        assert_eq!(extended_resource_name("example.com/gpu"), Ok(()));
        let long = format!("{}/x", ["a".repeat(61).as_str(); 4].join("."));
        for name in
            ["cpu", "kubernetes.io/x", "node.kubernetes.io/x", "requests.example.com/x", &long]
        {
            assert!(extended_resource_name(name).is_err(), "{name}");
        }
    }
}
