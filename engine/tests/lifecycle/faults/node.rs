//! The controllers that look after nodes: health and eviction, garbage collection, fencing. There are two instances of
//! each, with their own reads and memory.

use std::collections::BTreeMap;

use berth_engine::lifecycle::attachment::BreakEvidence;
use berth_engine::lifecycle::fence::{FenceEventType, FenceState, decide_fence};
use berth_engine::lifecycle::identity::LockEventType;
use berth_engine::lifecycle::node_failure::{node_health, taint_eviction, zone_disruption};
use berth_engine::lifecycle::partition::partition_condition;
use berth_engine::lifecycle::pod_gc::pod_gc;
use berth_engine::lifecycle::vocabulary::ConditionStatus;
use berth_proto::Time;
use berth_proto::berth_v1::{
    DecideFenceRequest, FenceCandidate, FenceDetector, FencePolicy, NodeAbsence, NodeHealthRequest,
    PartitionConditionRequest, PodGcRequest, RemovalEvidence, ScheduledEviction,
    TaintEvictionRequest, ZoneCounts, ZoneDisruptionRequest,
};
use berth_proto::core_v1::{Node, Pod, Taint};

use super::controller::{collect, mark};
use super::machine::{Attempt, Progress};
use super::store::{
    Action, Key, Request, Store, fence_event, is_marked, is_terminal, name_of, node_of, ready_of,
    uid_of,
};
use super::world::{Controller, Kind, Network, World};

pub(super) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const OUT_OF_TOUCH: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

fn at(seconds: i64) -> Option<Time> {
    Some(Time::from_unix_seconds(seconds))
}

impl World {
    /// Makes one step of a node controller: a node's health, or the eviction of one of its pods.
    pub(super) fn node_controller_step(&mut self, instance: usize, pick: usize, network: Network) {
        let now = self.now;
        let controller = &mut self.controllers[Kind::Node as usize][instance];
        let Some(view) = controller.read(&self.server, pick) else { return };
        for name in view.nodes.keys() {
            let beat = view.heartbeats.get(name).copied().unwrap_or_default();
            let contact = controller.contacts.entry(name.clone()).or_insert((beat, now));
            if contact.0 != beat {
                *contact = (beat, now);
            }
        }
        if view.nodes.is_empty() {
            return;
        }
        let is_stopped = all_zones_are_down(&view);
        let (name, node) = view.nodes.iter().nth(pick / 2 % view.nodes.len()).unwrap();
        let request = look_after(&view, node, controller.contacts[name].1, is_stopped, now)
            .or_else(|| partition(&view, name, ready_of(node), now))
            .or_else(|| evict(&view, node, controller, now));
        if let Some(request) = request {
            self.send(request, network);
        }
    }

    /// Makes one run of a garbage collector, up to its first action.
    pub(super) fn pod_gc_step(&mut self, instance: usize, pick: usize, network: Network) {
        let now = self.now;
        let controller = &mut self.controllers[Kind::PodGc as usize][instance];
        let Some(view) = controller.read(&self.server, pick) else { return };
        controller.absent.retain(|node, _| !view.nodes.contains_key(node));
        let bound = view.pods.values().map(node_of).filter(|node| !node.is_empty());
        for node in bound.filter(|node| !view.nodes.contains_key(*node)) {
            controller.absent.entry(node.to_owned()).or_insert(now);
        }
        let live = &self.server.store.nodes;
        let absence = |(node, since): (&String, &i64)| {
            let confirmed_live = !live.contains_key(node);
            (node.clone(), NodeAbsence { since: at(*since), confirmed_live })
        };
        let absent_nodes: BTreeMap<_, _> = controller.absent.iter().map(absence).collect();
        let answer = pod_gc(&PodGcRequest {
            pods: view.pods.values().cloned().collect(),
            nodes: view.nodes.values().cloned().collect(),
            terminated_pod_threshold: Some(0),
            absent_nodes: absent_nodes.clone(),
            now: at(now),
        })
        .unwrap();
        let Some(action) = answer.actions.get(pick / 2 % answer.actions.len().max(1)) else {
            return;
        };
        // The phase that the action sets first (L-GC-6) is part of the removal: for a pod that had already ended it
        // would be another one.
        let pod = &view.pods[&action.uid];
        let absence = absent_nodes.get(node_of(pod));
        let evidence = RemovalEvidence {
            node_absent_since: absence.and_then(|absence| absence.since),
            node_absence_confirmed_live: absence.is_some_and(|absence| absence.confirmed_live),
            ..RemovalEvidence::default()
        };
        let request = collect(&view, pod, &action.entitlement, evidence, now);
        self.send(request, network);
    }

