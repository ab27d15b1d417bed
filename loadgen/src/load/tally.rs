//! What one caller counted; tallies add up.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{PlaceResult, PodKey, decision, place_result};
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::{Code, Status};

/// How many different messages of pending pods are kept as examples.
const MAX_EXAMPLES: usize = 5;

/// Counts and times of some of a run's requests. Times are in nanoseconds, to three digits.
#[derive(Debug, Clone)]
pub struct Tally {
    start: Instant,
    keep_assumed: bool,
    /// Requests answered, failed ones included.
    pub n_requests: u64,
    /// Pods of those requests.
    pub n_pods: u64,
    /// Pods with a node.
    pub n_placed: u64,
    /// Pods that fit nowhere.
    pub n_unschedulable: u64,
    /// Pods that are not to be placed yet.
    pub n_gated: u64,
    /// Pods without an answer, by the name of the gRPC code.
    pub errors: BTreeMap<String, ErrorCount>,
    /// Pending pods (unschedulable or gated) that have this reason on at least one node.
    pub pending_by_reason: BTreeMap<String, u64>,
    /// The first few different messages of pending pods.
    pub pending_examples: Vec<PendingPods>,
    /// Pods answered in each second since the start.
    pub pods_by_second: Vec<u64>,
    /// From the intended start of a request to its answer.
    pub latency: Histogram<u64>,
    /// From the actual sending of a request to its answer.
    pub service_time: Histogram<u64>,
    /// Pods that now hold room, when asked to keep them.
    pub assumed: Vec<PodKey>,
}

/// Pending pods with the same message.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PendingPods {
    /// kube-scheduler's summary, or the plugin that holds the pods back.
    pub message: String,
    /// How many have it.
    pub n_pods: u64,
    /// The first of them, `namespace/name`.
    pub example: String,
}

/// Failures of one code.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ErrorCount {
    /// Pods that failed with it.
    pub n_pods: u64,
    /// The first message.
    pub example: String,
}

impl Tally {
    /// An empty tally whose seconds count from `start`.
    pub fn new(start: Instant, keep_assumed: bool) -> Self {
        Self {
            start,
            keep_assumed,
            n_requests: 0,
            n_pods: 0,
            n_placed: 0,
            n_unschedulable: 0,
            n_gated: 0,
            errors: BTreeMap::new(),
            pending_by_reason: BTreeMap::new(),
            pending_examples: Vec::new(),
            pods_by_second: Vec::new(),
            latency: histogram(),
            service_time: histogram(),
            assumed: Vec::new(),
        }
    }

    /// Counts the answer, which has just arrived, to a request of `n_pods` pods.
    pub fn record(
        &mut self,
        intended: Instant,
        sent: Instant,
        n_pods: u64,
        answer: Result<Vec<PlaceResult>, Status>,
    ) {
        let now = Instant::now();
        self.n_requests += 1;
        self.n_pods += n_pods;
        record(&mut self.latency, intended, now);
        record(&mut self.service_time, sent, now);
        let second = usize::try_from(now.saturating_duration_since(self.start).as_secs())
            .unwrap_or(usize::MAX);
        if second >= self.pods_by_second.len() {
            self.pods_by_second.resize(second + 1, 0);
        }
        self.pods_by_second[second] += n_pods;
        match answer {
            Ok(results) => {
                let n_results = results.len() as u64;
                results.into_iter().for_each(|result| self.result(result.result));
                if n_results != n_pods {
                    let message = format!("{n_results} results for {n_pods} pods");
                    self.error(Code::DataLoss, n_pods.saturating_sub(n_results), &message);
                }
            }
            Err(status) => self.error(status.code(), n_pods, status.message()),
        }
    }

