//! Tests of the queue with random steps: no pod is lost, the order is S-Q-4's, no pod is tried before the end of its
//! backoff, and the counts agree with the contents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use berth_engine::{Cluster, Pod, PodKey};
use berth_proto::{core_v1, meta_v1};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::clock;
use crate::scheduler::group::GroupKeys;

const N_PODS: usize = 12;
const N_VICTIMS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Upsert { pod: usize, life: u8, is_gated: bool, app: u8 },
    Remove(usize),
    Assign(usize),
    Pop(usize),
    Reject { nth: usize, wanted: u8 },
    Defer { nth: usize, wanted: u8 },
    Fail(usize),
    Retry(usize),
    Hold { nth: usize, ms: Option<u16> },
    Place { nth: usize, is_sent: bool },
    Cancel(usize),
    Evict { nth: usize, victims: u8 },
    Vanish(usize),
    Change(u8),
    Wait(u16),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..N_PODS;
    prop_oneof![
        4 => (pod.clone(), 0..2_u8, any::<bool>(), 0..2_u8)
            .prop_map(|(pod, life, gated, app)| Step::Upsert { pod, life, is_gated: gated && pod % 3 == 0, app }),
        1 => pod.clone().prop_map(Step::Remove),
        1 => pod.prop_map(Step::Assign),
        4 => (1..5_usize).prop_map(Step::Pop),
        3 => (0..8_usize, 0..20_u8).prop_map(|(nth, wanted)| Step::Reject { nth, wanted }),
        1 => (0..8_usize, 0..20_u8).prop_map(|(nth, wanted)| Step::Defer { nth, wanted }),
        1 => (0..8_usize).prop_map(Step::Fail),
        1 => (0..8_usize).prop_map(Step::Retry),
        2 => (0..8_usize, proptest::option::of(0..5_000_u16)).prop_map(|(nth, ms)| Step::Hold { nth, ms }),
        3 => (0..8_usize, any::<bool>()).prop_map(|(nth, is_sent)| Step::Place { nth, is_sent }),
        1 => (0..8_usize).prop_map(Step::Cancel),
        2 => (0..8_usize, 1..8_u8).prop_map(|(nth, victims)| Step::Evict { nth, victims }),
        2 => (0..N_VICTIMS).prop_map(Step::Vanish),
        2 => (0..20_u8).prop_map(Step::Change),
        2 => (0..20_000_u16).prop_map(Step::Wait),
        1 => Just(Step::Expire),
    ]
}

/// No pod here has claims for devices.
fn usable(_: &Pod) -> bool {
    true
}

/// Pods 9 to 11 are a group of three; priorities are 0 to 2.
fn pending(pod: usize, life: u8, is_gated: bool, app: u8) -> Pending {
    let mut labels = BTreeMap::from([("app".to_owned(), app.to_string())]);
    if pod >= 9 {
        labels.insert("scheduling.kubernetes.io/pod-group".to_owned(), "g".to_owned());
        labels.insert("scheduling.kubernetes.io/min-available".to_owned(), "3".to_owned());
    }
    let gate = core_v1::PodSchedulingGate { name: "wait".to_owned() };
    let object = core_v1::Pod {
        metadata: Some(meta_v1::ObjectMeta {
            name: format!("p{pod}"),
            namespace: "d".to_owned(),
            uid: format!("{pod}-{life}"),
            labels,
            ..meta_v1::ObjectMeta::default()
        }),
        spec: Some(core_v1::PodSpec {
            priority: Some(i32::try_from(pod % 3).unwrap()),
            scheduling_gates: if is_gated { vec![gate] } else { Vec::new() },
            ..core_v1::PodSpec::default()
        }),
        status: None,
    };
    Pending::of(&object, |pod| Cluster::new().compile_pod(pod), &GroupKeys::default()).unwrap()
}

fn change(kind: u8) -> Changes {
    let mut kinds = Changes::ALL.each();
    kinds.nth(usize::from(kind)).map(|(_, change)| change).unwrap()
}

/// The queue with a model that it must agree with.
struct Story {
    queue: Queue,
    now: Instant,
    /// Known pods with their uid.
    known: BTreeMap<PodKey, Arc<str>>,
    in_flight: Vec<Popped>,
    /// Pods in flight that are assumed, and whether something was sent.
    placed: BTreeMap<PodKey, bool>,
    /// Time until which a pod must not be popped by itself.
    rests: BTreeMap<PodKey, Instant>,
    /// Victims of each pod's last attempt that are there still; none are left if they are gone.
    victims: BTreeMap<PodKey, BTreeSet<usize>>,
}

