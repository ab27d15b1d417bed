//! Trial: a cluster that gets the recorded pods, nodes and objects, and whose pods are placed by other profiles; or as they
//! were, to be compared with.
//!
//! Pods that were on a node when the journal began stay there, and so do those of a scheduler that the profiles do not have,
//! and mirror pods. All others come at their recorded time, and leave at it wherever they are by then. A pod that fits nowhere
//! waits, with its victims if it has any evicted, and is tried again after whatever may help it, at most once a second.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_engine::{Cluster, Delta, PlaceRequest, Pod, PodKey, Policy, TieBreak};
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::{Time, core_v1};
use prost::Message as _;
use rustc_hash::{FxHashMap, FxHashSet};

use super::answer::{evictions, node_of};
use super::arrivals::{Arrival, Event, Form, Moment};
use super::figures::{Figures, Standing, Terms};
use super::parting::{Against, Parting};
use crate::clock;
use crate::policy::Profiles;
use crate::service::recorder::decode;

/// Time, in microseconds, before which pods that wait are not tried again: kube-scheduler's shortest backoff.
const PAUSE: u64 = 1_000_000;
/// Annotation of the pods that a node's agent has from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// By what a trial's pods are placed.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Where they were placed.
    AsRecorded,
    /// By these profiles.
    By(Arc<Profiles>, TieBreak),
}

/// A cluster on trial.
pub(super) struct Trial {
    cluster: Cluster,
    rule: Rule,
    /// Names of the nodes that the cluster has instead of the recorded ones.
    own_nodes: Option<BTreeSet<Arc<str>>>,
    /// Whether pods stay for ever, and evict nobody.
    fills: bool,
    pods: BTreeMap<PodKey, Known>,
    /// The pods that wait for a node and are counted: those of this trial, or as recorded all.
    waiting: BTreeSet<Turn>,
    /// Of these, the ones that were not tried yet.
    fresh: BTreeSet<Turn>,
    /// Number of pods on each node that has any, without those of DaemonSets.
    busy: BTreeMap<Arc<str>, u32>,
    /// Whether something has changed since all of them were tried.
    is_helped: bool,
    /// When all of them were tried.
    tried: u64,
    n_came: u64,
    /// Pods as they were compiled for this cluster, by the number of their form.
    compiled: FxHashMap<u32, Pod>,
    against: Option<Against>,
    pub(super) parting: Option<Box<Parting>>,
    pub(super) figures: Figures,
}

/// The most urgent pod has the first turn, and of equally urgent ones the first that came.
type Turn = (Reverse<i32>, u64, PodKey);

struct Known {
    uid: Arc<str>,
    form: Form,
    priority: i32,
    place: Place,
    /// Number of the pod, in the order in which they came.
    number: u64,
    is_decided_here: bool,
    /// Whether a DaemonSet owns it.
    is_of_daemon: bool,
}

impl Known {
    fn turn(&self, key: &PodKey) -> Turn {
        (Reverse(self.priority), self.number, key.clone())
    }
}

enum Place {
    /// Since this time, in microseconds.
    Waiting(u64),
    /// On this node since this time.
    On(Arc<str>, u64),
}

impl Trial {
    pub(super) fn of(rule: Rule, terms: Terms) -> Trial {
        Trial {
            cluster: Cluster::new(),
            rule,
            own_nodes: None,
            fills: false,
            pods: BTreeMap::new(),
            waiting: BTreeSet::new(),
            fresh: BTreeSet::new(),
            busy: BTreeMap::new(),
            is_helped: false,
            tried: 0,
            n_came: 0,
            compiled: FxHashMap::default(),
            against: None,
            parting: None,
            figures: Figures::of(terms),
        }
    }

    /// Has these nodes instead of the recorded ones.
    pub(super) fn with_nodes(mut self, nodes: &[core_v1::Node]) -> Trial {
        let name = |node: &core_v1::Node| node.metadata.as_ref().map(|it| it.name.as_str().into());
        self.own_nodes = Some(nodes.iter().filter_map(name).collect());
        nodes.iter().for_each(|node| self.upsert_node(node));
        self
    }

    /// Lets nobody leave, and nobody be evicted.
    pub(super) fn filling(mut self) -> Trial {
        self.fills = true;
        self
    }

