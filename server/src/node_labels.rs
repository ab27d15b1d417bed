//! Labels of nodes that say where a node is and what it costs.

/// Where the node is.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// What the node is made of, which decides its price.
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
