//! Comparison of the engine with the naive allocator on random devices and claims: for each node the same devices in
//! the same order, or the same reason, while claims are allocated and released and pools are replaced.
//! Rules: S-DRA-30 to S-DRA-38, S-DRA-41 to S-DRA-64, S-DRA-70 to S-DRA-74, S-DRA-81, S-DRA-82.
//! `BERTH_CASES` multiplies the number of cases.
//!
//! Left out is what upstream leaves to chance: two pools of one name that both have counters (S-DRA-63), and slices of
//! a generation that disagree in their number (S-DRA-33).

use std::array;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;

use berth_engine::{
    Cluster, Decision, Delta, EngineError, ObjectKey, ObjectKind, Outcome, PlaceRequest, Pod,
    Policy, TieBreak,
};
use berth_proto::core_v1;
use berth_proto::resource_v1::{DeviceClass, ResourceClaim, ResourceSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::naive::devices::selector::EXPRESSIONS;
use crate::naive::devices::{self as naive, Given, World};
use crate::naive::quantity::nanos;
use crate::random::config;
use crate::random::devices::{Flavor, N_CLASSES, N_NODES, Pool, claim, pool};

const N_POOLS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    /// Decides a pod with these claims for each node and for all, then does this with the outcome.
    Decide {
        claims: Vec<Value>,
        effect: Effect,
    },
    /// An allocated claim is deleted, and the pod that it was for.
    Release {
        claim: usize,
    },
    Replace {
        position: usize,
        pool: Pool,
    },
}

#[derive(Copy, Clone, Debug)]
enum Effect {
    Forget,
    /// The pod is assumed, so that its claims are in flight.
    Assume,
    /// The allocation is written to the API server.
    Write,
}

fn step(flavor: Flavor) -> impl Strategy<Value = Step> {
    let effect = prop_oneof![Just(Effect::Forget), Just(Effect::Assume), Just(Effect::Write)];
    let decide = (vec(claim(flavor), 1..3), effect)
        .prop_map(|(claims, effect)| Step::Decide { claims, effect });
    let release = (0..9_usize).prop_map(|claim| Step::Release { claim });
    let replace =
        (0..N_POOLS, pool(flavor)).prop_map(|(position, pool)| Step::Replace { position, pool });
    prop_oneof![6 => decide, 2 => release, 2 => replace]
}

fn case(flavor: Flavor) -> impl Strategy<Value = (Vec<Pool>, Vec<Step>)> {
    (vec(pool(flavor), 2..=N_POOLS), vec(step(flavor), 1..12))
}

/// The engine and what the naive allocator reads.
struct Twin {
    cluster: Cluster,
    nodes: Vec<core_v1::Node>,
    classes: Vec<DeviceClass>,
    slices: BTreeMap<usize, Vec<ResourceSlice>>,
    /// Allocated claims, and the pod that was assumed.
    allocated: Vec<(ResourceClaim, Option<Pod>)>,
    n_pods: usize,
    /// How many outcomes of a node were compared: given, lacking, fatal.
    n_compared: [usize; 3],
}

/// Reads an object from JSON.
macro_rules! read {
    ($value:expr) => {
        serde_json::from_value($value).unwrap()
    };
}

impl Twin {
    fn new(pools: &[Pool]) -> Twin {
        let cluster = Cluster::new();
        let zone = |i: usize| if i.is_multiple_of(2) { "a" } else { "b" };
        let nodes: Vec<core_v1::Node> = (0..N_NODES)
            .map(|i| {
                let name = format!("n{i}");
                read!(json!({"metadata": {"name": name, "labels": {"name": name, "zone": zone(i)}},
                    "status": {"allocatable": {"cpu": "99", "pods": "99"}}}))
            })
            .collect();
        let classes: Vec<DeviceClass> = (0..N_CLASSES)
            .map(|i| {
                let selectors = match i {
                    0 => json!([]),
                    _ => json!([{"cel": {"expression": EXPRESSIONS[i].0}}]),
                };
                read!(
                    json!({"metadata": {"name": format!("c{i}")}, "spec": {"selectors": selectors}})
                )
            })
            .collect();
        let mut deltas: Vec<Delta> = nodes
            .iter()
            .map(|node| Delta::UpsertNode(cluster.compile_node(node).unwrap()))
            .collect();
        let compiled = classes.iter().map(|class| cluster.compile_object(class).unwrap());
        deltas.extend(compiled.map(Delta::UpsertObject));
        assert_eq!(cluster.apply(deltas).rejected, []);
        let mut twin = Twin {
            cluster,
            nodes,
            classes,
            slices: BTreeMap::new(),
            allocated: Vec::new(),
            n_pods: 0,
            n_compared: [0; 3],
        };
        pools.iter().enumerate().for_each(|(position, pool)| twin.replace(position, pool));
        twin
    }