    /// Decides for each pod by other profiles, too, until they part.
    pub(super) fn against(mut self, against: Against) -> Trial {
        self.against = Some(against);
        self
    }

    /// Takes what happened at a moment, and places the pods that wait.
    pub(super) fn take(&mut self, moment: Moment) {
        let Moment { at, is_beginning, events } = moment;
        let standing = Standing { n_waiting: self.waiting.len(), busy: &self.busy };
        self.figures.look_before(at, || self.cluster.snapshot(), standing);
        for event in events {
            self.take_event(event, at, is_beginning);
        }
        self.settle(at);
        let standing = Standing { n_waiting: self.waiting.len(), busy: &self.busy };
        self.figures.note(at, || self.cluster.snapshot(), standing);
    }

    /// Tries the pods that wait once more, and looks at what is left.
    pub(super) fn finish(mut self) -> (Figures, Cluster) {
        let at = self.figures.until();
        self.tried = 0;
        self.settle(at);
        for known in self.pods.values() {
            if let Place::Waiting(since) = known.place {
                self.figures.count_left(at.saturating_sub(since));
            }
        }
        let standing = Standing { n_waiting: self.waiting.len(), busy: &self.busy };
        self.figures.end(&self.cluster.snapshot(), standing);
        (self.figures, self.cluster)
    }

    /// The profiles by which the pods are placed; `None` where they are as recorded.
    pub(super) fn profiles(&self) -> Option<&Profiles> {
        match &self.rule {
            Rule::AsRecorded => None,
            Rule::By(profiles, _) => Some(profiles),
        }
    }

    /// The pods that have come, as they are, to come once more.
    pub(super) fn comers(&self) -> Vec<Arrival> {
        let mut pods: Vec<_> =
            self.pods.iter().filter(|(_, known)| known.is_decided_here).collect();
        pods.sort_unstable_by_key(|(_, known)| known.number);
        let arrival = |(key, known): (&PodKey, &Known)| Arrival {
            key: key.clone(),
            uid: known.uid.clone(),
            form: known.form.clone(),
            node: None,
        };
        pods.into_iter().map(arrival).collect()
    }

    fn take_event(&mut self, event: Event, at: u64, is_beginning: bool) {
        match event {
            Event::Came(arrival) => self.come(*arrival, at, is_beginning),
            Event::Changed(key, form) => self.change(&key, *form),
            Event::Bound(key, node) => {
                let is_followed = |known: &&mut Known| !known.is_decided_here;
                if self.pods.get_mut(&key).filter(is_followed).is_some() {
                    self.put(&key, &node, at);
                }
            }
            Event::Unbound(key) => {
                if self.pods.get(&key).is_some_and(|known| !known.is_decided_here) {
                    self.remove(&key);
                    self.wait(&key, at);
                }
            }
            Event::Left(key) => self.leave(&key),
            Event::Node(encoded) => {
                if self.own_nodes.is_none()
                    && let Ok(node) = core_v1::Node::decode(&*encoded)
                {
                    self.upsert_node(&node);
                }
            }
            Event::NodeGone(name) => self.lose_node(&name, at),
            Event::Object(object) => {
                // One that cannot be compiled was no part of the recorded cluster either.
                if let Ok(object) = decode::compile_object(&object, &self.cluster) {
                    self.apply(Delta::UpsertObject(object));
                    self.is_helped = true;
                }
            }
            Event::ObjectGone(key) => {
                self.apply(Delta::DeleteObject(key));
                self.is_helped = true;
            }
            Event::Fenced(node, is_fenced) => {
                self.cluster.set_fenced(&node, is_fenced);
                self.is_helped = true;
            }
        }
    }

    fn come(&mut self, arrival: Arrival, at: u64, is_beginning: bool) {
        let Arrival { key, uid, form, node } = arrival;
        let node = node.filter(|node| self.own_nodes.as_ref().is_none_or(|own| own.contains(node)));
        let is_there = is_beginning && node.is_some();
        let is_decided_here = !is_there && self.decides(&form.pod);
        let priority = form.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
        let (place, number) = (Place::Waiting(at), self.n_came);
        self.n_came += 1;
        let is_of_daemon = form.pod.metadata.as_ref().is_some_and(is_of_daemon);
        let known = Known { uid, form, priority, place, number, is_decided_here, is_of_daemon };
        self.pods.insert(key.clone(), known);
        self.figures.n_came += u64::from(!is_there);
        match node.filter(|_| !is_decided_here) {
            Some(node) if is_there => self.run_on(&key, &node, at),
            Some(node) => self.put(&key, &node, at),
            None => self.wait(&key, at),
        }
    }

