//! The controllers that create, bind and delete pods, with two instances each, and people. Each acts on its own reads.

use berth_engine::lifecycle::deletion::{authorize_removal, replacement_decision};
use berth_engine::lifecycle::identity::LockEventType;
use berth_engine::lifecycle::termination::apply_delete;
use berth_proto::Time;
use berth_proto::berth_v1::{
    ApplyDeleteRequest, AuthorizeRemovalRequest, PodDeleteOptions, RemovalActor, RemovalEvidence,
    RemovalTerms, ReplacementDecisionRequest,
};
use berth_proto::core_v1::Pod;

use super::store::{
    Action, Key, PETS, Request, Store, is_marked, is_terminal, name_of, node_of, ready_of, uid_of,
};
use super::world::{Kind, Network, World};

/// Actions of a person.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Person {
    /// `kubectl delete`.
    Deletes { grace: Option<i64> },
    /// `kubectl delete --force`, with the risk acknowledged or not.
    Forces { acknowledged: bool },
}

impl World {
    /// Makes one step of a StatefulSet controller: it creates a pod if the name looks free to it.
    pub(super) fn stateful_set_step(&mut self, instance: usize, pick: usize, network: Network) {
        let Some(view) = self.read(Kind::StatefulSet, instance, pick) else { return };
        for offset in 0..PETS.len() {
            let name = PETS[(pick + offset) % PETS.len()].0;
            let pods: Vec<Pod> =
                view.pods.values().filter(|pod| name_of(pod) == name).cloned().collect();
            let decided = replacement_decision(&ReplacementDecisionRequest {
                controller_kind: "StatefulSet".to_owned(),
                name: name.to_owned(),
                pods: pods.clone(),
                ..ReplacementDecisionRequest::default()
            })
            .unwrap();
            let request = match &*decided.reason {
                "NameFree" => Some(view.request(&[], Action::Create { name })),
                "DeleteFirst" => {
                    let ended = pods.iter().find(|pod| is_terminal(pod)).unwrap();
                    mark(&view, ended, "statefulSetController", None, self.now)
                }
                _ => None,
            };
            if let Some(request) = request {
                let is_new = decided.reason == "NameFree";
                if self.send(request, network) && is_new {
                    self.count("created");
                }
                return;
            }
        }
    }

    /// Makes one step of a scheduler: it binds a pod to a node that looks ready to it.
    pub(super) fn scheduler_step(&mut self, instance: usize, pick: usize, network: Network) {
        let Some(view) = self.read(Kind::Scheduler, instance, pick) else { return };
        let ready: Vec<&String> = view
            .nodes
            .iter()
            .filter(|(name, node)| {
                let is_open = node.spec.as_ref().unwrap().taints.is_empty();
                ready_of(node) == "True" && is_open && !self.cordoned.contains(*name)
            })
            .map(|(name, _)| name)
            .collect();
        let waiting = view
            .pods
            .values()
            .find(|pod| node_of(pod).is_empty() && !is_marked(pod) && !is_terminal(pod));
        if let (Some(pod), false) = (waiting, ready.is_empty()) {
            let mut bound = pod.clone();
            bound.spec.as_mut().unwrap().node_name = ready[(pick / 2) % ready.len()].clone();
            let keys = [Key::Pod(uid_of(pod).to_owned())];
            self.send(view.request(&keys, Action::UpdatePod(Box::new(bound))), network);
        }
    }

    /// A person looks at a pod, and deletes it some time later.
    pub(super) fn person_step(&mut self, person: Person, pick: usize, network: Network) {
        let Some(view) = self.person.read(&self.server, pick) else { return };
        let Some(pod) = view.pods.values().nth(pick / 2 % view.pods.len().max(1)) else { return };
        let request = match person {
            Person::Deletes { grace } => mark(&view, pod, "user", grace, self.now),
            Person::Forces { acknowledged } => force(&view, pod, acknowledged, self.now),
        };
        if let Some(request) = request {
            self.send(request, network);
        }
    }
}

