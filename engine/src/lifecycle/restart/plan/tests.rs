//! Plans: cases that the worked examples leave out.

use super::*;

/// Checks the plan of a request, written in words with kills first.
fn check(request: &str, expected: &str) {
    let request: PlanContainersRequest = serde_json::from_str(request).unwrap();
    let plan = plan_containers(&request).unwrap();
    let kills = plan.containers_to_kill.iter();
    let kills = kills.map(|kill| format!("{}:{}", kill.name, kill.reason.as_deref().unwrap()));
    let kills: Vec<String> = kills.collect();
    let mut words = Vec::new();
    for (verb, names) in [
        ("kill", &kills),
        ("remove", &plan.containers_to_remove),
        ("init", &plan.init_containers_to_start),
        ("start", &plan.containers_to_start),
        ("ephemeral", &plan.ephemeral_containers_to_start),
    ] {
        if !names.is_empty() {
            words.push(format!("{verb} {}", names.join(",")));
        }
    }
    for (word, holds) in [("kill-pod", plan.kill_pod), ("sandbox", plan.create_sandbox)] {
        if holds {
            words.push(word.to_owned());
        }
    }
    assert_eq!(words.join("; "), expected, "{request:?}");
}

fn request(policy: &str, init: &str, app: &str, rest: &str) -> String {
    format!(
        r#"{{"pod": {{"spec": {{"restartPolicy": "{policy}", "initContainers": [{init}], "containers": [{app}]}}}}, "sandboxReady": true{rest}}}"#
    )
}

