//! Counts and latencies of the calls of one phase; those of several callers add up.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_client::code_name;
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::Code;

use crate::load::tally::histogram;

/// The times at which a call was due, first sent, last sent, and answered.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Time when the call was due.
    pub intended: Instant,
    /// Time when its first attempt was sent.
    pub sent: Instant,
    /// Time when its last attempt was sent.
    pub last_sent: Instant,
    /// Time when the last attempt was answered.
    pub answered: Instant,
}

/// Latencies in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// From the time a call was due to its last response.
    pub from_intended: Histogram<u64>,
    /// From the sending of the last attempt to its response.
    pub from_sending: Histogram<u64>,
}

impl Latencies {
    fn new() -> Self {
        Self { from_intended: histogram(), from_sending: histogram() }
    }

    fn record(&mut self, times: Times) {
        record(&mut self.from_intended, times.answered - times.intended);
        record(&mut self.from_sending, times.answered - times.last_sent);
    }

    fn add(&mut self, other: &Self) {
        // Adding fails only between histograms that may not grow; these grow.
        self.from_intended.add(&other.from_intended).ok();
        self.from_sending.add(&other.from_sending).ok();
    }
}

/// Counts of the calls that were due within one second of a run.
#[derive(Debug, Clone)]
pub struct Second {
    /// Calls that were due, those that were not sent included.
    pub n_offered: u64,
    /// Calls that the server accepted.
    pub n_accepted: u64,
    /// Calls that the server refused with RESOURCE_EXHAUSTED.
    pub n_refused: u64,
    /// Time from the intended start of an accepted call to its response, in nanoseconds to two digits.
    pub accepted: Histogram<u64>,
}

#[expect(clippy::expect_used, reason = "the precision is a constant that hdrhistogram accepts")]
fn empty_second() -> Second {
    let accepted = Histogram::new(2).expect("two digits are a valid precision");
    Second { n_offered: 0, n_accepted: 0, n_refused: 0, accepted }
}

/// Counts and times of some calls.
#[derive(Debug, Clone)]
pub struct CallStats {
    origin: Instant,
    /// Calls that were due.
    pub n_offered: u64,
    /// Calls not sent because the limit of calls in flight was reached.
    pub n_not_sent: u64,
    /// Answered calls by the name of the status code.
    pub by_code: BTreeMap<&'static str, u64>,
    /// The first message of each code but `OK`.
    pub examples: BTreeMap<&'static str, String>,
    /// Attempts beyond each call's first.
    pub n_retries: u64,
    /// Retry delays that refusals named, in nanoseconds.
    pub retry_after: Histogram<u64>,
    /// Calls that the server accepted.
    pub accepted: Latencies,
    /// Calls that the server refused with RESOURCE_EXHAUSTED.
    pub refused: Latencies,
    /// Delay of the generator: from the time a call was due to its first sending, in nanoseconds.
    pub lag: Histogram<u64>,
    seconds: Vec<Second>,
}

impl CallStats {
    /// Empty statistics whose seconds count from `origin`.
    pub fn new(origin: Instant) -> Self {
        Self {
            origin,
            n_offered: 0,
            n_not_sent: 0,
            by_code: BTreeMap::new(),
            examples: BTreeMap::new(),
            n_retries: 0,
            retry_after: histogram(),
            accepted: Latencies::new(),
            refused: Latencies::new(),
            lag: histogram(),
            seconds: Vec::new(),
        }
    }

    /// Counts a call that was due and not sent.
    pub fn not_sent(&mut self, intended: Instant) {
        self.n_not_sent += 1;
        self.offered(intended);
    }

    /// Counts a call that was answered.
    pub fn answered(&mut self, times: Times, code: Code, message: &str) {
        self.offered(times.intended);
        record(&mut self.lag, times.sent - times.intended);
        let name = code_name(code);
        *self.by_code.entry(name).or_default() += 1;
        if code != Code::Ok && !self.examples.contains_key(name) {
            self.examples.insert(name, message.to_owned());
        }
        match code {
            Code::Ok => {
                self.accepted.record(times);
                let second = self.second(times.intended);
                second.n_accepted += 1;
                record(&mut second.accepted, times.answered - times.intended);
            }
            Code::ResourceExhausted => {
                self.refused.record(times);
                self.second(times.intended).n_refused += 1;
            }
            _ => {}
        }
    }

