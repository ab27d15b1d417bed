//! Nothing of a node is released before its fence is confirmed, only a clean restart brings a fenced node back, and no
//! policy or toleration fences before the detectors' bound (L-FENCE-5 to L-FENCE-13, L-FENCE-15).

use berth_engine::lifecycle::fence::{
    Fence, FenceEvent, FenceEventType, FenceOutcome, FenceScope, FenceState, decide_fence,
    fence_sequence,
};
use berth_proto::Time;
use berth_proto::berth_v1::{
    DecideFenceRequest, FenceBudget, FenceCandidate, FenceDetector, FencePolicy,
    FenceSequenceEvent, FenceSequenceRequest,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::config;

fn scope() -> impl Strategy<Value = FenceScope> {
    select(FenceScope::WORDS.to_vec()).prop_map(|word| FenceScope::parse(word, "scope").unwrap())
}

/// Generates an event; in sequences events may be late, repeated, or about an earlier fence.
fn event() -> impl Strategy<Value = FenceSequenceEvent> {
    let words = prop_oneof![
        2 => select(vec!["Decide", "FenceConfirmed"]),
        3 => select(FenceEventType::WORDS.to_vec()),
    ];
    (words, any::<bool>(), any::<bool>()).prop_map(|(word, rebooted, no_leftover_processes)| {
        FenceSequenceEvent { r#type: word.to_owned(), rebooted, no_leftover_processes }
    })
}

fn typed(event: &FenceSequenceEvent) -> FenceEvent {
    FenceEvent {
        r#type: FenceEventType::parse(&event.r#type, "type").unwrap(),
        rebooted: event.rebooted,
        no_leftover_processes: event.no_leftover_processes,
    }
}

/// Facts about a fence that follow from its events, without its state machine.
#[derive(Default)]
struct History {
    /// Whether a confirmation came for a fence that had been decided on and had not failed since.
    is_confirmed: bool,
    is_decided: bool,
    is_over: bool,
}

impl History {
    fn see(&mut self, event: &FenceSequenceEvent) {
        let is_clean = event.rebooted && event.no_leftover_processes;
        match &*event.r#type {
            _ if self.is_over => {}
            "Decide" => self.is_decided = true,
            "FenceConfirmed" => self.is_confirmed |= self.is_decided,
            "FenceFailed" if !self.is_confirmed => self.is_decided = false,
            "NodeReturned" if self.is_confirmed => self.is_over = is_clean,
            "NodeReturned" => self.is_over = !self.is_decided,
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(config(3000, 53))]

    /// L-FENCE-8 to L-FENCE-10, L-FENCE-12, L-FENCE-13.
    #[test]
    fn nothing_is_given_up_before_the_confirmation(scope in scope(), events in vec(event(), 1..30)) {
        let mut fence = Fence::detected(scope);
        let mut history = History::default();
        for event in &events {
            let before = fence;
            let outcome = fence.apply(&typed(event));
            let context = format!("{event:?} in {before:?}: {outcome:?}");
            prop_assert!(outcome == FenceOutcome::Ok || fence == before, "{context}");
            prop_assert_eq!(fence.scope, scope);

            let is_confirmed = history.is_confirmed && !history.is_over;
            let is_granted = outcome == FenceOutcome::Ok;
            match &*event.r#type {
                "BreakAttachment" => {
                    prop_assert_eq!(is_granted, is_confirmed && scope != FenceScope::Network, "{}", context);
                    prop_assert_eq!(is_granted, before.lets_break_attachments(), "{}", context);
                }
                "RemovePod" | "ReleaseIdentity" => {
                    let isolates = matches!(scope, FenceScope::Compute | FenceScope::NetworkAndStorage);
                    prop_assert_eq!(is_granted, is_confirmed && isolates, "{}", context);
                    prop_assert_eq!(is_granted, before.lets_remove_pods(), "{}", context);
                }
                _ => {}
            }
            history.see(event);
            prop_assert_eq!(fence.state == FenceState::Recovered, history.is_over, "{}", context);
            let is_fenced = matches!(fence.state, FenceState::Fenced | FenceState::AttachmentsBroken);
            prop_assert_eq!(is_fenced, history.is_confirmed && !history.is_over, "{}", context);
        }
        // The request function follows the same state machine.
        let request = FenceSequenceRequest { scope: scope.word().to_owned(), events, ..Default::default() };
        prop_assert_eq!(fence_sequence(&request).unwrap().state, fence.state.word());
    }
}

const LOST: i64 = 1_000_000;

fn detector() -> impl Strategy<Value = FenceDetector> {
    let observed = select(vec!["Failed", "Failed", "Failed", "Healthy", "NoData"]);
    (any::<bool>(), observed, 0..120_i64).prop_map(|(required, observed, bound)| FenceDetector {
        name: "d".to_owned(),
        required,
        observed: observed.to_owned(),
        latency_bound_seconds: Some(bound),
    })
}

fn candidate() -> impl Strategy<Value = FenceCandidate> {
    let budget = option::of((0..4_i32, 0..4_i32));
    (0..20_u8, -1..3_i32, option::weighted(0.8, -10..400_i64), budget).prop_map(
        |(name, priority, toleration_seconds, budget)| FenceCandidate {
            name: format!("p{name}"),
            namespace: String::new(),
            priority,
            toleration_seconds,
            budget: budget.map(|(current, desired)| FenceBudget {
                current_healthy: Some(current),
                desired_healthy: Some(desired),
            }),
        },
    )
}

fn question() -> impl Strategy<Value = DecideFenceRequest> {
    let policy = (
        select(vec!["Auto", "Auto", "Manual", "Never"]),
        option::of(-1..3_i32),
        select(vec!["", "Wait", "Fence"]),
    );
    let policy = policy.prop_map(|(mode, min_priority, on_contradiction)| FencePolicy {
        mode: mode.to_owned(),
        min_priority,
        on_contradiction: on_contradiction.to_owned(),
    });
    let pods = vec(candidate(), 0..6);
    let is_requested = proptest::bool::weighted(0.1);
    (vec(detector(), 0..4), policy, pods, is_requested, -5..500_i64).prop_map(
        |(detectors, policy, pods, requested_by_operator, elapsed)| DecideFenceRequest {
            node_name: "n1".to_owned(),
            contact_lost_at: Some(Time::from_unix_seconds(LOST)),
            now: Some(Time::from_unix_seconds(LOST + elapsed)),
            detectors,
            policy: Some(policy),
            requested_by_operator,
            pods,
        },
    )
}

/// Returns when a pod's toleration ends, as L-FENCE-5 defines it; `None` if the pod does not count.
fn due(pod: &FenceCandidate, question: &DecideFenceRequest) -> Option<i64> {
    let policy = question.policy.as_ref().unwrap();
    if policy.min_priority.is_some_and(|least| pod.priority < least) {
        return None;
    }
    let mut tolerance = pod.toleration_seconds?;
    if tolerance < 0 {
        tolerance = 0;
    }
    if let Some(budget) = &pod.budget {
        tolerance = match budget.current_healthy.cmp(&budget.desired_healthy) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => tolerance / 2,
            std::cmp::Ordering::Greater => tolerance,
        };
    }
    Some(LOST + tolerance.max(bound(question)))
}

