//! Model: Kubernetes objects → engine facts. The only reader of wire types; behind this door nothing is a string that
//! must be parsed again.

pub(crate) mod controller;
pub(crate) mod disruption_budget;
pub(crate) mod drainability;
mod error;
pub(crate) mod feature;
pub(crate) mod image;
pub(crate) mod intern;
pub(crate) mod label;
pub(crate) mod label_selector;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod pod;
pub(crate) mod pod_affinity;
pub(crate) mod population;
pub(crate) mod port;
mod requested;
pub(crate) mod requests;
pub(crate) mod resources;
pub(crate) mod selector;
pub(crate) mod service;
pub(crate) mod shape;
pub(crate) mod storage;
mod table;
pub(crate) mod taint;
pub(crate) mod topology_spread;
pub(crate) mod volume;

use berth_proto::core_v1;

pub use error::ModelError;
pub use node::{Node, NodeDifference};
pub use object::{Object, ObjectKey, ObjectKind, WireObject};
pub use pod::{Pod, PodKey};
pub use requested::requested;

use drainability::DrainabilityTable;
use intern::Interner;
use pod_affinity::TermTable;
use population::{Population, PopulationFacts};
use shape::ShapeTable;
use table::Table;

/// What compiling shares between objects: names, shapes, populations, drainabilities, terms. Usable from any number of threads.
#[derive(Debug)]
pub(crate) struct Model {
    names: Interner,
    shapes: ShapeTable,
    populations: Table<PopulationFacts, Population>,
    drainabilities: DrainabilityTable,
    terms: TermTable,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model {
            names: Interner::new(),
            shapes: ShapeTable::default(),
            populations: Table::default(),
            drainabilities: DrainabilityTable::default(),
            terms: TermTable::default(),
        }
    }

    pub(crate) fn compile_pod(&self, pod: &core_v1::Pod) -> Result<Pod, ModelError> {
        self.check_room()?;
        Pod::compile(pod, self)
    }

    pub(crate) fn compile_node(&self, node: &core_v1::Node) -> Result<Node, ModelError> {
        self.check_room()?;
        Node::compile(node, self)
    }

    pub(crate) fn compile_object(&self, object: WireObject<'_>) -> Result<Object, ModelError> {
        self.check_room()?;
        Object::compile(object, self)
    }

    pub(crate) fn names(&self) -> &Interner {
        &self.names
    }

    pub(crate) fn shapes(&self) -> &ShapeTable {
        &self.shapes
    }

    pub(crate) fn populations(&self) -> &Table<PopulationFacts, Population> {
        &self.populations
    }

    pub(crate) fn drainabilities(&self) -> &DrainabilityTable {
        &self.drainabilities
    }

    pub(crate) fn terms(&self) -> &TermTable {
        &self.terms
    }

    /// Whether another object may bring names that were never seen.
    pub(crate) fn check_room(&self) -> Result<(), ModelError> {
        if self.names.has_room() {
            return Ok(());
        }
        Err(ModelError::new(
            "metadata",
            format!("more than {} distinct names were seen", intern::MAX_SYMBOLS),
        ))
    }
}
