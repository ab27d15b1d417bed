use super::decide_fence;
use crate::lifecycle::reading::END_OF_TIME;
use berth_proto::Time;
use berth_proto::berth_v1::{
    DecideFenceRequest, FenceBudget, FenceCandidate, FenceDetector, FencePolicy,
};

/// A node with its last contact at 1000; one required detector with a bound of 50 s; mode `Auto`; no pods.
fn request(now: i64) -> DecideFenceRequest {
    DecideFenceRequest {
        contact_lost_at: Some(Time::from_unix_seconds(1000)),
        now: Some(Time::from_unix_seconds(now)),
        detectors: vec![detector("Failed", Some(50))],
        policy: Some(FencePolicy { mode: "Auto".to_owned(), ..FencePolicy::default() }),
        ..DecideFenceRequest::default()
    }
}

fn detector(observed: &str, bound: Option<i64>) -> FenceDetector {
    FenceDetector {
        name: "d".to_owned(),
        required: true,
        observed: observed.to_owned(),
        latency_bound_seconds: bound,
    }
}

fn pod(name: &str, toleration_seconds: Option<i64>) -> FenceCandidate {
    FenceCandidate { name: name.to_owned(), toleration_seconds, ..FenceCandidate::default() }
}

/// Decision, reason, `fenceAt` and the pods that justify it.
fn decided(request: &DecideFenceRequest) -> (String, String, Option<i64>, Vec<String>) {
    let answer = decide_fence(request).unwrap();
    let fence_at = answer.fence_at.and_then(|time| time.unix_seconds());
    (answer.decision, answer.reason, fence_at, answer.justified_by)
}

fn check(request: &DecideFenceRequest, expected: (&str, &str, Option<i64>, &[&str])) {
    let (decision, reason, fence_at, justified_by) = decided(request);
    let justified_by: Vec<&str> = justified_by.iter().map(String::as_str).collect();
    assert_eq!((&*decision, &*reason, fence_at, &*justified_by), expected);
}

#[test]
fn the_steps_in_their_order() {
    // L-FENCE-4, L-FENCE-5, L-FENCE-6
    let mut requested = DecideFenceRequest { requested_by_operator: true, ..request(1) };
    check(&requested, ("Fence", "RequestedByOperator", Some(1), &[]));
    requested.contact_lost_at = None;
    check(&requested, ("Fence", "RequestedByOperator", Some(1), &[]));
    requested.policy.as_mut().unwrap().mode = "Manual".to_owned();
    check(&requested, ("Fence", "RequestedByOperator", Some(1), &[]));
    requested.policy.as_mut().unwrap().mode = "Never".to_owned();
    check(&requested, ("NoAction", "PolicyNever", None, &[]));
    check(&request(9999), ("NoAction", "NothingToProtect", None, &[]));
}

#[test]
fn the_bound_is_that_of_the_slowest_required_detector() {
    // L-FENCE-5, L-FENCE-15: a detector that is not required has no effect.
    let mut request = request(1069);
    request.pods = vec![pod("a", Some(-5))];
    request.detectors = vec![
        detector("Failed", Some(50)),
        detector("NoData", Some(70)),
        FenceDetector { required: false, ..detector("Healthy", Some(900)) },
    ];
    check(&request, ("Wait", "ToleranceNotExhausted", Some(1070), &[]));
    request.now = Some(Time::from_unix_seconds(1070));
    check(&request, ("Fence", "ToleranceExhausted", Some(1070), &["a"]));
    request.detectors.clear();
    check(&request, ("Fence", "ToleranceExhausted", Some(1000), &["a"]));
}

