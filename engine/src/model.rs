//! Model: Kubernetes objects → engine facts. The only reader of wire types; behind this door nothing is a string that
//! must be parsed again.

mod error;
pub(crate) mod feature;
pub(crate) mod image;
pub(crate) mod intern;
pub(crate) mod label;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod port;
pub(crate) mod requests;
pub(crate) mod resources;
pub(crate) mod selector;
pub(crate) mod shape;
pub(crate) mod taint;

use berth_proto::core_v1;

pub use error::ModelError;
pub use node::Node;
pub use pod::{Pod, PodKey};

use intern::Interner;
use shape::ShapeTable;

/// What compiling shares between objects: names and shapes. Usable from any number of threads.
#[derive(Debug)]
pub(crate) struct Model {
    names: Interner,
    shapes: ShapeTable,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model { names: Interner::new(), shapes: ShapeTable::default() }
    }

    pub(crate) fn compile_pod(&self, pod: &core_v1::Pod) -> Result<Pod, ModelError> {
        self.check_room()?;
        Pod::compile(pod, self)
    }

    pub(crate) fn compile_node(&self, node: &core_v1::Node) -> Result<Node, ModelError> {
        self.check_room()?;
        Node::compile(node, self)
    }

    pub(crate) fn names(&self) -> &Interner {
        &self.names
    }

    pub(crate) fn shapes(&self) -> &ShapeTable {
        &self.shapes
    }

    fn check_room(&self) -> Result<(), ModelError> {
        if self.names.has_room() {
            return Ok(());
        }
        Err(ModelError::new(
            "metadata",
            format!("more than {} distinct names were seen", intern::MAX_SYMBOLS),
        ))
    }
}
