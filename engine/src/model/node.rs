//! A node as facts: names, labels, taints, room, images, features.

use std::sync::Arc;

use berth_proto::core_v1;

use super::Model;
use super::ModelError;
use super::feature::FeatureSet;
use super::intern::{Interner, Symbol};
use super::label::{self, Labels, check_name};
use super::requests::parse_amount;
use super::resources::{MAX_AMOUNT, Resource, Resources};
use super::taint::Taint;
use crate::kernel::hash_name;

/// A compiled node. Cheap to clone: everything behind it is shared.
#[derive(Clone, Debug)]
pub struct Node {
    facts: Arc<NodeFacts>,
    resource_version: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeFacts {
    pub(crate) name: Arc<str>,
    pub(crate) symbol: Symbol,
    /// Hash of the name, for seeded ties.
    pub(crate) name_hash: u32,
    pub(crate) labels: Labels,
    pub(crate) unschedulable: bool,
    /// In node order, duplicates included (S-TNT-4).
    pub(crate) taints: Box<[Taint]>,
    /// `status.allocatable` (S-FIT-7).
    pub(crate) allocatable: Resources,
    pub(crate) allowed_pods: i64,
    /// Image names as reported and their sizes in bytes; of a name reported twice the first counts.
    pub(crate) images: Box<[(Symbol, i64)]>,
    pub(crate) features: FeatureSet,
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
            images: compile_images(node, names)?,
            features: FeatureSet::declared(
                node.status.as_ref().map_or(&[][..], |s| &s.declared_features),
            ),
        });
        Ok(Node { facts, resource_version: metadata.resource_version.parse().ok() })
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The same node with other facts.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut NodeFacts)) -> Node {
        let mut facts = (*self.facts).clone();
        change(&mut facts);
        Node { facts: Arc::new(facts), resource_version: self.resource_version }
    }

    pub(crate) fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// `metadata.resourceVersion`, where it is a number.
    pub(crate) fn resource_version(&self) -> Option<u64> {
        self.resource_version
    }
}

/// Equal as far as scheduling can tell.
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

/// Longest image reference that is taken: registries allow far less.
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