fn seen(containers: &str) -> String {
    format!(r#", "containers": [{containers}]"#)
}

const APP: &str = r#"{"name": "app"}"#;
const SIDECAR: &str = r#"{"name": "s", "restartPolicy": "Always"}"#;
const RUNS: &str = r#"{"name": "app", "state": "Running"}"#;

/// L-RESTART-12: a startup probe has to succeed before the next container starts; L-RESTART-10.
#[test]
fn a_sidecar_with_a_startup_probe() {
    let sidecar =
        r#"{"name": "s", "restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 1}}}"#;
    let running = seen(r#"{"name": "s", "state": "Running"}"#);
    let given = |status: &str, failed: &str| {
        format!(
            r#"{{"pod": {{"spec": {{"initContainers": [{sidecar}], "containers": [{APP}]}}, "status": {{"initContainerStatuses": [{status}]}}}}, "sandboxReady": true{running}{failed}}}"#
        )
    };
    check(&given("", ""), "");
    check(&given(r#"{"name": "s", "started": false}"#, ""), "");
    check(&given(r#"{"name": "s", "started": true}"#, ""), "start app");
    check(&given("", r#", "startupFailed": ["s"]"#), "kill s:StartupProbe; init s");
    let alive = r#", "livenessFailed": ["s"]"#;
    check(
        &given(r#"{"name": "s", "started": true}"#, alive),
        "kill s:LivenessProbe; init s; start app",
    );
}

/// L-RESTART-9, L-RESTART-14: a sidecar is restarted even if its record is gone; after the end of the app it is left
/// alone.
#[test]
fn sidecars_live_and_end_with_the_app() {
    check(&request("Never", SIDECAR, APP, &seen(RUNS)), "init s");
    let lost = format!(r#"{RUNS}, {{"name": "s", "state": "Unknown"}}"#);
    check(&request("Never", SIDECAR, APP, &seen(&lost)), "kill s:Unknown; init s");
    let both_ended = r#"{"name": "app", "state": "Exited", "exitCode": 0}, {"name": "s", "state": "Exited", "exitCode": 1}"#;
    check(&request("Never", SIDECAR, APP, &seen(both_ended)), "kill-pod");
    check(&request("Always", SIDECAR, APP, &seen(both_ended)), "init s");
    let failing = r#", "livenessFailed": ["app"]"#;
    let running = format!(r#"{RUNS}, {{"name": "s", "state": "Running"}}"#);
    check(
        &request("Never", SIDECAR, APP, &(seen(&running) + failing)),
        "kill app:LivenessProbe; kill-pod",
    );
    let changed = r#", "definitionChanged": ["s"]"#;
    check(&request("Never", SIDECAR, APP, &(seen(&running) + changed)), "kill s:; init s");
}

/// L-RESTART-25, L-RESTART-10: a changed definition goes before a failed probe, and restarts under any policy.
#[test]
fn why_a_running_container_is_killed() {
    let given = |rest: &str| request("Never", "", APP, &(seen(RUNS) + rest));
    let (changed, dead, slow) = (
        r#", "definitionChanged": ["app"]"#,
        r#", "livenessFailed": ["app"]"#,
        r#", "startupFailed": ["app"]"#,
    );
    check(&given(&format!("{changed}{dead}{slow}")), "kill app:; start app");
    check(&given(&format!("{dead}{slow}")), "kill app:LivenessProbe; kill-pod");
    check(&given(slow), "kill app:StartupProbe; kill-pod");
    check(&given(""), "");
    // A container that has ended is not killed.
    let ended = seen(r#"{"name": "app", "state": "Exited", "exitCode": 1}"#);
    check(&request("Always", "", APP, &(ended + dead)), "start app");
}

/// L-RESTART-8, L-RESTART-22, L-RESTART-24.
#[test]
fn init_containers_that_failed() {
    let init = r#"{"name": "i", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}], "restartPolicy": "Never"}"#;
    let ended = |code: i32, reason: &str| {
        seen(&format!(
            r#"{{"name": "i", "state": "Exited", "exitCode": {code}, "reason": "{reason}"}}"#
        ))
    };
    check(&request("Always", init, APP, &ended(3, "")), "init i");
    check(&request("Always", init, APP, &ended(4, "")), "kill-pod");
    let plain = r#"{"name": "i"}"#;
    check(&request("OnFailure", plain, APP, &ended(0, "OOMKilled")), "kill-pod");
    check(&request("Always", plain, APP, &ended(0, "OOMKilled")), "init i");
    let lost = seen(r#"{"name": "i", "state": "Unknown"}"#);
    check(&request("OnFailure", plain, APP, &lost), "kill i:Unknown; init i");
    check(&request("Never", plain, APP, &lost), "kill-pod");
    check(&request("Never", plain, APP, &seen(r#"{"name": "i", "state": "Created"}"#)), "init i");
}

/// L-RESTART-11: triggering containers are removed last; ephemeral containers stay.
#[test]
fn a_rule_restarts_the_whole_pod() {
    let app = r#"{"name": "a", "restartPolicy": "Never", "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]}, {"name": "b"}"#;
    let containers = r#"{"name": "a", "state": "Exited", "exitCode": 9}, {"name": "b", "state": "Running"}, {"name": "i", "state": "Exited", "exitCode": 0}"#;
    let triggered = request("Never", r#"{"name": "i"}"#, app, &seen(containers));
    check(&triggered, "remove i,b,a");
    check(&request("Never", r#"{"name": "i"}"#, app, ""), "init i");
    check(
        &triggered.replace(r#""sandboxReady": true"#, r#""sandboxReady": false"#),
        "remove i,b,a; kill-pod; sandbox",
    );
    let marked = triggered.replace(
        r#"{"spec""#,
        r#"{"metadata": {"deletionTimestamp": "2026-01-10T12:00:00Z"}, "spec""#,
    );
    check(&marked, "");
}

/// L-RESTART-11: rules count for every kind of container, so even a completed init container restarts the whole pod;
/// but not without a policy of its own (L-RESTART-6), and not if its end is part of such a restart (L-PHASE-18).
#[test]
fn a_finished_init_container_restarts_the_whole_pod() {
    let rules = r#""restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [1]}}]"#;
    let done = r#"{"name": "i", "state": "Exited", "exitCode": 0}"#;
    let with = |policy: &str, containers: &str| {
        let init = format!(r#"{{"name": "i", {policy}{rules}}}"#);
        request("Never", &init, APP, &seen(containers))
    };
    check(&with(r#""restartPolicy": "Never", "#, done), "remove i");
    check(&with("", done), "start app");
    let restarting = done.replace("0}", r#"0, "reason": "RestartingAllContainers"}"#);
    check(&with(r#""restartPolicy": "Never", "#, &restarting), "start app");
}

/// L-RESTART-2.
#[test]
fn a_marked_pod_starts_nothing() {
    let marked = |text: String| {
        text.replace(
            r#"{"spec""#,
            r#"{"metadata": {"deletionTimestamp": "2026-01-10T12:00:00Z"}, "spec""#,
        )
    };
    let init = r#"{"name": "i"}"#;
    check(&marked(request("Always", init, APP, "")), "kill-pod");
    check(&marked(request("Always", init, APP, r#", "sandboxReady": false"#)), "kill-pod");
    check(&marked(request("Always", SIDECAR, APP, &seen(RUNS))), "");
    let failed = seen(r#"{"name": "i", "state": "Exited", "exitCode": 1}"#);
    check(&marked(request("Never", init, APP, &failed)), "kill-pod");
}

/// L-RESTART-13: a container's own policy counts; if nothing is left to run, there is no new sandbox.
#[test]
fn a_lost_sandbox() {
    let app = r#"{"name": "a", "restartPolicy": "OnFailure"}, {"name": "b"}"#;
    let ended = r#"{"name": "a", "state": "Exited", "exitCode": 0}, {"name": "b", "state": "Exited", "exitCode": 0}"#;
    let lost = format!(r#"{}, "sandboxReady": false, "sandboxAttempt": 1"#, seen(ended));
    check(&request("Always", "", app, &lost), "start b; kill-pod; sandbox");
    check(&request("OnFailure", "", app, &lost), "kill-pod");
    check(&request("OnFailure", r#"{"name": "i"}"#, app, &lost), "kill-pod");
    check(&request("Always", r#"{"name": "i"}"#, app, &lost), "init i; kill-pod; sandbox");
    let first = format!(r#"{}, "sandboxReady": false"#, seen(ended));
    check(
        &request("Never", "", r#"{"name": "a"}, {"name": "b"}"#, &first),
        "start a,b; kill-pod; sandbox",
    );
}

/// L-RESTART-26.
#[test]
fn ephemeral_containers_start_once() {
    let given = |containers: &str| {
        format!(
            r#"{{"pod": {{"spec": {{"containers": [{APP}], "ephemeralContainers": [{{"name": "d"}}, {{"name": "e"}}]}}}}, "sandboxReady": true, "containers": [{containers}]}}"#
        )
    };
    check(&given(RUNS), "ephemeral d,e");
    let one = format!(r#"{RUNS}, {{"name": "d", "state": "Exited", "exitCode": 1}}"#);
    check(&given(&one), "ephemeral e");
}

#[test]
fn bad_input_names_its_field() {
    let twice = format!("{RUNS}, {RUNS}");
    let probes = |field: &str| format!(r#", "{field}": ["app", "x"]"#);
    for (request, expected) in [
        ("{}".to_owned(), "`pod`: required"),
        (r#"{"pod": {}}"#.to_owned(), "`pod.spec.containers`: required"),
        (r#"{"pod": {}, "sandboxAttempt": -1}"#.to_owned(), "`sandboxAttempt`: is negative"),
        (
            request("Sometimes", "", APP, ""),
            "`pod.spec.restartPolicy`: unknown value `Sometimes`: not one of `Always`, `OnFailure`, `Never`",
        ),
        (
            request("Never", r#"{"name": "i", "restartPolicy": "x"}"#, APP, ""),
            "`pod.spec.initContainers[0].restartPolicy`: unknown value `x`: not one of `Always`, `OnFailure`, `Never`",
        ),
        (
            request("Never", r#"{"name": "app"}"#, APP, ""),
            "`pod.spec.containers[0].name`: duplicate `app`",
        ),
        (
            r#"{"pod": {"spec": {"containers": [{"name": "app"}]}, "status": {"containerStatuses": [{"name": "b"}]}}}"#.to_owned(),
            "`pod.status.containerStatuses[0].name`: `b` is not in `spec.containers`",
        ),
        (request("Never", "", "{}", ""), "`pod.spec.containers[0].name`: required"),
        (request("Never", "", APP, &seen(&twice)), "`containers[1].name`: `app` is listed twice"),
        (
            request("Never", "", APP, &seen(r#"{"name": "b", "state": "Running"}"#)),
            "`containers[0].name`: `b` is not a container of the pod",
        ),
        (
            request("Never", "", APP, &seen(r#"{"name": "app", "state": "Exited"}"#)),
            "`containers[0].exitCode`: required in state `Exited`",
        ),
        (
            request("Never", "", APP, &seen(r#"{"name": "app"}"#)),
            "`containers[0].state`: required: one of `Created`, `Running`, `Exited`, `Unknown`",
        ),
        (
            request("Never", "", APP, &probes("livenessFailed")),
            "`livenessFailed[1]`: `x` is not a container of the pod",
        ),
        (
            request("Never", "", APP, &probes("definitionChanged")),
            "`definitionChanged[1]`: `x` is not a container of the pod",
        ),
    ] {
        let request: PlanContainersRequest = serde_json::from_str(&request).unwrap();
        assert_eq!(plan_containers(&request).unwrap_err().to_string(), expected);
    }
}
