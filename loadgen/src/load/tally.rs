//! What one caller counted; tallies add up.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{PlaceResult, PodKey, decision, place_result};
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::client::code_name;

/// How many different messages of pending pods are kept as examples.
const MAX_EXAMPLES: usize = 5;

/// Counts and times of some of a run's requests. Times are in nanoseconds, to three digits.
#[derive(Debug, Clone)]
pub struct Tally {
    /// From which seconds count.
    pub start: Instant,
    keep_assumed: bool,
    /// Requests made, failed ones included.
    pub n_requests: u64,
    /// Pods answered with a decision.
    pub n_pods: u64,
    /// Pods with a node.
    pub n_placed: u64,
    /// Pods that fit nowhere.
    pub n_unschedulable: u64,
    /// Pods that are not to be placed yet.
    pub n_gated: u64,
    /// Pods without a decision, by the name of the gRPC code.
    pub errors: BTreeMap<String, ErrorCount>,
    /// Unschedulable pods that have this reason on at least one node.
    pub pending_by_reason: BTreeMap<String, u64>,
    /// The first few different messages of unschedulable pods.
    pub pending_examples: Vec<PendingPods>,
    /// The first few different messages of gated pods: the plugin and what it waits for.
    pub gated_examples: Vec<PendingPods>,
    /// Pods decided in each second since the start.
    pub pods_by_second: Vec<u64>,
    /// From the intended start of a request to its answer. Requests that no server took have no time.
    pub latency: Histogram<u64>,
    /// From the actual sending of a request to its answer.
    pub service_time: Histogram<u64>,
    /// Pods that now hold room, when asked to keep them.
    pub assumed: Vec<PodKey>,
    /// Pods that may hold room, when asked to keep them: their requests failed without an answer.
    pub unanswered: Vec<PodKey>,
}

/// The times of one request.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// When it was due.
    pub intended: Instant,
    /// When it was sent.
    pub sent: Instant,
    /// When its answer was there.
    pub answered: Instant,
}

/// Whether the server's effect is known after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The answer says it.
    Known,
    /// The server may have acted or not.
    Unknown,
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
    /// Requests that failed with it as a whole; 0 where pods of an answered request were refused.
    pub n_requests: u64,
    /// Pods that failed with it.
    pub n_pods: u64,
    /// The first message.
    pub example: String,
    /// When it came, so that the first of several callers' messages can be told.
    #[serde(skip)]
    pub first_at: Option<Instant>,
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
            gated_examples: Vec::new(),
            pods_by_second: Vec::new(),
            latency: histogram(),
            service_time: histogram(),
            assumed: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    /// Counts the answer to a request of `n_pods` pods.
    pub fn record(
        &mut self,
        times: Times,
        n_pods: u64,
        answer: Result<Vec<PlaceResult>, Status>,
    ) -> Fate {
        let Times { intended, sent, answered } = times;
        self.n_requests += 1;
        if !answer.as_ref().is_err_and(|status| status.code() == Code::Unavailable) {
            record(&mut self.latency, intended, answered);
            record(&mut self.service_time, sent, answered);
        }
        match answer {
            Ok(results) => {
                let n_results = results.len() as u64;
                let n_before = self.n_pods;
                results.into_iter().for_each(|result| self.result(result.result));
                self.count_in_second(answered, self.n_pods - n_before);
                if n_results != n_pods {
                    let message = format!("{n_results} results for {n_pods} pods");
                    self.error(Code::DataLoss, n_pods.saturating_sub(n_results), &message);
                }
                Fate::Known
            }
            Err(status) => {
                self.error(status.code(), n_pods, status.message()).n_requests += 1;
                fate(status.code())
            }
        }
    }

    fn count_in_second(&mut self, at: Instant, n_pods: u64) {
        let second = usize::try_from(at.saturating_duration_since(self.start).as_secs())
            .unwrap_or(usize::MAX);
        if second >= self.pods_by_second.len() {
            self.pods_by_second.resize(second + 1, 0);
        }
        self.pods_by_second[second] += n_pods;
    }

    /// Keeps, when asked to, the pods of a request whose fate is unknown.
    pub fn keep_unanswered(&mut self, pods: impl FnOnce() -> Vec<PodKey>) {
        if self.keep_assumed {
            self.unanswered.extend(pods());
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
                self.error(Code::from_i32(error.code), 1, &message);
                return;
            }
            None => {
                self.error(Code::DataLoss, 1, "a result is neither decision nor error");
                return;
            }
        };
        if decision.outcome.is_some() {
            self.n_pods += 1;
        }
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
                let examples = &mut self.pending_examples;
                add_example(examples, unschedulable.message, 1, || example(decision.pod));
            }
            Some(decision::Outcome::Gated(gated)) => {
                self.n_gated += 1;
                let message = format!("{}: {}", gated.plugin, gated.reasons.join(", "));
                add_example(&mut self.gated_examples, message, 1, || example(decision.pod));
            }
            None => {
                self.error(Code::DataLoss, 1, "a decision has no outcome");
            }
        }
    }

    fn error(&mut self, code: Code, n_pods: u64, message: &str) -> &mut ErrorCount {
        let count = self.errors.entry(code_name(code).to_owned()).or_default();
        count.n_pods += n_pods;
        if count.first_at.is_none() {
            count.first_at = Some(Instant::now());
            message.clone_into(&mut count.example);
        }
        count
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
            own.n_requests += count.n_requests;
            own.n_pods += count.n_pods;
            let is_earlier = |first: Instant| own.first_at.is_none_or(|own| first < own);
            if count.first_at.is_some_and(is_earlier) {
                (own.first_at, own.example) = (count.first_at, count.example);
            }
        }
        for (reason, n_pods) in other.pending_by_reason {
            *self.pending_by_reason.entry(reason).or_default() += n_pods;
        }
        for PendingPods { message, n_pods, example } in other.pending_examples {
            add_example(&mut self.pending_examples, message, n_pods, || example);
        }
        for PendingPods { message, n_pods, example } in other.gated_examples {
            add_example(&mut self.gated_examples, message, n_pods, || example);
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
        self.unanswered.extend(other.unanswered);
    }
}

