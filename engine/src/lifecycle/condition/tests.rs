//! [`derive`]: cases that the worked examples leave out.

use berth_proto::core_v1::{PodCondition, PodReadinessGate};

use super::*;

const NOW: Seconds = 1_768_046_400; // 2026-01-10T12:00:00Z

fn pod(pod: &str) -> Pod {
    serde_json::from_str(pod).unwrap()
}

fn check(json: &str, phase: PodPhase, r#type: &str) -> String {
    let pod = pod(json);
    match derive(&pod, phase, Some(&[]), NOW) {
        Ok(set) => set.get(r#type).map_or("none".to_owned(), |view| {
            let wire = view.to_wire();
            format!("{} `{}` {}", wire.status, wire.reason, wire.message)
        }),
        Err(error) => error.to_string(),
    }
}

/// L-COND-7, L-COND-8: messages contain the names, also of sidecars, and list containers without a status separately.
#[test]
fn messages_name_the_containers() {
    let json = r#"{"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}],"initContainers":[{"name":"i"},
        {"name":"s","restartPolicy":"Always"},{"name":"j"}]},"status":{"containerStatuses":[
        {"name":"a","state":{"waiting":{}}},{"name":"b","state":{"waiting":{}},"ready":true}],
        "initContainerStatuses":[{"name":"i","ready":true},{"name":"s","ready":true}]}}"#;
    assert_eq!(
        check(json, PodPhase::Pending, "Initialized"),
        "False `ContainersNotInitialized` init containers that are not done: s; containers without a status: j"
    );
    assert_eq!(
        check(json, PodPhase::Pending, "Ready"),
        "False `ContainersNotReady` containers that are not ready: a; containers without a status: c"
    );
}

/// L-COND-7: `Initialized` stays True; for a Succeeded pod every status is needed.
#[test]
fn initialized_stays() {
    let json = r#"{"spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"i"},{"name":"j"}]},"status":{
        "initContainerStatuses":[{"name":"i","state":{"waiting":{}}}],"conditions":[{"type":"Initialized","status":"WAS"}]}}"#;
    let names = "init containers that are not done: i; containers without a status: j";
    let check = |was: &str, phase| check(&json.replace("WAS", was), phase, "Initialized");
    assert_eq!(check("True", PodPhase::Running), "True `` ");
    assert_eq!(
        check("False", PodPhase::Running),
        format!("False `ContainersNotInitialized` {names}")
    );
    assert_eq!(
        check("Unknown", PodPhase::Succeeded),
        format!("False `ContainersNotInitialized` {names}")
    );
}

/// L-COND-11: a terminal phase with missing statuses, or with statuses that are still ready.
#[test]
fn terminal_phases_are_never_ready() {
    let json = r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]},"status":{"containerStatuses":[
        {"name":"a","state":{"running":{}},"ready":true}]}}"#;
    let missing = "False `ContainersNotReady` containers without a status: b";
    assert_eq!(check(json, PodPhase::Succeeded, "ContainersReady"), missing);
    assert_eq!(check(json, PodPhase::Failed, "Ready"), "False `PodFailed` ");
}

/// L-COND-9, L-COND-10, L-COND-16
#[test]
fn readiness_gates() {
    let json = r#"{"spec":{"containers":[{"name":"a"}],"readinessGates":[{"conditionType":"x.io/a"},{"conditionType":"GATE"}]},
        "status":{"containerStatuses":[{"name":"a","ready":true}],"conditions":[{"type":"b","status":"Unknown"}]}}"#;
    let check = |gate: &str| check(&json.replace("GATE", gate), PodPhase::Running, "Ready");
    assert_eq!(
        check("b"),
        "False `ReadinessGatesNotReady` readiness gates: `x.io/a` is missing, `b` is Unknown"
    );
    let illegal = "`spec.readinessGates[1].conditionType`: is not a valid condition type";
    assert_eq!(check("a/b/c"), illegal);
    // The readiness of the containers makes no difference.
    let unready = json.replace(r#""ready":true"#, r#""ready":false"#).replace("GATE", "a/b/c");
    assert_eq!(super::tests::check(&unready, PodPhase::Running, "Ready"), illegal);
}

