//! Synthetic clusters and workloads: seeded, so that one specification gives the same objects on every machine.
//!
//! * [`cluster`]: nodes in pools and zones, the pods that run on them, their namespaces and Services;
//! * [`workload`]: pods to place, as replicas of deployments of several kinds;
//! * [`baseline`]: the clusters and pods on which kube-scheduler was measured, with its times;
//! * [`object`]: short constructors of Kubernetes objects, from which both are built.

pub mod baseline;
pub mod cluster;
pub mod object;
pub mod workload;