#[test]
fn a_contradiction_can_be_overruled() {
    // L-FENCE-5, step 7
    let mut request = request(1300);
    request.pods = vec![pod("b", Some(300)), pod("a", Some(100)), pod("c", Some(301))];
    request.detectors.push(detector("Healthy", Some(1)));
    check(&request, ("Wait", "DetectorsDisagree", Some(1100), &["a", "b"]));
    let policy = request.policy.as_mut().unwrap();
    policy.on_contradiction = "Fence".to_owned();
    check(&request, ("Fence", "ToleranceExhausted", Some(1100), &["a", "b"]));
}

#[test]
fn a_budget_shortens_the_wait() {
    // L-FENCE-5, step 4: half of an odd tolerance is rounded down.
    let with = |current, desired| {
        let budget = FenceBudget { current_healthy: Some(current), desired_healthy: Some(desired) };
        let mut request = request(1000);
        request.pods = vec![FenceCandidate { budget: Some(budget), ..pod("a", Some(301)) }];
        decided(&request).2
    };
    assert_eq!(with(1, 2), Some(1050));
    assert_eq!(with(2, 2), Some(1150));
    assert_eq!(with(3, 2), Some(1301));
}

#[test]
fn a_wait_beyond_the_end_of_time_is_for_ever() {
    // L-FENCE-5, step 4, and nothing overflows.
    let mut request = request(1000);
    let outcome = |request: &DecideFenceRequest| {
        let (_, reason, fence_at, _) = decided(request);
        (reason, fence_at)
    };
    let never = ("NoPodJustifiesFencing".to_owned(), None);
    request.pods = vec![pod("a", Some(i64::MAX))];
    assert_eq!(outcome(&request), never);
    request.contact_lost_at = Some(Time::from_unix_seconds(END_OF_TIME - 1));
    request.now = Some(Time::from_unix_seconds(i64::MIN));
    request.detectors = vec![detector("Failed", Some(0))];
    request.pods = vec![pod("a", Some(2)), pod("b", Some(i64::MIN)), pod("c", Some(1))];
    assert_eq!(outcome(&request), ("ToleranceNotExhausted".to_owned(), Some(END_OF_TIME - 1)));
    request.detectors = vec![detector("Failed", Some(i64::MAX))];
    assert_eq!(outcome(&request), never);
}

#[test]
fn errors_name_the_field() {
    let error = |change: &dyn Fn(&mut DecideFenceRequest)| {
        let mut request = request(2000);
        request.pods = vec![pod("a", Some(1)), pod("b", Some(1))];
        change(&mut request);
        decide_fence(&request).unwrap_err().to_string()
    };
    assert_eq!(error(&|request| request.now = None), "`now`: required");
    assert_eq!(error(&|request| request.contact_lost_at = None), "`contactLostAt`: required");
    assert_eq!(error(&|request| request.policy = None), "`policy`: required");
    assert_eq!(
        error(&|request| request.policy = Some(FencePolicy::default())),
        "`policy.mode`: required: one of `Auto`, `Manual`, `Never`"
    );
    assert_eq!(
        error(&|request| request.detectors[0].latency_bound_seconds = None),
        "`detectors[0].latencyBoundSeconds`: required for a required detector"
    );
    assert_eq!(
        error(&|request| request.detectors.push(detector("Failed", Some(-1)))),
        "`detectors[1].latencyBoundSeconds`: must not be negative"
    );
    assert_eq!(
        error(&|request| request.detectors[0].observed = "failed".to_owned()),
        "`detectors[0].observed`: unknown value `failed`: not one of `Failed`, `Healthy`, `NoData`"
    );
    let budget = |current_healthy, desired_healthy| {
        move |request: &mut DecideFenceRequest| {
            request.pods[1].budget = Some(FenceBudget { current_healthy, desired_healthy });
        }
    };
    assert_eq!(error(&budget(Some(1), None)), "`pods[1].budget.desiredHealthy`: required");
    assert_eq!(
        error(&budget(Some(-1), Some(0))),
        "`pods[1].budget.currentHealthy`: must not be negative"
    );
    assert_eq!(error(&|request| request.pods[1].name.clear()), "`pods[1].name`: required");
}
