//! Fit: whether claims with one request fit into the local devices of nodes, told from bits. It agrees with the search
//! wherever it answers. Rules: S-DRA-44 to S-DRA-57.

use std::sync::Arc;

use smallvec::SmallVec;

use super::asked::{Asked, AskedDemand, MAX_RESULTS};
use super::claims::PodClaims;
use crate::model::device::constraint::ConstraintRule;
use crate::model::device::request::AllocationMode;
use crate::model::device::selector::Selector;
use crate::model::device::verdicts::Marks;
use crate::rows::Column;
use crate::snapshot::devices::Devices;
use crate::snapshot::local_devices::{Groups, LocalDevices};
use crate::snapshot::shard::Shard;

/// A claim with one request for a number of devices, or for one of several numbers.
#[derive(Debug)]
pub(crate) struct Single<'a> {
    /// The alternatives in their order; one for a request without any.
    alternatives: Vec<Demand<'a>>,
    /// The attribute that all devices have to agree in.
    matching: Option<&'a Arc<str>>,
}

#[derive(Debug)]
struct Demand<'a> {
    n_devices: u32,
    /// Conditions on each device, the class's first.
    selectors: Vec<&'a Selector>,
}

/// What selectors say of the devices of a shard, for one claim.
pub(crate) struct Fit<'s> {
    local: &'s LocalDevices,
    alternatives: SmallVec<[Alternative; 2]>,
    groups: Option<Arc<Column<Groups>>>,
}

struct Alternative {
    n_devices: u32,
    /// The verdicts of each selector, in order.
    marks: SmallVec<[Arc<Column<Marks>>; 4]>,
}

/// Whether a node can give what is asked for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The position of the alternative that it gives.
    Gives(usize),
    Lacks,
    /// The search has to tell.
    Unknown,
}

impl<'a> Single<'a> {
    /// The claim of a pod, if it is the only one and of this kind.
    pub(crate) fn of(claims: &PodClaims<'a>, devices: &Devices) -> Option<Single<'a>> {
        let [Asked { requests, constraints, .. }] = &**claims.asked.as_ref().ok()? else {
            return None;
        };
        let [request] = &**requests else { return None };
        if claims.extended.is_some() || !devices.are_all_local() {
            return None;
        }
        let matching = match constraints {
            [] => None,
            [constraint] => match &constraint.rule {
                ConstraintRule::Match(name) if constraint.requests.is_empty() => Some(name),
                _ => return None,
            },
            _ => return None,
        };
        let alternatives = request.demands.iter().map(Demand::of);
        Some(Single { alternatives: alternatives.collect::<Option<_>>()?, matching })
    }

    /// Prepares for the rows of a shard.
    pub(crate) fn on<'s>(&self, shard: &'s Shard) -> Fit<'s> {
        let local = &*shard.devices;
        let alternatives = self.alternatives.iter().map(|demand| {
            let marks = demand.selectors.iter().map(|selector| local.marks(selector));
            Alternative { n_devices: demand.n_devices, marks: marks.collect() }
        });
        let groups = self.matching.map(|name| local.groups(name));
        Fit { local, alternatives: alternatives.collect(), groups }
    }
}

impl<'a> Demand<'a> {
    fn of(asked: &AskedDemand<'a>) -> Option<Demand<'a>> {
        let demand = asked.demand;
        let is_plain = demand.mode == AllocationMode::ExactCount
            && !demand.is_admin
            && demand.capacity.is_empty()
            && (1..=MAX_RESULTS).contains(&demand.count);
        if !is_plain {
            return None;
        }
        let selectors = asked.selectors().map(|selector| selector.0.as_deref());
        let n_devices = u32::try_from(demand.count).ok()?;
        Some(Demand { n_devices, selectors: selectors.collect::<Option<_>>()? })
    }
}

impl Fit<'_> {
    /// Whether the node of a row can give what is asked for.
    pub(crate) fn answer(&self, row: usize) -> Answer {
        if !self.local.rows.contains(row) {
            return Answer::Unknown;
        }
        for (i, Alternative { n_devices, marks }) in self.alternatives.iter().enumerate() {
            let mut devices = self.local.free[row];
            for column in marks {
                let Marks { selected, failed } = column[row];
                // The search may reach this device, or find enough before it.
                if failed & devices != 0 {
                    return Answer::Unknown;
                }
                devices &= selected;
            }
            let has_enough = |devices: u64| devices.count_ones() >= *n_devices;
            let fits = match &self.groups {
                None => has_enough(devices),
                Some(groups) => groups[row].iter().any(|group| has_enough(devices & group)),
            };
            if fits {
                return Answer::Gives(i);
            }
        }
        Answer::Lacks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};
    use serde_json::{Value, json};

