//! Random slices and claims for devices, as JSON.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::naive::devices::selector::EXPRESSIONS;

/// Number of nodes, `n0` and so on; the even ones are in zone `a`, the others in `b`.
pub(crate) const N_NODES: usize = 3;
/// Number of device classes, `c0` and so on.
pub(crate) const N_CLASSES: usize = 3;

/// Which devices a cluster has.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Flavor {
    /// Each pool belongs to a node, and its devices are held whole.
    Plain,
    /// Everything else may occur too.
    Any,
    /// Pools of nodes with many devices that are shared, for claims that reach the limit of their results.
    Many,
}

/// The slices of a pool, without its name.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    driver: usize,
    generation: i64,
    is_per_device: bool,
    /// The nodes and the devices of each slice.
    slices: Vec<(Value, Vec<Value>)>,
    /// A slice of the generation before.
    stale: Option<(Value, Vec<Value>)>,
    /// Amount of each counter.
    counters: Option<i64>,
    /// How many slices more the pool is said to have.
    n_missing: i64,
}

impl Pool {
    /// The slices of the pool, whose name is `p` and its position.
    pub(crate) fn slices(&self, position: usize) -> Vec<Value> {
        let n = self.slices.len() as i64 + i64::from(self.counters.is_some()) + self.n_missing;
        let slice = |name: String, generation: i64, mut more: Value| {
            let spec = more.as_object_mut().expect("an object");
            spec.insert("driver".into(), json!(format!("d{}.io", self.driver)));
            spec.insert(
                "pool".into(),
                json!({"name": format!("p{position}"), "generation": generation, "resourceSliceCount": n}),
            );
            json!({"metadata": {"name": name}, "spec": more})
        };
        let published = |(nodes, devices): &(Value, Vec<Value>)| {
            let mut spec = match self.is_per_device {
                true => json!({"perDeviceNodeSelection": true}),
                false => nodes.clone(),
            };
            spec["devices"] = json!(devices);
            spec
        };
        // The order of the names is not the order in which the slices are added.
        let name = |i: usize| format!("s{}-{position}-{i}", (i * 2 + 1) % 3);
        let mut slices: Vec<Value> = self
            .slices
            .iter()
            .enumerate()
            .map(|(i, own)| slice(name(i), self.generation, published(own)))
            .collect();
        if let Some(stale) = &self.stale {
            slices.push(slice(name(9), self.generation - 1, published(stale)));
        }
        if let Some(amount) = self.counters {
            let counters = json!({"memory": {"value": amount.to_string()}, "cores": {"value": amount.to_string()}});
            let sets = json!({"sharedCounters": [{"name": "set", "counters": counters}]});
            slices.push(slice(name(8), self.generation, sets));
        }
        slices
    }
}

/// Pools of a cluster; positions are their names.
pub(crate) fn pool(flavor: Flavor) -> BoxedStrategy<Pool> {
    let is_any = flavor == Flavor::Any;
    let rare = move |probability: f64| if is_any { probability } else { 0.0 };
    let nodes = move || if is_any { nodes().boxed() } else { local().boxed() };
    let counters = sometimes(rare(0.4), 2..7_i64);
    let is_per_device = sometimes(rare(0.2), Just(true));
    (nodes(), 0..2_usize, 1..4_i64, counters, is_per_device)
        .prop_flat_map(move |(of_pool, driver, generation, counters, is_per_device)| {
            let n_devices = if flavor == Flavor::Many { 9..12 } else { 1..5 };
            let slice = move || {
                let own = sometimes(rare(0.3), nodes());
                let of_pool = of_pool.clone();
                let devices = vec(device(flavor, counters.is_some()), n_devices.clone());
                (own.prop_map(move |own| own.unwrap_or_else(|| of_pool.clone())), devices)
            };
            let stale = sometimes(rare(0.1), slice());
            let n_missing = sometimes(rare(0.05), Just(1)).prop_map(|n| n.unwrap_or(0));
            (vec(slice(), 1..3), stale, n_missing).prop_map(
                move |(mut slices, mut stale, n_missing)| {
                    name(&mut slices);
                    name(stale.as_mut_slice());
                    let is_per_device = is_per_device.is_some();
                    Pool { driver, generation, is_per_device, slices, stale, counters, n_missing }
                },
            )
        })
        .boxed()
}

