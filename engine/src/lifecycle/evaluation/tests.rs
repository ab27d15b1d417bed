//! Evaluations of pods at the times at which the next action changes.

use berth_proto::berth_v1::{
    EvaluatePodsRequest, ExplainPodRequest, ExplainPodResponse, LifecycleEvent, PodFacts,
};
use berth_proto::core_v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;

/// Noon of the tests' day; times are written as seconds after it.
const NOON: i64 = 1_768_046_400;

fn at(seconds: i64) -> Value {
    serde_json::to_value(reading::time(NOON + seconds)).unwrap()
}

fn request(pod: Value, node: Option<Value>) -> EvaluatePodsRequest {
    EvaluatePodsRequest {
        pod: Some(serde_json::from_value::<Pod>(pod).unwrap()),
        now: Some(reading::time(NOON)),
        node: node.map(|node| serde_json::from_value::<Node>(node).unwrap()),
        facts: None,
        key: None,
    }
}

/// The evaluation as `ACTION ACTOR [NAMES] not before, deadline, wake-up`, with times in seconds after noon.
fn check(pod: Value, node: Option<Value>) -> String {
    let answer = evaluate_pod(&request(pod, node));
    assert_eq!(answer.error, None);
    let next = answer.next_action.unwrap();
    let seconds = |time: Option<&berth_proto::Time>| {
        let seconds = reading::optional(time).map(|seconds| (seconds - NOON).to_string());
        seconds.unwrap_or_else(|| "-".to_owned())
    };
    format!(
        "{} {} [{}] {} {} {}",
        next.action,
        next.actor,
        next.names.join(","),
        seconds(next.not_before.as_ref()),
        seconds(next.deadline.as_ref()),
        seconds(answer.wake_up_at.as_ref()),
    )
}

fn bound(spec: &Value, status: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": status});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn marked(mut pod: Value, deletion: i64, grace: i64) -> Value {
    pod["metadata"]["deletionTimestamp"] = at(deletion);
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    pod
}

fn running() -> Value {
    bound(
        &json!({"containers": [{"name": "a"}]}),
        &json!({"phase": "Running", "containerStatuses": [
            {"name": "a", "ready": true, "started": true, "state": {"running": {"startedAt": at(-60)}}}]}),
    )
}

/// L-GATE-1, L-COND-4
#[test]
fn before_a_node_is_found() {
    let gated = json!({"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "x"}, {"name": "y"}]}});
    assert_eq!(check(gated, None), "AwaitGates  [x,y] - - -");
    let new = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
    assert_eq!(check(new.clone(), None), "Schedule scheduler [] - - -");
    assert_eq!(check(marked(new, -1, 0), None), "RemovePod podGC [] - - -");
}

/// L-RESTART-12, L-RESTART-15, L-RESTART-16
#[test]
fn containers_are_started_in_order() {
    let spec = json!({"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always",
        "startupProbe": {"tcpSocket": {"port": 1}}}], "containers": [{"name": "a"}, {"name": "b"}]});
    let with = |init: Value, app: Value| {
        let status = json!({"initContainerStatuses": init, "containerStatuses": app});
        check(bound(&spec, &status), None)
    };
    let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
    let up = json!({"name": "s", "started": true, "state": {"running": {}}});
    assert_eq!(with(json!([]), json!([])), "StartContainers nodeAgent [i] - - -");
    assert_eq!(
        with(json!([{"name": "i", "state": {"running": {}}}]), json!([])),
        "AwaitContainers nodeAgent [i] - - -"
    );
    let starting = json!({"name": "s", "started": false, "state": {"running": {}}});
    assert_eq!(with(json!([done, starting]), json!([])), "AwaitContainers nodeAgent [s] - - -");
    assert_eq!(with(json!([done, up]), json!([])), "StartContainers nodeAgent [a,b] - - -");
    let crashed = |restarts: i64, lasted: i64| {
        json!({"name": "a", "restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "startedAt": at(-10 - lasted), "finishedAt": at(-10)}}})
    };
    let runs = json!({"name": "b", "state": {"running": {}}});
    let restart = |crashed: Value| with(json!([done, up]), json!([crashed, runs]));
    assert_eq!(restart(crashed(3, 5)), "RestartContainers nodeAgent [a] 30 - 30");
    assert_eq!(restart(crashed(30, 5)), "RestartContainers nodeAgent [a] 290 - 290");
    assert_eq!(restart(crashed(30, 601)), "RestartContainers nodeAgent [a] -10 - -");
}

/// L-PHASE-10, L-COND-14
#[test]
fn times_that_threaten_a_running_pod() {
    assert_eq!(check(running(), None), "None  [] - - -");
    let mut pod = running();
    pod["spec"]["activeDeadlineSeconds"] = json!(100);
    pod["status"]["startTime"] = at(-60);
    assert_eq!(check(pod.clone(), None), "None  [] - - 40");
    pod["status"]["startTime"] = at(-100);
    assert_eq!(check(pod, None), "FailPod nodeAgent [] - - -");
    let mut pod = running();
    pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
        "reason": "EvictionByEvictionAPI", "lastTransitionTime": at(-20)}]);
    assert_eq!(check(pod, None), "None  [] - - 100");
}