/// A refusal says that nothing was done; any other failure may hide that everything was.
pub(crate) fn fate(code: Code) -> Fate {
    match code {
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => Fate::Known,
        Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Fate::Unknown,
    }
}

fn example(pod: Option<PodKey>) -> String {
    pod.map(|key| format!("{}/{}", key.namespace, key.name)).unwrap_or_default()
}

/// Counts pods with a message that is known, or keeps a new one while there is room.
fn add_example(
    examples: &mut Vec<PendingPods>,
    message: String,
    n_pods: u64,
    example: impl FnOnce() -> String,
) {
    if let Some(known) = examples.iter_mut().find(|known| known.message == message) {
        known.n_pods += n_pods;
    } else if examples.len() < MAX_EXAMPLES {
        examples.push(PendingPods { message, n_pods, example: example() });
    }
}

/// Longest time that is told apart, an hour; longer ones count as that.
const MAX_NANOSECONDS: u64 = 3_600_000_000_000;

#[expect(clippy::expect_used, reason = "the precision is a constant that hdrhistogram accepts")]
pub(crate) fn histogram() -> Histogram<u64> {
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

    use super::{Fate, PendingPods, Tally, Times};

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
        let since = |intended, sent| Times { intended, sent, answered: Instant::now() };
        tally.record(
            since(start, sent),
            4,
            Ok(vec![placed("a", true), placed("b", false), pending("c"), refused()]),
        );
        tokio::time::advance(Duration::from_millis(2000)).await;
        let fate = tally.record(since(sent, sent), 2, Err(Status::unavailable("gone")));
        assert_eq!(fate, Fate::Unknown);

        let mut other = Tally::new(start, true);
        let gated =
            Gated { plugin: "SchedulingGates".to_owned(), reasons: vec!["wait".to_owned()] };
        // The later of two messages of one code: the first one is shown, whoever it came to.
        tokio::time::advance(Duration::from_millis(1)).await;
        other.record(since(sent, sent), 0, Err(Status::unavailable("still gone")));
        // Two results for three pods: the third is an error of its own.
        other.record(
            since(start, start),
            3,
            Ok(vec![pending("d"), decided("e", decision::Outcome::Gated(gated))]),
        );
        other.merge(tally);
        let tally = other;

        assert_eq!((tally.n_requests, tally.n_pods), (4, 5), "five pods were decided");
        assert_eq!((tally.n_placed, tally.n_unschedulable, tally.n_gated), (2, 2, 1));
        assert_eq!(tally.pods_by_second, [3, 0, 2]);
        let errors: Vec<_> = tally
            .errors
            .iter()
            .map(|(code, e)| (code.as_str(), e.n_requests, e.n_pods, e.example.as_str()))
            .collect();
        assert_eq!(
            errors,
            [
                ("DATA_LOSS", 0, 1, "2 results for 3 pods"),
                ("INVALID_ARGUMENT", 0, 1, "`spec.containers`: must be positive"),
                ("UNAVAILABLE", 2, 2, "gone"),
            ]
        );
        let reasons: Vec<_> =
            tally.pending_by_reason.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
        assert_eq!(reasons, [("Insufficient cpu", 2), ("Too many pods", 2)]);
        let pods = |message: &str, n_pods, example: &str| {
            let (message, example) = (message.to_owned(), example.to_owned());
            PendingPods { message, n_pods, example }
        };
        assert_eq!(tally.pending_examples, [pods("0/8 nodes are available", 2, "ns/d")]);
        assert_eq!(tally.gated_examples, [pods("SchedulingGates: wait", 1, "ns/e")]);
        assert_eq!(tally.assumed.len(), 1);
        // From the intended start 20 ms, from the sending 5 ms.
        assert!((19_900_000..20_100_000).contains(&tally.latency.min()), "{}", tally.latency.min());
        assert!(
            (4_900_000..5_100_000).contains(&tally.service_time.min()),
            "{}",
            tally.service_time.min()
        );
        assert_eq!(tally.latency.len(), 2, "what no server took has no time");
    }
}
