use super::*;
use crate::service::fixture;
use crate::service::{CancelOnDrop, Deadline};

fn ask(state: &State, request: SimulateDrainRequest) -> Result<SimulateDrainResponse, CallError> {
    let target = state.target_of("").unwrap();
    let caller = CancelOnDrop::new(Deadline(None));
    answer(state, &target, request, &caller.token())
}

fn request(nodes: &[&str]) -> SimulateDrainRequest {
    let rules = wire::DrainRules { move_unreplicated: true, ..wire::DrainRules::default() };
    SimulateDrainRequest {
        node_names: nodes.iter().map(|name| (*name).to_owned()).collect(),
        rules: Some(rules),
        ..SimulateDrainRequest::default()
    }
}

#[test]
fn a_drain_reports_where_pods_go_and_why_some_cannot() {
    let state = fixture::state(&[("n0", "4"), ("n1", "4")]);
    for (name, node, cpu) in [("a", "n0", "1"), ("b", "n1", "3"), ("c", "n0", "2")] {
        fixture::run(&state.cluster, &fixture::pod(name, cpu, 0), node);
    }
    let response = ask(&state, request(&["n0", "gone"])).unwrap();
    assert_eq!(response.generation, state.cluster.snapshot().generation().get());
    let [n0, gone] = response.nodes.as_slice() else { panic!("{response:?}") };
    assert!(!n0.removable && !gone.removable);
    assert_eq!((&*n0.unremovable_reason, n0.unremovable_code), ("NoPlaceToMovePods", 14));
    assert_eq!((&*gone.unremovable_reason, gone.unremovable_code), ("NoNodeInfo", 17));
    let [a, c] = n0.pods.as_slice() else { panic!("{n0:?}") };
    assert_eq!((a.verdict(), &*a.node_name, a.wave), (wire::DrainVerdict::Moves, "n1", 0));
    assert_eq!(c.verdict(), wire::DrainVerdict::NoRoom);
    assert_eq!(c.message, "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!((&*c.reasons[0].reason, c.reasons[0].n_nodes), ("Insufficient cpu", 1));
    assert_eq!(n0.blocking_pod.as_ref().map(|pod| &*pod.name), Some("c"));
    let kept = SimulateDrainRequest { rules: None, ..request(&["n1"]) };
    let response = ask(&state, kept).unwrap();
    let b = &response.nodes[0].pods[0];
    assert_eq!((b.verdict(), &*b.blocking_reason), (wire::DrainVerdict::Blocked, "NotReplicated"));
    assert_eq!((b.blocking_code, response.nodes[0].unremovable_code), (3, 15));
}

#[test]
fn bad_fields_are_named() {
    let state = fixture::state(&[("n0", "4")]);
    let check = |request: SimulateDrainRequest, expected: &str| {
        assert_eq!(ask(&state, request).unwrap_err().to_string(), expected);
    };
    check(request(&[]), "`node_names`: must not be empty");
    check(request(&["n0", ""]), "`node_names[1]`: must not be empty");
    let good = || request(&["n0"]);
    check(SimulateDrainRequest { mode: 9, ..good() }, "`mode`: `9` is no drain mode");
    let hint = wire::DrainHint { pod: None, node_name: "n0".to_owned() };
    check(
        SimulateDrainRequest { hints: vec![hint], ..good() },
        "`hints[0].pod.name`: must not be empty",
    );
    let zero = Some(Time::default());
    check(
        SimulateDrainRequest { now: zero, ..good() },
        "`now`: must be a moment, not the zero time",
    );
    for threshold in [-0.1, f64::NAN, f64::INFINITY] {
        let node_rules =
            wire::NodeRules { utilization_threshold: Some(threshold), ..Default::default() };
        check(
            SimulateDrainRequest { node_rules: Some(node_rules), ..good() },
            "`node_rules.utilization_threshold`: must be a number that is not negative",
        );
    }
    let rules = |rules: wire::DrainRules| SimulateDrainRequest { rules: Some(rules), ..good() };
    check(
        rules(wire::DrainRules { min_replicas: 2, ..Default::default() }),
        "`rules.min_replicas`: has no effect without `rules.require_controllers`",
    );
    check(
        rules(wire::DrainRules { min_replicas: -2, ..Default::default() }),
        "`rules.min_replicas`: must not be negative",
    );
    check(
        rules(wire::DrainRules { system_pod_timeout_seconds: Some(-1), ..Default::default() }),
        "`rules.system_pod_timeout_seconds`: must not be negative",
    );
    let other = SimulateDrainRequest { scheduler_name: "other".to_owned(), ..good() };
    check(other, "`scheduler_name`: no profile is called `other`; there is `default-scheduler`");
}

/// A simulation is cancelled when its caller is gone.
#[test]
fn a_drain_ends_when_its_caller_is_gone() {
    let state = fixture::state(&[("n0", "4"), ("n1", "4")]);
    fixture::run(&state.cluster, &fixture::pod("a", "1", 0), "n0");
    let target = state.target_of("").unwrap();
    let caller = CancelOnDrop::new(Deadline(None));
    let token = caller.token();
    assert!(answer(&state, &target, request(&["n0"]), &token).unwrap().nodes[0].removable);
    drop(caller);
    let error = answer(&state, &target, request(&["n0"]), &token).unwrap_err();
    assert_eq!(error, CallError::DeadlineExceeded);
}
