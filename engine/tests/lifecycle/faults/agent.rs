//! A node agent: its next step for one of its pods depends on what it has read and on the processes of its machine. It
//! may lose its memory after every step.

use berth_engine::lifecycle::attachment::AttachReason;
use berth_engine::lifecycle::container_state::derive_container_state;
use berth_engine::lifecycle::deletion::authorize_removal;
use berth_engine::lifecycle::fence::{FenceEventType, FenceState};
use berth_engine::lifecycle::identity::LockEventType;
use berth_engine::lifecycle::phase::derive_pod_phase;
use berth_proto::Time;
use berth_proto::berth_v1::{
    AuthorizeRemovalRequest, ContainerRuntimeRecord, DeriveContainerStateRequest,
    DerivePodPhaseRequest, RemovalActor, RemovalEvidence, RemovalTerms,
};
use berth_proto::core_v1::{ContainerStatus, Pod};

use super::machine::{Machine, Process};
use super::store::{
    Action, Key, Request, Store, fence_event, is_marked, is_terminal, name_of, node_of, phase_of,
    ready_of, uid_of, volumes_of,
};
use super::world::{Fault, N_NODES, Network, World};

/// The next step of an agent.
enum Step {
    Send(Request),
    Signal(String),
    Kill(String),
    Unmount(String),
    /// Forgets an ended process whose pod does not exist any more.
    Forget(String),
    Mount {
        uid: String,
        name: String,
        volume: String,
    },
    Start {
        uid: String,
        name: String,
        restarts: i32,
    },
}

impl World {
    /// Makes one step of a node's agent: it reads, or acts on its last read.
    pub(super) fn agent_step(&mut self, node: usize, pick: usize, network: Network) {
        let machine = &self.machines[node];
        let Some(agent) = &machine.agent else { return };
        let is_blind = agent.view.is_none();
        if is_blind || pick.is_multiple_of(3) {
            if machine.is_in_contact() {
                self.agent_reads(node, network);
            }
            return;
        }
        let Some(step) = next_step(machine, pick, self.now) else { return };
        self.agent_steps += 1;
        self.carry_out(node, step, network);
        if self.agents_crash_after == Some(self.agent_steps) {
            for crashed in 0..N_NODES {
                self.fault(Fault::AgentCrash(crashed));
            }
        }
    }

    /// Reports a heartbeat, reads, and checks that the node is in service.
    fn agent_reads(&mut self, node: usize, network: Network) {
        let view = self.server.store.clone();
        let name = self.machines[node].name.clone();
        self.send(view.request(&[], Action::Heartbeat(name.clone())), network);
        let machine = &mut self.machines[node];
        let is_clean = machine.rebooted_since_fence && machine.processes.is_empty();
        let Some(agent) = &mut machine.agent else { return };
        let fence = view.fences.get(&name).filter(|fence| fence.state != FenceState::Recovered);
        let registered = view.nodes.get(&name).cloned();
        let request = match (fence, registered) {
            (Some(_), _) => {
                let event = fence_event(FenceEventType::NodeReturned, is_clean);
                let keys = [Key::Fence(name.clone())];
                Some(view.request(&keys, Action::Fence { node: name, event }))
            }
            (None, Some(object)) if ready_of(&object) == "True" => {
                agent.is_admitted = true;
                None
            }
            (None, Some(mut object)) => {
                object.status.as_mut().unwrap().conditions[0].status = "True".to_owned();
                // The decision on the fence must have been made before this read.
                let keys = [Key::Node(name.clone()), Key::Fence(name)];
                Some(view.request(&keys, Action::UpdateNode(Box::new(object))))
            }
            (None, None) => None,
        };
        agent.view = Some(view);
        if let Some(request) = request {
            self.send(request, network);
        }
    }

    fn carry_out(&mut self, node: usize, step: Step, network: Network) {
        let machine = &mut self.machines[node];
        match step {
            Step::Send(request) => {
                if machine.is_in_contact() && self.send(request, network) {
                    // After a response, positive or negative, the agent reads again before its next step.
                    let view = Some(self.server.store.clone());
                    if let Some(agent) = &mut self.machines[node].agent {
                        agent.view = view;
                    }
                }
            }
            Step::Signal(uid) => process(machine, &uid).is_signalled = true,
            Step::Kill(uid) => {
                let process = process(machine, &uid);
                process.is_running = false;
                process.exit_code = 137;
            }
            Step::Unmount(uid) => process(machine, &uid).mounts.clear(),
            Step::Forget(uid) => {
                machine.processes.remove(&uid);
            }
            Step::Mount { uid, name, volume } => {
                let process = machine.processes.entry(uid).or_default();
                process.pod_name = name;
                process.mounts.insert(volume);
            }
            Step::Start { uid, name, restarts } => {
                let process = machine.processes.entry(uid).or_default();
                process.pod_name = name;
                process.is_running = true;
                process.is_signalled = false;
                process.exit_code = 0;
                process.restarts = restarts;
                self.count("started");
            }
        }
    }
}

