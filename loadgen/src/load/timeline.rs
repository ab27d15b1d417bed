//! [`Timeline`]: pods and latencies over the time of a run, in slices of equal length.

use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

/// Limit of the slices. A run that needs more has slices of twice the length, so that a timeline of any run is small.
const MAX_SLICES: usize = 120;

/// Length of the slices of a short run.
const SHORTEST: Duration = Duration::from_millis(100);

/// Pods and latencies by slice since the start of a run.
#[derive(Debug, Clone)]
pub struct Timeline {
    start: Instant,
    slice_length: Duration,
    slices: Vec<Slice>,
}

/// The requests that were answered within one slice of the run.
#[derive(Debug, Clone)]
pub struct Slice {
    /// Pods with a decision.
    pub n_pods: u64,
    /// Latencies of requests in nanoseconds, to two digits.
    pub latency: Histogram<u32>,
}

impl Slice {
    #[expect(clippy::expect_used, reason = "the precision is a constant that hdrhistogram accepts")]
    fn new() -> Slice {
        let latency = Histogram::new(2).expect("two digits are a valid precision");
        Slice { n_pods: 0, latency }
    }

    fn add(&mut self, other: &Slice) {
        self.n_pods += other.n_pods;
        // Adding fails only between histograms of different precision that may not grow; these grow.
        self.latency.add(&other.latency).ok();
    }
}

impl Timeline {
    /// An empty timeline from `start`.
    pub fn new(start: Instant) -> Timeline {
        Timeline { start, slice_length: SHORTEST, slices: Vec::new() }
    }

    /// Start of the first slice.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Length of each slice.
    pub fn slice_length(&self) -> Duration {
        self.slice_length
    }

    /// The slices from the start on.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Counts a request that was answered at this time.
    pub fn record(&mut self, answered: Instant, n_pods: u64, latency: Option<Duration>) {
        let slice = self.slice_at(answered.saturating_duration_since(self.start));
        slice.n_pods += n_pods;
        if let Some(latency) = latency {
            let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            // A longer time than the histogram can index counts as an hour.
            slice.latency.record(nanoseconds.clamp(1, super::tally::MAX_NANOSECONDS)).ok();
        }
    }

    /// Adds the requests of another caller of the same run.
    pub fn merge(&mut self, mut other: Timeline) {
        while self.slice_length < other.slice_length {
            self.coarsen();
        }
        while other.slice_length < self.slice_length {
            other.coarsen();
        }
        for (index, slice) in other.slices.iter().enumerate() {
            match self.slices.get_mut(index) {
                Some(own) => own.add(slice),
                None => self.slices.push(slice.clone()),
            }
        }
    }

    fn slice_at(&mut self, since_start: Duration) -> &mut Slice {
        let index_at = |length: Duration| {
            usize::try_from(since_start.as_nanos() / length.as_nanos().max(1)).unwrap_or(usize::MAX)
        };
        while index_at(self.slice_length) >= MAX_SLICES {
            self.coarsen();
        }
        let index = index_at(self.slice_length);
        if index >= self.slices.len() {
            self.slices.resize_with(index + 1, Slice::new);
        }
        &mut self.slices[index]
    }

    /// Doubles the length of the slices.
    fn coarsen(&mut self) {
        self.slice_length *= 2;
        let pairs = self.slices.chunks(2).map(|pair| {
            let mut sum = pair[0].clone();
            pair[1..].iter().for_each(|slice| sum.add(slice));
            sum
        });
        self.slices = pairs.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slices_grow_with_the_run_and_lose_nothing() {
        let start = Instant::now();
        let mut timeline = Timeline::new(start);
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        timeline.record(at(0.05), 2, Some(Duration::from_millis(1)));
        timeline.record(at(0.35), 3, None);
        assert_eq!(timeline.slice_length(), Duration::from_millis(100));
        let n_pods =
            |timeline: &Timeline| timeline.slices().iter().map(|it| it.n_pods).collect::<Vec<_>>();
        assert_eq!(n_pods(&timeline), [2, 0, 0, 3]);
        let mut long = Timeline::new(start);
        long.record(at(30.0), 1, Some(Duration::from_secs(7_200)));
        assert_eq!(long.slice_length(), Duration::from_millis(400));
        timeline.merge(long.clone());
        assert_eq!(
            (timeline.slice_length(), timeline.slices().len()),
            (Duration::from_millis(400), 76)
        );
        assert_eq!((timeline.slices()[0].n_pods, timeline.slices()[75].n_pods), (5, 1));
        assert_eq!(timeline.slices()[0].latency.len(), 1);
        long.merge(Timeline::new(start));
        assert_eq!(n_pods(&long).iter().sum::<u64>(), 1);
        timeline.record(at(1e6), 1, None);
        assert!(timeline.slices().len() <= MAX_SLICES);
        assert_eq!(n_pods(&timeline).iter().sum::<u64>(), 7);
    }
}
