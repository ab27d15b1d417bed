//! Evaluations of whole pods, over random pods: phase, processes and times of a response are consistent with each other
//! and with the plan of the restart group.

use berth_engine::lifecycle::evaluation::evaluate_pod;
use berth_engine::lifecycle::restart::plan_containers;
use berth_proto::Time;
use berth_proto::berth_v1::{
    EvaluatePodsRequest, EvaluatePodsResponse, ObservedContainer, PlanContainersRequest,
};
use berth_proto::core_v1::{ContainerStatus, Pod};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::config;

const NOON: i64 = 1_768_046_400;
/// Half an hour: no back-off, grace period or deadline of these pods is longer.
const LATER: i64 = 1_800;

fn at(seconds: i64) -> Value {
    serde_json::to_value(Time::from_unix_seconds(NOON + seconds)).unwrap()
}

/// Generates the status of one container, or none.
fn status(name: &'static str) -> impl Strategy<Value = Option<Value>> {
    let state = prop_oneof![
        Just(json!({"state": {"waiting": {"reason": "ContainerCreating"}}})),
        any::<bool>().prop_map(|started| json!({"started": started, "ready": started, "state": {"running": {}}})),
        (select(vec![0, 1, 42, 137]), 0..7i64, -300..0i64, select(vec!["", "OOMKilled"])).prop_map(
            |(code, restarts, finished, reason)| {
                let ended = json!({"exitCode": code, "reason": reason, "startedAt": at(finished - 5), "finishedAt": at(finished)});
                json!({"restartCount": restarts, "state": {"terminated": ended}})
            }
        ),
        (select(vec![1, 42]), 0..7i64, -300..0i64).prop_map(|(code, restarts, finished)| {
            let ended = json!({"exitCode": code, "startedAt": at(finished - 5), "finishedAt": at(finished)});
            json!({"restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": ended}})
        }),
    ];
    proptest::option::weighted(0.9, state).prop_map(move |status| {
        status.map(|mut status| {
            status["name"] = json!(name);
            status
        })
    })
}

/// Generates a bound pod with an init container, a sidecar and two app containers, in any state that statuses can
/// express.
fn pod() -> impl Strategy<Value = Pod> {
    let policies = || select(vec!["Always", "OnFailure", "Never"]);
    let own = proptest::option::of(select(vec!["OnFailure", "Never"]));
    let statuses = (status("i"), status("s"), status("a"), status("b"));
    let marked = proptest::option::of(-60..60i64);
    let phase = select(vec!["", "Pending", "Running", "Succeeded", "Failed"]);
    let deadline = proptest::option::weighted(0.2, 1..400i64);
    (policies(), own, statuses, marked, phase, deadline, any::<bool>()).prop_map(
        |(policy, own, (i, s, a, b), marked, phase, deadline, has_probe)| {
            let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
            let mut app = json!({"name": "a"});
            if let Some(own) = own {
                app["restartPolicy"] = json!(own);
                app["restartPolicyRules"] = rules;
            }
            let mut sidecar = json!({"name": "s", "restartPolicy": "Always"});
            if has_probe {
                sidecar["startupProbe"] = json!({"tcpSocket": {"port": 1}});
            }
            let list = |statuses: [Option<Value>; 2]| statuses.into_iter().flatten().collect::<Vec<_>>();
            let mut pod = json!({
                "metadata": {"name": "p"},
                "spec": {"nodeName": "n", "restartPolicy": policy, "initContainers": [{"name": "i"}, sidecar],
                    "containers": [app, {"name": "b"}], "activeDeadlineSeconds": deadline},
                "status": {"phase": phase, "startTime": at(-200), "initContainerStatuses": list([i, s]),
                    "containerStatuses": list([a, b])},
            });
            if let Some(marked) = marked {
                pod["metadata"]["deletionTimestamp"] = at(marked);
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(60);
            }
            serde_json::from_value(pod).unwrap()
        },
    )
}

