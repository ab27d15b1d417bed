//! Events of containers that ended in every way.

use berth_proto::core_v1::ContainerStateTerminated;
use serde_json::{Value, json};

use super::*;

/// Noon of the tests' day; times are written as seconds after it.
const NOON: i64 = 1_768_046_400;

fn at(seconds: i64) -> Value {
    serde_json::to_value(reading::time(NOON + seconds)).unwrap()
}

/// A pod with a container of every kind.
fn pod(policy: &str, statuses: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"nodeName": "n", "restartPolicy": policy,
            "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
            "containers": [{"name": "main", "resources": {"limits": {"memory": "256Mi"}}}],
            "ephemeralContainers": [{"name": "debug"}]},
        "status": statuses,
    })
}

fn ended(name: &str, code: i32, reason: &str, restarts: i32) -> Value {
    json!({"name": name, "restartCount": restarts, "state": {"terminated":
        {"exitCode": code, "reason": reason, "startedAt": at(-30), "finishedAt": at(-10)}}})
}

fn main_ended(policy: &str, code: i32, reason: &str, restarts: i32) -> Value {
    pod(
        policy,
        &json!({"phase": "Running", "containerStatuses": [ended("main", code, reason, restarts)]}),
    )
}

fn ask(pod: Value, container: &str) -> Result<ContainerEndEventResponse, ModelError> {
    container_end_event(&ContainerEndEventRequest {
        pod: Some(serde_json::from_value(pod).unwrap()),
        container: container.to_owned(),
        now: Some(reading::time(NOON)),
        terminated: None,
        key: None,
    })
}

