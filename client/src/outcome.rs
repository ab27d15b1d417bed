//! Counts of what placements answered: outcomes, errors by code, reasons and examples of pending pods.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{Decision, PlaceResult, PodKey, decision, place_result};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::code_name;

/// Number of different messages of pending pods that are kept as examples.
const MAX_EXAMPLES: usize = 5;

/// Counts of the pods of some placement requests, by outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Requests made, failed ones included.
    pub n_requests: u64,
    /// Pods answered with a decision: placed, unschedulable or gated.
    pub n_pods: u64,
    /// Pods with a node.
    pub n_placed: u64,
    /// Pods that fit no node.
    pub n_unschedulable: u64,
    /// Pods that a scheduling gate holds back.
    pub n_gated: u64,
    /// Pods without a decision, by the name of the gRPC code.
    pub errors: BTreeMap<String, ErrorCount>,
    /// Unschedulable pods for which at least one node gave this reason.
    pub pending_by_reason: BTreeMap<String, u64>,
    /// The first few different messages of unschedulable pods.
    pub pending_examples: Vec<PendingPods>,
    /// The first few different messages of gated pods: the plugin and the gates.
    pub gated_examples: Vec<PendingPods>,
}

/// Pending pods with equal messages.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PendingPods {
    /// kube-scheduler's summary, or the plugin that holds the pods back.
    pub message: String,
    /// Number of pods with this message.
    pub n_pods: u64,
    /// The first of the pods, `namespace/name`.
    pub example: String,
}

/// Failures with one status code.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ErrorCount {
    /// Requests that failed with the code as a whole; pods refused in a successful response are not among them.
    pub n_requests: u64,
    /// Pods that failed with the code.
    pub n_pods: u64,
    /// The first message.
    pub example: String,
    /// Time of the first message, by which merging finds the earliest.
    #[serde(skip)]
    pub first_at: Option<Instant>,
}

impl Outcomes {
    /// Counts the response to a request of `n_pods` pods. `on_assumed` receives the key of each assumed pod.
    pub fn record(
        &mut self,
        n_pods: u64,
        response: Result<Vec<PlaceResult>, Status>,
        mut on_assumed: impl FnMut(PodKey),
    ) {
        self.n_requests += 1;
        match response {
            Ok(results) => {
                let n_results = results.len() as u64;
                for result in results {
                    self.result(result, &mut on_assumed);
                }
                if n_results != n_pods {
                    let message = format!("{n_results} results for {n_pods} pods");
                    self.error(Code::DataLoss, n_pods.saturating_sub(n_results), &message);
                }
            }
            Err(status) => {
                self.error(status.code(), n_pods, status.message()).n_requests += 1;
            }
        }
    }

    /// Pods without a decision.
    pub fn n_errors(&self) -> u64 {
        self.errors.values().map(|count| count.n_pods).sum()
    }

    /// Counts the result of one pod.
    fn result(&mut self, result: PlaceResult, on_assumed: &mut impl FnMut(PodKey)) {
        match result.result {
            Some(place_result::Result::Decision(decision)) => self.decision(decision, on_assumed),
            Some(place_result::Result::Error(error)) => {
                let message = if error.field.is_empty() {
                    error.message
                } else {
                    format!("`{}`: {}", error.field, error.message)
                };
                self.error(Code::from_i32(error.code), 1, &message);
            }
            None => {
                self.error(Code::DataLoss, 1, "a result is neither decision nor error");
            }
        }
    }

    fn decision(&mut self, decision: Decision, on_assumed: &mut impl FnMut(PodKey)) {
        if decision.outcome.is_some() {
            self.n_pods += 1;
        }
        match decision.outcome {
            Some(decision::Outcome::Placement(placement)) => {
                self.n_placed += 1;
                if placement.assumed {
                    decision.pod.into_iter().for_each(on_assumed);
                }
            }
            Some(decision::Outcome::Unschedulable(unschedulable)) => {
                self.n_unschedulable += 1;
                for reason in unschedulable.reasons {
                    *self.pending_by_reason.entry(reason.reason).or_default() += 1;
                }
                let examples = &mut self.pending_examples;
                add_example(examples, unschedulable.message, 1, || name(decision.pod));
            }
            Some(decision::Outcome::Gated(gated)) => {
                self.n_gated += 1;
                let message = format!("{}: {}", gated.plugin, gated.reasons.join(", "));
                add_example(&mut self.gated_examples, message, 1, || name(decision.pod));
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

    /// Adds the counts of another caller.
    pub fn merge(&mut self, other: Outcomes) {
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
    }
}

/// `namespace/name`; empty without a key.
fn name(pod: Option<PodKey>) -> String {
    pod.map(|key| format!("{}/{}", key.namespace, key.name)).unwrap_or_default()
}

/// Counts pods under a known message, or keeps a new message while fewer than [`MAX_EXAMPLES`] are known.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_proto::berth_v1::{
        Decision, Gated, PlaceError, PlaceResult, Placement, PodKey, ReasonCount, Unschedulable,
        decision, place_result,
    };
    use tonic::Status;

    use super::{Outcomes, PendingPods};

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
        let unschedulable = Unschedulable { message, reasons, ..Unschedulable::default() };
        decided(name, decision::Outcome::Unschedulable(unschedulable))
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
    async fn responses_are_counted_by_outcome_and_code() {
        let mut assumed = Vec::new();
        let mut first = Outcomes::default();
        let results = vec![placed("a", true), placed("b", false), pending("c"), refused()];
        first.record(4, Ok(results), |key| assumed.push(key.name));
        first.record(2, Err(Status::unavailable("gone")), |_| ());
        // The later of two messages with one code: merging keeps the earlier, in either order.
        tokio::time::advance(Duration::from_millis(1)).await;
        let mut outcomes = Outcomes::default();
        outcomes.record(0, Err(Status::unavailable("still gone")), |_| ());
        let gated =
            Gated { plugin: "SchedulingGates".to_owned(), reasons: vec!["wait".to_owned()] };
        // Two results for three pods: the third pod is an error.
        let results = vec![pending("d"), decided("e", decision::Outcome::Gated(gated))];
        outcomes.record(3, Ok(results), |_| ());
        outcomes.merge(first);

        assert_eq!((outcomes.n_requests, outcomes.n_pods, outcomes.n_errors()), (4, 5, 4));
        let Outcomes { n_placed, n_unschedulable, n_gated, .. } = outcomes;
        assert_eq!((n_placed, n_unschedulable, n_gated), (2, 2, 1));
        assert_eq!(assumed, ["a"]);
        let errors: Vec<_> = outcomes
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
            outcomes.pending_by_reason.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
        assert_eq!(reasons, [("Insufficient cpu", 2), ("Too many pods", 2)]);
        let pods = |message: &str, n_pods, example: &str| {
            let (message, example) = (message.to_owned(), example.to_owned());
            PendingPods { message, n_pods, example }
        };
        assert_eq!(outcomes.pending_examples, [pods("0/8 nodes are available", 2, "ns/d")]);
        assert_eq!(outcomes.gated_examples, [pods("SchedulingGates: wait", 1, "ns/e")]);
    }
}