    /// Makes one step of a fencing controller for one node.
    pub(super) fn fencing_step(&mut self, instance: usize, pick: usize, network: Network) {
        let now = self.now;
        let controller = &mut self.controllers[Kind::Fencing as usize][instance];
        let Some(view) = controller.read(&self.server, pick) else { return };
        let name = self.machines[pick / 2 % self.machines.len()].name.clone();
        let is_lost = view.nodes.get(&name).is_some_and(|node| ready_of(node) == "Unknown");
        if !is_lost {
            controller.lost.remove(&name);
        }
        let state = view.fences.get(&name).map(|fence| fence.state);
        let is_impatient = pick.is_multiple_of(5);
        let request = match state {
            _ if is_impatient => give_up(&view, &name, false),
            None | Some(FenceState::Recovered) => {
                let action = Action::Detect { node: name.clone(), scope: self.scope };
                let keys = [Key::Node(name.clone()), Key::Fence(name.clone())];
                is_lost.then(|| view.request(&keys, action))
            }
            Some(FenceState::Detected) if is_lost => {
                let lost = *controller.lost.entry(name.clone()).or_insert(now);
                self.decide(&view, &name, lost)
            }
            Some(FenceState::Detected) => None,
            Some(FenceState::Fencing) => self.see_to(&view, &name, network),
            Some(FenceState::Fenced | FenceState::AttachmentsBroken) => give_up(&view, &name, true),
        };
        let request = request.or_else(|| break_without_fence(&view, &name));
        if let Some(request) = request {
            self.fencing_steps += 1;
            self.send(request, network);
        }
    }

    fn decide(&self, view: &Store, name: &str, lost: i64) -> Option<Request> {
        let machine = self.machines.iter().find(|machine| machine.name == name)?;
        let is_heard = machine.is_on && !self.unheard_by_peers.contains(name);
        let detector = |name: &str, required, observed: &str, bound| FenceDetector {
            name: name.to_owned(),
            required,
            observed: observed.to_owned(),
            latency_bound_seconds: Some(bound),
        };
        let candidate = |pod: &Pod| FenceCandidate {
            name: name_of(pod).to_owned(),
            toleration_seconds: pod.spec.as_ref().unwrap().tolerations[0].toleration_seconds,
            ..FenceCandidate::default()
        };
        let answer = decide_fence(&DecideFenceRequest {
            node_name: name.to_owned(),
            contact_lost_at: at(lost),
            now: at(self.now),
            detectors: vec![
                detector("nodeController", true, "Failed", 50),
                detector(
                    "peers",
                    self.peers_count,
                    if is_heard { "Healthy" } else { "Failed" },
                    20,
                ),
            ],
            policy: Some(FencePolicy { mode: "Auto".to_owned(), ..FencePolicy::default() }),
            requested_by_operator: false,
            pods: view.pods_on(name).filter(|pod| !is_terminal(pod)).map(candidate).collect(),
        })
        .unwrap();
        let event = fence_event(FenceEventType::Decide, false);
        let keys = [Key::Node(name.to_owned()), Key::Fence(name.to_owned())];
        let action = Action::Fence { node: name.to_owned(), event };
        (answer.decision == "Fence").then(|| view.request(&keys, action))
    }