    fn result(&mut self, result: Option<place_result::Result>) {
        let decision = match result {
            Some(place_result::Result::Decision(decision)) => decision,
            Some(place_result::Result::Error(error)) => {
                let message = if error.field.is_empty() {
                    error.message
                } else {
                    format!("`{}`: {}", error.field, error.message)
                };
                return self.error(Code::from_i32(error.code), 1, &message);
            }
            None => return self.error(Code::DataLoss, 1, "a result is neither decision nor error"),
        };
        match decision.outcome {
            Some(decision::Outcome::Placement(placement)) => {
                self.n_placed += 1;
                if placement.assumed && self.keep_assumed {
                    self.assumed.extend(decision.pod);
                }
            }
            Some(decision::Outcome::Unschedulable(unschedulable)) => {
                self.n_unschedulable += 1;
                for reason in unschedulable.reasons {
                    *self.pending_by_reason.entry(reason.reason).or_default() += 1;
                }
                self.example(decision.pod, unschedulable.message);
            }
            Some(decision::Outcome::Gated(gated)) => {
                self.n_gated += 1;
                *self.pending_by_reason.entry(gated.plugin.clone()).or_default() += 1;
                self.example(
                    decision.pod,
                    format!("{}: {}", gated.plugin, gated.reasons.join(", ")),
                );
            }
            None => self.error(Code::DataLoss, 1, "a decision has no outcome"),
        }
    }

    fn example(&mut self, pod: Option<PodKey>, message: String) {
        let example =
            || pod.map(|key| format!("{}/{}", key.namespace, key.name)).unwrap_or_default();
        self.add_example(message, 1, example);
    }

    /// Counts pods with a message that is known, or keeps a new one while there is room.
    fn add_example(&mut self, message: String, n_pods: u64, example: impl FnOnce() -> String) {
        if let Some(known) = self.pending_examples.iter_mut().find(|known| known.message == message)
        {
            known.n_pods += n_pods;
        } else if self.pending_examples.len() < MAX_EXAMPLES {
            self.pending_examples.push(PendingPods { message, n_pods, example: example() });
        }
    }

    fn error(&mut self, code: Code, n_pods: u64, message: &str) {
        let count = self.errors.entry(format!("{code:?}")).or_default();
        count.n_pods += n_pods;
        if count.example.is_empty() {
            message.clone_into(&mut count.example);
        }
    }

    /// Adds another caller's counts.
    pub fn merge(&mut self, other: Tally) {
        self.n_requests += other.n_requests;
        self.n_pods += other.n_pods;
        self.n_placed += other.n_placed;
        self.n_unschedulable += other.n_unschedulable;
        self.n_gated += other.n_gated;
        for (code, count) in other.errors {
            let own = self.errors.entry(code).or_default();
            own.n_pods += count.n_pods;
            if own.example.is_empty() {
                own.example = count.example;
            }
        }
        for (reason, n_pods) in other.pending_by_reason {
            *self.pending_by_reason.entry(reason).or_default() += n_pods;
        }
        for PendingPods { message, n_pods, example } in other.pending_examples {
            self.add_example(message, n_pods, || example);
        }
        if self.pods_by_second.len() < other.pods_by_second.len() {
            self.pods_by_second.resize(other.pods_by_second.len(), 0);
        }
        for (own, n_pods) in self.pods_by_second.iter_mut().zip(other.pods_by_second) {
            *own += n_pods;
        }
        // Adding fails only between histograms of different precision that may not grow; these grow.
        self.latency.add(other.latency).ok();
        self.service_time.add(other.service_time).ok();
        self.assumed.extend(other.assumed);
    }
}

/// Longest time that is told apart, an hour; longer ones count as that.
const MAX_NANOSECONDS: u64 = 3_600_000_000_000;

#[expect(clippy::expect_used, reason = "the precision is a constant that hdrhistogram accepts")]
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are a valid precision")
}

