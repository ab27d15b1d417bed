//! Regular expressions that are searched for in the ids of node groups.

use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled expression: more than any sensible one takes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// A compiled regular expression; equal if its text is.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles `text`, which matches anywhere in an id unless it is anchored.
    ///
    /// # Errors
    /// The error in the expression, in one line.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let compiled = RegexBuilder::new(text).size_limit(MAX_COMPILED_BYTES).build();
        compiled.map(Pattern).map_err(|error| {
            let shown = error.to_string();
            let last = shown.lines().last().unwrap_or_default().trim();
            let reason = last.strip_prefix("error: ").unwrap_or(last);
            format!("`{text}` is not a regular expression: {reason}")
        })
    }

    /// Whether some part of `id` matches.
    #[must_use]
    pub fn is_found_in(&self, id: &str) -> bool {
        self.0.is_match(id)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_searched_for_and_bad_ones_explained() {
        let pattern = Pattern::new("t2\\..*").unwrap();
        assert!(pattern.is_found_in("my-t2.large-group") && !pattern.is_found_in("t2large"));
        assert!(!Pattern::new("^t2").unwrap().is_found_in("my-t2"));
        let error = Pattern::new("a(b").unwrap_err();
        assert_eq!(error, "`a(b` is not a regular expression: unclosed group");
        assert!(Pattern::new("((a{1000}){1000}){1000}").is_err());
    }
}