    fn apply(&self, delta: Delta) {
        assert_eq!(self.cluster.apply(vec![delta]).rejected, []);
    }

    fn delete_claim(&self, claim: &ResourceClaim) {
        let metadata = claim.metadata.as_ref().unwrap();
        let key = ObjectKey::new(ObjectKind::ResourceClaim, &metadata.namespace, &metadata.name);
        self.apply(Delta::DeleteObject(key));
    }

    fn upsert_claim(&self, claim: &ResourceClaim) {
        self.apply(Delta::UpsertObject(self.cluster.compile_object(claim).unwrap()));
    }

    fn replace(&mut self, position: usize, pool: &Pool) {
        let slices: Vec<ResourceSlice> =
            pool.slices(position).into_iter().map(|slice| read!(slice)).collect();
        for slice in &slices {
            self.apply(Delta::UpsertObject(self.cluster.compile_object(slice).unwrap()));
        }
        let name = |slice: &ResourceSlice| slice.metadata.as_ref().unwrap().name.clone();
        let names: Vec<String> = slices.iter().map(name).collect();
        for old in self.slices.insert(position, slices).into_iter().flatten() {
            if !names.contains(&name(&old)) {
                let key = ObjectKey::new(ObjectKind::ResourceSlice, "", &name(&old));
                self.apply(Delta::DeleteObject(key));
            }
        }
    }

    fn release(&mut self, claim: usize) {
        if self.allocated.is_empty() {
            return;
        }
        let (claim, pod) = self.allocated.swap_remove(claim % self.allocated.len());
        self.delete_claim(&claim);
        let Some(pod) = pod else { return };
        // Its other claims are no longer in flight either: they are deleted with it.
        let is_of_pod =
            |other: &Option<Pod>| other.as_ref().is_some_and(|other| other.key() == pod.key());
        let (of_pod, others) =
            mem::take(&mut self.allocated).into_iter().partition(|(_, other)| is_of_pod(other));
        self.allocated = others;
        let of_pod: Vec<(ResourceClaim, Option<Pod>)> = of_pod;
        of_pod.iter().for_each(|(claim, _)| self.delete_claim(claim));
        self.apply(Delta::DeletePod { key: pod.key().clone(), uid: None });
    }