fn evaluate(pod: &Pod, now: i64) -> EvaluatePodsResponse {
    let answer = evaluate_pod(&EvaluatePodsRequest {
        pod: Some(pod.clone()),
        now: Some(Time::from_unix_seconds(now)),
        ..EvaluatePodsRequest::default()
    });
    assert_eq!(answer.error, None);
    answer
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref().unwrap();
    status.init_container_statuses.iter().chain(&status.container_statuses)
}

fn runs(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Returns the plan of the restart group for observations that equal the container statuses.
fn plan_of(pod: &Pod) -> Vec<String> {
    let observe = |status: &ContainerStatus| {
        let of = |state: &Option<berth_proto::core_v1::ContainerState>| state.clone();
        let ended = of(&status.state).and_then(|state| state.terminated);
        let ended = ended.or_else(|| of(&status.last_state).and_then(|state| state.terminated));
        let (state, exit_code, reason) = match ended {
            _ if runs(status) => ("Running", None, String::new()),
            Some(ended) => ("Exited", Some(ended.exit_code), ended.reason),
            None => return None,
        };
        let (name, state) = (status.name.clone(), state.to_owned());
        Some(ObservedContainer { name, state, exit_code, reason })
    };
    let plan = plan_containers(&PlanContainersRequest {
        pod: Some(pod.clone()),
        containers: statuses(pod).filter_map(observe).collect(),
        sandbox_ready: true,
        ..PlanContainersRequest::default()
    })
    .unwrap();
    if plan.containers_to_remove.is_empty() {
        [plan.init_containers_to_start, plan.containers_to_start].concat()
    } else {
        plan.containers_to_remove
    }
}

proptest! {
    #![proptest_config(config(2_000, 11))]

    /// L-PHASE-11, L-TERM-18, L-TERM-19: a phase to be published is terminal, and no pod is removed while it runs.
    #[test]
    fn published_phases_are_terminal_and_removed_pods_have_ended(pod in pod()) {
        let answer = evaluate(&pod, NOON);
        let action = answer.next_action.unwrap().action;
        let is_terminal = |phase: &str| matches!(phase, "Succeeded" | "Failed");
        if action == "PublishPhase" {
            prop_assert!(is_terminal(&answer.published_phase), "{:?}", answer.published_phase);
            prop_assert!(!is_terminal(&pod.status.as_ref().unwrap().phase));
        }
        if matches!(&*action, "PublishPhase" | "RemovePod") {
            prop_assert!(!statuses(&pod).any(runs));
        }
    }

    /// Until its wake-up time the response for an unchanged pod stays the same, and without a wake-up time forever,
    /// except for the transition times of conditions (L-COND-2).
    #[test]
    fn nothing_changes_before_the_wake_up(pod in pod(), share in 0..100i64) {
        let now = evaluate(&pod, NOON);
        let until = now.wake_up_at.and_then(|at| at.unix_seconds()).unwrap_or(NOON + LATER);
        prop_assert!(until > NOON);
        let then = evaluate(&pod, NOON + (until - 1 - NOON) * share / 100);
        let statuses = |answer: &EvaluatePodsResponse| -> Vec<(String, String)> {
            answer.conditions.values().map(|c| (c.r#type.clone(), c.status.clone())).collect()
        };
        prop_assert_eq!(statuses(&now), statuses(&then));
        let without = |answer: EvaluatePodsResponse| EvaluatePodsResponse { conditions: Default::default(), ..answer };
        prop_assert_eq!(without(now), without(then));
    }

    /// L-RESTART-11 to L-RESTART-15: containers are started as in the plan of the restart group, now or after their
    /// back-off.
    #[test]
    fn starts_are_the_plan(pod in pod()) {
        let answer = evaluate(&pod, NOON);
        let next = answer.next_action.unwrap();
        if matches!(&*next.action, "StartContainers" | "RestartContainers") {
            let plan = plan_of(&pod);
            for name in &next.names {
                prop_assert!(plan.contains(name), "{name} is not in {plan:?}");
            }
            // A container that is not named waits for its back-off, or is named after the first ones have been started.
            let is_late = answer.wake_up_at.is_some();
            prop_assert!(next.action == "StartContainers" || is_late || next.names.len() == plan.len());
        }
    }
}