    /// Records the retry delay of a refusal.
    pub fn retry_after(&mut self, delay: Duration) {
        record(&mut self.retry_after, delay);
    }

    fn offered(&mut self, intended: Instant) {
        self.n_offered += 1;
        self.second(intended).n_offered += 1;
    }

    fn second(&mut self, at: Instant) -> &mut Second {
        // The seconds of a run fit in memory.
        let number = at.saturating_duration_since(self.origin).as_secs() as usize;
        if number >= self.seconds.len() {
            self.seconds.resize_with(number + 1, empty_second);
        }
        &mut self.seconds[number]
    }

    /// Number of calls answered with `code`.
    pub fn count(&self, code: Code) -> u64 {
        self.by_code.get(code_name(code)).copied().unwrap_or(0)
    }

    /// The counts of each second since the origin.
    pub fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    /// Adds statistics with the same origin.
    pub fn add(&mut self, other: &Self) {
        self.n_offered += other.n_offered;
        self.n_not_sent += other.n_not_sent;
        self.n_retries += other.n_retries;
        for (code, n) in &other.by_code {
            *self.by_code.entry(code).or_default() += n;
        }
        for (code, example) in &other.examples {
            self.examples.entry(code).or_insert_with(|| example.clone());
        }
        self.retry_after.add(&other.retry_after).ok();
        self.accepted.add(&other.accepted);
        self.refused.add(&other.refused);
        self.lag.add(&other.lag).ok();
        self.seconds = add_seconds(std::mem::take(&mut self.seconds), &other.seconds);
    }
}

/// Adds the counts of each second of `more`.
pub fn add_seconds(mut seconds: Vec<Second>, more: &[Second]) -> Vec<Second> {
    if seconds.len() < more.len() {
        seconds.resize_with(more.len(), empty_second);
    }
    for (own, other) in seconds.iter_mut().zip(more) {
        own.n_offered += other.n_offered;
        own.n_accepted += other.n_accepted;
        own.n_refused += other.n_refused;
        own.accepted.add(&other.accepted).ok();
    }
    seconds
}

/// Records a time; more than an hour counts as an hour.
fn record(histogram: &mut Histogram<u64>, time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // The histogram grows as needed and can index an hour.
    histogram.record(nanoseconds.clamp(1, 3_600_000_000_000)).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(origin: Instant, due_ms: u64, waits_ms: u64, takes_ms: u64) -> Times {
        let intended = origin + Duration::from_millis(due_ms);
        let sent = intended + Duration::from_millis(waits_ms);
        Times { intended, sent, last_sent: sent, answered: sent + Duration::from_millis(takes_ms) }
    }

    #[test]
    fn stats_add_up_by_code_and_by_second() {
        let origin = Instant::now();
        let (mut one, mut other) = (CallStats::new(origin), CallStats::new(origin));
        one.answered(times(origin, 100, 5, 20), Code::Ok, "");
        other.answered(times(origin, 1_200, 1, 2), Code::ResourceExhausted, "full");
        other.retry_after(Duration::from_millis(50));
        other.answered(times(origin, 1_300, 0, 9), Code::DeadlineExceeded, "late");
        other.not_sent(origin + Duration::from_millis(1_900));
        one.add(&other);
        assert_eq!((one.n_offered, one.n_not_sent), (4, 1));
        let counts = [Code::Ok, Code::ResourceExhausted, Code::DeadlineExceeded, Code::Internal];
        assert_eq!(counts.map(|code| one.count(code)), [1, 1, 1, 0]);
        assert_eq!(one.examples["RESOURCE_EXHAUSTED"], "full");
        let by_second: Vec<_> = one
            .seconds()
            .iter()
            .map(|second| (second.n_offered, second.n_accepted, second.n_refused))
            .collect();
        assert_eq!(by_second, [(1, 1, 0), (3, 0, 1)]);
        // Only accepted and refused calls have latencies.
        assert_eq!((one.accepted.from_intended.len(), one.refused.from_intended.len()), (1, 1));
        assert_eq!((one.lag.len(), one.retry_after.len()), (3, 1));
        let ms = |histogram: &Histogram<u64>| histogram.max() / 1_000_000;
        assert_eq!((ms(&one.accepted.from_intended), ms(&one.accepted.from_sending)), (25, 20));
    }
}