/// L-NODE-12, L-NODE-18, L-PHASE-13
#[test]
fn nodes_that_fail() {
    let node = |ready: &str, taint: Value| {
        Some(json!({"metadata": {"name": "n"}, "spec": {"taints": [taint]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
    };
    let unreachable = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": at(-100)});
    let mut pod = running();
    assert_eq!(
        check(pod.clone(), node("Unknown", unreachable.clone())),
        "EvictPod taintEvictionController [] - -100 -"
    );
    pod["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable",
        "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    let lost = node("Unknown", unreachable);
    assert_eq!(check(pod.clone(), lost.clone()), "AwaitNode  [] - - 200");
    let answer = evaluate_pod(&request(pod.clone(), lost.clone()));
    assert_eq!((&*answer.phase, &*answer.effective_phase), ("Running", "Unknown"));
    assert_eq!(check(marked(pod.clone(), 10, 30), lost), "AwaitNode  [] - - -");
    let out = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    assert_eq!(check(marked(pod, 10, 30), node("Unknown", out)), "RemovePod podGC [] - - -");
}

/// L-TERM-6, L-TERM-9, L-TERM-18, L-TERM-19
#[test]
fn the_end_of_a_pod() {
    let stop = "StopContainers nodeAgent [a] - 20 20";
    assert_eq!(check(marked(running(), 20, 30), None), stop);
    let kill = "KillContainers nodeAgent [a] - -5 -";
    assert_eq!(check(marked(running(), -5, 30), None), kill);
    let mut ended = running();
    ended["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
    let ended = marked(ended, 20, 30);
    assert_eq!(check(ended.clone(), None), "PublishPhase nodeAgent [] - - -");
    let mut published = ended;
    published["status"]["phase"] = json!("Succeeded");
    assert_eq!(check(published.clone(), None), "RemovePod nodeAgent [] - - -");
    published["metadata"]["finalizers"] = json!(["f"]);
    assert_eq!(check(published, None), "AwaitFinalizers  [f] - - -");
    let mut finished = running();
    finished["spec"]["restartPolicy"] = json!("Never");
    finished["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 3}});
    assert_eq!(check(finished.clone(), None), "PublishPhase nodeAgent [] - - -");
    finished["status"]["phase"] = json!("Failed");
    assert_eq!(check(finished, None), "None  [] - - -");
}

/// L-PHASE-11, L-TERM-19, L-GEN-4: nothing is removed or declared ended while a process may run.
#[test]
fn processes_that_may_run_are_stopped_first() {
    let mut failed = running();
    failed["status"]["phase"] = json!("Failed");
    assert_eq!(check(failed.clone(), None), "StopContainers nodeAgent [a] - - -");
    let stop = "StopContainers nodeAgent [a] - 20 20";
    assert_eq!(check(marked(failed, 20, 30), None), stop);
    let mut debugged = running();
    debugged["spec"]["restartPolicy"] = json!("Never");
    debugged["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
    debugged["status"]["ephemeralContainerStatuses"] =
        json!([{"name": "dbg", "state": {"running": {}}}]);
    assert_eq!(check(debugged, None), "StopContainers nodeAgent [dbg] - - -");
    let mut unknown = running();
    unknown["status"]["containerStatuses"] = json!([]);
    assert_eq!(check(unknown.clone(), None), "AwaitContainers nodeAgent [a] - - -");
    assert_eq!(check(marked(unknown, 20, 30), None), "StopContainers nodeAgent [] - 20 20");
    let mut creating = running();
    creating["status"] = json!({"phase": "Pending", "containerStatuses": [
        {"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}}]});
    assert_eq!(check(marked(creating, 20, 30), None), "StopContainers nodeAgent [] - 20 20");
}

/// L-TERM-18, L-PHASE-6: the terminal phase of a pod that restarts by its policy is published once it is marked.
#[test]
fn a_deleted_pod_has_a_phase_to_publish() {
    let mut ended = running();
    ended["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
    let answer = evaluate_pod(&request(marked(ended, 20, 30), None));
    assert_eq!(answer.next_action.unwrap().action, "PublishPhase");
    assert_eq!((&*answer.phase, &*answer.published_phase), ("Succeeded", "Succeeded"));
}

/// L-RESTART-11, L-RESTART-14, L-RESTART-15
#[test]
fn containers_beside_each_other() {
    let ended = |name: &str, code: i64, restarts: i64| {
        json!({"name": name, "restartCount": restarts, "state": {"terminated":
            {"exitCode": code, "startedAt": at(-20), "finishedAt": at(-10)}}})
    };
    let up = |name: &str| json!({"name": name, "started": true, "state": {"running": {}}});
    let sidecar = json!([{"name": "s", "restartPolicy": "Always"}]);
    let job =
        json!({"restartPolicy": "Never", "initContainers": sidecar, "containers": [{"name": "a"}]});
    let status = json!({"phase": "Running", "initContainerStatuses": [up("s")], "containerStatuses": [ended("a", 0, 0)]});
    assert_eq!(check(bound(&job, &status), None), "StopContainers nodeAgent [s] - - -");

    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let with = |a: Value, b: Value| {
        check(bound(&two, &json!({"phase": "Running", "containerStatuses": [a, b]})), None)
    };
    let pulling = json!({"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}});
    assert_eq!(with(pulling, ended("b", 1, 3)), "StartContainers nodeAgent [a] - - 30");
    let (overdue, later) = (ended("a", 1, 0), ended("b", 1, 3));
    assert_eq!(with(overdue.clone(), later), "RestartContainers nodeAgent [a] -10 - 30");
    assert_eq!(with(overdue, ended("b", 1, 0)), "RestartContainers nodeAgent [a,b] -10 - -");

    let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let init = json!({"initContainers": [{"name": "i", "restartPolicy": "Never", "restartPolicyRules": rule}],
        "containers": [{"name": "a"}]});
    let status = json!({"initContainerStatuses": [ended("i", 42, 3)]});
    assert!(check(bound(&init, &status), None).starts_with("RestartContainers nodeAgent [i] - - "));

    let killed =
        json!({"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "OOMKilled"}}});
    let fatal = json!({"restartPolicy": "Never", "initContainers": [{"name": "i"}], "containers": [{"name": "a"}]});
    let status = json!({"initContainerStatuses": [killed]});
    assert_eq!(check(bound(&fatal, &status), None), "FailPod nodeAgent [] - - -");
    let status = json!({"phase": "Running", "containerStatuses": [up("a")]});
    assert_eq!(check(bound(&fatal, &status), None), "None  [] - - -", "the record of i may go");
}

/// L-COND-17, L-COND-14, L-GEN-4
#[test]
fn conditions_follow_what_is_known() {
    let condition = |pod: Value, node: Option<Value>, r#type: &str| {
        let answer = evaluate_pod(&request(pod, node));
        answer.conditions.get(r#type).map(|condition| condition.status.clone())
    };
    let mut pod = running();
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(-50)},
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": at(-130)}]);
    let lost = json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let is = |status: &str| Some(status.to_owned());
    assert_eq!(condition(pod.clone(), Some(lost.clone()), "Ready"), is("False"));
    assert_eq!(condition(pod.clone(), Some(lost), "ContainersReady"), None);
    assert_eq!(condition(pod.clone(), None, "Ready"), is("True"));
    assert_eq!(condition(pod, None, "DisruptionTarget"), is("False"), "stale since 10 s");
    let new = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
    assert_eq!(condition(new, None, "Initialized"), None, "no agent has seen it");
}

/// L-NODE-18: no action is left to an unreachable agent; L-TERM-6: finalizers prevent removal by PodGC too.
#[test]
fn lost_nodes_and_finalizers() {
    let node = |taints: Value| {
        Some(json!({"metadata": {"name": "n"}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))
    };
    let mut late = running();
    late["spec"]["activeDeadlineSeconds"] = json!(1);
    late["status"]["startTime"] = at(-60);
    assert_eq!(check(late, node(json!([]))), "AwaitNode  [] - - -");
    let mut done = running();
    done["status"]["phase"] = json!("Failed");
    done["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 1}});
    assert_eq!(check(marked(done, -5, 30), node(json!([]))), "AwaitNode  [] - - -");
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}]);
    let mut held = marked(running(), -5, 30);
    held["metadata"]["finalizers"] = json!(["f"]);
    assert_eq!(check(held, node(out)), "AwaitFinalizers  [f] - - -");
}

/// L-PHASE-15
#[test]
fn stages_follow_each_other() {
    let stage = |pod: Value| {
        let EvaluatePodsRequest { pod, now, node, facts, .. } = request(pod, None);
        explain_pod(&ExplainPodRequest { pod, now, node, facts, claims: Vec::new(), key: None })
            .unwrap()
            .stage
    };
    let gated = json!({"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "x"}]}});
    assert_eq!(stage(gated), "Creation");
    assert_eq!(stage(json!({"metadata": {"name": "p"}})), "Scheduling");
    assert_eq!(stage(running()), "Execution");
    assert_eq!(stage(marked(running(), 20, 30)), "Termination");
    let mut ended = running();
    ended["status"]["phase"] = json!("Failed");
    assert_eq!(stage(marked(ended.clone(), 20, 30)), "Termination", "a process still runs");
    ended["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 1}});
    assert_eq!(stage(ended.clone()), "Termination");
    assert_eq!(stage(marked(ended, 20, 30)), "Deletion");
}

/// The events as `AT WHAT`, with a sign before those to come, and times in seconds after noon.
fn lines(story: &ExplainPodResponse) -> Vec<String> {
    let line = |event: &LifecycleEvent| {
        let tense = if event.upcoming { "+" } else { "" };
        let at = reading::optional(event.at.as_ref()).map(|at| at - NOON);
        format!("{tense}{} {}", at.map_or("?".to_owned(), |at| at.to_string()), event.what)
    };
    story.events.iter().map(line).collect()
}

/// The events to come of a pod, as [`lines`].
fn to_come(pod: Value, node: Option<Value>) -> Vec<String> {
    let EvaluatePodsRequest { pod, now, node, facts, .. } = request(pod, node);
    let request = ExplainPodRequest { pod, now, node, facts, claims: Vec::new(), key: None };
    let mut lines = lines(&explain_pod(&request).unwrap());
    lines.retain(|line| line.starts_with('+'));
    lines
}

/// L-TERM-27, L-TERM-10, L-TERM-14: the kill comes at the end of the period, or with its name in the last window.
#[test]
fn the_time_of_the_kill() {
    let hook = json!({"containers": [{"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}]});
    let mut with_hook = running();
    with_hook["spec"]["containers"] = hook["containers"].clone();
    assert_eq!(
        to_come(marked(running(), 20, 30), None)[0],
        "+20 containers stopped: a at the latest"
    );
    assert_eq!(
        to_come(marked(with_hook, 20, 30), None)[..2],
        ["+20 grace period over", "+22 containers stopped: a at the latest"]
    );
    assert_eq!(to_come(marked(running(), 20, 0), None)[0], "+20 grace period over");
}

/// L-GC-6, L-PHASE-14, L-NODE-21: the garbage collector sets the phase Failed before it removes a pod.
#[test]
fn a_pod_fails_before_it_is_collected() {
    let out = |effect: &str| {
        Some(json!({"metadata": {"name": "n"},
            "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": effect}]},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))
    };
    let dying = marked(running(), 20, 30);
    assert_eq!(
        to_come(dying.clone(), out("NoExecute")),
        ["+0 phase set to Failed", "+0 object removed"]
    );
    let mut held = dying.clone();
    held["metadata"]["finalizers"] = json!(["f"]);
    assert_eq!(
        to_come(held, out("NoExecute")),
        ["+0 phase set to Failed", "+? finalizers removed: f", "+? object removed"]
    );
    let mut ended = dying;
    ended["status"]["phase"] = json!("Failed");
    assert_eq!(to_come(ended, out("NoExecute")), ["+0 object removed"]);
    // A pod that is evicted from the node now.
    assert_eq!(
        to_come(running(), out("NoExecute")),
        ["+0 evicted: deletion requested", "+? phase set to Failed", "+? object removed"]
    );
    let unbound = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
    assert_eq!(
        to_come(marked(unbound, -1, 0), None),
        ["+0 phase set to Failed", "+0 object removed"]
    );
}

/// L-FENCE-2, L-FENCE-3, L-TERM-24: a pod of a list is shown as the single question shows it.
#[test]
fn the_status_to_show() {
    let node = |ready: &str| {
        Some(
            json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
        )
    };
    let shown = |pod: Value, node: Option<Value>| {
        let answer = evaluate_pod(&request(pod, node));
        let partitioned = answer.conditions.get(partition::NODE_PARTITIONED);
        let partitioned = partitioned.map_or("-".to_owned(), |found| found.status.clone());
        format!(
            "{} {} {partitioned} {}",
            answer.effective_phase, answer.display_status, answer.status_reason
        )
    };
    assert_eq!(shown(running(), None), "Running Running - ");
    assert_eq!(shown(running(), node("True")), "Running Running - ");
    assert_eq!(shown(running(), node("Unknown")), "Unknown NodeDown True ");
    assert_eq!(shown(running(), node("False")), "Running Running - ");
    let marked = marked(running(), 20, 30);
    assert_eq!(shown(marked.clone(), None), "Running Terminating - ");
    assert_eq!(shown(marked.clone(), node("Unknown")), "Unknown NodeDown True NodeLost");
    let mut back = marked;
    back["status"]["conditions"] = json!([{"type": "berth.io/NodePartitioned", "status": "True"}]);
    assert_eq!(shown(back.clone(), node("True")), "Running Terminating False ");
    // Without facts about the node, the recorded condition stays (L-GEN-4).
    assert_eq!(shown(back, None), "Running NodeDown True NodeLost");
    let mut done = running();
    done["spec"]["restartPolicy"] = json!("Never");
    done["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
    assert_eq!(shown(done, node("True")), "Succeeded Completed - ");
}

/// L-VOL-17: pods of a replica set share the volumes of their template.
#[test]
fn shared_volumes_are_warned_of() {
    let mut pod = running();
    pod["metadata"]["ownerReferences"] =
        json!([{"kind": "ReplicaSet", "name": "r", "controller": true}]);
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let EvaluatePodsRequest { pod, now, node, facts, .. } = request(pod, None);
    let claim = |mode: &str| {
        let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": [mode]}});
        vec![serde_json::from_value(claim).unwrap()]
    };
    let mut request =
        ExplainPodRequest { pod, now, node, facts, claims: claim("ReadWriteOnce"), key: None };
    let warnings = explain_pod(&request).unwrap().volume_warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].reason, "WrittenDuringReplacement");
    request.claims = claim("ReadWriteOncePod");
    assert_eq!(explain_pod(&request).unwrap().volume_warnings, []);
}

#[test]
fn events_are_listed_in_order() {
    let mut pod = running();
    pod["metadata"]["creationTimestamp"] = at(-100);
    pod["status"]["startTime"] = at(-80);
    pod["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    pod["status"]["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 1,
        "reason": "Error", "startedAt": at(-75), "finishedAt": at(-70)}});
    let pod = marked(pod, 20, 30);
    let EvaluatePodsRequest { pod, now, node, facts, .. } = request(pod, None);
    let story =
        explain_pod(&ExplainPodRequest { pod, now, node, facts, claims: Vec::new(), key: None })
            .unwrap();
    assert_eq!(
        lines(&story),
        [
            "-100 created",
            "-80 accepted by the node agent",
            "-75 container a started",
            "-70 container a ended",
            "-60 container a started",
            "-10 deletion requested",
            "+20 containers stopped: a at the latest",
            "+? terminal phase published",
            "+? object removed",
        ]
    );
    assert_eq!(
        story.summary,
        "Terminating on node n: its deletion is requested: hooks, stop signals, and the rest of the period (a)"
    );
}

/// L-CSTATE-1, L-GEN-4
#[test]
fn a_pod_that_cannot_be_evaluated_is_named() {
    let mut broken = running();
    broken["metadata"]["uid"] = json!("u");
    broken["status"]["containerStatuses"][0]["state"] = json!({"running": {}, "terminated": {}});
    let answer = evaluate_pod(&request(broken, None));
    let error = answer.error.unwrap();
    assert_eq!(error.field, "pod.status.containerStatuses[0].state");
    assert_eq!(error.reason, "is running and terminated at once");
    assert_eq!((&*answer.name, &*answer.uid, &*answer.phase), ("p", "u", ""));
    let error = evaluate_pod(&EvaluatePodsRequest::default()).error.unwrap();
    assert_eq!((&*error.field, &*error.reason), ("pod", "required"));
    let without_time = EvaluatePodsRequest { now: None, ..request(running(), None) };
    assert_eq!(evaluate_pod(&without_time).error.unwrap().field, "now");
    let facts: PodFacts =
        serde_json::from_value(json!({"sandboxes": {"items": [{"state": "Odd"}]}})).unwrap();
    let odd = EvaluatePodsRequest { facts: Some(facts), ..request(running(), None) };
    assert_eq!(evaluate_pod(&odd).error.unwrap().field, "facts.sandboxes.items[0].state");
    let facts = |facts: Value| EvaluatePodsRequest {
        facts: serde_json::from_value(facts).unwrap(),
        ..request(running(), None)
    };
    let field = |request: &EvaluatePodsRequest| evaluate_pod(request).error.unwrap().field;
    assert_eq!(field(&facts(json!({"podIsTerminal": true}))), "facts.podIsTerminal");
    let cannot_run = facts(json!({"couldHaveRunningContainers": false}));
    assert_eq!(field(&cannot_run), "facts.couldHaveRunningContainers");
    let node = |name: &str, ready: &str| {
        request(
            running(),
            Some(
                json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
            ),
        )
    };
    assert_eq!(field(&node("m", "True")), "node.metadata.name");
    assert_eq!(field(&node("n", "banana")), "node.status.conditions[0].status");
    let mut early = running();
    early["spec"]["activeDeadlineSeconds"] = json!(-5);
    assert_eq!(field(&request(early, None)), "pod.spec.activeDeadlineSeconds");
    let mut odd = running();
    odd["spec"]["tolerations"] = json!([{"operator": "Near"}]);
    let tainted = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(field(&request(odd, Some(tainted))), "pod.spec.tolerations[0].operator");
    let mut far = running();
    far["spec"]["activeDeadlineSeconds"] = json!(i64::MAX);
    far["status"]["startTime"] = at(-60);
    assert_eq!(check(far, None), "None  [] - - -", "no deadline that anybody can write");
    let mut unknown = running();
    unknown["spec"]["restartPolicy"] = json!("Sometimes");
    assert_eq!(
        evaluate_pod(&request(unknown, None)).error.unwrap().field,
        "pod.spec.restartPolicy"
    );
}
