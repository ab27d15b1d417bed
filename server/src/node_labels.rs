//! Labels of nodes that say where a node is and what it costs.

/// Where the node is.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// What the node is made of, which decides its price.
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Labels of the pool that a node was made for. Each provider has its own; the first that a node has counts.
pub(crate) const POOL: [&str; 9] = [
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "node.openshift.io/pool",
    "node-pool",
    "pool",
];

/// Labels of the rack that a node stands in; the first that a node has counts.
pub(crate) const RACK: [&str; 3] = ["topology.kubernetes.io/rack", "topology.rack", "rack"];