    /// Requests the decided fence from the mechanism, or asks for its progress.
    fn see_to(&mut self, view: &Store, name: &str, network: Network) -> Option<Request> {
        let key = Key::Fence(name.to_owned());
        let attempt = (name.to_owned(), view.version(&key));
        let event = match self.mechanism.attempts.get(&attempt).map(|attempt| attempt.progress) {
            None if matches!(network, Network::LostRequest | Network::Delayed) => return None,
            None => {
                let scope = view.fences[name].scope;
                let accepted = Attempt { scope, progress: Progress::Accepted };
                self.mechanism.attempts.insert(attempt, accepted);
                self.fencing_steps += 1;
                return None;
            }
            Some(Progress::Accepted) => FenceEventType::FenceAccepted,
            Some(Progress::Done) => FenceEventType::FenceConfirmed,
            Some(Progress::Failed) => FenceEventType::FenceFailed,
        };
        let event = fence_event(event, false);
        Some(view.request(&[key], Action::Fence { node: name.to_owned(), event }))
    }
}

/// Writes the health of a node if it has changed; taints follow, unless all zones are down (L-NODE-9).
fn look_after(
    view: &Store,
    node: &Node,
    contact: i64,
    is_stopped: bool,
    now: i64,
) -> Option<Request> {
    let name = node.metadata.as_ref().unwrap().name.clone();
    let health = node_health(&NodeHealthRequest {
        current_ready: ready_of(node).to_owned(),
        last_contact_at: at(contact),
        node_created_at: at(0),
        existing_taints: node.spec.as_ref().unwrap().taints.clone(),
        now: at(now),
        ..NodeHealthRequest::default()
    })
    .unwrap();
    let mut wanted = node.clone();
    if !health.reason.is_empty() {
        wanted.status.as_mut().unwrap().conditions[0].status = health.ready;
    }
    let taints = &mut wanted.spec.as_mut().unwrap().taints;
    let stays = |taint: &Taint| {
        !OUT_OF_TOUCH.contains(&&*taint.key)
            || (taint.key == health.no_execute_taint && !is_stopped)
    };
    taints.retain(stays);
    let is_missing = taints.iter().all(|taint| taint.key != health.no_execute_taint);
    if !health.no_execute_taint.is_empty() && !is_stopped && is_missing {
        taints.push(no_execute(&health.no_execute_taint));
    }
    let action = Action::UpdateNode(Box::new(wanted.clone()));
    (wanted != *node).then(|| view.request(&[Key::Node(name)], action))
}

pub(super) fn no_execute(key: &str) -> Taint {
    Taint { key: key.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() }
}

fn all_zones_are_down(view: &Store) -> bool {
    let mut zones: BTreeMap<String, ZoneCounts> = BTreeMap::new();
    for (name, node) in &view.nodes {
        // The first two nodes are in one zone, the others in another.
        let counts = zones.entry(if name < &"n2".to_owned() { "a" } else { "b" }.to_owned());
        let counts = counts.or_default();
        let is_ready = ready_of(node) == "True";
        *(if is_ready { &mut counts.ready } else { &mut counts.not_ready }) += 1;
    }
    let request = ZoneDisruptionRequest { zones, ..ZoneDisruptionRequest::default() };
    zone_disruption(&request).unwrap().stop_all_evictions
}

/// Writes the condition `berth.io/NodePartitioned` of a pod on the node, if it has changed.
fn partition(view: &Store, node: &str, ready: &str, now: i64) -> Option<Request> {
    view.pods_on(node).find_map(|pod| {
        let answer = partition_condition(&PartitionConditionRequest {
            pod: Some(pod.clone()),
            node_ready: ready.to_owned(),
            now: at(now),
            key: None,
        })
        .unwrap();
        let mut marked = pod.clone();
        marked.status.as_mut().unwrap().conditions = answer.conditions.into_values().collect();
        let keys = [Key::Pod(uid_of(pod).to_owned())];
        let action = Action::UpdatePod(Box::new(marked.clone()));
        (marked != *pod).then(|| view.request(&keys, action))
    })
}

