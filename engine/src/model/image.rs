//! Container images by normalised name. Rule: S-IL-1.

use std::borrow::Cow;

/// The name with `:latest` appended where it has no tag: no `:` after the last `/`. Digests are kept.
pub(crate) fn normalized(name: &str) -> Cow<'_, str> {
    let after_slash = name.rfind('/').map_or(0, |at| at + 1);
    if name[after_slash..].contains(':') {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("{name}:latest"))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn tags() {
        for (name, expected) in [
            ("nginx", "nginx:latest"),
            ("nginx:1", "nginx:1"),
            ("host:5000/nginx", "host:5000/nginx:latest"),
            ("host:5000/nginx:1", "host:5000/nginx:1"),
            ("a/b@sha256:00", "a/b@sha256:00"),
            ("", ":latest"),
        ] {
            assert_eq!(super::normalized(name), expected);
        }
    }
}