fn required(question: &DecideFenceRequest) -> impl Iterator<Item = &FenceDetector> {
    question.detectors.iter().filter(|detector| detector.required)
}

fn bound(question: &DecideFenceRequest) -> i64 {
    required(question).filter_map(|detector| detector.latency_bound_seconds).max().unwrap_or(0)
}

fn decide(question: &DecideFenceRequest) -> (String, String, Option<i64>, Vec<String>) {
    let answer = decide_fence(question).unwrap();
    let fence_at = answer.fence_at.and_then(|time| time.unix_seconds());
    (answer.decision, answer.reason, fence_at, answer.justified_by)
}

fn at(question: &DecideFenceRequest, now: i64) -> DecideFenceRequest {
    DecideFenceRequest { now: Some(Time::from_unix_seconds(now)), ..question.clone() }
}

proptest! {
    #![proptest_config(config(3000, 54))]

    /// L-FENCE-5, L-FENCE-15: unless a person requests it, no fence comes before the bound and the end of some pod's
    /// toleration.
    #[test]
    fn no_fence_before_the_bound(question in question()) {
        let now = question.now.and_then(|time| time.unix_seconds()).unwrap();
        let (decision, _, fence_at, justified_by) = decide(&question);
        let mode = &*question.policy.as_ref().unwrap().mode;
        if question.requested_by_operator && mode != "Never" {
            prop_assert_eq!(decision, "Fence");
            return Ok(());
        }
        let mut dues: Vec<_> =
            question.pods.iter().filter_map(|pod| Some((due(pod, &question)?, &*pod.name))).collect();
        if decision == "Fence" || decision == "AskOperator" {
            prop_assert!(now >= LOST + bound(&question));
            prop_assert!(dues.iter().any(|(due, _)| *due <= now));
            let disagrees = required(&question).any(|detector| detector.observed == "Healthy");
            let overrules = question.policy.as_ref().unwrap().on_contradiction == "Fence";
            prop_assert!(!disagrees || overrules);
            prop_assert_eq!(decision == "Fence", mode == "Auto");
        }
        if mode != "Never" && !question.pods.is_empty() {
            dues.sort_unstable();
            prop_assert_eq!(fence_at, dues.first().map(|(due, _)| *due));
            let mut names: Vec<_> =
                dues.iter().filter(|(due, _)| *due <= now).map(|(_, name)| *name).collect();
            names.sort_unstable();
            prop_assert_eq!(justified_by, names);
        }
    }

    /// A decision stays the same as time goes on, and none is made before the time that it names.
    #[test]
    fn time_only_moves_a_decision_on(question in question()) {
        let question = DecideFenceRequest { requested_by_operator: false, ..question };
        let (_, _, fence_at, _) = decide(&question);
        let Some(fence_at) = fence_at else { return Ok(()) };
        let before = decide(&at(&question, fence_at - 1));
        prop_assert_eq!((&*before.0, &*before.1), ("Wait", "ToleranceNotExhausted"));
        let due = decide(&at(&question, fence_at));
        prop_assert_ne!(&*due.1, "ToleranceNotExhausted");
        let later = decide(&at(&question, fence_at + 1_000));
        prop_assert_eq!((due.0, due.1, due.2), (later.0, later.1, later.2));
    }
}
