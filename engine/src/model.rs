//! Model: compiles Kubernetes objects into engine facts. The only reader of wire types; its results contain no string
//! that has to be parsed again.

pub(crate) mod controller;
pub(crate) mod budget_demand;
pub(crate) mod device;
pub(crate) mod disruption_budget;
pub(crate) mod drainability;
mod error;
pub(crate) mod extended;
pub(crate) mod feature;
pub(crate) mod image;
pub(crate) mod intern;
pub(crate) mod kept;
pub(crate) mod key;
pub(crate) mod kinds;
pub(crate) mod label;
pub(crate) mod label_selector;
pub(crate) mod limit_range;
pub(crate) mod nameless;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod pod;
pub(crate) mod pod_affinity;
pub(crate) mod population;
pub(crate) mod port;
pub(crate) mod priority_class;
mod requested;
pub(crate) mod requests;
pub(crate) mod resource_quota;
pub(crate) mod resources;
pub(crate) mod runtime_class;
pub(crate) mod selector;
pub(crate) mod service;
pub(crate) mod shape;
pub(crate) mod storage;
pub(crate) mod table;
mod tables;
pub(crate) mod taint;
pub(crate) mod topology_spread;
pub(crate) mod volume;

use berth_proto::core_v1;

pub use error::ModelError;
pub use key::{ObjectKey, ObjectKind, PodKey, WireObject};
pub use node::{Node, NodeDifference};
pub use object::Object;
pub use pod::Pod;
pub use requested::requested;
pub(crate) use tables::Model;

impl Model {
    pub(crate) fn compile_reported_pod(&self, pod: &core_v1::Pod) -> Result<Pod, ModelError> {
        self.check_room()?;
        Pod::compile_reported(pod, self)
    }

    pub(crate) fn compile_node(&self, node: &core_v1::Node) -> Result<Node, ModelError> {
        self.check_room()?;
        Node::compile(node, self)
    }

    pub(crate) fn compile_object(&self, object: WireObject<'_>) -> Result<Object, ModelError> {
        self.check_room()?;
        Object::compile(object, self)
    }
}
