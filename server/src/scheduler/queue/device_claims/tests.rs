//! Tests of the wake-up rules of claims for devices, with a naive reference that asks every pod about every event and
//! keeps all events of an attempt.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use berth_engine::{Cluster, Delta, ObjectKind, Plugin, Pod, WireObject};
use berth_proto::{core_v1, resource_v1};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;
use crate::clock;
use crate::scheduler::group::GroupKeys;
use crate::scheduler::pending::Pending;
use crate::scheduler::queue::{Popped, QueueOptions};

/// A cluster with claims, and a queue of pods that name them.
struct World {
    cluster: Cluster,
    /// Every claim by name, as it was fed.
    claims: BTreeMap<String, resource_v1::ResourceClaim>,
    queue: Queue,
    now: Instant,
    /// Number of times that the queue asked for a pod's claims.
    n_asked: Cell<usize>,
}

/// What an event was, as the API server would send it.
type Event = (Option<resource_v1::ResourceClaim>, Option<resource_v1::ResourceClaim>);

fn claim_key(name: &str) -> ObjectKey {
    ObjectKey::new(ObjectKind::ResourceClaim, "d", name)
}

fn claim(name: &str, status: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "d", "uid": name}, "status": status})
}

/// A claim that was allocated, for the pod that it is reserved for.
fn taken(name: &str) -> Value {
    let result = json!({"request": "r", "driver": "x", "pool": "p", "device": name});
    let allocation = json!({"devices": {"results": [result]}});
    claim(name, &json!({"allocation": allocation, "reservedFor": [{"name": "o", "uid": "o"}]}))
}

fn free(name: &str) -> Value {
    claim(name, &json!({}))
}

/// A claim that was made from a template for the pod.
fn made_for(pod: &str, mut claim: Value) -> Value {
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": true});
    claim["metadata"]["ownerReferences"] = json!([owner]);
    claim
}