    /// A pod with these claims, for one node or for all.
    fn pod(&self, name: &str, claims: &[ResourceClaim], node: Option<usize>) -> Pod {
        let claims: Vec<Value> = claims
            .iter()
            .enumerate()
            .map(|(i, claim)| {
                let of = &claim.metadata.as_ref().unwrap().name;
                json!({"name": format!("e{i}"), "resourceClaimName": of})
            })
            .collect();
        let selector = node.map(|node| json!({"name": format!("n{node}")}));
        let pod: core_v1::Pod = read!(json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"containers": [{"name": "c"}], "resourceClaims": claims, "nodeSelector": selector}}));
        self.cluster.compile_pod(&pod).unwrap()
    }

    fn decide(&mut self, specs: &[Value], effect: Effect) {
        self.n_pods += 1;
        let name = format!("p{}", self.n_pods);
        let claims: Vec<ResourceClaim> = specs
            .iter()
            .enumerate()
            .map(|(i, spec)| {
                let name = format!("{name}-{i}");
                read!(json!({"metadata": {"namespace": "ns", "name": name, "uid": name},
                    "spec": {"devices": spec}}))
            })
            .collect();
        claims.iter().for_each(|claim| self.upsert_claim(claim));
        let expected = self.expected(&claims);
        for (node, expected) in expected.iter().enumerate() {
            let found = self.place(&self.pod(&name, &claims, Some(node)), false);
            self.compare(expected, &found, node);
        }
        let pod = self.pod(&name, &claims, None);
        let given = match expected.contains(&naive::Outcome::TooLong) {
            true => None,
            false => check_choice(&expected, &self.place(&pod, matches!(effect, Effect::Assume))),
        };
        let is_kept = !matches!(effect, Effect::Forget);
        match given.filter(|_| is_kept) {
            Some(decision) => self.keep(claims, &decision, &pod, effect),
            None => claims.iter().for_each(|claim| self.delete_claim(claim)),
        }
    }

    /// The naive allocator's outcome for each node, in the order of the nodes.
    fn expected(&self, claims: &[ResourceClaim]) -> Vec<naive::Outcome> {
        let slices: Vec<ResourceSlice> = self.slices.values().flatten().cloned().collect();
        let allocated: Vec<ResourceClaim> =
            self.allocated.iter().map(|(claim, _)| claim.clone()).collect();
        let claims: Vec<&ResourceClaim> = claims.iter().collect();
        let of_node = |node| {
            let world =
                World { node, classes: &self.classes, slices: &slices, allocated: &allocated };
            naive::allocate(&world, &claims)
        };
        self.nodes.iter().map(of_node).collect()
    }

    fn place(&self, pod: &Pod, is_assumed: bool) -> Result<Decision, EngineError> {
        let policy = &Policy::default();
        let request = PlaceRequest {
            pod,
            policy,
            tie_break: TieBreak::Seeded(self.n_pods as u64),
            now: None,
        };
        if is_assumed { self.cluster.assume(&request) } else { self.cluster.place(&request) }
    }

    fn compare(
        &mut self,
        expected: &naive::Outcome,
        found: &Result<Decision, EngineError>,
        node: usize,
    ) {
        match expected {
            naive::Outcome::Gives(given) => {
                let decision = found
                    .as_ref()
                    .unwrap_or_else(|error| panic!("n{node}: {error}, not {given:?}"));
                assert_eq!(given_by(decision).as_ref(), Some(given), "n{node}: {decision:?}");
                self.n_compared[0] += 1;
            }
            naive::Outcome::Lacks(reason) => {
                assert!(says(found, &format!("1 {reason}")), "n{node}: {reason}, not {found:?}");
                self.n_compared[1] += 1;
            }
            naive::Outcome::Fatal(text) => {
                assert!(fails(found, text), "n{node}: {text}, not {found:?}");
                self.n_compared[2] += 1;
            }
            naive::Outcome::TooLong => {}
        }
    }

    /// The claims are allocated from now on.
    fn keep(&mut self, claims: Vec<ResourceClaim>, decision: &Decision, pod: &Pod, effect: Effect) {
        let Outcome::Placed(placement) = &decision.outcome else { panic!("{decision:?}") };
        let assigned = placement.devices.as_ref().unwrap();
        for (mut claim, own) in claims.into_iter().zip(&assigned.claims) {
            assert_eq!(*claim.metadata.as_ref().unwrap().name, *own.claim);
            claim.status.get_or_insert_default().allocation = Some(own.allocation.clone());
            let is_assumed = matches!(effect, Effect::Assume);
            if !is_assumed {
                self.upsert_claim(&claim);
            }
            self.allocated.push((claim, is_assumed.then(|| pod.clone())));
        }
    }
}