/// Gives the devices of a pool names; one in fifty has the first one's.
fn name(slices: &mut [(Value, Vec<Value>)]) {
    let devices = slices.iter_mut().flat_map(|(_, devices)| devices);
    for (i, device) in devices.enumerate() {
        let is_twin = device["bindsToNode"] == json!(true);
        device["name"] = json!(format!("g{}", if is_twin { 0 } else { i }));
    }
}

fn local() -> impl Strategy<Value = Value> {
    (0..N_NODES).prop_map(|node| json!({"nodeName": format!("n{node}")}))
}

/// The nodes of a slice or a device.
fn nodes() -> impl Strategy<Value = Value> {
    let zone = select(vec!["a", "b"]).prop_map(|zone| {
        let expression = json!({"key": "zone", "operator": "In", "values": [zone]});
        json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}})
    });
    prop_oneof![4 => local(), 2 => Just(json!({"allNodes": true})), 2 => zone]
}

fn device(flavor: Flavor, has_counters: bool) -> impl Strategy<Value = Value> {
    let is_any = flavor == Flavor::Any;
    let rare = move |probability: f64| if is_any { probability } else { 0.0 };
    let is_many = flavor == Flavor::Many;
    let model = weighted(0.95, select(vec!["a", "b"]));
    let numa = weighted(
        0.9,
        prop_oneof![
            9 => (0..2_i64).prop_map(|numa| json!({"int": numa})),
            1 => Just(json!({"string": "0"})),
            1 => Just(json!({"version": "1.0.0"})),
        ],
    );
    let link = weighted(0.7, 0..2_i64);
    let memory = sometimes(
        if is_many { 0.0 } else { 0.9 },
        (1..9_i64, sometimes(rare(0.4), request_policy())),
    );
    let taint = sometimes(
        rare(if has_counters { 0.4 } else { 0.15 }),
        select(vec!["NoSchedule", "NoExecute", "None"]),
    );
    let consumed =
        sometimes(if has_counters { 0.8 } else { rare(0.01) }, (1..4_i64, any::<bool>()));
    let flags = (
        sometimes(if is_many { 0.97 } else { rare(0.3) }, Just(())),
        sometimes(rare(0.1), Just(())),
        sometimes(rare(0.02), Just(())),
    );
    (model, numa, link, memory, taint, consumed, flags, nodes()).prop_map(
        |(model, numa, link, memory, taint, consumed, (is_shared, binds, is_twin), nodes)| {
            let mut device = nodes;
            let mut attributes = Map::new();
            model.map(|model| attributes.insert("model".into(), json!({"string": model})));
            numa.map(|numa| attributes.insert("numa".into(), numa));
            link.map(|link| attributes.insert("net.io/link".into(), json!({"int": link})));
            device["attributes"] = attributes.into();
            if let Some((value, policy)) = memory {
                device["capacity"] =
                    json!({"memory": {"value": value.to_string(), "requestPolicy": policy}});
            }
            if let Some(effect) = taint {
                device["taints"] = json!([{"key": "k", "value": "v", "effect": effect}]);
            }
            if let Some((amount, is_memory)) = consumed {
                let counter = if is_memory { "memory" } else { "cores" };
                device["consumesCounters"] =
                    json!([{"counterSet": "set", "counters": {counter: {"value": amount.to_string()}}}]);
            }
            if is_shared.is_some() {
                device["allowMultipleAllocations"] = json!(true);
            }
            if binds.is_some() {
                device["bindingConditions"] = json!(["Ready"]);
                device["bindingFailureConditions"] = json!(["Broken"]);
            }
            if is_twin.is_some() {
                device["bindsToNode"] = json!(true);
            }
            device
        },
    )
}