/// The events as `TYPE REASON: MESSAGE`.
fn events(pod: Value, container: &str) -> Vec<String> {
    let events = ask(pod, container).unwrap().events;
    events.iter().map(|one| format!("{} {}: {}", one.r#type, one.reason, one.message)).collect()
}

/// L-CSTATE-16, L-CSTATE-17
#[test]
fn one_event_for_each_kind_of_end() {
    let event = |policy: &str, code, reason: &str| {
        let events = events(main_ended(policy, code, reason, 0), "main");
        let [event] = &events[..] else { panic!("{events:?}") };
        event.clone()
    };
    assert_eq!(
        event("Never", 0, "Completed"),
        "Normal Completed: container `main` completed with exit code 0 after 20 s; it is not started again (the \
         restart policy of its pod)"
    );
    assert_eq!(
        event("Never", 3, "Error"),
        "Warning Failed: container `main` failed (exit code 3) after 20 s; it is not started again (the restart \
         policy of its pod)"
    );
    assert_eq!(
        event("OnFailure", 137, "OOMKilled"),
        "Warning OOMKilled: container `main` ran out of memory with a limit of 256Mi and was killed (exit code 137) \
         after 20 s; it is started again (the restart policy of its pod)"
    );
    // A memory kill is one whatever the exit code says (L-RESTART-22).
    assert!(event("Never", 0, "OOMKilled").starts_with("Warning OOMKilled: "));
    assert!(event("Never", 139, "Error").contains("failed (by SIGSEGV, exit code 139)"));
    assert!(event("Never", 137, "ContainerStatusUnknown").contains(", ContainerStatusUnknown)"));
}

/// L-CSTATE-18, L-RESTART-15, L-RESTART-19
#[test]
fn a_restart_that_waits_is_a_second_event() {
    let answer = ask(main_ended("Always", 1, "Error", 3), "main").unwrap();
    let reasons: Vec<&str> = answer.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(reasons, ["Failed", "BackOff"]);
    assert_eq!(
        answer.events[1].message,
        "container `main` has ended again: restart 4 waits until 40 s after its end"
    );
    assert_eq!((answer.backoff_seconds, &*answer.action), (40, "Restart"));
    assert_eq!(answer.restart_not_before, Some(reading::time(NOON + 30)));
    // The delay is over: nothing waits.
    let events = events(main_ended("Always", 1, "Error", 1), "main");
    assert_eq!(events.len(), 1, "{events:?}");
    // The delay that the node agent names counts.
    let waiting = json!({"name": "main", "restartCount": 9,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container=main"}},
        "lastState": {"terminated": {"exitCode": 1, "startedAt": at(-30), "finishedAt": at(-10)}}});
    let waiting = pod("Always", &json!({"containerStatuses": [waiting]}));
    let answer = ask(waiting, "main").unwrap();
    assert_eq!((answer.events.len(), answer.backoff_seconds), (2, 20));
}

/// L-CSTATE-16: a container that its deletion stops has not failed; one that ended before has.
#[test]
fn a_stop_on_request_is_no_failure() {
    let marked = |code, deletion: i64| {
        let mut pod = main_ended("Always", code, "Error", 0);
        pod["metadata"]["deletionTimestamp"] = at(deletion);
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        events(pod, "main")
    };
    assert_eq!(
        marked(143, 10),
        [
            "Normal Stopped: container `main` was stopped on request (by SIGTERM, exit code 143) after 20 s; it is not \
          started again (its pod is being deleted)"
        ]
    );
    assert!(marked(137, 10)[0].starts_with("Normal Stopped: "));
    assert!(marked(1, 10)[0].starts_with("Warning Failed: "));
    assert!(marked(0, 10)[0].starts_with("Normal Completed: "));
    assert!(marked(143, 25)[0].starts_with("Warning Failed: "), "it ended before the request");
    let in_place = events(main_ended("Never", 137, "RestartingAllContainers", 0), "main");
    assert!(in_place[0].starts_with("Normal Stopped: "), "{in_place:?}");
}

/// L-CSTATE-19, L-RESTART-8, L-RESTART-9, L-RESTART-26
#[test]
fn every_kind_of_container_has_its_field() {
    let statuses = json!({
        "initContainerStatuses": [ended("setup", 0, "Completed", 0), ended("proxy", 2, "Error", 0)],
        "ephemeralContainerStatuses": [ended("debug", 1, "Error", 0)]});
    let told = |container: &str| {
        let answer = ask(pod("Never", &statuses), container).unwrap();
        format!("{} {} {}", answer.events[0].field_path, answer.events[0].reason, answer.action)
    };
    assert_eq!(told("setup"), "spec.initContainers{setup} Completed None");
    assert_eq!(told("proxy"), "spec.initContainers{proxy} Failed Restart");
    assert_eq!(told("debug"), "spec.ephemeralContainers{debug} Failed None");
}

/// L-RESTART-11: no back-off.
#[test]
fn a_rule_may_restart_all_containers() {
    let mut pod = main_ended("Never", 42, "Error", 5);
    let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    pod["spec"]["containers"][0]["restartPolicy"] = json!("Never");
    pod["spec"]["containers"][0]["restartPolicyRules"] = rule;
    let answer = ask(pod, "main").unwrap();
    assert_eq!((answer.events.len(), &*answer.action), (1, "RestartAllContainers"));
    assert_eq!(answer.restart_not_before, Some(reading::time(NOON - 10)));
    assert!(answer.events[0].message.contains("in place (restart rule 0)"));
}

/// L-CSTATE-17: the message of a process ends the event's, and an event is never too long for the API.
#[test]
fn a_given_end_and_a_long_message() {
    let mut request = ContainerEndEventRequest {
        pod: Some(serde_json::from_value(pod("Never", &json!({}))).unwrap()),
        container: "main".to_owned(),
        now: Some(reading::time(NOON)),
        terminated: Some(ContainerStateTerminated {
            exit_code: 7,
            message: "no route to db\n".to_owned(),
            ..ContainerStateTerminated::default()
        }),
        key: None,
    };
    let answer = container_end_event(&request).unwrap();
    assert!(answer.events[0].message.ends_with("; it said: no route to db"));
    assert_eq!((answer.exit_code, answer.signal), (7, None));
    request.terminated.as_mut().unwrap().message = "ä".repeat(2_000);
    let message = container_end_event(&request).unwrap().events.remove(0).message;
    assert!((1_022..=1_024).contains(&message.len()), "{}", message.len());
}

#[test]
fn bad_input_is_named() {
    let error = |pod: Value, container: &str| ask(pod, container).unwrap_err().to_string();
    let running = json!({"containerStatuses": [{"name": "main", "state": {"running": {}}}]});
    assert_eq!(error(pod("Always", &running), "main"), "`container`: `main` has not ended");
    assert_eq!(error(pod("Always", &json!({})), "main"), "`container`: `main` has not ended");
    assert_eq!(
        error(pod("Always", &json!({})), "app"),
        "`container`: the pod has no container `app`"
    );
    assert_eq!(error(pod("Always", &json!({})), ""), "`container`: required");
    assert!(error(main_ended("Often", 1, "", 0), "main").starts_with("`pod.spec.restartPolicy`"));
    let without = container_end_event(&ContainerEndEventRequest::default()).unwrap_err();
    assert_eq!(without.to_string(), "`pod`: required");
}
