//! Tests of the index of devices: after random changes it equals one that is built anew, and each lookup finds what a
//! search of all objects finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_proto::Amount;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

use super::*;
use crate::model::device::id::DeviceId;
use crate::model::object::ObjectFacts;
use crate::model::{Model, Node, Object, ObjectKey, ObjectKind, WireObject};
use crate::snapshot::Snapshot;
use crate::snapshot::draft::Draft;

const DRIVERS: [&str; 2] = ["a.example.com", "b.example.com"];
const NODES: [&str; 3] = ["", "n1", "n2"];
const POOLS: [&str; 2] = ["n1", "shared"];
const DEVICES: [&str; 3] = ["d0", "d1", "d2"];
const NAMES: [&str; 4] = ["w", "x", "y", "z"];

/// A change of one object: it is replaced by one made from the numbers, or deleted.
#[derive(Clone, Debug)]
struct Change {
    kind: ObjectKind,
    name: usize,
    numbers: [usize; 6],
    is_deleted: bool,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let kinds = [ObjectKind::DeviceClass, ObjectKind::ResourceSlice, ObjectKind::ResourceClaim];
    let numbers = prop::array::uniform6(0..64_usize);
    let change = (prop::sample::select(kinds.to_vec()), 0..NAMES.len(), numbers, 0..4);
    let change = change.prop_map(|(kind, name, numbers, fate)| Change {
        kind,
        name,
        numbers,
        is_deleted: fate == 0,
    });
    prop::collection::vec(change, 1..60)
}

fn pick<'a>(choices: &[&'a str], number: usize) -> &'a str {
    choices[number % choices.len()]
}

fn slice(name: &str, [driver, pool, generation, node, counters, devices]: [usize; 6]) -> Value {
    let counters = match counters % 3 {
        0 => json!([{"name": "c", "counters": {"slots": {"value": "7"}}}]),
        _ => json!([]),
    };
    let devices: Vec<Value> =
        DEVICES[..devices % 4].iter().map(|name| json!({"name": name})).collect();
    json!({"metadata": {"name": name}, "spec": {
        "driver": pick(&DRIVERS, driver),
        "pool": {"name": pick(&POOLS, pool), "generation": generation % 2, "resourceSliceCount": 1},
        "nodeName": pick(&NODES, node), "sharedCounters": counters, "devices": devices}})
}

fn claim(name: &str, [shape, device, other, owner, amount, admin]: [usize; 6]) -> Value {
    let result = |device: usize, share: Option<&str>| {
        json!({"request": "r", "driver": pick(&DRIVERS, device), "pool": pick(&POOLS, device / 2),
            "device": pick(&DEVICES, device / 4), "adminAccess": admin % 5 == 0, "shareID": share,
            "consumedCapacity": {"memory": format!("{amount}Gi")}})
    };
    let results = match shape % 4 {
        0 => json!([result(device, None), result(other, None)]),
        1 => json!([result(device, Some("s1")), result(device, Some("s2"))]),
        2 => json!([result(device, Some("s1")), result(other, None)]),
        _ => json!([]),
    };
    let extended = if owner % 2 == 0 { "true" } else { "false" };
    let mut claim = json!({"metadata": {"namespace": "shop", "name": name,
        "annotations": {"resource.kubernetes.io/extended-resource-claim": extended},
        "ownerReferences": [{"controller": true, "uid": pick(&["u", "v"], owner / 2), "name": "p"}]}});
    if shape % 5 != 0 {
        claim["status"] = json!({"allocation": {"devices": {"results": results}}});
    }
    claim
}

fn compile(change: &Change, model: &Model) -> Object {
    let name = NAMES[change.name];
    let compiled = match change.kind {
        ObjectKind::ResourceSlice => {
            let slice = serde_json::from_value(slice(name, change.numbers)).unwrap();
            Object::compile(WireObject::ResourceSlice(&slice), model)
        }
        ObjectKind::ResourceClaim => {
            let claim = serde_json::from_value(claim(name, change.numbers)).unwrap();
            Object::compile(WireObject::ResourceClaim(&claim), model)
        }
        _ => {
            let provided = format!("x/{}", change.numbers[0]);
            let class = serde_json::from_value(json!({"metadata": {"name": name},
                "spec": {"extendedResourceName": provided}}));
            Object::compile(WireObject::DeviceClass(&class.unwrap()), model)
        }
    };
    compiled.unwrap()
}

/// Everything that the index answers.
fn answers(devices: &Devices, model: &Model) -> String {
    let nodes = ["n1", "n2", "n3"].map(|node| devices.slices_seen_from(model.names().intern(node)));
    let owned = ["u", "v"].map(|uid| devices.extended_claims_of(uid).collect::<Vec<_>>());
    let classes: Vec<_> = devices.classes().collect();
    let claims: Vec<_> = devices.claims().collect();
    let slices: Vec<_> = devices.slices().collect();
    let allocated: Vec<_> = devices.allocated.iter().collect();
    let generations: Vec<_> = devices.generations.iter().collect();
    format!(
        "{nodes:?}\n{owned:?}\n{classes:?}\n{claims:?}\n{slices:?}\n{allocated:?}\n{generations:?}"
    )
}

