//! Semantic versions: parsing and order (S-DRA-117).

use std::cmp::Ordering;

/// A semantic version without its build metadata, which no comparison reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pre_release: Vec<Identifier>,
}

/// A part of a pre-release; numbers sort before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(Box<str>),
}

impl Semver {
    /// Reads a version strictly by semver 2.0.
    pub(crate) fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = split_at(rest, '+');
        let (patch, pre_release) = split_at(rest, '-');
        let version = Semver {
            major: number(major, "major")?,
            minor: number(minor, "minor")?,
            patch: number(patch, "patch")?,
            pre_release: pre_release
                .map(|text| text.split('.').map(identifier).collect())
                .transpose()?
                .unwrap_or_default(),
        };
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_word_byte);
        if build.is_some_and(|build| !build.split('.').all(is_part)) {
            return Err("Invalid character(s) found in build meta data".to_owned());
        }
        Ok(version)
    }

    /// Reads a version after dropping a leading `v` and leading zeros, and adding what is missing.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
        Semver::parse(&parts.join("."))
    }

    pub(crate) fn compare(&self, other: &Semver) -> Ordering {
        let numbers = |version: &Semver| (version.major, version.minor, version.patch);
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| self.pre_release.is_empty().cmp(&other.pre_release.is_empty()))
            .then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

fn split_at(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    let zero = if trimmed.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    format!("{zero}{trimmed}")
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("invalid {name} number {text:?}"))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text, "prerelease").map(Identifier::Number);
    }
    if text.bytes().all(is_word_byte) {
        return Ok(Identifier::Word(text.into()));
    }
    Err(format!("Invalid character(s) found in prerelease {text:?}"))
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::Semver;

    /// S-DRA-117: order by semver 2.0, build metadata ignored.
    #[test]
    fn versions_are_ordered() {
        let texts =
            ["1.0.0-1", "1.0.0-2", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0+b", "1.2.0", "1.10.0"];
        let versions: Vec<Semver> = texts.iter().map(|text| Semver::parse(text).unwrap()).collect();
        assert!(versions.windows(2).all(|pair| pair[0].compare(&pair[1]).is_lt()));
        for broken in ["", "1.2", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", "1..0"] {
            assert!(Semver::parse(broken).is_err(), "{broken}");
        }
        let tolerant = Semver::parse_tolerant("v01.02").unwrap();
        assert_eq!(tolerant, Semver::parse("1.2.0").unwrap());
        assert!(Semver::parse_tolerant("1.2-rc").is_err());
    }
}