/// L-COND-1, L-COND-3, L-COND-5, L-COND-15: derived conditions carry the generation and no probe time; foreign ones
/// stay, field by field; owned conditions without facts stay, except for those of a restart that no rule allows.
#[test]
fn derived_and_carried() {
    let foreign = r#"{"type":"Unschedulable","status":"Unknown","lastProbeTime":"2026-01-10T10:00:00Z","reason":"r","message":"m"}"#;
    let pod = pod(&format!(
        r#"{{"metadata":{{"generation":7}},"spec":{{"containers":[{{"name":"a"}}]}},"status":{{"conditions":[{foreign},
        {{"type":"PodResizePending","status":"True","reason":"Deferred"}},
        {{"type":"AllContainersRestarting","status":"True"}}]}}}}"#
    ));
    let set = derive(&pod, PodPhase::Pending, Some(&[]), NOW).unwrap();
    let types: Vec<&str> = set.iter().map(|view| view.r#type).collect();
    let derived =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    assert_eq!(types[..5], derived);
    assert_eq!(types[5..], ["PodResizePending", "Unschedulable"]);
    let wire = set.to_wire();
    for r#type in derived {
        assert_eq!(wire[r#type].observed_generation, 7);
        assert_eq!(wire[r#type].last_probe_time, None);
        assert_eq!(set.get(r#type).unwrap().last_transition_time, Some(NOW));
    }
    assert_eq!(serde_json::to_string(&wire["Unschedulable"]).unwrap(), foreign);
    assert_eq!(wire["PodResizePending"].reason, "Deferred");
    assert!(set.get("AllContainersRestarting").is_none());
}

/// L-COND-18: the end of the pod ends an in-place restart; before it, the recorded condition stays.
#[test]
fn the_end_of_an_in_place_restart() {
    let json = r#"{"spec":{"containers":[{"name":"a","restartPolicyRules":[{"action":"RestartAllContainers"}]}]},
        "status":{"conditions":[{"type":"AllContainersRestarting","status":"True","reason":"kept"}]}}"#;
    let check = |phase| check(json, phase, "AllContainersRestarting");
    assert_eq!(check(PodPhase::Running), "True `kept` ");
    assert_eq!(check(PodPhase::Failed), "False `PodFailed` ");
    assert_eq!(check(PodPhase::Succeeded), "False `PodCompleted` ");
}

/// L-COND-4, L-COND-6: without facts about sandboxes, a pod without a node does not become bound, and the record stays.
#[test]
fn nothing_is_made_up() {
    let unbound = r#"{"spec":{"containers":[{"name":"a"}]},"status":{"conditions":[
        {"type":"PodScheduled","status":"False","reason":"Unschedulable"},
        {"type":"PodReadyToStartContainers","status":"Unknown"}]}}"#;
    let pod = pod(unbound);
    let set = derive(&pod, PodPhase::Pending, None, NOW).unwrap();
    assert_eq!(set.get("PodScheduled").unwrap().reason, "Unschedulable");
    assert_eq!(set.get("PodReadyToStartContainers").unwrap().status, ConditionStatus::Unknown);
    let set = derive(&pod, PodPhase::Pending, Some(&[]), NOW).unwrap();
    assert_eq!(set.get("PodScheduled").unwrap().status, ConditionStatus::True);
}

/// L-COND-19
#[test]
fn bad_conditions_are_named() {
    let with = |conditions: &str| {
        let json =
            format!(r#"{{"spec":{{"containers":[]}},"status":{{"conditions":[{conditions}]}}}}"#);
        check(&json, PodPhase::Pending, "Ready")
    };
    assert_eq!(
        with(r#"{"type":"x","status":"True"},{"type":"x","status":"True"}"#),
        "`status.conditions[1].type`: duplicate `x`"
    );
    assert_eq!(
        with(r#"{"type":"x","status":"true"}"#),
        "`status.conditions[0].status`: unknown value `true`: not one of `True`, `False`, `Unknown`"
    );
    let request: DeriveConditionsRequest = serde_json::from_str(
        r#"{"pod":{},"phase":"Running","sandboxes":[{"state":"Up"}],"now":"2026-01-10T12:00:00Z"}"#,
    )
    .unwrap();
    assert_eq!(
        derive_conditions(&request).unwrap_err().to_string(),
        "`sandboxes[0].state`: unknown value `Up`: not one of `Ready`, `NotReady`"
    );
}

/// L-COND-16: prefixes and lengths as for label keys.
#[test]
fn condition_types() {
    let valid = |r#type: &str| {
        let request = ValidateConditionTypeRequest { r#type: r#type.to_owned() };
        validate_condition_type(&request).unwrap().valid
    };
    assert!(OwnedType::WORDS.iter().all(|owned| valid(owned)));
    assert!(valid("DisruptionTarget"));
    assert!(!valid(""));
    assert!(!valid("/x"));
    assert!(!valid(&"x".repeat(64)));
}

/// L-COND-10: the message looks each gate up among the recorded conditions.
#[test]
fn long_lists_of_gates() {
    let mut pod = pod(r#"{"spec":{"containers":[{"name":"a"}]},"status":{"containerStatuses":[
        {"name":"a","ready":true}]}}"#);
    for at in 0..100_000 {
        let r#type = format!("x.io/{at}");
        let condition = PodCondition {
            r#type: r#type.clone(),
            status: "False".to_owned(),
            ..PodCondition::default()
        };
        pod.status.as_mut().unwrap().conditions.push(condition);
        let gate = PodReadinessGate { condition_type: r#type };
        pod.spec.as_mut().unwrap().readiness_gates.push(gate);
    }
    let set = derive(&pod, PodPhase::Running, Some(&[]), NOW).unwrap();
    let message = set.get("Ready").unwrap().to_wire().message;
    assert!(message.ends_with(", `x.io/99999` is False"), "{}", message.len());
}