fn request_policy() -> impl Strategy<Value = Value> {
    prop_oneof![
        (1..3_i64).prop_map(|default| json!({"default": default.to_string()})),
        (1..3_i64, 1..3_i64, 3..8_i64).prop_map(|(min, step, max)| json!({"default": min.to_string(),
            "validRange": {"min": min.to_string(), "step": step.to_string(), "max": max.to_string()}})),
        Just(json!({"default": "1", "validValues": ["1", "2", "4"]})),
    ]
}

/// A claim's `spec.devices`.
pub(crate) fn claim(flavor: Flavor) -> impl Strategy<Value = Value> {
    let request = prop_oneof![
        3 => demand(flavor, true).prop_map(|demand| json!({"exactly": demand})),
        1 => vec(demand(flavor, false), 1..4).prop_map(|demands| {
            let named = demands.into_iter().enumerate().map(|(i, mut demand)| {
                demand["name"] = json!(format!("s{i}"));
                demand
            });
            json!({"firstAvailable": named.collect::<Vec<Value>>()})
        }),
    ];
    let attribute = select(vec!["d0.io/numa", "d0.io/model", "net.io/link", "numa"]);
    let of = select(vec![json!([]), json!([]), json!(["r0"]), json!(["r0/s0", "r1"])]);
    let kind = prop_oneof![2 => Just("matchAttribute"), 1 => Just("distinctAttribute")];
    let constraint =
        (kind, attribute, of).prop_map(|(kind, name, of)| json!({kind: name, "requests": of}));
    let n_more = if flavor == Flavor::Plain { 2 } else { 3 };
    let n_constraints = if flavor == Flavor::Many { 1 } else { n_more };
    (vec(request, 1..n_more), vec(constraint, 0..n_constraints)).prop_map(
        |(requests, constraints)| {
            let named = requests.into_iter().enumerate().map(|(i, mut request)| {
                request["name"] = json!(format!("r{i}"));
                request
            });
            json!({"requests": named.collect::<Vec<Value>>(), "constraints": constraints})
        },
    )
}

fn demand(flavor: Flavor, is_request: bool) -> impl Strategy<Value = Value> {
    let is_any = flavor == Flavor::Any;
    let rare = move |probability: f64| if is_any { probability } else { 0.0 };
    // The first expressions select most devices, some of the later ones fail on a few.
    let expression = prop_oneof![3 => 0..2_usize, 2 => 0..EXPRESSIONS.len()];
    let selector = expression.prop_map(|i| json!({"cel": {"expression": EXPRESSIONS[i].0}}));
    let count = match flavor {
        Flavor::Many => select(vec![1, 9, 14, 17, 20]).boxed(),
        Flavor::Plain | Flavor::Any => prop_oneof![6 => 1..3_i64, 1 => 0..7_i64].boxed(),
    };
    let tolerations = prop_oneof![
        Just(json!([])),
        Just(json!([{"operator": "Exists"}])),
        Just(json!([{"key": "k", "value": "v", "effect": "NoSchedule"}])),
        Just(json!([{"key": "k", "operator": "Equal", "value": "other"}])),
    ];
    (
        0..N_CLASSES,
        vec(selector, 0..2),
        sometimes(rare(0.15), Just("All")),
        count,
        sometimes(rare(if is_request { 0.1 } else { 0.0 }), Just(true)),
        tolerations,
        sometimes(rare(0.3), 1..6_i64),
    )
        .prop_map(|(class, selectors, all, count, admin, tolerations, memory)| {
            let mut demand = json!({"deviceClassName": format!("c{class}"), "selectors": selectors,
                "allocationMode": all.unwrap_or("ExactCount"), "tolerations": tolerations});
            if all.is_none() {
                demand["count"] = json!(count);
            }
            if let Some(memory) = memory {
                demand["capacity"] = json!({"requests": {"memory": memory.to_string()}});
            }
            if admin.is_some() {
                demand["adminAccess"] = json!(true);
            }
            demand
        })
}

/// A value with this probability, which may be zero.
fn sometimes<S: Strategy<Value: Clone> + 'static>(
    probability: f64,
    strategy: S,
) -> BoxedStrategy<Option<S::Value>> {
    if probability > 0.0 { weighted(probability, strategy).boxed() } else { Just(None).boxed() }
}