/// Checks the decision for all nodes against each node's outcome; returns it if a node was chosen.
fn check_choice(
    expected: &[naive::Outcome],
    found: &Result<Decision, EngineError>,
) -> Option<Decision> {
    let mut fatals = expected.iter().filter_map(|outcome| match outcome {
        naive::Outcome::Fatal(text) => Some(text),
        _ => None,
    });
    if fatals.clone().next().is_some() {
        assert!(fatals.any(|text| fails(found, text)), "{expected:?}, not {found:?}");
        return None;
    }
    let n_feasible =
        expected.iter().filter(|outcome| matches!(outcome, naive::Outcome::Gives(_))).count();
    if n_feasible == 0 {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for outcome in expected {
            let naive::Outcome::Lacks(reason) = outcome else { continue };
            *counts.entry(reason).or_default() += 1;
        }
        for (reason, n) in counts {
            assert!(says(found, &format!("{n} {reason}")), "{n} {reason}, not {found:?}");
        }
        return None;
    }
    let decision = found.as_ref().unwrap();
    let Outcome::Placed(placement) = &decision.outcome else {
        panic!("{expected:?}, not {decision:?}")
    };
    let node: usize = placement.node[1..].parse().unwrap();
    assert_eq!(placement.n_feasible as usize, n_feasible);
    let naive::Outcome::Gives(given) = &expected[node] else {
        panic!("{expected:?}, not {decision:?}")
    };
    assert_eq!(given_by(decision).as_ref(), Some(given));
    Some(decision.clone())
}

fn says(found: &Result<Decision, EngineError>, text: &str) -> bool {
    let Ok(Decision { outcome: Outcome::Unschedulable(end), .. }) = found else { return false };
    end.message.contains(text)
}

fn fails(found: &Result<Decision, EngineError>, text: &str) -> bool {
    matches!(found, Err(EngineError::SchedulerError { message }) if message.contains(text))
}

/// The devices that a decision gives to each claim.
fn given_by(decision: &Decision) -> Option<Vec<Vec<Given>>> {
    let Outcome::Placed(placement) = &decision.outcome else { return None };
    let claims = placement.devices.iter().flat_map(|devices| &devices.claims);
    let given = claims.map(|own| {
        let results = own.allocation.devices.iter().flat_map(|devices| &devices.results);
        results
            .map(|result| Given {
                request: result.request.clone(),
                device: (result.driver.clone(), result.pool.clone(), result.device.clone()),
                is_admin: result.admin_access == Some(true),
                consumed: result.share_id.as_ref().map(|_| {
                    let consumed = result.consumed_capacity.iter();
                    consumed.map(|(name, amount)| (name.clone(), nanos(amount))).collect()
                }),
            })
            .collect()
    });
    Some(given.collect())
}

fn check(pools: &[Pool], steps: &[Step]) -> [usize; 3] {
    let mut twin = Twin::new(pools);
    for step in steps {
        match step {
            Step::Decide { claims, effect } => twin.decide(claims, *effect),
            Step::Release { claim } => twin.release(*claim),
            Step::Replace { position, pool } => twin.replace(*position, pool),
        }
    }
    twin.n_compared
}

/// Compares on random cases; each kind of outcome has to occur this often in the default number of cases.
fn compare_all(flavor: Flavor, n_cases: u32, at_least: [usize; 3]) {
    let mut runner = TestRunner::new(config(n_cases, 0x00de_71ce));
    let total = Cell::new([0; 3]);
    let outcome = runner.run(&case(flavor), |(pools, steps)| {
        let n_compared = check(&pools, &steps);
        total.set(array::from_fn(|i| total.get()[i] + n_compared[i]));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let total = total.get();
    println!("{flavor:?}: {} given, {} lacking, {} fatal", total[0], total[1], total[2]);
    let is_enough = total.iter().zip(at_least).all(|(n, at_least)| *n >= at_least);
    assert!(is_enough, "{total:?}, not {at_least:?}");
}

#[test]
fn plain_devices() {
    compare_all(Flavor::Plain, 400, [1_000, 2_000, 10]);
}

#[test]
fn devices_of_every_kind() {
    compare_all(Flavor::Any, 400, [500, 2_000, 300]);
}

#[test]
fn claims_at_their_limit() {
    compare_all(Flavor::Many, 60, [10, 50, 1]);
}