proptest! {
    #![proptest_config(Config {
        cases: 200, rng_seed: RngSeed::Fixed(30), failure_persistence: None, ..Config::default()
    })]

    /// S-DRA-30, S-DRA-38, S-DRA-121, S-DRA-122
    #[test]
    fn updated_is_rebuilt(changes in changes()) {
        let model = Arc::new(Model::new());
        let draft = || Draft::new(Snapshot::empty(model.clone()), Arc::default());
        let mut updated = draft();
        for name in ["n1", "n2"] {
            updated.insert_node(node(name, &model));
        }
        let mut objects: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        for change in &changes {
            let object = compile(change, &model);
            if change.is_deleted {
                updated.delete_object(object.key());
                objects.remove(object.key());
            } else {
                updated.upsert_object(&object);
                objects.insert(object.key().clone(), object);
            }
        }
        let mut rebuilt = draft();
        objects.values().rev().for_each(|object| rebuilt.upsert_object(object));
        check_local(&updated.snapshot);
        for name in ["n1", "n2"] {
            rebuilt.insert_node(node(name, &model));
        }
        check_local(&rebuilt.snapshot);
        let updated = &updated.snapshot.devices;
        prop_assert_eq!(answers(updated, &model), answers(&rebuilt.snapshot.devices, &model));
        check_slices(updated, &objects, &model);
        check_allocated(updated, &objects);
    }
}

fn node(name: &str, model: &Model) -> Node {
    let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Node::compile(&node, model).unwrap()
}

/// Each row is described as its node's devices are.
fn check_local(snapshot: &Snapshot) {
    for shard in &snapshot.shards {
        for row in 0..2 {
            let node = shard.nodes.node(row).unwrap().facts();
            let local = snapshot.devices.local_to(node.symbol);
            assert!(shard.devices.is(row, local.as_ref()), "{}: not {local:?}", node.name);
        }
    }
}

fn check_slices(devices: &Devices, objects: &BTreeMap<ObjectKey, Object>, model: &Model) {
    let mut slices: Vec<_> = objects
        .values()
        .filter_map(|object| match object.facts() {
            ObjectFacts::ResourceSlice(slice) => Some(slice),
            _ => None,
        })
        .collect();
    slices.sort_by_key(|slice| slice.key.clone());
    for name in ["n1", "n2", "n3"] {
        let node = model.names().intern(name);
        let homes = |slice: &ResourceSlice| {
            let of_pool = slices.iter().filter(|other| other.key.pool == slice.key.pool);
            of_pool.map(|other| other.nodes.node).collect::<BTreeSet<_>>()
        };
        let is_seen = |slice: &&Arc<ResourceSlice>| {
            let is_everywhere = slice.has_counters() && homes(slice).len() > 1;
            slice.nodes.node.is_none_or(|of| of == node) || is_everywhere
        };
        let expected: Vec<_> = slices.iter().copied().filter(is_seen).collect();
        assert_eq!(devices.slices_seen_from(node).to_vec(), expected, "{name}");
    }
    for slice in &slices {
        let pool = &slice.key.pool;
        let of_pool = || slices.iter().filter(|other| other.key.pool == *pool);
        let newest = of_pool().map(|other| other.key.generation).max();
        assert_eq!(devices.newest_generation(pool), newest);
        let generation = slice.key.generation;
        let expected: Vec<_> =
            of_pool().copied().filter(|other| other.key.generation == generation).collect();
        assert_eq!(devices.slices_of(pool, generation).collect::<Vec<_>>(), expected);
        assert_eq!(devices.n_slices_of(pool, generation), expected.len());
    }
}

fn check_allocated(devices: &Devices, objects: &BTreeMap<ObjectKey, Object>) {
    let mut expected: BTreeMap<DeviceId, (u32, usize, Amount)> = BTreeMap::new();
    for object in objects.values() {
        let ObjectFacts::ResourceClaim(claim) = object.facts() else { continue };
        let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
        for result in results.filter(|result| !result.is_admin) {
            let (n_exclusive, n_shares, memory) = expected.entry(result.device).or_default();
            if result.share.is_some() {
                *n_shares += 1;
                *memory += result.consumed[0].1.value;
            } else {
                *n_exclusive += 1;
            }
        }
    }
    let found = devices.allocated.iter().map(|(device, held)| {
        (device, (held.n_exclusive, held.shares.len(), held.consumed("memory")))
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
}

/// S-DRA-37, S-DRA-38: by driver, then by the bytes of the names of slices, whatever order they arrived in.
#[test]
fn slices_are_in_the_order_of_the_search() {
    let model = Arc::new(Model::new());
    let mut draft = Draft::new(Snapshot::empty(model.clone()), Arc::default());
    for (name, driver) in [("b", "z"), ("a", "z"), ("c", "a"), ("Z", "z"), ("a-1", "z")] {
        let slice = serde_json::from_value(json!({"metadata": {"name": name},
            "spec": {"driver": driver, "pool": {"name": "p"}, "allNodes": true}}));
        let object = Object::compile(WireObject::ResourceSlice(&slice.unwrap()), &model);
        if let Ok(object) = object {
            draft.upsert_object(&object);
        }
    }
    let seen = draft.snapshot.devices.slices_seen_from(model.names().intern("n"));
    let names: Vec<&str> = seen.iter().map(|slice| &*slice.key.name).collect();
    assert_eq!(names, ["c", "a", "a-1", "b"], "`Z` is no name of an object");
}
