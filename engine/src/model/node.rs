//! Facts of a node: names, labels, taints, resources, images, features.

use std::sync::Arc;

use berth_proto::meta_v1::ObjectMeta;
use berth_proto::{Time, core_v1};
use prost::Message as _;

use super::Model;
use super::ModelError;
use super::feature::FeatureSet;
use super::intern::{Interner, Lease, Symbol};
use super::label::{self, Labels, check_name};
use super::requests::parse_amount;
use super::resources::{MAX_AMOUNT, Resource, Resources};
use super::taint::{Effect, Taint};
use crate::hash::hash_name;

/// The scheduling-relevant fields in which two states of a node differ.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDifference {
    /// `status.allocatable`, `pods` included.
    pub allocatable: bool,
    /// `metadata.labels`.
    pub labels: bool,
    /// `spec.taints`, their order included.
    pub taints: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.images`.
    pub images: bool,
    /// `status.declaredFeatures`.
    pub declared_features: bool,
}

impl NodeDifference {
    /// Whether the two states are equal for every decision.
    pub fn is_none(self) -> bool {
        self == NodeDifference::default()
    }
}

/// A compiled node. Cheap to clone: everything behind it is shared.
#[derive(Clone, Debug)]
pub struct Node {
    facts: Arc<NodeFacts>,
    resource_version: Option<u64>,
    /// The encoded object; `None` where it is not kept.
    encoded: Option<Arc<[u8]>>,
    /// Holds the names that only this node brought; `None` where all are kept.
    _lease: Option<Arc<Lease>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeFacts {
    pub(crate) name: Arc<str>,
    pub(crate) symbol: Symbol,
    /// Hash of the name, for seeded ties.
    pub(crate) name_hash: u32,
    pub(crate) labels: Labels,
    pub(crate) unschedulable: bool,
    /// Taints in node order, duplicates included (S-TNT-4).
    pub(crate) taints: Box<[Taint]>,
    /// `status.allocatable` (S-FIT-7).
    pub(crate) allocatable: Resources,
    pub(crate) allowed_pods: i64,
    pub(crate) capacity: Capacity,
    /// Image names as reported and their sizes in bytes; of a name reported twice the first size applies.
    pub(crate) images: Box<[(Symbol, i64)]>,
    pub(crate) features: FeatureSet,
    pub(crate) removal: RemovalFacts,
    pub(crate) contact: ContactFacts,
}

/// Capacity of a machine before reservations, as autoscalers compare and limit it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) milli_cpu: i64,
    /// Memory in bytes.
    pub(crate) memory: i64,
}

impl Capacity {
    /// Reads `status.capacity`; a missing resource is taken from `status.allocatable`.
    fn compile(node: &core_v1::Node, names: &Interner) -> Result<Capacity, ModelError> {
        let amount = |name: &str| {
            let Some(status) = &node.status else { return Ok(0) };
            let (list, field) = match status.capacity.get(name) {
                Some(_) => (&status.capacity, "status.capacity"),
                None => (&status.allocatable, "status.allocatable"),
            };
            let quantity = list.get(name).zip(Resource::from_name(name, names));
            let units = quantity.map(|(quantity, resource)| {
                Ok(resource.units(parse_amount(quantity, name, field)?))
            });
            units.unwrap_or(Ok(0))
        };
        Ok(Capacity { milli_cpu: amount("cpu")?, memory: amount("memory")? })
    }
}

/// Facts of a node that scale-down reads (S-SD-1).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovalFacts {
    /// Whether the annotation disables scale-down of the node.
    pub(crate) is_disabled: bool,
    /// Whether the node has a deletion timestamp, or the taint of a node that is being removed.
    pub(crate) is_under_way: bool,
    /// Whether the condition `Ready` exists and is `True`.
    pub(crate) is_ready: bool,
}

/// The taint of a node that an autoscaler is about to remove.
pub(crate) const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

impl RemovalFacts {
    fn of(node: &core_v1::Node) -> RemovalFacts {
        let metadata = node.metadata.as_ref();
        let annotation = metadata.and_then(|m| m.annotations.get(SCALE_DOWN_DISABLED));
        let mut taints = node.spec.iter().flat_map(|spec| &spec.taints);
        let mut conditions = node.status.iter().flat_map(|status| &status.conditions);
        RemovalFacts {
            is_disabled: annotation.is_some_and(|value| value == "true"),
            is_under_way: metadata.is_some_and(|m| m.deletion_timestamp.is_some())
                || taints.any(|taint| taint.key == TO_BE_DELETED),
            is_ready: conditions
                .find(|condition| condition.r#type == "Ready")
                .is_some_and(|condition| condition.status == "True"),
        }
    }
}

const READY: &str = "Ready";

/// Facts of a node that tell its pods whether it is in contact, and since when it evicts them (L-GEN-7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContactFacts {
    /// Status of the condition `Ready`; `None` without one.
    ready: Option<Readiness>,
    /// Times in seconds since the epoch at which taints with the effect `NoExecute` were added, by the place of the
    /// taint; a taint without a time is not in it.
    taints_since: Box<[(u32, i64)]>,
}

/// Status of the condition `Ready` of a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Readiness {
    True,
    False,
    /// Also any word that is no status.
    Unknown,
}

impl Readiness {
    fn of(status: &str) -> Readiness {
        match status {
            "True" => Readiness::True,
            "False" => Readiness::False,
            _ => Readiness::Unknown,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Readiness::True => "True",
            Readiness::False => "False",
            Readiness::Unknown => "Unknown",
        }
    }
}

impl ContactFacts {
    fn of(node: &core_v1::Node) -> ContactFacts {
        let mut conditions = node.status.iter().flat_map(|status| &status.conditions);
        let taints = node.spec.iter().flat_map(|spec| &spec.taints);
        let since = |(place, taint): (usize, &core_v1::Taint)| {
            let evicts = Effect::from_name(&taint.effect) == Some(Effect::NoExecute);
            let added = taint.time_added.as_ref().and_then(Time::unix_seconds);
            Some((u32::try_from(place).ok()?, added.filter(|_| evicts)?))
        };
        ContactFacts {
            ready: conditions
                .find(|condition| condition.r#type == READY)
                .map(|condition| Readiness::of(&condition.status)),
            taints_since: taints.enumerate().filter_map(since).collect(),
        }
    }
}

impl Node {
    pub(crate) fn compile(node: &core_v1::Node, model: &Model) -> Result<Node, ModelError> {
        let names = model.names();
        let Some(metadata) = &node.metadata else {
            return Err(ModelError::new("metadata", "is missing"));
        };
        check_name("metadata.name", &metadata.name)?;
        let taints = node.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
        let taints = taints
            .iter()
            .enumerate()
            .map(|(i, taint)| {
                Taint::compile(taint, names).map_err(|e| e.under(&format!("spec.taints[{i}]")))
            })
            .collect::<Result<_, _>>()?;
        let (allocatable, allowed_pods) = compile_allocatable(node, names)?;
        let facts = Arc::new(NodeFacts {
            name: metadata.name.as_str().into(),
            symbol: names.intern(&metadata.name),
            name_hash: hash_name(&metadata.name),
            labels: label::compile(&metadata.labels, names)?,
            unschedulable: node.spec.as_ref().is_some_and(|spec| spec.unschedulable),
            taints,
            allocatable,
            allowed_pods,
            capacity: Capacity::compile(node, names)?,
            images: compile_images(node, names)?,
            features: FeatureSet::declared(
                node.status.as_ref().map_or(&[][..], |s| &s.declared_features),
            ),
            removal: RemovalFacts::of(node),
            contact: ContactFacts::of(node),
        });
        let resource_version = metadata.resource_version.parse().ok();
        let encoded = model.keeps_objects().then(|| node.encode_to_vec().into());
        Ok(Node { facts, resource_version, encoded, _lease: names.lease() })
    }

    /// The encoded object. `None` where it is not kept: see [`Cluster::observed_by`](crate::Cluster::observed_by).
    pub fn encoded(&self) -> Option<&Arc<[u8]>> {
        self.encoded.as_ref()
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The node as an object, with the fields that lifecycle questions about its pods read: name, taints, and the
    /// condition `Ready` (L-GEN-7).
    pub(crate) fn lifecycle_object(&self, names: &Interner) -> core_v1::Node {
        let NodeFacts { name, taints, contact, .. } = &*self.facts;
        let mut objects: Vec<core_v1::Taint> = taints
            .iter()
            .map(|taint| core_v1::Taint {
                key: names.name(taint.key).to_string(),
                value: names.name(taint.value).to_string(),
                effect: taint.effect.name().to_owned(),
                time_added: None,
            })
            .collect();
        for (place, seconds) in &contact.taints_since {
            if let Some(taint) = objects.get_mut(*place as usize) {
                taint.time_added = Some(Time::from_unix_seconds(*seconds));
            }
        }
        let ready = contact.ready.map(|ready| core_v1::NodeCondition {
            r#type: READY.to_owned(),
            status: ready.word().to_owned(),
            ..core_v1::NodeCondition::default()
        });
        core_v1::Node {
            metadata: Some(ObjectMeta { name: name.to_string(), ..ObjectMeta::default() }),
            spec: Some(core_v1::NodeSpec { taints: objects, ..core_v1::NodeSpec::default() }),
            status: Some(core_v1::NodeStatus {
                conditions: ready.into_iter().collect(),
                ..core_v1::NodeStatus::default()
            }),
        }
    }

    /// The fields in which the node differs from an earlier state.
    pub fn difference(&self, earlier: &Node) -> NodeDifference {
        let (new, old) = (&*self.facts, &*earlier.facts);
        NodeDifference {
            allocatable: new.allocatable != old.allocatable || new.allowed_pods != old.allowed_pods,
            labels: new.labels != old.labels,
            taints: new.taints != old.taints,
            unschedulable: new.unschedulable != old.unschedulable,
            images: new.images != old.images,
            declared_features: new.features != old.features,
        }
    }

    /// `status.capacity` of cpu, in milli-units, and of memory, in bytes; a missing resource is taken from
    /// `status.allocatable`.
    pub fn capacity(&self) -> (i64, i64) {
        (self.facts.capacity.milli_cpu, self.facts.capacity.memory)
    }

    /// A copy of the node with changed facts.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut NodeFacts)) -> Node {
        let mut facts = (*self.facts).clone();
        change(&mut facts);
        Node { facts: Arc::new(facts), ..self.clone() }
    }

    /// The node, seen at this resource version.
    pub(crate) fn seen_at(self, resource_version: Option<u64>) -> Node {
        Node { resource_version, ..self }
    }

    pub(crate) fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// `metadata.resourceVersion`, where it is a number.
    pub(crate) fn resource_version(&self) -> Option<u64> {
        self.resource_version
    }
}

/// Compares all facts that scheduling reads.
impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.facts == other.facts
    }
}

fn compile_allocatable(
    node: &core_v1::Node,
    names: &Interner,
) -> Result<(Resources, i64), ModelError> {
    let (mut allocatable, mut allowed_pods) = (Resources::default(), 0);
    let Some(status) = &node.status else {
        return Ok((allocatable, allowed_pods));
    };
    for (name, quantity) in &status.allocatable {
        let amount = parse_amount(quantity, name, "status.allocatable")?;
        if name == "pods" {
            allowed_pods = amount.value().min(MAX_AMOUNT);
        } else if let Some(resource) = Resource::from_name(name, names) {
            allocatable.set(resource, resource.units(amount));
        }
    }
    Ok((allocatable, allowed_pods))
}

/// The longest image reference that is accepted: registries allow far less.
const MAX_IMAGE_NAME: usize = 4096;

fn compile_images(
    node: &core_v1::Node,
    names: &Interner,
) -> Result<Box<[(Symbol, i64)]>, ModelError> {
    let mut images: Vec<(Symbol, i64)> = Vec::new();
    let reported = node.status.as_ref().map_or(&[][..], |status| &status.images);
    for (i, image) in reported.iter().enumerate() {
        if image.size_bytes < 0 {
            return Err(ModelError::new(format!("status.images[{i}].sizeBytes"), "is negative"));
        }
        for (j, name) in image.names.iter().enumerate() {
            if name.len() > MAX_IMAGE_NAME {
                let reason = format!("is longer than {MAX_IMAGE_NAME} bytes");
                return Err(ModelError::new(format!("status.images[{i}].names[{j}]"), reason));
            }
            images.push((names.intern(name), image.size_bytes));
        }
    }
    images.sort_by_key(|(name, _)| *name);
    images.dedup_by_key(|(name, _)| *name);
    Ok(images.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// L-GEN-7: readiness in its three states or none, and the times of the taints that evict.
    #[test]
    fn a_lifecycle_object_has_what_was_read() {
        let model = Model::new();
        let object = |node: &Value| {
            let node: core_v1::Node = serde_json::from_value(node.clone()).unwrap();
            let object = Node::compile(&node, &model).unwrap().lifecycle_object(model.names());
            serde_json::to_value(object).unwrap()
        };
        let with = |conditions: Value| json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
        for status in ["True", "False", "Unknown"] {
            let node = with(
                json!([{"type": "Other", "status": "x"}, {"type": "Ready", "status": status}]),
            );
            assert_eq!(object(&node)["status"]["conditions"][0]["status"], status);
        }
        let odd = object(&with(json!([{"type": "Ready", "status": "maybe"}])));
        assert_eq!(odd["status"]["conditions"][0]["status"], "Unknown");
        assert!(object(&with(json!([])))["status"]["conditions"][0].is_null());
        let at = "2026-01-10T12:00:00Z";
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [
            {"key": "a", "effect": "NoSchedule", "timeAdded": at},
            {"key": "b", "value": "v", "effect": "NoExecute", "timeAdded": at},
            {"key": "c", "effect": "NoExecute"}]}});
        let mut expected = node["spec"]["taints"].clone();
        expected[0].as_object_mut().unwrap().remove("timeAdded");
        assert_eq!(object(&node)["spec"]["taints"], expected);
    }

    #[test]
    fn a_difference_names_what_decisions_read() {
        let model = Model::new();
        let compile = |change: fn(&mut Value)| {
            let mut node = json!({
                "metadata": {"name": "n", "labels": {"a": "b"}, "resourceVersion": "1"},
                "status": {"allocatable": {"cpu": "4", "pods": "110"}},
            });
            change(&mut node);
            let node: core_v1::Node = serde_json::from_value(node).unwrap();
            Node::compile(&node, &model).unwrap()
        };
        let none = NodeDifference::default();
        let check = |change, expected: NodeDifference| {
            assert_eq!(compile(change).difference(&compile(|_| {})), expected);
        };
        check(|_| {}, none);
        check(|node| node["metadata"]["resourceVersion"] = json!("2"), none);
        check(
            |node| node["status"]["allocatable"]["pods"] = json!("9"),
            NodeDifference { allocatable: true, ..none },
        );
        check(
            |node| node["metadata"]["labels"]["a"] = json!("c"),
            NodeDifference { labels: true, ..none },
        );
        check(
            |node| {
                node["spec"] =
                    json!({"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]})
            },
            NodeDifference { unschedulable: true, taints: true, ..none },
        );
        check(
            |node| node["status"]["images"] = json!([{"names": ["i"], "sizeBytes": 5}]),
            NodeDifference { images: true, ..none },
        );
        assert!(none.is_none() && !NodeDifference { images: true, ..none }.is_none());
    }
}