fn ask(
    view: &Store,
    pod: &Pod,
    kind: &str,
    request: RemovalTerms,
    evidence: RemovalEvidence,
    now: i64,
) -> (String, String) {
    let answer = authorize_removal(&AuthorizeRemovalRequest {
        actor: Some(RemovalActor { kind: kind.to_owned(), ..RemovalActor::default() }),
        pod: Some(pod.clone()),
        request: Some(request),
        node: view.nodes.get(node_of(pod)).cloned(),
        evidence: Some(evidence),
        now: Some(Time::from_unix_seconds(now)),
        key: None,
    })
    .unwrap();
    (answer.effect, answer.reason)
}

/// Returns the request that begins a graceful deletion, if the actor is allowed to delete.
pub(super) fn mark(
    view: &Store,
    pod: &Pod,
    kind: &str,
    grace: Option<i64>,
    now: i64,
) -> Option<Request> {
    let uid = uid_of(pod).to_owned();
    let terms =
        RemovalTerms { grace_period_seconds: grace, uid: uid.clone(), ..RemovalTerms::default() };
    let (effect, entitlement) = ask(view, pod, kind, terms, RemovalEvidence::default(), now);
    if effect != "Signal" {
        return None;
    }
    let answer = apply_delete(&ApplyDeleteRequest {
        pod: Some(pod.clone()),
        options: Some(PodDeleteOptions { grace_period_seconds: grace, preconditions: None }),
        now: Some(Time::from_unix_seconds(now)),
        key: None,
    })
    .unwrap();
    let has_process = !node_of(pod).is_empty() && !is_terminal(pod);
    if answer.outcome == "RemoveNow" && has_process {
        // In this case the API server does not wait for the node, and no entitlement covers the removal.
        let event = LockEventType::ForceDeletedByUser;
        let action = Action::Remove { uid: uid.clone(), entitlement, event, acknowledged: false };
        return Some(view.request(&[Key::Pod(uid)], action));
    }
    let mut marked = pod.clone();
    let metadata = marked.metadata.as_mut().unwrap();
    metadata.deletion_timestamp = answer.deletion_timestamp;
    metadata.deletion_grace_period_seconds = answer.deletion_grace_period_seconds;
    metadata.generation = answer.generation;
    // If there is nothing left to wait for, PodGC or the agent removes the marked object.
    Some(view.request(&[Key::Pod(uid)], Action::UpdatePod(Box::new(marked))))
}

/// Returns the request that removes a pod at once, if a person is allowed to.
fn force(view: &Store, pod: &Pod, acknowledged: bool, now: i64) -> Option<Request> {
    let uid = uid_of(pod).to_owned();
    let terms = RemovalTerms {
        grace_period_seconds: Some(0),
        uid: uid.clone(),
        acknowledge_data_loss: acknowledged,
        ..RemovalTerms::default()
    };
    let (effect, entitlement) = ask(view, pod, "user", terms, RemovalEvidence::default(), now);
    // Without a process that could be lost, the removal is safe (L-DEL-18), and PodGC has the same entitlement.
    let event = match &*entitlement {
        "AcknowledgedForceDelete" => LockEventType::ForceDeletedByUser,
        _ => LockEventType::RemovedByPodGc,
    };
    let action = Action::Remove { uid: uid.clone(), entitlement, event, acknowledged };
    (effect == "Remove").then(|| view.request(&[Key::Pod(uid)], action))
}

/// Returns the garbage collector's request that removes a pod at once, with its entitlement.
pub(super) fn collect(
    view: &Store,
    pod: &Pod,
    entitlement: &str,
    evidence: RemovalEvidence,
    now: i64,
) -> Request {
    let uid = uid_of(pod).to_owned();
    let terms =
        RemovalTerms { grace_period_seconds: Some(0), uid: uid.clone(), ..RemovalTerms::default() };
    // L-GC-8
    let answer = ask(view, pod, "podGC", terms, evidence, now);
    assert_eq!(answer, ("Remove".to_owned(), entitlement.to_owned()));
    let event = LockEventType::RemovedByPodGc;
    let entitlement = entitlement.to_owned();
    let action = Action::Remove { uid: uid.clone(), entitlement, event, acknowledged: false };
    view.request(&[Key::Pod(uid), Key::Node(node_of(pod).to_owned())], action)
}
