//! What was done, what failed, what was found wrong. Bounded, whatever happens.

use std::collections::BTreeMap;

use serde::Serialize;

/// Differences that are kept in words; the rest is counted.
const MAX_DIFFERENCES: usize = 50;
/// Longest text that is kept of one.
const MAX_CHARS: usize = 400;

/// How often each thing was done, by its name.
pub type Done = BTreeMap<&'static str, u64>;

/// Calls that failed in the same way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// How many.
    pub n: u64,
    /// What the first one said.
    pub first: String,
}

/// What the server or the recount was wrong about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// How many.
    pub n: u64,
    /// The first of them.
    pub first: Vec<String>,
}

/// Everything that a soak counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) done: Done,
    /// By method and code.
    pub(super) errors: BTreeMap<String, Failures>,
    pub(super) differences: Differences,
}

impl Tally {
    pub(super) fn count(&mut self, what: &'static str, n: u64) {
        *self.done.entry(what).or_default() += n;
    }

    pub(super) fn failed(&mut self, method: &str, code: &str, message: &str) {
        let failures = self.errors.entry(format!("{method} {code}")).or_default();
        failures.n += 1;
        if failures.first.is_empty() {
            failures.first = cut(message);
        }
    }

    pub(super) fn differs(&mut self, what: &str) {
        self.differences.n += 1;
        if self.differences.first.len() < MAX_DIFFERENCES {
            self.differences.first.push(cut(what));
        }
    }
}

/// What a server says may be anything: short, and nothing that steers a terminal.
fn cut(text: &str) -> String {
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(MAX_CHARS).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut tally = Tally::default();
        for n in 0..200 {
            tally.differs(&format!("{n}{}", "x".repeat(1_000)));
            tally.failed("Place", "UNAVAILABLE", &format!("\u{1b}[2J{n}"));
        }
        assert_eq!((tally.differences.n, tally.differences.first.len()), (200, MAX_DIFFERENCES));
        assert!(tally.differences.first.iter().all(|text| text.chars().count() == MAX_CHARS));
        let failures = &tally.errors["Place UNAVAILABLE"];
        assert_eq!((failures.n, failures.first.as_str()), (200, "\u{fffd}[2J0"));
    }
}