fn victim(i: usize) -> PodKey {
    PodKey::new("d", &format!("victim-{i}"))
}

impl Story {
    fn take(&mut self, nth: usize) -> Option<Popped> {
        let taken = (!self.in_flight.is_empty())
            .then(|| self.in_flight.remove(nth % self.in_flight.len()))?;
        self.placed.remove(&taken.pending.key);
        Some(taken)
    }

    fn forget(&mut self, key: &PodKey) {
        self.known.remove(key);
        self.placed.remove(key);
        self.rests.remove(key);
        self.victims.remove(key);
        self.in_flight.retain(|popped| popped.pending.key != *key);
    }

    fn run(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Upsert { pod, life, is_gated, app } => {
                self.upsert(pending(pod, life, is_gated, app));
            }
            Step::Remove(pod) => {
                let key = pending(pod, 0, false, 0).key;
                self.queue.gone(&key);
                self.forget(&key);
            }
            Step::Assign(pod) => {
                let pending = pending(pod, 0, false, 0);
                let group = pending.group.map(|group| group.name);
                self.queue.assigned(&pending.key, group, now);
                self.forget(&pending.key);
            }
            Step::Pop(max) => self.pop(max),
            Step::Reject { nth, wanted } => {
                let Some(popped) = self.take(nth) else { return };
                self.queue.reject(&popped.attempt, change(wanted), &usable, now);
                let key = &popped.pending.key;
                if self.victims.get(key).is_some_and(BTreeSet::is_empty) {
                    self.assert_ready(key);
                } else {
                    // The first backoff is the shortest possible.
                    self.rests.insert(key.clone(), now + Duration::from_secs(1));
                }
            }
            Step::Defer { nth, wanted } => {
                let Some(popped) = self.take(nth) else { return };
                self.queue.defer(&popped.attempt, change(wanted), &usable, now);
            }
            Step::Fail(nth) => {
                let Some(popped) = self.take(nth) else { return };
                self.queue.fail(&popped.attempt, now);
                self.rests.insert(popped.pending.key.clone(), now + Duration::from_secs(1));
            }
            Step::Retry(nth) => {
                let Some(popped) = self.take(nth) else { return };
                self.queue.retry(&popped.attempt, now);
            }
            Step::Hold { nth, ms } => {
                let Some(popped) = self.take(nth) else { return };
                let until = ms.map(|ms| now + Duration::from_millis(u64::from(ms)));
                self.queue.hold(&popped.attempt, until);
            }
            Step::Place { nth, is_sent } => {
                let n = self.in_flight.len().max(1);
                let Some(popped) = self.in_flight.get(nth % n) else { return };
                self.queue.placed(&popped.attempt);
                if is_sent {
                    assert!(self.queue.sent(&popped.attempt));
                }
                self.placed.insert(popped.pending.key.clone(), is_sent);
            }
            Step::Cancel(nth) => self.cancel(nth),
            Step::Evict { nth, victims } => self.evict(nth, victims),
            Step::Vanish(i) => self.vanish(i),
            Step::Change(kind) => self.queue.changed(change(kind), now),
            Step::Wait(ms) => self.now += Duration::from_millis(u64::from(ms)),
            Step::Expire => {
                let expired = self.queue.expired(now);
                self.begun(expired);
            }
        }
    }

    /// Records attempts that begin: they have no victims yet.
    fn begun(&mut self, popped: Vec<Popped>) {
        popped.iter().for_each(|popped| drop(self.victims.remove(&popped.pending.key)));
        self.in_flight.extend(popped);
    }

    fn upsert(&mut self, pending: Pending) {
        let (key, uid) = (pending.key.clone(), pending.name.uid.clone());
        if self.known.get(&key).is_some_and(|known| *known != uid) {
            self.forget(&key);
        }
        self.known.insert(key, uid);
        self.queue.upsert(pending, &usable, self.now);
    }

    fn cancel(&mut self, nth: usize) {
        let n = self.in_flight.len().max(1);
        let Some(popped) = self.in_flight.get(nth % n) else { return };
        let (key, uid) = (popped.pending.key.clone(), popped.pending.name.uid.clone());
        let may_be = self.placed.get(&key) == Some(&false);
        assert_eq!(self.queue.cancel(&key, &uid, self.now), may_be);
        if may_be {
            let popped = self.take(nth).expect("one in flight");
            assert!(!self.queue.sent(&popped.attempt), "it is not to be bound any more");
            assert!(!self.queue.unplaced(&popped.attempt), "its room is another's");
            self.rests.insert(key, self.now + Duration::from_secs(1));
        }
    }

    fn evict(&mut self, nth: usize, victims: u8) {
        let n = self.in_flight.len().max(1);
        let Some(popped) = self.in_flight.get(nth % n) else { return };
        let chosen: BTreeSet<usize> = (0..N_VICTIMS).filter(|i| victims & (1 << i) != 0).collect();
        let keys: Vec<PodKey> = chosen.iter().map(|i| victim(*i)).collect();
        self.queue.await_victims(&popped.attempt, &keys);
        self.victims.insert(popped.pending.key.clone(), chosen);
    }

    fn vanish(&mut self, i: usize) {
        self.queue.victim_gone(&victim(i), self.now);
        let freed: Vec<PodKey> = self
            .victims
            .iter_mut()
            .filter_map(|(key, left)| (left.remove(&i) && left.is_empty()).then(|| key.clone()))
            .collect();
        for key in freed {
            let is_in_flight = self.in_flight.iter().any(|popped| popped.pending.key == key);
            let is_waiting = matches!(
                self.queue.pods[&key].state,
                PodState::Unschedulable { .. } | PodState::Backoff { .. }
            );
            assert!(!is_waiting, "{key} has its room");
            if !is_in_flight {
                self.rests.remove(&key);
            }
        }
    }

    fn assert_ready(&mut self, key: &PodKey) {
        let state = &self.queue.pods[key].state;
        assert!(matches!(state, PodState::Active(_)), "{key} has its room, and is {state:?}");
        self.rests.remove(key);
    }

    fn pop(&mut self, max: usize) {
        self.queue.flush(self.now);
        // A group is tried as a whole: not while the rejection of some of its pods is being reported.
        let is_told = self.in_flight.iter().any(|popped| {
            popped.pending.group.is_some() && !self.placed.contains_key(&popped.pending.key)
        });
        let is_passed_over = |position: &&QueuePosition| {
            is_told && self.queue.pods[&position.key].pending.group.is_some()
        };
        let positions: Vec<QueuePosition> = self
            .queue
            .active
            .iter()
            .filter(|position| !is_passed_over(position))
            .cloned()
            .collect();
        let Some(batch) = self.queue.pop(self.now, max) else {
            assert!(
                positions.is_empty(),
                "nothing was popped, and these are active: {positions:?}"
            );
            return;
        };
        let keys: Vec<PodKey> =
            batch.pods.iter().map(|popped| popped.pending.key.clone()).collect();
        assert!(
            keys.contains(&positions[0].key),
            "the head is {:?}, popped was {keys:?}",
            positions[0]
        );
        if let Some(group) = &batch.group {
            let held = self.queue.groups.members(&group.name).into_iter().filter(|key| {
                self.placed.contains_key(key)
                    || matches!(self.queue.pods[key].state, PodState::Held { .. })
            });
            let n_placed = held.count() + self.queue.groups.n_assigned(&group.name);
            assert_eq!(group.n_placed, n_placed, "who has no node does not count");
        }
        if batch.group.is_none() {
            let expected: Vec<_> = positions.iter().map(|position| position.key.clone()).collect();
            assert_eq!(keys, expected[..keys.len()], "not in the order of the queue");
            assert!(keys.len() <= max);
            let priorities: BTreeSet<i32> =
                batch.pods.iter().map(|popped| popped.pending.priority).collect();
            assert_eq!(priorities.len(), 1, "a batch of several priorities");
            for key in &keys {
                let rest = self.rests.get(key);
                assert!(rest.is_none_or(|until| *until <= self.now), "{key} has not rested");
            }
        }
        self.begun(batch.pods);
    }

    fn check(&self) {
        let queue = &self.queue;
        let known: BTreeSet<&PodKey> = self.known.keys().collect();
        let kept: BTreeSet<&PodKey> = queue.pods.keys().collect();
        assert_eq!(kept, known, "pods were lost or made up");
        let waiting: usize = queue.unschedulable.values().map(BTreeSet::len).sum();
        let counted = Counts {
            active: queue.active.len(),
            backoff: queue.backoff.len(),
            unschedulable: waiting,
            ..queue.counts
        };
        assert_eq!(counted, queue.counts);
        let Counts { active, backoff, unschedulable, gated, in_flight, held } = queue.counts;
        assert_eq!(active + backoff + unschedulable + gated + in_flight + held, kept.len());
        assert_eq!(in_flight, self.in_flight.len());
        assert!(queue.unschedulable.values().all(|pods| !pods.is_empty()));
        let is_known = |(key, entry): (&PodKey, &Entry)| entry.pending.name.uid == self.known[key];
        assert!(queue.pods.iter().all(is_known));
        if unschedulable + backoff > 0 {
            assert!(queue.next_move().is_some(), "pods wait, and nothing will move them");
        }
    }

    /// Checks that every pod that is not gated is tried again, by the passage of time alone.
    fn finish(&mut self) {
        self.now += Duration::from_secs(60);
        let expired = self.queue.expired(self.now);
        self.in_flight.extend(expired);
        self.placed.clear();
        for popped in std::mem::take(&mut self.in_flight) {
            self.queue.reject(&popped.attempt, Changes::NONE, &usable, self.now);
        }
        self.now += Duration::from_secs(3_600);
        self.rests.clear();
        while self.queue.has_active()
            || self.queue.counts.backoff > 0
            || self.queue.counts.unschedulable > 0
        {
            let before = self.in_flight.len();
            self.pop(3);
            assert!(self.in_flight.len() > before, "nothing moves: {:?}", self.queue);
        }
        let Counts { gated, in_flight, held, .. } = self.queue.counts;
        assert_eq!(gated + in_flight + held, self.known.len());
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(6),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_pod_is_lost_and_none_jumps_the_queue(steps in proptest::collection::vec(step(), 1..120)) {
        let mut story = Story {
            queue: Queue::new(QueueOptions::default()),
            now: clock::now(),
            known: BTreeMap::new(),
            in_flight: Vec::new(),
            placed: BTreeMap::new(),
            rests: BTreeMap::new(),
            victims: BTreeMap::new(),
        };
        for step in &steps {
            story.run(step);
            story.check();
        }
        story.finish();
    }
}