/// Begins the deletion of a pod that does not tolerate its node any longer.
fn evict(view: &Store, node: &Node, controller: &mut Controller, now: i64) -> Option<Request> {
    let name = &node.metadata.as_ref().unwrap().name;
    view.pods_on(name).filter(|pod| !is_marked(pod)).find_map(|pod| {
        let scheduled = controller.evictions.get(uid_of(pod)).map(|(created, fire)| {
            ScheduledEviction { created_at: at(*created), fire_at: at(*fire) }
        });
        let answer = taint_eviction(&TaintEvictionRequest {
            tolerations: pod.spec.as_ref().unwrap().tolerations.clone(),
            taints: node.spec.as_ref().unwrap().taints.clone(),
            now: at(now),
            scheduled,
        })
        .unwrap();
        let due = answer.at.and_then(|at| at.unix_seconds());
        match (&*answer.decision, due) {
            ("EvictAt", Some(due)) if due > now => {
                controller.evictions.entry(uid_of(pod).to_owned()).or_insert((now, due));
                None
            }
            ("EvictAt" | "EvictNow", _) => {
                // The pod's own period, but not a forced deletion.
                let own = pod.spec.as_ref().unwrap().termination_grace_period_seconds;
                let grace = own.map(|seconds| seconds.max(1));
                mark(view, pod, "taintEvictionController", grace, now)
            }
            _ => {
                controller.evictions.remove(uid_of(pod));
                None
            }
        }
    })
}

/// Requests the releases that a fence allows: first volumes, then pods. An impatient controller does not check the
/// fence.
fn give_up(view: &Store, name: &str, is_patient: bool) -> Option<Request> {
    let fence = view.fences.get(name)?;
    let key = Key::Fence(name.to_owned());
    let evidence = BreakEvidence { confirmed_fence: Some(fence.scope), ..BreakEvidence::default() };
    if !is_patient || fence.lets_break_attachments() {
        let broken = break_held(view, name, evidence, &key);
        if broken.is_some() {
            return broken;
        }
    }
    let pod = view.pods_on(name).next()?;
    let keys = [Key::Pod(uid_of(pod).to_owned()), key];
    let action = Action::Remove {
        uid: uid_of(pod).to_owned(),
        entitlement: "FenceConfirmed".to_owned(),
        event: LockEventType::RemovedAfterFence,
        acknowledged: false,
    };
    (!is_patient || fence.lets_remove_pods()).then(|| view.request(&keys, action))
}

/// Requests breaks because of the out-of-service taint, or because the node has no object.
fn break_without_fence(view: &Store, name: &str) -> Option<Request> {
    let evidence = match view.nodes.get(name) {
        None => BreakEvidence { node_object_deleted: true, ..BreakEvidence::default() },
        Some(node) => {
            let taints = &node.spec.as_ref().unwrap().taints;
            BreakEvidence {
                out_of_service_taint: taints.iter().any(|taint| taint.key == OUT_OF_SERVICE),
                node_ready: ConditionStatus::parse(ready_of(node), "").ok(),
                ..BreakEvidence::default()
            }
        }
    };
    evidence.entitlement()?;
    break_held(view, name, evidence, &Key::Node(name.to_owned()))
}

fn break_held(view: &Store, name: &str, evidence: BreakEvidence, key: &Key) -> Option<Request> {
    let is_held = |holders: Vec<berth_engine::lifecycle::attachment::Holder>| {
        holders.iter().any(|holder| holder.node == name)
    };
    let (volume, record) = view.volumes.iter().find(|(_, record)| is_held(record.holders()))?;
    let action = Action::Break {
        volume: volume.clone(),
        node: name.to_owned(),
        version: record.version(),
        evidence,
    };
    Some(view.request(std::slice::from_ref(key), action))
}
