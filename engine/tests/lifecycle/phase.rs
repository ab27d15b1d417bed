//! Phases and conditions over random stories: plausible sequences of statuses, and impossible ones. Each decision is
//! recorded and is the start of the next step.

use std::collections::BTreeMap;

use berth_engine::lifecycle::condition::{self, NetworkMode, SandboxState, SandboxView};
use berth_engine::lifecycle::phase::{self, Eviction, PhaseFacts, may_follow};
use berth_engine::lifecycle::vocabulary::{ConditionStatus, PodPhase};
use berth_proto::core_v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod, PodCondition, PodReadinessGate, PodSpec,
    PodStatus,
};
use proptest::prelude::*;

/// The observed state of one container.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Seen {
    NoStatus,
    NoState,
    Waiting,
    WaitingAfter(i32),
    Running,
    Ended(i32),
}

/// One observation of a container.
#[derive(Copy, Clone, Debug)]
struct Sight {
    seen: Seen,
    ready: bool,
    started: Option<bool>,
    in_place: bool,
}

/// One observation of a pod.
#[derive(Clone, Debug)]
struct Look {
    init: Vec<Sight>,
    app: Vec<Sight>,
    is_terminal: bool,
    app_started: bool,
    finalize: bool,
    evict: bool,
    could_run: bool,
    contact: ConditionStatus,
    sandboxes: Vec<bool>,
    gate: Option<&'static str>,
    seconds_later: i64,
}

/// A pod and the observations of it.
#[derive(Clone, Debug)]
struct Story {
    policy: &'static str,
    init_policies: Vec<Option<&'static str>>,
    app_policies: Vec<Option<&'static str>>,
    is_static: bool,
    has_gate: bool,
    looks: Vec<Look>,
}

fn policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["Always", "OnFailure", "Never"])
}

fn seen() -> impl Strategy<Value = Seen> {
    let code = prop::sample::select(vec![0, 1, 137]);
    prop_oneof![
        1 => Just(Seen::NoStatus),
        1 => Just(Seen::NoState),
        2 => Just(Seen::Waiting),
        2 => code.clone().prop_map(Seen::WaitingAfter),
        4 => Just(Seen::Running),
        4 => code.prop_map(Seen::Ended),
    ]
}

fn sight() -> impl Strategy<Value = Sight> {
    let started = prop::option::of(any::<bool>());
    (seen(), any::<bool>(), started, prop::bool::weighted(0.1))
        .prop_map(|(seen, ready, started, in_place)| Sight { seen, ready, started, in_place })
}

fn look(n_init: usize, n_app: usize) -> impl Strategy<Value = Look> {
    let contact = prop_oneof![
        4 => Just(ConditionStatus::True),
        1 => Just(ConditionStatus::False),
        1 => Just(ConditionStatus::Unknown),
    ];
    let facts = (
        prop::bool::weighted(0.2),
        any::<bool>(),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.05),
        any::<bool>(),
        contact,
    );
    let gate = prop::option::of(prop::sample::select(vec!["True", "False", "Unknown"]));
    let containers =
        (prop::collection::vec(sight(), n_init), prop::collection::vec(sight(), n_app));
    (containers, facts, prop::collection::vec(any::<bool>(), 0..3), gate, 0..100i64).prop_map(
        |((init, app), facts, sandboxes, gate, seconds_later)| {
            let (is_terminal, app_started, finalize, evict, could_run, contact) = facts;
            Look {
                init,
                app,
                is_terminal,
                app_started,
                finalize,
                evict,
                could_run,
                contact,
                sandboxes,
                gate,
                seconds_later,
            }
        },
    )
}

fn story() -> impl Strategy<Value = Story> {
    (0..3usize, 1..4usize).prop_flat_map(|(n_init, n_app)| {
        let own = || prop::option::of(policy());
        (
            policy(),
            prop::collection::vec(own(), n_init),
            prop::collection::vec(own(), n_app),
            prop::bool::weighted(0.1),
            any::<bool>(),
            prop::collection::vec(look(n_init, n_app), 1..12),
        )
            .prop_map(
                |(policy, init_policies, app_policies, is_static, has_gate, looks)| Story {
                    policy,
                    init_policies,
                    app_policies,
                    is_static,
                    has_gate,
                    looks,
                },
            )
    })
}

impl Story {
    fn pod(&self) -> Pod {
        let containers = |stem: &str, policies: &[Option<&'static str>]| {
            let container = |(at, own): (usize, &Option<&'static str>)| Container {
                name: format!("{stem}{at}"),
                restart_policy: own.map(ToOwned::to_owned),
                ..Container::default()
            };
            policies.iter().enumerate().map(container).collect()
        };
        let gate = PodReadinessGate { condition_type: GATE.to_owned() };
        let spec = PodSpec {
            restart_policy: self.policy.to_owned(),
            init_containers: containers("i", &self.init_policies),
            containers: containers("c", &self.app_policies),
            readiness_gates: if self.has_gate { vec![gate] } else { Vec::new() },
            ..PodSpec::default()
        };
        Pod { spec: Some(spec), status: Some(PodStatus::default()), ..Pod::default() }
    }