    use super::*;
    use crate::devices::outcome::{Outcome, Searched};
    use crate::model::{Model, Node, Object, Pod, WireObject};
    use crate::rows::NodeRow;
    use crate::snapshot::Snapshot;
    use crate::snapshot::draft::Draft;

    const N_NODES: usize = 4;
    /// The last one fails on devices without the attribute.
    const EXPRESSIONS: [&str; 5] = [
        "true",
        r#"device.attributes["d"].?model.orValue("") == "a""#,
        r#"device.capacity["d"].memory.isGreaterThan(quantity("2Gi"))"#,
        r#"has(device.attributes["d"].numa) || device.allowMultipleAllocations"#,
        r#"device.attributes["d"].model == "a""#,
    ];

    fn device(i: usize, dice: u8) -> Value {
        let mut attributes = json!({});
        if !dice.is_multiple_of(7) {
            attributes["model"] = json!({"string": if dice.is_multiple_of(2) { "a" } else { "b" }});
        }
        if !dice.is_multiple_of(5) {
            attributes["numa"] = json!({"int": dice % 3});
        }
        if dice % 50 == 9 {
            attributes["driver"] = json!({"version": "not one"});
        }
        let taints = match dice % 50 {
            11 => json!([{"key": "broken", "effect": "NoSchedule"}]),
            _ => json!([]),
        };
        json!({"name": format!("d{i}"), "attributes": attributes, "taints": taints,
            "capacity": {"memory": {"value": format!("{}Gi", dice % 4)}},
            "allowMultipleAllocations": dice % 50 == 10})
    }

    fn slice(node: usize, dice: &[u8]) -> Value {
        let devices = dice.iter().enumerate().map(|(i, dice)| device(i, *dice));
        let devices: Vec<Value> = devices.collect();
        json!({"metadata": {"name": format!("s{node}")}, "spec": {"driver": "d",
            "pool": {"name": format!("n{node}"), "generation": 1, "resourceSliceCount": 1},
            "nodeName": format!("n{node}"), "devices": devices}})
    }

    /// Holds the devices of these numbers, eight to a node.
    fn holder(held: &[u8]) -> Value {
        let result = |at: &u8| {
            json!({"request": "r", "driver": "d", "pool": format!("n{}", at / 8),
                "device": format!("d{}", at % 8)})
        };
        let results: Vec<Value> = held.iter().map(result).collect();
        json!({"metadata": {"namespace": "a", "name": "holder"},
            "status": {"allocation": {"devices": {"results": results}}}})
    }

    fn asking(demands: &[(i64, usize)], has_alternatives: bool, matches: bool) -> Value {
        let demand = |(i, (count, expression)): (usize, &(i64, usize))| {
            json!({"name": format!("q{i}"), "deviceClassName": "c", "allocationMode": "ExactCount",
                "count": count, "selectors": [{"cel": {"expression": EXPRESSIONS[*expression]}}]})
        };
        let demands: Vec<Value> = demands.iter().enumerate().map(demand).collect();
        let request = match has_alternatives {
            true => json!({"name": "r", "firstAvailable": demands}),
            false => json!({"name": "r", "exactly": demands[0]}),
        };
        let constraints = if matches { json!([{"matchAttribute": "d/numa"}]) } else { json!([]) };
        json!({"metadata": {"namespace": "a", "name": "asking"},
            "spec": {"devices": {"requests": [request], "constraints": constraints}}})
    }