fn queue_of(pods: &[usize], now: Instant) -> Queue {
    let mut queue = Queue::new(QueueOptions::default());
    pods.iter().for_each(|&pod| queue.upsert(pending(pod, 0, false, 0), &usable, now));
    queue
}

fn popped(queue: &mut Queue, now: Instant) -> Vec<Popped> {
    queue.pop(now, 10).map(|batch| batch.pods).unwrap_or_default()
}

#[test]
fn priority_comes_first_and_then_who_waited_longest() {
    let now = clock::now();
    let mut queue = queue_of(&[0, 1, 2, 3, 5], now);
    let names = |pods: Vec<Popped>| -> Vec<String> {
        pods.iter().map(|popped| popped.pending.key.name.to_string()).collect()
    };
    let first = popped(&mut queue, now);
    let failed = first[0].attempt.clone();
    assert_eq!(names(first), ["p2", "p5"]);
    queue.retry(&failed, now + Duration::from_millis(1));
    queue.upsert(pending(8, 0, false, 0), &usable, now);
    assert_eq!(
        names(popped(&mut queue, now)),
        ["p8", "p2"],
        "one that failed goes behind its equals"
    );
    assert_eq!(names(popped(&mut queue, now)), ["p1"]);
    assert_eq!(names(popped(&mut queue, now)), ["p0", "p3"]);
}