    fn facts(&self, look: &Look) -> PhaseFacts<'static> {
        PhaseFacts {
            pod_is_terminal: look.is_terminal,
            regular_container_started: look.app_started,
            static_pod: self.is_static,
            finalize: look.finalize,
            evict: look.evict.then_some(Eviction { reason: "Evicted", message: "" }),
            could_have_running_containers: look.could_run,
            node_ready: look.contact,
        }
    }
}

const GATE: &str = "example.com/gate";

/// Writes an observation into the pod's status, with the app containers in reverse order, as an agent may list them.
fn observe(pod: &mut Pod, look: &Look) {
    let status = pod.status.get_or_insert_default();
    let statuses = |stem: &str, sights: &[Sight]| -> Vec<ContainerStatus> {
        let sights = sights.iter().enumerate();
        sights.filter_map(|(at, sight)| sight.status(format!("{stem}{at}"))).collect()
    };
    status.init_container_statuses = statuses("i", &look.init);
    status.container_statuses = statuses("c", &look.app);
    status.container_statuses.reverse();
    status.conditions.retain(|condition| condition.r#type != GATE);
    if let Some(gate) = look.gate {
        status.conditions.push(PodCondition {
            r#type: GATE.to_owned(),
            status: gate.to_owned(),
            ..PodCondition::default()
        });
    }
}

impl Sight {
    fn status(&self, name: String) -> Option<ContainerStatus> {
        let end = |exit_code: i32| ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code,
                reason: if self.in_place { "RestartingAllContainers" } else { "" }.to_owned(),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        };
        let waiting = Some(ContainerStateWaiting::default());
        let (state, last_state) = match self.seen {
            Seen::NoStatus => return None,
            Seen::NoState => (None, None),
            Seen::Waiting => (Some(ContainerState { waiting, ..ContainerState::default() }), None),
            Seen::WaitingAfter(code) => {
                (Some(ContainerState { waiting, ..ContainerState::default() }), Some(end(code)))
            }
            Seen::Running => {
                let running = Some(ContainerStateRunning::default());
                (Some(ContainerState { running, ..ContainerState::default() }), None)
            }
            Seen::Ended(code) => (Some(end(code)), None),
        };
        let (ready, started) = (self.ready, self.started);
        Some(ContainerStatus {
            name,
            state,
            last_state,
            ready,
            started,
            ..ContainerStatus::default()
        })
    }

    /// Returns the exit code if the container has ended.
    fn exit(&self) -> Option<i32> {
        match self.seen {
            Seen::Ended(code) | Seen::WaitingAfter(code) => Some(code),
            _ => None,
        }
    }

    /// Whether the policies alone demand a restart of the container after its exit.
    fn is_due(&self, own: Option<&str>, pod: &str) -> bool {
        match own.unwrap_or(pod) {
            _ if self.in_place => true,
            "Always" => true,
            "OnFailure" => self.exit() != Some(0),
            _ => false,
        }
    }
}

/// L-PHASE-2 to L-PHASE-6, transcribed from the specification.
fn naive_phase(story: &Story, look: &Look) -> PodPhase {
    let init: Vec<(&Sight, Option<&str>)> =
        look.init.iter().zip(story.init_policies.iter().copied()).collect();
    let app: Vec<(&Sight, Option<&str>)> =
        look.app.iter().zip(story.app_policies.iter().copied()).collect();
    let (sidecars, ordinary): (Vec<_>, Vec<_>) =
        init.into_iter().partition(|(_, own)| *own == Some("Always"));
    let fatality = ordinary.iter().any(|(sight, own)| {
        sight.exit().is_some_and(|code| code != 0) && !sight.is_due(*own, story.policy)
    });
    let init_pending = ordinary.iter().any(|(sight, _)| sight.exit().is_none());
    let sidecar_pending = sidecars.iter().any(|(sight, _)| match sight.seen {
        Seen::Running => sight.started != Some(true),
        Seen::Waiting | Seen::NoState => true,
        _ => false,
    });
    let count = |seen: &[Seen]| {
        sidecars.iter().chain(&app).filter(|(sight, _)| seen.contains(&sight.seen)).count()
    };
    let (waiting, running) = (count(&[Seen::Waiting]), count(&[Seen::Running]));
    let unknown = count(&[Seen::NoStatus, Seen::NoState]);
    let stopped: Vec<_> = app.iter().filter(|(sight, _)| sight.exit().is_some()).collect();
    let all_final = stopped.iter().all(|(sight, own)| !sight.is_due(*own, story.policy));
    let all_succeeded = stopped.iter().all(|(sight, _)| sight.seen == Seen::Ended(0));
    let over = if all_succeeded { PodPhase::Succeeded } else { PodPhase::Failed };
    if fatality {
        PodPhase::Failed
    } else if init_pending || (sidecar_pending && !look.app_started) || waiting > 0 {
        PodPhase::Pending
    } else if running > 0 && unknown == 0 {
        PodPhase::Running
    } else if running == 0 && !stopped.is_empty() && unknown == 0 {
        match (look.is_terminal && !story.is_static, all_final) {
            (true, _) | (false, true) => over,
            (false, false) => PodPhase::Running,
        }
    } else {
        PodPhase::Pending
    }
}

