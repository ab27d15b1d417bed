//! A supposed change, for the engine in this process and for a server.

use berth_engine::{Cluster, Delta, ModelError, PodKey};
use berth_proto::berth_v1::{self as wire, delta::Change as Wire};
use berth_proto::core_v1;

use crate::feed::file::WrittenObject;
use crate::feed::handed::Beside;

/// One change of the cluster as written in a manifest or on the command line.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Change {
    /// Adds a node or replaces the one of its name.
    Node(Box<core_v1::Node>),
    /// Adds a pod or replaces the one of its name.
    Pod(Box<core_v1::Pod>),
    /// Adds any other object or replaces the one of its name.
    Object(WrittenObject),
    /// Removes a node.
    NoNode(String),
    /// Removes a pod.
    NoPod(PodKey),
}

impl From<Beside> for Change {
    fn from(object: Beside) -> Change {
        match object {
            Beside::Node(node) => Change::Node(node),
            Beside::Object(object) => Change::Object(object),
        }
    }
}

impl Change {
    /// Compiles the change for the engine.
    ///
    /// # Errors
    /// The field of the object that cannot be used.
    pub(in crate::cli) fn compile(&self, cluster: &Cluster) -> Result<Delta, ModelError> {
        Ok(match self {
            Change::Node(node) => Delta::UpsertNode(cluster.compile_node(node)?),
            Change::Pod(pod) => Delta::UpsertPod(cluster.compile_reported_pod(pod)?),
            Change::Object(object) => {
                Delta::UpsertObject(cluster.compile_object(object.as_wire())?)
            }
            Change::NoNode(name) => Delta::DeleteNode(name.as_str().into()),
            Change::NoPod(key) => Delta::DeletePod { key: key.clone(), uid: None },
        })
    }

    /// Converts the change for a server.
    pub(in crate::cli) fn into_wire(self) -> wire::Delta {
        let change = match self {
            Change::Node(node) => Wire::UpsertNode(*node),
            Change::Pod(pod) => Wire::UpsertPod(*pod),
            Change::Object(object) => object.into_change(),
            Change::NoNode(name) => Wire::DeleteNode(name),
            Change::NoPod(key) => Wire::DeletePod(wire::PodKey {
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
                uid: String::new(),
            }),
        };
        wire::Delta { change: Some(change) }
    }
}