fn process<'a>(machine: &'a mut Machine, uid: &str) -> &'a mut Process {
    machine.processes.get_mut(uid).unwrap()
}

fn next_step(machine: &Machine, pick: usize, now: i64) -> Option<Step> {
    let agent = machine.agent.as_ref()?;
    let view = agent.view.as_ref()?;
    if let Some(step) = clean_up(machine, view) {
        return Some(step);
    }
    let pods: Vec<&Pod> = view.pods_on(&machine.name).collect();
    let n = pods.len();
    (0..n).find_map(|offset| next_of(machine, view, pods[(pick + offset) % n], now))
}

/// Returns the next step that removes remains of pods without an object: processes, mounts and attachments.
fn clean_up(machine: &Machine, view: &Store) -> Option<Step> {
    for (uid, process) in &machine.processes {
        if view.pods.contains_key(uid) {
            continue;
        }
        let uid = uid.clone();
        return Some(match process {
            Process { is_running: true, is_signalled: false, .. } => Step::Signal(uid),
            Process { is_running: true, .. } => Step::Kill(uid),
            Process { mounts, .. } if !mounts.is_empty() => Step::Unmount(uid),
            _ => Step::Forget(uid),
        });
    }
    view.volumes.iter().find_map(|(volume, record)| {
        let is_left =
            |uid: &str| !view.pods.contains_key(uid) && !machine.processes.contains_key(uid);
        let holders = record.holders().into_iter();
        let holder = holders
            .filter(|holder| holder.node == machine.name)
            .find(|holder| is_left(&holder.pod_uid))?;
        Some(detach(view, volume, &machine.name, &holder.pod_uid))
    })
}

fn detach(view: &Store, volume: &str, node: &str, uid: &str) -> Step {
    Step::Send(view.request(
        &[],
        Action::Detach {
            volume: volume.to_owned(),
            node: node.to_owned(),
            uid: uid.to_owned(),
            version: view.volumes[volume].version(),
        },
    ))
}

fn next_of(machine: &Machine, view: &Store, pod: &Pod, now: i64) -> Option<Step> {
    let agent = machine.agent.as_ref()?;
    let uid = uid_of(pod);
    let process = machine.processes.get(uid);
    let has_ended = is_terminal(pod);
    let is_stopping = is_marked(pod) || agent.evicting.as_deref() == Some(uid);
    if let Some(process) = process.filter(|process| process.is_running) {
        if is_stopping || has_ended {
            let uid = uid.to_owned();
            return Some(if process.is_signalled { Step::Kill(uid) } else { Step::Signal(uid) });
        }
        let observed = observed(pod, Some(process), false);
        return (observed != *pod).then(|| update(view, observed));
    }
    if !is_stopping && !has_ended {
        return if agent.is_admitted { start(machine, view, pod) } else { None };
    }
    if process.is_some_and(|process| !process.mounts.is_empty()) {
        return Some(Step::Unmount(uid.to_owned()));
    }
    if !has_ended {
        return Some(update(view, observed(pod, process, true)));
    }
    let held = view.volumes.iter().find(|(_, record)| {
        let reason = record.may_start(&machine.name, uid).reason;
        reason == AttachReason::MayStart
    });
    if let Some((volume, _)) = held {
        return Some(detach(view, volume, &machine.name, uid));
    }
    is_marked(pod).then(|| remove(machine, view, pod, now)).flatten()
}

