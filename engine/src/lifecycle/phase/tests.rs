//! Phases: cases that the worked examples leave out.

use super::*;

const EVICTED: Option<Eviction<'_>> = Some(Eviction { reason: "Evicted", message: "disk" });

fn pod(recorded: &str, statuses: &str) -> Pod {
    serde_json::from_str(&format!(
        r#"{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"a"}}]}},"status":{{"phase":"{recorded}",
        "reason":"recorded","message":"as it was","containerStatuses":[{statuses}]}}}}"#
    ))
    .unwrap()
}

fn text(decision: &PhaseDecision<'_>) -> String {
    let PhaseDecision { raw, phase, published, effective, reason, .. } = decision;
    format!("{raw:?} {phase:?} {published:?} {effective:?} `{reason}`")
}

/// Checks raw, decided, published and effective phase and the reason of a pod with one `Never` container.
fn check(recorded: &str, statuses: &str, facts: &PhaseFacts<'_>) -> String {
    let pod = pod(recorded, statuses);
    match decide(&pod, facts) {
        Ok(decision) => text(&decision),
        Err(error) => error.to_string(),
    }
}

const RUNNING: &str = r#"{"name":"a","state":{"running":{}}}"#;
const FAILED: &str = r#"{"name":"a","state":{"terminated":{"exitCode":1}}}"#;

/// L-PHASE-8, L-PHASE-10: an eviction order has no effect on a terminal pod; for any other pod it goes before
/// everything else.
#[test]
fn orders() {
    let evict = PhaseFacts { evict: EVICTED, ..PhaseFacts::default() };
    assert_eq!(
        check("Succeeded", RUNNING, &evict),
        "Running Succeeded Succeeded Succeeded `recorded`"
    );
    assert_eq!(check("Running", RUNNING, &evict), "Running Failed Failed Failed `Evicted`");
    let lost = PhaseFacts { node_ready: ConditionStatus::Unknown, ..evict };
    assert_eq!(check("Running", RUNNING, &lost), "Running Failed Failed Unknown `Evicted`");
}

/// L-PHASE-9, L-PHASE-11, L-PHASE-13: `Unknown` is shown, never decided and never published.
#[test]
fn a_recorded_unknown_constrains_nothing() {
    let held = PhaseFacts { could_have_running_containers: true, ..PhaseFacts::default() };
    let lost = PhaseFacts { node_ready: ConditionStatus::Unknown, ..PhaseFacts::default() };
    assert_eq!(check("Unknown", "", &held), "Pending Pending Pending Pending ``");
    assert_eq!(check("Unknown", FAILED, &held), "Failed Failed Running Failed ``");
    assert_eq!(
        check("Unknown", "", &PhaseFacts { evict: EVICTED, ..held }),
        "Pending Failed Pending Failed `Evicted`"
    );
    assert_eq!(check("Unknown", RUNNING, &lost), "Running Running Running Unknown ``");
    assert_eq!(check("Running", FAILED, &lost), "Failed Running Running Unknown `recorded`");
}

/// L-PHASE-11: only a terminal phase is held back.
#[test]
fn publication() {
    let held = PhaseFacts { could_have_running_containers: true, ..PhaseFacts::default() };
    assert_eq!(check("Pending", RUNNING, &held), "Running Running Running Running ``");
    assert_eq!(check("Running", FAILED, &held), "Failed Failed Running Failed ``");
    assert_eq!(check("Failed", FAILED, &held), "Failed Failed Failed Failed `recorded`");
}

/// L-PHASE-12: a static pod is not finalised into a terminal phase, and one that has ended keeps its own.
#[test]
fn finalization() {
    let last = PhaseFacts { finalize: true, ..PhaseFacts::default() };
    assert_eq!(check("Running", RUNNING, &last), "Running Failed Failed Failed ``");
    let of_node = PhaseFacts { static_pod: true, ..last };
    assert_eq!(check("Running", RUNNING, &of_node), "Running Running Running Running `recorded`");
    assert_eq!(
        check("Succeeded", RUNNING, &last),
        "Running Succeeded Succeeded Succeeded `recorded`"
    );
}

/// L-PHASE-14: loss of contact alone fails no pod, whatever its state.
#[test]
fn contact_alone_fails_nothing() {
    let lost = PhaseFacts { node_ready: ConditionStatus::Unknown, ..PhaseFacts::default() };
    for recorded in ["Pending", "Running"] {
        for statuses in ["", RUNNING, FAILED] {
            assert!(check(recorded, statuses, &lost).contains(&format!(" {recorded} {recorded} ")));
        }
    }
}

/// L-PHASE-1, L-PHASE-8, L-PHASE-9, L-PHASE-15: all steps. The order is that of the stages of a pod's life.
#[test]
fn steps() {
    use PodPhase::{Failed, Pending, Running, Succeeded, Unknown};
    let all = [Pending, Running, Succeeded, Failed, Unknown];
    let legal = all.map(|from| all.map(|to| u8::from(may_follow(from, to))));
    assert_eq!(
        legal,
        [[1, 1, 1, 1, 0], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 1, 1, 1, 1]]
    );
}

