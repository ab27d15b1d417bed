//! Words for numbers in messages.

use indicatif::HumanCount;

/// Formats a count with a noun: `1 node`, `2 nodes`, `12,345 nodes`.
pub(crate) fn count(n: impl TryInto<u64>, noun: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(n))
}

/// Formats a number with its digits in groups of three: `12,345`.
pub(crate) fn grouped(n: impl TryInto<u64>) -> String {
    HumanCount(n.try_into().unwrap_or(u64::MAX)).to_string()
}

/// The message of an error, and those of what caused it.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(count(0, "pod"), "0 pods");
        assert_eq!(count(1, "pod"), "1 pod");
        assert_eq!(count(12_345, "pod"), "12,345 pods");
        assert_eq!(grouped(1_000), "1,000");
    }
}