/// Returns the next step towards a running process: attach, mount, start (L-VOL-7, L-VOL-14).
fn start(machine: &Machine, view: &Store, pod: &Pod) -> Option<Step> {
    let (uid, name) = (uid_of(pod), name_of(pod));
    let process = machine.processes.get(uid);
    for volume in volumes_of(name) {
        let record = &view.volumes[*volume];
        match record.may_start(&machine.name, uid).reason {
            AttachReason::MayStart => {}
            AttachReason::WaitForAttach => {
                let action = Action::Attach {
                    volume: (*volume).to_owned(),
                    node: machine.name.clone(),
                    uid: uid.to_owned(),
                    version: record.version(),
                };
                return Some(Step::Send(view.request(&[], action)));
            }
            _ => return None,
        }
        if !process.is_some_and(|process| process.mounts.contains(*volume)) {
            let (uid, name, volume) = (uid.to_owned(), name.to_owned(), (*volume).to_owned());
            return machine.reaches_storage().then_some(Step::Mount { uid, name, volume });
        }
    }
    let restarts = match process.filter(|process| process.exit_code != 0) {
        Some(ended) => ended.restarts + 1,
        // There is no trace of earlier instances, so their number is taken from the status.
        None => observed(pod, None, false).status.unwrap().container_statuses[0].restart_count,
    };
    Some(Step::Start { uid: uid.to_owned(), name: name.to_owned(), restarts })
}

/// Returns the pod as its agent observes it: container state and phase, which is the terminal one at its end
/// (L-PHASE-11, L-PHASE-12).
fn observed(pod: &Pod, process: Option<&Process>, is_end: bool) -> Pod {
    let status = pod.status.clone().unwrap();
    // A process that was never started has no record in the runtime.
    let known = process.filter(|process| process.is_running || process.exit_code != 0);
    let runtime = known.map(|process| ContainerRuntimeRecord {
        state: if process.is_running { "Running" } else { "Exited" }.to_owned(),
        exit_code: (!process.is_running).then_some(process.exit_code),
        reason: if process.is_running { "" } else { "Error" }.to_owned(),
        started_at: Some(Time::from_unix_seconds(0)),
        finished_at: (!process.is_running).then(|| Time::from_unix_seconds(0)),
        restart_count: process.restarts,
    });
    let derived = derive_container_state(&DeriveContainerStateRequest {
        container: Some(pod.spec.as_ref().unwrap().containers[0].clone()),
        kind: "regular".to_owned(),
        pod_deleting: is_marked(pod),
        any_regular_container_created: runtime.is_some(),
        runtime,
        old: status.container_statuses.first().cloned(),
        ..DeriveContainerStateRequest::default()
    })
    .unwrap();
    let mut new = pod.clone();
    let new_status = new.status.as_mut().unwrap();
    new_status.container_statuses = vec![ContainerStatus {
        name: "app".to_owned(),
        state: derived.state,
        last_state: derived.last_state,
        restart_count: derived.restart_count,
        ..ContainerStatus::default()
    }];
    let phase = derive_pod_phase(&DerivePodPhaseRequest {
        pod: Some(new.clone()),
        pod_is_terminal: is_end,
        finalize: is_end,
        could_have_running_containers: process.is_some_and(|process| process.is_running),
        ..DerivePodPhaseRequest::default()
    })
    .unwrap();
    new.status.as_mut().unwrap().phase = phase.published_phase;
    debug_assert!(!is_end || is_terminal(&new), "{} ends as {}", name_of(pod), phase_of(&new));
    new
}

fn update(view: &Store, pod: Pod) -> Step {
    let keys = [Key::Pod(uid_of(&pod).to_owned())];
    Step::Send(view.request(&keys, Action::UpdatePod(Box::new(pod))))
}

fn remove(machine: &Machine, view: &Store, pod: &Pod, now: i64) -> Option<Step> {
    let uid = uid_of(pod);
    let is_dead = !machine.processes.get(uid).is_some_and(|process| process.is_running);
    let answer = authorize_removal(&AuthorizeRemovalRequest {
        actor: Some(RemovalActor { kind: "nodeAgent".to_owned(), node_name: machine.name.clone() }),
        pod: Some(pod.clone()),
        request: Some(RemovalTerms {
            grace_period_seconds: Some(0),
            uid: uid.to_owned(),
            ..RemovalTerms::default()
        }),
        node: view.nodes.get(node_of(pod)).cloned(),
        evidence: Some(RemovalEvidence {
            processes_confirmed_dead: is_dead,
            resources_freed: true,
            ..RemovalEvidence::default()
        }),
        now: Some(Time::from_unix_seconds(now)),
        key: None,
    })
    .unwrap();
    let action = Action::Remove {
        uid: uid.to_owned(),
        entitlement: answer.reason,
        event: LockEventType::RemovedByNodeAgent,
        acknowledged: false,
    };
    (answer.effect == "Remove")
        .then(|| Step::Send(view.request(&[Key::Pod(uid.to_owned())], action)))
}
