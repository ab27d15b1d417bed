//! Counts and times of the requests of one caller; tallies add up.

use berth_client::code::Effect;
use berth_client::outcome::Outcomes;
use berth_proto::berth_v1::{PlaceResult, PodKey};
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::timeline::Timeline;

/// Counts and times of some of a run's requests. Times are in nanoseconds, to three digits.
#[derive(Debug, Clone)]
pub struct Tally {
    keep_assumed: bool,
    /// Counts of the responses.
    pub outcomes: Outcomes,
    /// Pods and latencies over the time since the start.
    pub timeline: Timeline,
    /// Times from the intended start of a request to its response. Requests that failed with UNAVAILABLE have none.
    pub latency: Histogram<u64>,
    /// Times from the sending of a request to its response.
    pub service_time: Histogram<u64>,
    /// Pods that the server assumed; collected only if the tally keeps them.
    pub assumed: Vec<PodKey>,
    /// Pods that the server may have assumed, because their request failed with an unknown effect; collected only if
    /// the tally keeps assumed pods.
    pub unanswered: Vec<PodKey>,
}

/// The times of one request.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Time when the request was due.
    pub intended: Instant,
    /// Time when the request was sent.
    pub sent: Instant,
    /// Time when its response was received.
    pub answered: Instant,
}

impl Tally {
    /// An empty tally of a run that began at `start`.
    pub fn new(start: Instant, keep_assumed: bool) -> Self {
        Self {
            keep_assumed,
            outcomes: Outcomes::default(),
            timeline: Timeline::new(start),
            latency: histogram(),
            service_time: histogram(),
            assumed: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    /// Counts the response to a request of `n_pods` pods, and says whether its effect is known.
    pub fn record(
        &mut self,
        times: Times,
        n_pods: u64,
        response: Result<Vec<PlaceResult>, Status>,
    ) -> Effect {
        let Times { intended, sent, answered } = times;
        let code = response.as_ref().map_or_else(Status::code, |_| Code::Ok);
        if code != Code::Unavailable {
            record(&mut self.latency, intended, answered);
            record(&mut self.service_time, sent, answered);
        }
        let n_before = self.outcomes.n_pods;
        let (keep_assumed, assumed) = (self.keep_assumed, &mut self.assumed);
        self.outcomes.record(n_pods, response, |key| {
            if keep_assumed {
                assumed.push(key);
            }
        });
        let n_decided = self.outcomes.n_pods - n_before;
        let latency = answered.saturating_duration_since(intended);
        let latency = (code != Code::Unavailable).then_some(latency);
        if latency.is_some() {
            self.timeline.record(answered, n_decided, latency);
        }
        Effect::of(code)
    }

    /// Keeps the pods of a request with an unknown effect, if the tally keeps assumed pods.
    pub fn keep_unanswered(&mut self, pods: impl FnOnce() -> Vec<PodKey>) {
        if self.keep_assumed {
            self.unanswered.extend(pods());
        }
    }

    /// Adds the counts and times of another caller.
    pub fn merge(&mut self, other: Tally) {
        self.outcomes.merge(other.outcomes);
        self.timeline.merge(other.timeline);
        // Adding fails only between histograms of different precision that may not grow; these grow.
        self.latency.add(other.latency).ok();
        self.service_time.add(other.service_time).ok();
        self.assumed.extend(other.assumed);
        self.unanswered.extend(other.unanswered);
    }
}

/// The longest recorded time, an hour; a longer time counts as an hour.
pub(super) const MAX_NANOSECONDS: u64 = 3_600_000_000_000;

/// An empty histogram with three significant digits that grows as needed.
#[expect(clippy::expect_used, reason = "the precision is a constant that hdrhistogram accepts")]
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are a valid precision")
}

fn record(histogram: &mut Histogram<u64>, from: Instant, to: Instant) {
    let nanoseconds =
        u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(MAX_NANOSECONDS);
    // A growing histogram refuses only values that it cannot index; it can index an hour.
    histogram.record(nanoseconds.clamp(1, MAX_NANOSECONDS)).ok();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_client::code::Effect;
    use berth_proto::berth_v1::{Decision, PlaceResult, Placement, PodKey, decision, place_result};
    use tokio::time::Instant;
    use tonic::Status;

    use super::{Tally, Times};

    fn assumed(name: &str) -> PlaceResult {
        let pod = Some(PodKey { name: name.to_owned(), ..PodKey::default() });
        let placement = Placement { assumed: true, ..Placement::default() };
        let outcome = Some(decision::Outcome::Placement(placement));
        let decision = Decision { pod, generation: 1, outcome };
        PlaceResult { result: Some(place_result::Result::Decision(decision)) }
    }

    #[tokio::test(start_paused = true)]
    async fn tallies_add_up_pods_times_and_assumed_pods() {
        let start = Instant::now();
        let mut tally = Tally::new(start, true);
        tokio::time::advance(Duration::from_millis(20)).await;
        let sent = start + Duration::from_millis(15);
        let since = |intended, sent| Times { intended, sent, answered: Instant::now() };
        let effect = tally.record(since(start, sent), 2, Ok(vec![assumed("a"), assumed("b")]));
        assert_eq!(effect, Effect::Known);
        tokio::time::advance(Duration::from_millis(2000)).await;
        let effect = tally.record(since(sent, sent), 2, Err(Status::unavailable("gone")));
        assert_eq!(effect, Effect::Unknown);
        tally.keep_unanswered(|| vec![PodKey::default()]);

        let mut other = Tally::new(start, false);
        other.record(since(start, start), 1, Ok(vec![assumed("c")]));
        other.keep_unanswered(|| vec![PodKey::default()]);
        other.merge(tally);

        assert_eq!((other.outcomes.n_requests, other.outcomes.n_pods), (3, 3));
        let pods: Vec<u64> = other.timeline.slices().iter().map(|slice| slice.n_pods).collect();
        assert_eq!((pods[0], pods[20], pods.len()), (2, 1, 21));
        let kept: Vec<&str> = other.assumed.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(kept, ["a", "b"], "only the first tally keeps assumed pods");
        assert_eq!(other.unanswered.len(), 1);
        // 20 ms since the intended start, 5 ms since the sending.
        let (latency, service_time) = (other.latency.min(), other.service_time.min());
        assert!((19_900_000..20_100_000).contains(&latency), "{latency}");
        assert!((4_900_000..5_100_000).contains(&service_time), "{service_time}");
        assert_eq!(other.latency.len(), 2, "a request that failed with UNAVAILABLE has no time");
    }
}
