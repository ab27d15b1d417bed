//! Pods in all stages of their lifecycle, with the statuses that a node agent writes.

use berth_proto::Time;
use berth_proto::core_v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod, PodCondition, PodReadinessGate, PodSpec,
    PodStatus,
};
use berth_proto::meta_v1::ObjectMeta;

/// Time of the evaluation in seconds since the epoch.
pub const NOW: i64 = 1_800_000_000;

/// Names of the stages; pod `k` is in stage `k` modulo their number.
pub const NAMES: [&str; 6] =
    ["running", "unready-gate", "initialising", "crash-looping", "finished", "pending"];

/// Pod `k`: two app containers, one init container and one sidecar, in its stage of [`NAMES`].
pub fn pod(k: usize) -> Pod {
    let stage = NAMES[k % NAMES.len()];
    let spec = PodSpec {
        node_name: if stage == "pending" { String::new() } else { format!("node-{}", k % 5000) },
        containers: vec![container("app", None), container("proxy", None)],
        init_containers: vec![container("setup", None), container("logs", Some("Always"))],
        restart_policy: if stage == "finished" { "Never".into() } else { "Always".into() },
        readiness_gates: match stage {
            "unready-gate" => vec![PodReadinessGate { condition_type: "example.com/lb".into() }],
            _ => Vec::new(),
        },
        ..PodSpec::default()
    };
    let metadata = ObjectMeta {
        name: format!("pod-{k}"),
        namespace: format!("ns-{}", k % 10),
        uid: format!("uid-{k}"),
        generation: 1,
        creation_timestamp: Some(at(-3600)),
        ..ObjectMeta::default()
    };
    Pod { metadata: Some(metadata), spec: Some(spec), status: Some(status(stage)) }
}

fn status(stage: &str) -> PodStatus {
    let done = terminated(0, "Completed");
    let (phase, init, app) = match stage {
        "pending" => ("Pending", Vec::new(), Vec::new()),
        "initialising" => (
            "Pending",
            vec![running(), waiting("PodInitializing")],
            vec![waiting("PodInitializing"), waiting("PodInitializing")],
        ),
        "crash-looping" => {
            ("Running", vec![done, running()], vec![waiting("CrashLoopBackOff"), running()])
        }
        "finished" => ("Succeeded", vec![done.clone(), done.clone()], vec![done.clone(), done]),
        _ => ("Running", vec![done, running()], vec![running(), running()]),
    };
    let mut container_statuses = statuses(&["app", "proxy"], app);
    if stage == "crash-looping" {
        let crashed = &mut container_statuses[0];
        crashed.last_state = Some(terminated(1, "Error"));
        crashed.restart_count = 4;
    }
    PodStatus {
        phase: phase.into(),
        conditions: conditions(stage),
        start_time: Some(at(-3500)),
        init_container_statuses: statuses(&["setup", "logs"], init),
        container_statuses,
        ..PodStatus::default()
    }
}

/// The conditions in the pod's status.
fn conditions(stage: &str) -> Vec<PodCondition> {
    let recorded = |r#type: &str, is_true: bool| PodCondition {
        r#type: r#type.into(),
        status: if is_true { "True" } else { "False" }.into(),
        last_transition_time: Some(at(-3400)),
        observed_generation: 1,
        ..PodCondition::default()
    };
    let is_started = !matches!(stage, "pending" | "initialising");
    let is_ready = stage == "running";
    vec![
        recorded("PodReadyToStartContainers", stage != "pending"),
        recorded("Initialized", is_started),
        recorded("Ready", is_ready),
        recorded("ContainersReady", is_ready),
        recorded("PodScheduled", stage != "pending"),
    ]
}

fn statuses(names: &[&str], states: Vec<ContainerState>) -> Vec<ContainerStatus> {
    let statuses = names.iter().zip(states);
    statuses
        .map(|(name, state)| ContainerStatus {
            name: (*name).into(),
            ready: state.running.is_some() || (*name == "setup" && state.terminated.is_some()),
            started: Some(state.running.is_some()),
            image: "registry.example/app:1".into(),
            state: Some(state),
            ..ContainerStatus::default()
        })
        .collect()
}

fn container(name: &str, restart_policy: Option<&str>) -> Container {
    Container {
        name: name.into(),
        image: "registry.example/app:1".into(),
        restart_policy: restart_policy.map(str::to_owned),
        ..Container::default()
    }
}

fn running() -> ContainerState {
    let running = ContainerStateRunning { started_at: Some(at(-3400)) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

fn waiting(reason: &str) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: reason.into(), ..Default::default() };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn terminated(exit_code: i32, reason: &str) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code,
        reason: reason.into(),
        started_at: Some(at(-200)),
        finished_at: Some(at(-100)),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// The time `seconds` after [`NOW`].
fn at(seconds: i64) -> Time {
    Time::from_unix_seconds(NOW + seconds)
}