#[test]
fn a_rejected_pod_waits_for_what_helps_and_rests_longer_each_time() {
    let now = clock::now();
    let mut queue = queue_of(&[0], now);
    let (mut at, helps) = (now, Changes::NODE_ADDED);
    for seconds in [1, 2, 4, 8, 10, 10] {
        let pods = popped(&mut queue, at);
        queue.reject(&pods[0].attempt, helps, &usable, at);
        queue.changed(Changes::CLAIM, at);
        assert_eq!(queue.counts().unschedulable, 1, "a claim does not help");
        queue.changed(helps, at);
        assert_eq!(queue.counts().backoff, 1);
        let rested = at + Duration::from_secs(seconds);
        assert_eq!(queue.next_move(), Some(rested));
        assert!(popped(&mut queue, rested - Duration::from_millis(1)).is_empty());
        at = rested;
    }
    let pods = popped(&mut queue, at);
    queue.reject(&pods[0].attempt, helps, &usable, at);
    let later = at + Duration::from_secs(60);
    queue.changed(helps, later);
    assert_eq!(popped(&mut queue, later).len(), 1, "it has rested already");
}

#[test]
fn what_changed_during_an_attempt_is_not_missed() {
    let now = clock::now();
    let mut queue = queue_of(&[0, 3], now);
    let pods = popped(&mut queue, now);
    queue.changed(Changes::NODE_ADDED, now);
    queue.reject(&pods[0].attempt, Changes::NODE_ADDED, &usable, now);
    queue.reject(&pods[1].attempt, Changes::CLAIM, &usable, now);
    assert_eq!((queue.counts().backoff, queue.counts().unschedulable), (1, 1));
    let mut queue = queue_of(&[0], now);
    queue.changed(Changes::NODE_ADDED, now);
    let pods = popped(&mut queue, now);
    queue.reject(&pods[0].attempt, Changes::NODE_ADDED, &usable, now);
    assert_eq!(queue.counts().unschedulable, 1, "that was before the attempt");
}