fn rank(phase: PodPhase) -> u8 {
    match phase {
        PodPhase::Pending => 0,
        PodPhase::Running => 1,
        PodPhase::Succeeded | PodPhase::Failed => 2,
        PodPhase::Unknown => panic!("Unknown was decided"),
    }
}

fn sandboxes(up: &[bool]) -> Vec<SandboxView<'static>> {
    let state = |up: bool| if up { SandboxState::Ready } else { SandboxState::NotReady };
    let view = |up: &bool| SandboxView {
        state: state(*up),
        ip: "10.0.0.1",
        network_mode: NetworkMode::Pod,
    };
    up.iter().map(view).collect()
}

/// L-COND-2: compares the transition times with the recorded ones.
fn check_times(
    before: &BTreeMap<String, PodCondition>,
    after: &BTreeMap<String, PodCondition>,
    now: i64,
) -> Result<(), TestCaseError> {
    for (r#type, condition) in after.iter().filter(|(r#type, _)| *r#type != GATE) {
        let time = condition.last_transition_time.and_then(|time| time.unix_seconds());
        match before.get(r#type).filter(|before| before.status == condition.status) {
            Some(before) => {
                prop_assert_eq!(condition.last_transition_time, before.last_transition_time);
            }
            None => prop_assert_eq!(time, Some(now), "{} {:?}", r#type, condition),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(super::config(512, 22))]

    /// L-PHASE-8, L-PHASE-9, L-PHASE-15, L-TEST-9: recorded phases never move back, terminal phases are final, and the
    /// statuses have the meaning in the specification's table. The decided and the published phase are recorded in
    /// separate stories.
    #[test]
    fn phases_never_move_back(story in story(), records_published in any::<bool>()) {
        let mut pod = story.pod();
        for look in &story.looks {
            observe(&mut pod, look);
            let facts = story.facts(look);
            let status = pod.status.clone().unwrap_or_default();
            let recorded = match status.phase.as_str() {
                "" => PodPhase::Pending,
                word => PodPhase::parse(word, "phase").unwrap(),
            };
            let decision = phase::decide(&pod, &facts).unwrap();
            prop_assert_eq!(decision.raw, naive_phase(&story, look));
            for next in [decision.phase, decision.published] {
                prop_assert!(rank(next) >= rank(recorded));
                prop_assert!(may_follow(recorded, next));
                prop_assert!(rank(recorded) < 2 || next == recorded);
            }
            let is_held_back = look.could_run && rank(recorded) < 2;
            prop_assert!(!is_held_back || rank(decision.published) < 2);
            prop_assert!(look.could_run || decision.published == decision.phase);
            let next = if records_published { decision.published } else { decision.phase };
            pod.status.get_or_insert_default().phase = next.word().to_owned();
        }
    }

    /// L-COND-2, L-COND-11: a transition time changes exactly when the status does; with a terminal phase Ready is
    /// never True.
    #[test]
    fn conditions_turn_when_their_status_does(story in story()) {
        let mut pod = story.pod();
        let mut now = 1_768_046_400;
        for look in &story.looks {
            observe(&mut pod, look);
            now += look.seconds_later;
            let decision = phase::decide(&pod, &story.facts(look)).unwrap();
            let sandboxes = sandboxes(&look.sandboxes);
            let set = condition::derive(&pod, decision.phase, Some(&sandboxes), now).unwrap();
            let after = set.to_wire();
            let status = pod.status.clone().unwrap_or_default();
            let before: BTreeMap<String, PodCondition> =
                status.conditions.into_iter().map(|c| (c.r#type.clone(), c)).collect();
            check_times(&before, &after, now)?;
            prop_assert_eq!(after.get(GATE), before.get(GATE));
            for r#type in ["Ready", "ContainersReady"] {
                let view = set.get(r#type).unwrap();
                prop_assert_eq!(view.status.word(), &after[r#type].status);
                prop_assert!(!decision.published.is_terminal() || view.status == ConditionStatus::False);
                prop_assert!(!decision.phase.is_terminal() || view.status == ConditionStatus::False);
            }
            let is_gated = story.has_gate && look.gate != Some("True");
            let ready = &after["Ready"];
            prop_assert!(!is_gated || ready.status == "False");
            prop_assert!(is_gated || ready.status == after["ContainersReady"].status);
            let recorded_phase = decision.published.word().to_owned();
            let status = pod.status.get_or_insert_default();
            status.phase = recorded_phase;
            status.conditions = after.into_values().collect();
        }
    }
}
