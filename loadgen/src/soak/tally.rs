//! Counts of a soak: completed work, failures and differences. Memory is bounded: texts are limited in number and
//! length.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Limit of the differences that are kept as text; further ones are only counted.
const MAX_DIFFERENCES: usize = 50;
/// Limit of the different messages that are kept for a method and code.
const MAX_MESSAGES: usize = 5;
/// Limit of the length of a kept text, in characters.
const MAX_CHARS: usize = 400;

/// Counts of completed work by its name.
pub type Done = BTreeMap<&'static str, u64>;

/// Failed calls of one method with one code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// Number of failures.
    pub n: u64,
    /// Failures by message, for the messages that came first.
    pub messages: BTreeMap<String, u64>,
}

/// Differences between the server and its own responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Number of differences.
    pub n: u64,
    /// Texts of the first differences.
    pub first: Vec<String>,
}

/// Times of the answered calls of one method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Median in microseconds.
    pub p50_us: u64,
    /// 99 of 100 calls took no longer, in microseconds.
    pub p99_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
}

/// All counts of a soak.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) done: Done,
    /// Failures by method and code.
    pub(super) errors: BTreeMap<String, Failures>,
    pub(super) differences: Differences,
    times: BTreeMap<&'static str, Histogram<u64>>,
}

#[expect(clippy::expect_used, reason = "the precision is a constant that hdrhistogram accepts")]
fn no_times() -> Histogram<u64> {
    Histogram::new(2).expect("two digits are a valid precision")
}

impl Tally {
    /// Records the time of an answered call.
    pub(super) fn took(&mut self, method: &'static str, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // It grows by itself, so that every time has a place.
        self.times.entry(method).or_insert_with(no_times).record(time_us).unwrap_or_default();
    }

    /// Times by method.
    pub(super) fn latencies(&self) -> BTreeMap<&'static str, Latency> {
        let latency = |times: &Histogram<u64>| Latency {
            p50_us: times.value_at_quantile(0.5),
            p99_us: times.value_at_quantile(0.99),
            max_us: times.max(),
        };
        self.times.iter().map(|(method, times)| (*method, latency(times))).collect()
    }

    pub(super) fn count(&mut self, what: &'static str, n: u64) {
        *self.done.entry(what).or_default() += n;
    }

    pub(super) fn failed(&mut self, method: &str, code: &str, message: &str) {
        let failures = self.errors.entry(format!("{method} {code}")).or_default();
        failures.n += 1;
        let message = sanitized(message);
        if failures.messages.len() < MAX_MESSAGES || failures.messages.contains_key(&message) {
            *failures.messages.entry(message).or_default() += 1;
        }
    }

    pub(super) fn differs(&mut self, what: &str) {
        self.differences.n += 1;
        if self.differences.first.len() < MAX_DIFFERENCES {
            self.differences.first.push(sanitized(what));
        }
    }
}

/// Shortens a text of the server and replaces its control characters, which could steer a terminal.
fn sanitized(text: &str) -> String {
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(MAX_CHARS).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_texts_are_limited() {
        let mut tally = Tally::default();
        for n in 0..200 {
            tally.differs(&format!("{n}{}", "x".repeat(1_000)));
            tally.failed("Place", "UNAVAILABLE", &format!("\u{1b}[2J{}", n % 20));
        }
        assert_eq!((tally.differences.n, tally.differences.first.len()), (200, MAX_DIFFERENCES));
        assert!(tally.differences.first.iter().all(|text| text.chars().count() == MAX_CHARS));
        let failures = &tally.errors["Place UNAVAILABLE"];
        assert_eq!((failures.n, failures.messages.len()), (200, MAX_MESSAGES));
        assert_eq!(failures.messages["\u{fffd}[2J0"], 10);
    }
}