#[test]
fn after_five_minutes_a_pod_is_tried_anyway() {
    let now = clock::now();
    let mut queue = queue_of(&[0], now);
    let pods = popped(&mut queue, now);
    queue.reject(&pods[0].attempt, Changes::NONE, &usable, now);
    let flush = now + Duration::from_secs(300);
    assert_eq!(queue.next_move(), Some(flush));
    assert!(popped(&mut queue, flush - Duration::from_millis(1)).is_empty());
    assert_eq!(popped(&mut queue, flush).len(), 1);
}

#[test]
fn the_outcome_of_an_older_attempt_is_ignored() {
    let now = clock::now();
    let mut queue = queue_of(&[0], now);
    let old = popped(&mut queue, now).remove(0).attempt;
    queue.upsert(pending(0, 1, false, 0), &usable, now);
    queue.reject(&old, Changes::NONE, &usable, now);
    queue.hold(&old, None);
    assert_eq!(queue.counts().active, 1, "the pod of that name is another one");
    let new = popped(&mut queue, now).remove(0).attempt;
    queue.fail(&old, now);
    assert!(queue.is_under_way(&new));
}

#[test]
fn a_pod_whose_spec_changed_is_tried_anew() {
    let now = clock::now();
    let mut queue = queue_of(&[0], now);
    let pods = popped(&mut queue, now);
    queue.reject(&pods[0].attempt, Changes::NONE, &usable, now);
    let later = now + Duration::from_secs(2);
    queue.upsert(pending(0, 0, false, 0), &usable, later);
    assert_eq!(queue.counts().unschedulable, 1, "it was added again without a change");
    queue.upsert(pending(0, 0, false, 1), &usable, later);
    assert_eq!(queue.counts().active, 1);
}

#[test]
fn a_group_is_popped_whole_and_counts_those_that_have_a_node() {
    let now = clock::now();
    let mut queue = queue_of(&[9, 10], now);
    let batch = queue.pop(now, 1).unwrap();
    assert_eq!(batch.pods.len(), 2, "a group is not cut to the size of a batch");
    let group = batch.group.unwrap();
    assert_eq!((group.min_available, group.n_placed), (3, 0));
    batch
        .pods
        .iter()
        .for_each(|popped| queue.defer(&popped.attempt, Changes::GROUP_MEMBER, &usable, now));
    assert_eq!(queue.counts().unschedulable, 2);
    queue.upsert(pending(11, 0, false, 0), &usable, now);
    let batch = queue.pop(now, 1).unwrap();
    assert_eq!((batch.pods.len(), queue.counts().unschedulable), (3, 0));
    batch.pods.iter().for_each(|popped| queue.placed(&popped.attempt));
    queue.assigned(&batch.pods[0].pending.key, Some(group.name.clone()), now);
    queue.hold(&batch.pods[1].attempt, None);
    queue.fail(&batch.pods[2].attempt, now);
    let batch = queue.pop(now + Duration::from_secs(1), 1).unwrap();
    assert_eq!((batch.pods.len(), batch.group.unwrap().n_placed), (1, 2));
}