    fn decides(&self, pod: &core_v1::Pod) -> bool {
        let is_mirror = pod.metadata.as_ref().is_some_and(|it| it.annotations.contains_key(MIRROR));
        !is_mirror && self.policy_of(pod).is_some()
    }

    fn policy_of(&self, pod: &core_v1::Pod) -> Option<&Policy> {
        self.profiles()?.get(scheduler_of(pod))
    }

    fn change(&mut self, key: &PodKey, form: Form) {
        let Some(known) = self.pods.get_mut(key) else { return };
        known.form = form;
        if let Place::On(node, since) = &known.place {
            let (node, since) = (node.clone(), *since);
            self.upsert_on(key, &node, since);
        }
        self.is_helped = true;
    }

    fn leave(&mut self, key: &PodKey) {
        if self.fills {
            return;
        }
        self.remove(key);
        if let Some(known) = self.pods.remove(key) {
            self.waiting.remove(&known.turn(key));
            self.fresh.remove(&known.turn(key));
        }
    }

    /// A node that is gone takes its pods with it; whoever owns them makes new ones.
    fn lose_node(&mut self, name: &Arc<str>, at: u64) {
        if self.own_nodes.is_some() {
            return;
        }
        let is_on = |known: &Known| matches!(&known.place, Place::On(node, _) if node == name);
        let lost = self.pods.iter().filter(|(_, known)| known.is_decided_here && is_on(known));
        let lost: Vec<PodKey> = lost.map(|(key, _)| key.clone()).collect();
        for key in &lost {
            self.remove(key);
            self.wait(key, at);
        }
        self.apply(Delta::DeleteNode(name.clone()));
        self.is_helped = true;
    }

    fn upsert_node(&mut self, node: &core_v1::Node) {
        if let Ok(node) = self.cluster.compile_node(node) {
            self.apply(Delta::UpsertNode(node));
            self.is_helped = true;
        }
    }

    /// Takes a pod off its node.
    fn remove(&mut self, key: &PodKey) {
        let Some(known) = self.pods.get_mut(key) else { return };
        if let Place::On(node, _) = &known.place {
            if !known.is_of_daemon
                && let Some(n) = self.busy.get_mut(node)
            {
                *n -= 1;
                if *n == 0 {
                    self.busy.remove(node);
                }
            }
            known.place = Place::Waiting(0);
            self.apply(Delta::DeletePod { key: key.clone(), uid: None });
            self.is_helped = true;
        }
    }

    fn wait(&mut self, key: &PodKey, at: u64) {
        let Some(known) = self.pods.get_mut(key) else { return };
        known.place = Place::Waiting(at);
        if known.is_decided_here {
            self.fresh.insert(known.turn(key));
        }
        if known.is_decided_here || matches!(self.rule, Rule::AsRecorded) {
            self.waiting.insert(known.turn(key));
        }
    }

    /// Gives a pod a node.
    fn put(&mut self, key: &PodKey, node: &Arc<str>, at: u64) {
        let place = self.pods.get(key).map(|known| &known.place);
        if let Some(Place::Waiting(since)) = place {
            self.figures.count_placed(at.saturating_sub(*since));
        }
        self.run_on(key, node, at);
    }

    /// Has a pod run on a node.
    fn run_on(&mut self, key: &PodKey, node: &Arc<str>, at: u64) {
        // One that was on another node leaves it.
        self.remove(key);
        self.upsert_on(key, node, at);
        let Some(known) = self.pods.get_mut(key) else { return };
        known.place = Place::On(node.clone(), at);
        if !known.is_of_daemon {
            *self.busy.entry(node.clone()).or_default() += 1;
        }
        self.waiting.remove(&known.turn(key));
        self.fresh.remove(&known.turn(key));
    }

    fn upsert_on(&mut self, key: &PodKey, node: &Arc<str>, since: u64) {
        let Some(known) = self.pods.get(key) else { return };
        let mut object = named(key, known);
        object.spec.get_or_insert_default().node_name = node.to_string();
        let seconds = i64::try_from(since / 1_000_000).unwrap_or(i64::MAX);
        object.status = Some(core_v1::PodStatus {
            phase: "Running".to_owned(),
            start_time: Some(Time::from_unix_seconds(seconds)),
            ..core_v1::PodStatus::default()
        });
        if let Ok(pod) = self.cluster.compile_reported_pod(&object) {
            self.apply(Delta::UpsertPod(pod));
        }
    }