/// L-PHASE-3, L-PHASE-4: sidecars and app containers without a state or status.
#[test]
fn unclear_containers() {
    let check = |init: &str, app: &str| {
        let pod: Pod = serde_json::from_str(&format!(
            r#"{{"spec":{{"containers":[{{"name":"a"}}],"initContainers":[{{"name":"s","restartPolicy":"Always"}}]}},
            "status":{{"containerStatuses":[{app}],"initContainerStatuses":[{init}]}}}}"#
        ))
        .unwrap();
        let facts = PhaseFacts { regular_container_started: true, ..PhaseFacts::default() };
        decide(&pod, &facts).unwrap().raw
    };
    let up = r#"{"name":"s","state":{"running":{}},"started":true}"#;
    assert_eq!(check(up, RUNNING), PodPhase::Running);
    assert_eq!(check("", RUNNING), PodPhase::Pending);
    assert_eq!(check(r#"{"name":"s"}"#, RUNNING), PodPhase::Pending);
    assert_eq!(check(r#"{"name":"s","state":{"waiting":{}}}"#, RUNNING), PodPhase::Pending);
    assert_eq!(
        check(r#"{"name":"s","state":{"terminated":{"exitCode":9}}}"#, RUNNING),
        PodPhase::Running
    );
    assert_eq!(check(up, r#"{"name":"a"}"#), PodPhase::Pending);
}

/// L-PHASE-4, L-PHASE-7, L-PHASE-16, L-PHASE-17: a container in back-off has run, one that pulls its image has not; a
/// container killed by the system has failed.
#[test]
fn waiting_before_and_after_a_run() {
    let check = |policy: &str, status: &str| {
        let pod: Pod = serde_json::from_str(&format!(
            r#"{{"spec":{{"restartPolicy":"{policy}","containers":[{{"name":"a"}}]}},
            "status":{{"containerStatuses":[{{"name":"a",{status}}}]}}}}"#
        ))
        .unwrap();
        decide(&pod, &PhaseFacts::default()).unwrap().raw
    };
    let killed = r#"{"terminated":{"exitCode":137,"reason":"OOMKilled"}}"#;
    let held_back =
        format!(r#""state":{{"waiting":{{"reason":"CrashLoopBackOff"}}}},"lastState":{killed}"#);
    assert_eq!(check("Always", &held_back), PodPhase::Running);
    assert_eq!(check("OnFailure", &held_back), PodPhase::Running);
    assert_eq!(check("Never", &held_back), PodPhase::Failed);
    assert_eq!(check("Never", &format!(r#""state":{killed}"#)), PodPhase::Failed);
    assert_eq!(
        check("Never", r#""state":{"waiting":{"reason":"ErrImagePull"}}"#),
        PodPhase::Pending
    );
}

/// L-PHASE-18, L-PHASE-2: an init container that ended for an in-place restart is no fatality.
#[test]
fn in_place_restart_of_an_init_container() {
    let pod: Pod = serde_json::from_str(
        r#"{"spec":{"restartPolicy":"Never","containers":[{"name":"a"}],"initContainers":[{"name":"i"}]},
        "status":{"containerStatuses":[{"name":"a","state":{"running":{}}}],"initContainerStatuses":[
        {"name":"i","state":{"terminated":{"exitCode":137,"reason":"RestartingAllContainers"}}}]}}"#,
    )
    .unwrap();
    assert_eq!(decide(&pod, &PhaseFacts::default()).unwrap().raw, PodPhase::Running);
}

/// L-PHASE-5, rows 6 to 8: some stopped container is not final.
#[test]
fn one_of_many_runs_again() {
    let check = |policy: &str, code: i32| {
        let pod: Pod = serde_json::from_str(&format!(
            r#"{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"a"}},{{"name":"b","restartPolicy":"{policy}"}}]}},
            "status":{{"containerStatuses":[{{"name":"b","state":{{"terminated":{{"exitCode":{code}}}}}}},
            {{"name":"a","state":{{"terminated":{{"exitCode":0}}}}}}]}}}}"#
        ))
        .unwrap();
        decide(&pod, &PhaseFacts::default()).unwrap().raw
    };
    assert_eq!(check("OnFailure", 1), PodPhase::Running);
    assert_eq!(check("OnFailure", 0), PodPhase::Succeeded);
    assert_eq!(check("Never", 1), PodPhase::Failed);
}

#[test]
fn bad_input_is_named() {
    let facts = PhaseFacts::default();
    let phases = "`Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`";
    assert_eq!(
        check("Runing", "", &facts),
        format!("`status.phase`: unknown value `Runing`: not one of {phases}")
    );
    assert_eq!(
        check("Running", r#"{"name":"a","state":{"running":{},"waiting":{}}}"#, &facts),
        "`status.containerStatuses[0].state`: is waiting and running at once"
    );
    let request = |json: &str| {
        let request: DerivePodPhaseRequest = serde_json::from_str(json).unwrap();
        derive_pod_phase(&request).unwrap_err().to_string()
    };
    assert_eq!(request("{}"), "`pod`: required");
    assert_eq!(request(r#"{"pod":{},"evict":{"message":"m"}}"#), "`evict.reason`: required");
    assert_eq!(
        request(r#"{"pod":{},"nodeReady":"true"}"#),
        "`nodeReady`: unknown value `true`: not one of `True`, `False`, `Unknown`"
    );
    assert_eq!(
        request(r#"{"pod":{"spec":{"restartPolicy":"always"}}}"#),
        "`pod.spec.restartPolicy`: unknown value `always`: not one of `Always`, `OnFailure`, `Never`"
    );
    assert_eq!(
        request(
            r#"{"pod":{"spec":{"containers":[{"name":"a","restartPolicy":"no"}]},
            "status":{"containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":1}}}]}}}"#
        ),
        "`pod.spec.containers[0].restartPolicy`: unknown value `no`: not one of `Always`, `OnFailure`, `Never`"
    );
    let check = CheckPhaseTransitionRequest { from: "Pending".to_owned(), to: String::new() };
    assert_eq!(
        check_phase_transition(&check).unwrap_err().to_string(),
        format!("`to`: required: one of {phases}")
    );
}