    struct Case {
        draft: Draft,
        model: Arc<Model>,
    }

    impl Case {
        fn new(slices: &[Vec<u8>], held: &[u8], asking: &Value) -> Case {
            let model = Arc::new(Model::new());
            let mut draft = Draft::new(Snapshot::empty(model.clone()), Arc::default());
            for i in 0..N_NODES {
                let node = json!({"metadata": {"name": format!("n{i}")}});
                draft.insert_node(
                    Node::compile(&serde_json::from_value(node).unwrap(), &model).unwrap(),
                );
            }
            let class = json!({"metadata": {"name": "c"},
                "spec": {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}});
            let class = serde_json::from_value(class).unwrap();
            let mut add = |object: WireObject<'_>| {
                draft.upsert_object(&Object::compile(object, &model).unwrap());
            };
            add(WireObject::DeviceClass(&class));
            for (i, dice) in slices.iter().enumerate() {
                let slice = serde_json::from_value(slice(i, dice)).unwrap();
                add(WireObject::ResourceSlice(&slice));
            }
            for claim in [&holder(held), asking] {
                let claim = serde_json::from_value(claim.clone()).unwrap();
                add(WireObject::ResourceClaim(&claim));
            }
            Case { draft, model }
        }

        /// The answer for each node, and what the search says.
        fn answers(&self) -> Vec<(Answer, Answer)> {
            let pod = json!({"metadata": {"namespace": "a", "name": "p", "uid": "u"},
                "spec": {"containers": [{"name": "c"}],
                    "resourceClaims": [{"name": "x", "resourceClaimName": "asking"}]}});
            let pod = serde_json::from_value(pod).unwrap();
            let pod = Pod::compile(&pod, &self.model).unwrap();
            let devices = &self.draft.snapshot.devices;
            let claims = PodClaims::of(&pod, devices).unwrap();
            assert_eq!((&claims.unready, &claims.refusal), (&None, &None));
            let single = Single::of(&claims, devices).unwrap();
            let searched = Searched { claims: &claims, devices, model: &self.model, pod_uid: "u" };
            (0..N_NODES)
                .map(|i| {
                    let row = NodeRow::new(0, i);
                    let shard = &self.draft.snapshot.shards[row.shard()];
                    let found = match searched.on(shard, row.row()) {
                        Ok(Outcome::Gives(given)) => Answer::Gives(given.first_alternative()),
                        Ok(Outcome::Lacks(_)) => Answer::Lacks,
                        Ok(Outcome::Nothing) | Err(_) => Answer::Unknown,
                    };
                    (single.on(shard).answer(row.row()), found)
                })
                .collect()
        }
    }

    proptest! {
        #![proptest_config(Config {
            cases: 400, rng_seed: RngSeed::Fixed(31), failure_persistence: None, ..Config::default()
        })]

        #[test]
        fn it_agrees_with_the_search(
            slices in prop::collection::vec(prop::collection::vec(0_u8..200, 0..8), 0..N_NODES),
            held in prop::collection::vec(0_u8..32, 0..12),
            demands in prop::collection::vec((1_i64..5, 0..EXPRESSIONS.len()), 1..4),
            has_alternatives in any::<bool>(),
            matches in any::<bool>(),
        ) {
            let case = Case::new(&slices, &held, &asking(&demands, has_alternatives, matches));
            for (fit, found) in case.answers() {
                prop_assert!(fit == found || fit == Answer::Unknown, "{fit:?}, but {found:?}");
            }
        }
    }

    #[test]
    fn it_answers_for_ordinary_devices() {
        let plain = vec![vec![8, 12, 3, 17], vec![]];
        let case = Case::new(&plain, &[0], &asking(&[(2, 1), (1, 0)], true, false));
        let fits: Vec<Answer> = case.answers().into_iter().map(|(fit, _)| fit).collect();
        assert_eq!(fits, [Answer::Gives(1), Answer::Lacks, Answer::Lacks, Answer::Lacks]);
    }
}