    fn apply(&mut self, delta: Delta) {
        // What is rejected was rejected in the recorded cluster, too.
        drop(self.cluster.apply(vec![delta]));
    }

    /// Places the pods that wait: the new ones, and all of them if something may help them and they were not tried just now.
    fn settle(&mut self, at: u64) {
        if matches!(self.rule, Rule::AsRecorded) {
            return;
        }
        let all = self.is_helped && (self.tried == 0 || at.saturating_sub(self.tried) >= PAUSE);
        let turns = match all {
            true => self.waiting.clone(),
            false => std::mem::take(&mut self.fresh),
        };
        if all {
            self.fresh.clear();
            (self.is_helped, self.tried) = (false, at);
        }
        // Pods that ask for the same are refused for the same reason.
        let mut refused = FxHashSet::default();
        for (.., key) in turns {
            let Some(known) = self.pods.get(&key) else { continue };
            let form = known.form.number;
            if !refused.contains(&form) && !self.place(&key, at) {
                refused.insert(form);
            }
            if self.parting.is_some() {
                return;
            }
        }
    }

    /// Tries to place a pod; returns whether it has a node.
    fn place(&mut self, key: &PodKey, at: u64) -> bool {
        let Rule::By(profiles, tie_break) = self.rule.clone() else { return false };
        let Some(pod) = self.compile(key) else { return false };
        let Some(policy) = profiles.get(pod.scheduler_name()) else { return false };
        let now = Some(i64::try_from(at / 1_000_000).unwrap_or(i64::MAX));
        let request = PlaceRequest { pod: &pod, policy, tie_break, now };
        if let Some(against) = &self.against {
            self.parting = against.parting(&self.cluster, &request, at);
            if self.parting.is_some() {
                return false;
            }
        }
        if let Some(node) = self.assume(&request) {
            self.put(key, &node, at);
            return true;
        }
        if self.fills {
            return false;
        }
        let Some(evicts) = evictions(&self.cluster, &request) else { return false };
        evicts.victims.iter().for_each(|victim| self.evict(victim, at));
        match self.assume(&request) {
            Some(node) => {
                self.put(key, &node, at);
                true
            }
            None => false,
        }
    }

    fn evict(&mut self, key: &PodKey, at: u64) {
        let Some(known) = self.pods.get(key) else { return };
        let is_decided_here = known.is_decided_here;
        self.figures.count_eviction(known.priority);
        self.remove(key);
        match is_decided_here {
            true => self.wait(key, at),
            // Where it is was recorded, and nowhere else is: so it is gone.
            false => drop(self.pods.remove(key)),
        }
    }

    fn compile(&mut self, key: &PodKey) -> Option<Pod> {
        let known = self.pods.get(key)?;
        let number = known.form.number;
        if let Some(pod) = self.compiled.get(&number).filter(|pod| pod.is_copied_whole()) {
            return Some(pod.with_identity(key.clone(), &known.uid));
        }
        let pod = self.cluster.compile_pod(&named(key, known)).ok()?;
        self.compiled.insert(number, pod.clone());
        Some(pod)
    }

    fn assume(&mut self, request: &PlaceRequest<'_>) -> Option<Arc<str>> {
        let began = clock::now();
        let decided = self.cluster.assume(request);
        self.figures.count_decision(clock::now() - began);
        node_of(&decided)
    }
}

fn scheduler_of(pod: &core_v1::Pod) -> &str {
    pod.spec.as_ref().map_or("", |spec| &spec.scheduler_name)
}

/// A pod under its name, without node and status.
fn named(key: &PodKey, known: &Known) -> core_v1::Pod {
    let mut pod = core_v1::Pod::clone(&known.form.pod);
    let metadata = pod.metadata.get_or_insert_default();
    (metadata.namespace, metadata.name) = (key.namespace.to_string(), key.name.to_string());
    metadata.uid = known.uid.to_string();
    pod
}

fn is_of_daemon(metadata: &ObjectMeta) -> bool {
    metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet")
}