#[test]
fn members_whose_rejection_is_being_written_have_no_node() {
    let now = clock::now();
    let mut queue = queue_of(&[9, 10], now);
    let pods = popped(&mut queue, now);
    queue.upsert(pending(11, 0, false, 0), &usable, now);
    queue.upsert(pending(0, 0, false, 0), &usable, now);
    let others = popped(&mut queue, now);
    assert_eq!(others[0].pending.key.name.as_ref(), "p0", "others do not wait for the group");
    assert!(popped(&mut queue, now).is_empty(), "the third alone is no group");
    queue.defer(&pods[0].attempt, Changes::GROUP_MEMBER, &usable, now);
    assert!(popped(&mut queue, now).is_empty());
    queue.defer(&pods[1].attempt, Changes::GROUP_MEMBER, &usable, now);
    let batch = queue.pop(now, 10).unwrap();
    assert_eq!((batch.pods.len(), batch.group.unwrap().n_placed), (3, 0));
}

#[test]
fn members_that_came_again_under_their_names_have_no_node() {
    let now = clock::now();
    let mut queue = Queue::new(QueueOptions::default());
    let group = pending(9, 0, false, 0).group.unwrap().name;
    for pod in 9..12 {
        queue.assigned(&pending(pod, 0, false, 0).key, Some(group.clone()), now);
    }
    (9..12).for_each(|pod| queue.upsert(pending(pod, 1, false, 0), &usable, now));
    let batch = queue.pop(now, 10).unwrap();
    assert_eq!((batch.pods.len(), batch.group.unwrap().n_placed), (3, 0));
}

#[test]
fn a_pod_whose_victims_are_gone_does_not_rest() {
    let now = clock::now();
    let mut queue = queue_of(&[0], now);
    let first = popped(&mut queue, now).remove(0).attempt;
    queue.await_victims(&first, &[victim(0), victim(1)]);
    queue.reject(&first, Changes::POD_DELETED, &usable, now);
    assert!(!queue.victim_gone(&victim(0), now), "one is there still");
    queue.changed(Changes::POD_DELETED, now);
    assert_eq!(popped(&mut queue, now).len(), 0, "it rests until the second is gone");
    assert!(queue.victim_gone(&victim(1), now));
    let second = popped(&mut queue, now).remove(0).attempt;
    // The victims of the first attempt are not those of the second.
    queue.reject(&second, Changes::POD_DELETED, &usable, now);
    assert_eq!(popped(&mut queue, now).len(), 0);
    queue.changed(Changes::POD_DELETED, now);
    assert_eq!(
        popped(&mut queue, now + Duration::from_secs(1)).len(),
        0,
        "its second rest is longer"
    );
    let third = popped(&mut queue, now + Duration::from_secs(2)).remove(0).attempt;
    // Gone before the attempt is over, and found out by a list.
    queue.await_victims(&third, &[victim(2)]);
    assert_eq!(queue.listed(&|key| *key != victim(2), now), []);
    queue.reject(&third, Changes::POD_DELETED, &usable, now);
    assert_eq!(popped(&mut queue, now).len(), 1);
}

#[test]
fn what_a_list_of_all_pods_does_not_hold_is_gone() {
    let now = clock::now();
    let mut queue = queue_of(&[0, 1, 2], now);
    let there = pending(1, 0, false, 0).key;
    assert_eq!(queue.listed(&|key| *key == there, now).len(), 2);
    assert!(queue.contains(&there) && queue.counts().active == 1);
}

#[test]
fn rests_that_last_for_ever_end_some_day() {
    let now = clock::now();
    let backoff = Backoff { initial: Duration::MAX, max: Duration::MAX };
    let options = QueueOptions { backoff, flush_after: Duration::MAX };
    let mut queue = Queue::new(options);
    queue.upsert(pending(0, 0, false, 0), &usable, now);
    let pods = popped(&mut queue, now);
    queue.fail(&pods[0].attempt, now);
    assert!(queue.next_move().is_some_and(|next| next > now));
}