fn record(histogram: &mut Histogram<u64>, from: Instant, to: Instant) {
    let nanoseconds =
        u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(MAX_NANOSECONDS);
    // A growing histogram refuses only what it cannot index; an hour always can be.
    histogram.record(nanoseconds.clamp(1, MAX_NANOSECONDS)).ok();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_proto::berth_v1::{
        Decision, Gated, PlaceError, PlaceResult, Placement, PodKey, ReasonCount, Unschedulable,
        decision, place_result,
    };
    use tokio::time::Instant;
    use tonic::Status;

    use super::Tally;

    fn decided(name: &str, outcome: decision::Outcome) -> PlaceResult {
        let pod =
            Some(PodKey { namespace: "ns".to_owned(), name: name.to_owned(), uid: String::new() });
        let decision = Decision { pod, generation: 1, outcome: Some(outcome) };
        PlaceResult { result: Some(place_result::Result::Decision(decision)) }
    }

    fn placed(name: &str, assumed: bool) -> PlaceResult {
        decided(name, decision::Outcome::Placement(Placement { assumed, ..Placement::default() }))
    }

    fn pending(name: &str) -> PlaceResult {
        let reasons = vec![
            ReasonCount { reason: "Insufficient cpu".to_owned(), n_nodes: 7 },
            ReasonCount { reason: "Too many pods".to_owned(), n_nodes: 1 },
        ];
        let message = "0/8 nodes are available".to_owned();
        decided(
            name,
            decision::Outcome::Unschedulable(Unschedulable {
                message,
                reasons,
                ..Unschedulable::default()
            }),
        )
    }

    fn refused() -> PlaceResult {
        let error = PlaceError {
            code: 3,
            message: "must be positive".to_owned(),
            field: "spec.containers".to_owned(),
        };
        PlaceResult { result: Some(place_result::Result::Error(error)) }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_counted_by_outcome_code_and_second() {
        let start = Instant::now();
        let mut tally = Tally::new(start, true);
        tokio::time::advance(Duration::from_millis(20)).await;
        let sent = start + Duration::from_millis(15);
        tally.record(
            start,
            sent,
            4,
            Ok(vec![placed("a", true), placed("b", false), pending("c"), refused()]),
        );
        tokio::time::advance(Duration::from_millis(2000)).await;
        tally.record(sent, sent, 2, Err(Status::unavailable("gone")));

        let mut other = Tally::new(start, true);
        let gated =
            Gated { plugin: "SchedulingGates".to_owned(), reasons: vec!["wait".to_owned()] };
        // Two results for three pods: the third is an error of its own.
        other.record(
            start,
            start,
            3,
            Ok(vec![pending("d"), decided("e", decision::Outcome::Gated(gated))]),
        );
        tally.merge(other);

        assert_eq!((tally.n_requests, tally.n_pods), (3, 9));
        assert_eq!((tally.n_placed, tally.n_unschedulable, tally.n_gated), (2, 2, 1));
        assert_eq!(tally.pods_by_second, [4, 0, 5]);
        let errors: Vec<_> = tally
            .errors
            .iter()
            .map(|(code, e)| (code.as_str(), e.n_pods, e.example.as_str()))
            .collect();
        assert_eq!(
            errors,
            [
                ("DataLoss", 1, "2 results for 3 pods"),
                ("InvalidArgument", 1, "`spec.containers`: must be positive"),
                ("Unavailable", 2, "gone"),
            ]
        );
        let reasons: Vec<_> =
            tally.pending_by_reason.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
        assert_eq!(
            reasons,
            [("Insufficient cpu", 2), ("SchedulingGates", 1), ("Too many pods", 2)]
        );
        let examples: Vec<_> = tally
            .pending_examples
            .iter()
            .map(|pods| (pods.example.as_str(), pods.n_pods, pods.message.as_str()))
            .collect();
        let gated = ("ns/e", 1, "SchedulingGates: wait");
        assert_eq!(examples, [("ns/c", 2, "0/8 nodes are available"), gated]);
        assert_eq!(tally.assumed.len(), 1);
        // From the intended start 20 ms, from the sending 5 ms.
        assert!((19_900_000..20_100_000).contains(&tally.latency.min()), "{}", tally.latency.min());
        assert!(
            (4_900_000..5_100_000).contains(&tally.service_time.min()),
            "{}",
            tally.service_time.min()
        );
        assert_eq!(tally.latency.len(), 3);
    }
}