/// A pod that names these claims.
fn pod(name: &str, claims: &[&str]) -> Value {
    let entry = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
    let claims: Vec<Value> = claims.iter().map(entry).collect();
    json!({"metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {"containers": [], "resourceClaims": claims}})
}

/// A pod with a template, from which this claim was made if there is one.
fn templated(name: &str, made: Option<&str>) -> Value {
    let mut pod = pod(name, &[]);
    pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimTemplateName": "t"}]);
    if let Some(made) = made {
        pod["status"] =
            json!({"resourceClaimStatuses": [{"name": "c", "resourceClaimName": made}]});
    }
    pod
}

fn devices() -> Changes {
    Changes::helping(Plugin::DynamicResources)
}

impl World {
    fn new() -> World {
        let options = QueueOptions { flush_after: Duration::MAX, ..QueueOptions::default() };
        let (queue, now) = (Queue::new(options), clock::now());
        let (cluster, claims) = (Cluster::new(), BTreeMap::new());
        World { cluster, claims, queue, now, n_asked: Cell::new(0) }
    }

    /// A world with these claims and pods, each of which waits after it was rejected.
    fn waiting(claims: &[Value], pods: &[Value]) -> World {
        let mut world = World::new();
        claims.iter().for_each(|claim| drop(world.set(claim)));
        pods.iter().for_each(|pod| world.upsert(pod));
        for popped in world.pop() {
            world.reject(&popped, devices());
        }
        world.n_asked.set(0);
        world
    }

    fn with_queue<T>(
        &mut self,
        step: impl FnOnce(&mut Queue, HasUsableClaims<'_>, Instant) -> T,
    ) -> T {
        let (cluster, n_asked) = (&self.cluster, &self.n_asked);
        let is_usable = |pod: &Pod| {
            n_asked.set(n_asked.get() + 1);
            cluster.has_usable_claims(pod)
        };
        step(&mut self.queue, &is_usable, self.now)
    }

    fn upsert(&mut self, pod: &Value) {
        let pod: core_v1::Pod = serde_json::from_value(pod.clone()).unwrap();
        let pending =
            Pending::of(&pod, |pod| self.cluster.compile_pod(pod), &GroupKeys::default()).unwrap();
        self.with_queue(|queue, is_usable, now| queue.upsert(pending, is_usable, now));
    }

    /// Creates or replaces a claim; returns the event, unless nothing changed.
    fn set(&mut self, claim: &Value) -> Option<Event> {
        let claim: resource_v1::ResourceClaim = serde_json::from_value(claim.clone()).unwrap();
        let name = claim.metadata.as_ref().unwrap().name.clone();
        self.apply(&name, Some(claim))
    }

    fn delete(&mut self, claim: &str) -> Option<Event> {
        self.apply(claim, None)
    }

    fn apply(&mut self, name: &str, new: Option<resource_v1::ResourceClaim>) -> Option<Event> {
        let key = claim_key(name);
        let delta = match &new {
            Some(claim) => {
                Delta::UpsertObject(self.cluster.compile_object(WireObject::from(claim)).unwrap())
            }
            None => Delta::DeleteObject(key.clone()),
        };
        let old = match new.clone() {
            Some(claim) => self.claims.insert(name.to_owned(), claim),
            None => self.claims.remove(name),
        };
        let before = self.cluster.snapshot();
        self.cluster.apply(vec![delta]);
        let change = ClaimChange::between(&before, &self.cluster.snapshot(), &key)?;
        self.with_queue(|queue, is_usable, now| queue.claim_changed(&key, change, is_usable, now));
        Some((old, new))
    }

    /// Pops all pods, after the longest backoff.
    fn pop(&mut self) -> Vec<Popped> {
        self.now += Duration::from_secs(20);
        self.queue.pop(self.now, usize::MAX).map(|batch| batch.pods).unwrap_or_default()
    }

    fn reject(&mut self, popped: &Popped, wanted: Changes) {
        self.with_queue(|queue, is_usable, now| {
            queue.reject(&popped.attempt, wanted, is_usable, now);
        });
    }

    fn defer(&mut self, popped: &Popped, wanted: Changes) {
        self.with_queue(|queue, is_usable, now| {
            queue.defer(&popped.attempt, wanted, is_usable, now);
        });
    }

    fn waits(&self, pod: &str) -> bool {
        let entry = &self.queue.pods[&PodKey::new("d", pod)];
        matches!(entry.state, PodState::Unschedulable { .. })
    }
}

/// S-DRA-126: a claim that lost its allocation helps every pod whose claims can be used.
#[test]
fn a_deallocation_wakes_all_pods_whose_claims_can_be_used() {
    let claims = [taken("other"), free("own")];
    let pods = [pod("ready", &["own"]), pod("extended", &[]), pod("blocked", &["own", "missing"])];
    let mut world = World::waiting(&claims, &pods);
    world.set(&free("other"));
    let waits = ["ready", "extended", "blocked"].map(|pod| world.waits(pod));
    assert_eq!(waits, [false, false, true]);
}

/// S-DRA-126
#[test]
fn a_claim_of_another_pod_wakes_none() {
    let mut world = World::waiting(&[free("own")], &[pod("p", &["own"])]);
    world.set(&free("other"));
    world.set(&taken("other"));
    assert!(world.waits("p"), "it was added, and allocated");
    world.set(&free("other"));
    assert!(!world.waits("p"), "it was deallocated");
}

/// S-DRA-126
#[test]
fn a_claim_wakes_the_pod_that_names_it_when_it_is_new_or_its_status_changes() {
    let mut world = World::waiting(&[], &[pod("p", &["a", "b"])]);
    world.set(&free("a"));
    assert!(world.waits("p"), "the other claim is missing");
    world.set(&free("b"));
    assert!(!world.waits("p"));

    let mut world = World::waiting(&[free("a")], &[pod("p", &["a"])]);
    let mut labelled = free("a");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    world.set(&labelled);
    assert!(world.waits("p"), "its status is as before");
    world.set(&taken("a"));
    assert!(!world.waits("p"));
}

/// S-DRA-126: the claim was made for the pod, but nothing says so before its status changes.
#[test]
fn a_claim_that_the_pod_does_not_own_wakes_it_no_sooner_than_upstream() {
    let mut world = World::waiting(&[free("a")], &[templated("p", Some("a"))]);
    world.set(&taken("a"));
    assert!(world.waits("p"), "it is not the owner");
    world.set(&made_for("p", taken("a")));
    assert!(world.waits("p"), "the status is as before");
    world.set(&made_for("p", free("a")));
    assert!(!world.waits("p"));
}

/// S-DRA-126: a pod that is blocked is asked again once one of its claims changed.
#[test]
fn a_blocked_pod_is_woken_by_a_deallocation_after_its_claim_came_right() {
    let deleting = |mut claim: Value| {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        claim
    };
    let mut world =
        World::waiting(&[taken("x"), taken("y"), deleting(free("a"))], &[pod("p", &["a"])]);
    world.set(&free("x"));
    assert!(world.waits("p"), "its claim is being deleted");
    // No API server does this, but the hint of the next event depends on it alone.
    world.set(&free("a"));
    assert!(world.waits("p"), "the status is as before");
    world.set(&free("y"));
    assert!(!world.waits("p"));
}

/// S-DRA-126, S-DRA-128
#[test]
fn a_deleted_claim_wakes_pods_only_if_it_was_allocated() {
    let claims = [taken("taken"), free("free"), free("a")];
    let mut world = World::waiting(&claims, &[pod("p", &["a"]), pod("user", &["free"])]);
    world.delete("free");
    assert!(world.waits("p") && world.waits("user"));
    world.delete("taken");
    assert!(!world.waits("p"), "its devices are free");
    assert!(world.waits("user"), "its claim is gone");
}

/// S-DRA-127
#[test]
fn generated_claims_wake_their_pod_if_they_can_be_used() {
    let mut world = World::waiting(&[], &[templated("p", None)]);
    world.upsert(&templated("p", Some("a")));
    assert!(world.waits("p"), "the claim is not there");
    world.set(&made_for("p", free("a")));
    assert!(!world.waits("p"));

    let mut world = World::waiting(&[made_for("p", free("a"))], &[templated("p", None)]);
    world.upsert(&templated("p", None));
    assert!(world.waits("p"), "nothing changed");
    world.upsert(&templated("p", Some("a")));
    assert!(!world.waits("p"));
}

#[test]
fn pods_that_other_plugins_rejected_are_not_asked() {
    let mut world = World::new();
    world.set(&taken("x"));
    world.set(&made_for("full", free("a")));
    world.upsert(&templated("full", None));
    world.upsert(&pod("alone", &[]));
    let popped = world.pop();
    world.reject(&popped[0], Changes::helping(Plugin::NodeResourcesFit));
    world.reject(&popped[1], Changes::ALL);
    world.n_asked.set(0);
    world.upsert(&templated("full", Some("a")));
    world.set(&made_for("full", taken("a")));
    assert!(!world.waits("alone"), "it waits for anything");
    world.set(&free("x"));
    assert!(world.waits("full"), "it waits for room");
    assert_eq!(world.n_asked.get(), 0);
}

/// S-DRA-126: what an attempt misses is applied at its end.
#[test]
fn changes_during_an_attempt_are_applied_afterwards() {
    let cases: [(&str, &[Value], &[Value], bool); 7] = [
        ("a claim of another pod", &[free("a")], &[taken("x")], false),
        ("a deallocation", &[free("a"), taken("x")], &[free("x")], true),
        ("a deallocation while a claim is missing", &[taken("x")], &[free("x")], false),
        ("its claim is new", &[], &[free("a")], true),
        ("its claim is allocated", &[free("a")], &[taken("a")], true),
        ("its claim was new before", &[free("a")], &[free("a")], false),
        ("then a claim of another pod", &[], &[free("a"), taken("x")], true),
    ];
    for (what, before, during, is_helped) in cases {
        for is_deferred in [false, true] {
            let mut world = World::new();
            before.iter().for_each(|claim| drop(world.set(claim)));
            world.upsert(&pod("p", &["a"]));
            let popped = world.pop();
            during.iter().for_each(|claim| drop(world.set(claim)));
            if is_deferred {
                world.defer(&popped[0], devices());
            } else {
                world.reject(&popped[0], devices());
            }
            assert_eq!(!world.waits("p"), is_helped, "{what}");
        }
    }
}

#[test]
fn other_changes_during_an_attempt_are_not_lost_among_those_of_claims() {
    for (change, is_helped) in [(Changes::RESOURCE_SLICE, true), (Changes::NODE_TAINTS, false)] {
        let mut world = World::new();
        world.upsert(&pod("p", &["missing"]));
        let popped = world.pop();
        world.queue.changed(change, world.now);
        world.set(&free("other"));
        world.reject(&popped[0], devices());
        assert_eq!(!world.waits("p"), is_helped, "{change:?}");
    }
}

/// S-DRA-127
#[test]
fn claims_that_are_generated_during_an_attempt_are_not_missed() {
    let made = || vec![made_for("p", free("a"))];
    for (claims, wanted, is_helped) in [
        (vec![], devices(), false),
        (made(), devices(), true),
        (made(), Changes::POD_DELETED, false),
        (vec![], Changes::ALL, true),
    ] {
        let mut world = World::new();
        claims.iter().for_each(|claim| drop(world.set(claim)));
        world.upsert(&templated("p", None));
        let popped = world.pop();
        world.upsert(&templated("p", Some("a")));
        world.defer(&popped[0], wanted);
        assert_eq!(!world.waits("p"), is_helped, "{wanted:?}");
    }
}

/// S-DRA-13: a pod that PreEnqueue held back was not tried, so that it does not rest.
#[test]
fn a_pod_whose_claim_was_missing_is_tried_at_once_when_it_comes() {
    let mut world = World::new();
    world.upsert(&pod("p", &["a"]));
    let popped = world.pop();
    world.defer(&popped[0], devices());
    world.set(&free("a"));
    assert_eq!((world.queue.counts().active, world.queue.counts().backoff), (1, 0));
}

#[test]
fn pods_in_backoff_stay_there() {
    let mut world = World::waiting(&[taken("x")], &[pod("p", &[])]);
    let popped = world.pop();
    assert!(popped.is_empty());
    world.set(&free("x"));
    let popped = world.pop();
    world.reject(&popped[0], devices());
    world.set(&taken("x"));
    world.set(&free("x"));
    let next = world.queue.next_move();
    assert_eq!(world.queue.counts().backoff, 1);
    world.set(&taken("x"));
    world.set(&free("x"));
    assert_eq!((world.queue.counts().backoff, world.queue.next_move()), (1, next));
}

/// The cost of a burst is pods plus events, not pods times events.
#[test]
fn a_burst_of_changes_asks_each_pod_once() {
    const N: usize = 500;
    let names = |of: &str| (0..N).map(|i| format!("{of}{i}")).collect::<Vec<_>>();
    let (own, missing, others) = (names("own"), names("missing"), names("other"));
    let mut claims: Vec<Value> = own.iter().map(|claim| free(claim)).collect();
    claims.extend(others.iter().map(|claim| taken(claim)));
    let named = |claim: &String| pod(&format!("of-{claim}"), &[claim]);
    let pods: Vec<Value> = own.iter().chain(&missing).map(named).collect();
    let mut world = World::waiting(&claims, &pods);
    assert_eq!(world.queue.counts().unschedulable, 2 * N);
    for other in &others {
        let mut busy = taken(other);
        busy["status"]["reservedFor"] = json!([]);
        world.set(&busy);
    }
    assert_eq!(world.n_asked.get(), 0, "no pod names these claims");
    others.iter().for_each(|other| drop(world.set(&free(other))));
    assert_eq!(world.n_asked.get(), 2 * N, "the first deallocation wakes or blocks each pod");
    assert_eq!(world.queue.counts().unschedulable, N);
    missing.iter().for_each(|claim| drop(world.set(&free(claim))));
    assert_eq!(world.n_asked.get(), 3 * N, "each claim has one pod");
    assert_eq!(world.queue.counts().unschedulable, 0);
}

#[test]
fn pods_that_are_gone_are_forgotten_with_their_claims() {
    let mut world = World::waiting(&[], &[pod("p", &["a", "b"]), templated("t", Some("b"))]);
    assert_eq!(world.queue.claim_users.n_claims(), 2);
    world.upsert(&templated("t", Some("c")));
    assert_eq!(world.queue.claim_users.n_claims(), 3);
    world.upsert(&pod("p", &["a"]));
    assert_eq!(world.queue.claim_users.n_claims(), 2);
    for name in ["p", "t"] {
        assert!(world.queue.remove(&PodKey::new("d", name)));
    }
    assert_eq!(world.queue.claim_users.n_claims(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Set { claim: usize, version: usize },
    Delete(usize),
    Generate(Option<usize>),
    Pop(usize),
    End { nth: usize, wish: usize, is_deferred: bool },
}

const CLAIMS: [&str; 4] = ["a", "b", "c", "e"];
const PODS: [&str; 5] = ["p0", "p1", "p2", "p3", "made"];

fn step() -> impl Strategy<Value = Step> {
    let claim = 0..CLAIMS.len();
    prop_oneof![
        6 => (claim.clone(), 0..8_usize).prop_map(|(claim, version)| Step::Set { claim, version }),
        1 => claim.clone().prop_map(Step::Delete),
        3 => proptest::option::of(claim).prop_map(Step::Generate),
        3 => (1..4_usize).prop_map(Step::Pop),
        5 => (0..8_usize, 0..6_usize, any::<bool>())
            .prop_map(|(nth, wish, is_deferred)| Step::End { nth, wish, is_deferred }),
    ]
}

fn version(claim: &str, version: usize) -> Value {
    let mut claim = if version.is_multiple_of(2) { free(claim) } else { taken(claim) };
    match version {
        2 => claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        4.. => claim = made_for("made", claim),
        _ => {}
    }
    claim
}

/// Where a pod is, as far as hints matter.
enum Standing {
    /// It waits for these changes.
    Waiting(Changes),
    /// Everything that came during its attempt, and whether its generated claims changed.
    InFlight { events: Vec<Event>, is_updated: bool },
    /// It is to be tried.
    Ready,
}

/// The naive reference: each event and each pod.
struct Reference {
    world: World,
    pods: BTreeMap<&'static str, (Value, Standing)>,
    in_flight: Vec<Popped>,
}

impl Reference {
    fn new() -> Reference {
        let claims: [&[&str]; 4] = [&["a"], &["a", "b"], &["c"], &[]];
        let mut objects: Vec<Value> =
            PODS.iter().zip(claims).map(|(name, claims)| pod(name, claims)).collect();
        objects.push(templated("made", None));
        let mut world = World::new();
        objects.iter().for_each(|pod| world.upsert(pod));
        let pods = PODS.into_iter().zip(objects);
        let pods = pods.map(|(name, object)| (name, (object, Standing::Ready))).collect();
        Reference { world, pods, in_flight: Vec::new() }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Set { claim, version: n } => {
                let event = self.world.set(&version(CLAIMS[claim], n));
                self.happened(event);
            }
            Step::Delete(claim) => {
                let event = self.world.delete(CLAIMS[claim]);
                self.happened(event);
            }
            Step::Generate(claim) => self.generate(claim),
            Step::Pop(max) => {
                self.world.now += Duration::from_secs(20);
                let batch = self.world.queue.pop(self.world.now, max);
                for popped in batch.into_iter().flat_map(|batch| batch.pods) {
                    let standing = Standing::InFlight { events: Vec::new(), is_updated: false };
                    self.pods.get_mut(&*popped.pending.key.name).unwrap().1 = standing;
                    self.in_flight.push(popped);
                }
            }
            Step::End { nth, wish, is_deferred } => {
                let n = self.in_flight.len();
                if n > 0 {
                    let popped = self.in_flight.remove(nth % n);
                    self.end(&popped, wish, is_deferred);
                }
            }
        }
    }

    fn happened(&mut self, event: Option<Event>) {
        let Some(event) = event else { return };
        for (object, standing) in self.pods.values_mut() {
            match standing {
                Standing::Waiting(wanted) if helps(&self.world, object, *wanted, &event) => {
                    *standing = Standing::Ready;
                }
                Standing::InFlight { events, .. } => events.push(event.clone()),
                _ => {}
            }
        }
    }

    fn generate(&mut self, claim: Option<usize>) {
        let new = templated("made", claim.map(|claim| CLAIMS[claim]));
        let (object, standing) = self.pods.get_mut("made").unwrap();
        let is_same = *object == new;
        object.clone_from(&new);
        self.world.upsert(&new);
        match standing {
            _ if is_same => {}
            Standing::Waiting(wanted) if is_helped_by_update(&self.world, object, *wanted) => {
                *standing = Standing::Ready;
            }
            Standing::InFlight { is_updated, .. } => *is_updated = true,
            _ => {}
        }
    }

    fn end(&mut self, popped: &Popped, wish: usize, is_deferred: bool) {
        let wanted = match wish {
            0 => Changes::ALL,
            1 => Changes::POD_DELETED,
            2 => devices().or(Changes::POD_DELETED),
            _ => devices(),
        };
        if is_deferred {
            self.world.defer(popped, wanted);
        } else {
            self.world.reject(popped, wanted);
        }
        let (object, standing) = self.pods.get_mut(&*popped.pending.key.name).unwrap();
        let Standing::InFlight { events, is_updated } = &standing else { panic!("not in flight") };
        let is_helped = *is_updated && is_helped_by_update(&self.world, object, wanted)
            || events.iter().any(|event| helps(&self.world, object, wanted, event));
        *standing = if is_helped { Standing::Ready } else { Standing::Waiting(wanted) };
    }

    fn check(&self) {
        for (name, (_, standing)) in &self.pods {
            let is_waiting = matches!(standing, Standing::Waiting(_));
            assert_eq!(self.world.waits(name), is_waiting, "{name}");
        }
        for name in PODS {
            let entry = &self.world.queue.pods[&PodKey::new("d", name)];
            if matches!(entry.state, PodState::Unschedulable { is_blocked: true, .. }) {
                let pod = entry.pending.pod.as_ref().unwrap();
                assert!(!self.world.cluster.has_usable_claims(pod), "{name}");
            }
        }
    }
}

fn compiled(world: &World, object: &Value) -> Pod {
    let pod: core_v1::Pod = serde_json::from_value(object.clone()).unwrap();
    world.cluster.compile_pod(&pod).unwrap()
}

fn helps(world: &World, object: &Value, wanted: Changes, event: &Event) -> bool {
    let pod = compiled(world, object);
    match event {
        _ if wanted == Changes::ALL => true,
        _ if !wanted.intersects(Changes::RESOURCE_CLAIM) => false,
        (old, Some(new)) => world.cluster.claim_helps(&pod, old.as_ref(), new),
        (old, None) => {
            let status = old.as_ref().and_then(|claim| claim.status.as_ref());
            status.is_some_and(|status| status.allocation.is_some())
                && world.cluster.has_usable_claims(&pod)
        }
    }
}

fn is_helped_by_update(world: &World, object: &Value, wanted: Changes) -> bool {
    let pod = compiled(world, object);
    wanted == Changes::ALL
        || wanted.intersects(Changes::RESOURCE_CLAIM) && world.cluster.update_helps(&pod, &pod)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// S-DRA-126, S-DRA-127: no wake-up is lost, and none is made up.
    #[test]
    fn the_index_wakes_whom_asking_every_pod_would_wake(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut reference = Reference::new();
        for step in &steps {
            reference.run(step);
            reference.check();
        }
    }
}
