//! Views: a snapshot's nodes and pods by name, for listing. Not for decisions.

use std::sync::Arc;

use berth_proto::core_v1;
use berth_proto::meta_v1::ObjectMeta;

use super::Snapshot;
use super::shard::Shard;
use crate::error::{EngineError, check_wanted};
use crate::model::Pod;
use crate::model::key::ClaimKey;
use crate::model::resources::Resources;

/// One node as the scheduler sees it. Amounts: cpu in milli-units, everything else in whole units; zeros are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Node name.
    pub name: Arc<str>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Labels by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Taints as `key=value:Effect`, in node order.
    pub taints: Vec<String>,
    /// `status.allocatable` without `pods`.
    pub allocatable: Vec<(Arc<str>, i64)>,
    /// Sums over the node's pods.
    pub requested: Vec<(Arc<str>, i64)>,
    /// Number of pods on the node.
    pub n_pods: u32,
    /// `status.allocatable.pods`.
    pub allowed_pods: i64,
}

/// One pod on a node.
#[derive(Clone, Debug)]
pub struct PodView {
    /// The pod.
    pub pod: Pod,
    /// The pod's node.
    pub node: Arc<str>,
    /// Whether the pod was placed by Berth and is not yet confirmed by a feed.
    pub assumed: bool,
}

impl Snapshot {
    /// Every node, by name. Cost: the whole cluster.
    pub fn nodes(&self) -> Vec<NodeView> {
        self.nodes_unless(&|| false).unwrap_or_default()
    }

    /// Every pod on a node of the cluster, by namespace and name. Cost: the whole cluster.
    pub fn pods(&self) -> Vec<PodView> {
        self.pods_unless(&|| false).unwrap_or_default()
    }

    /// The node of this name as an object, with the fields that lifecycle questions about its pods read: its name, its
    /// taints with the times at which they began to evict, and the status of its condition `Ready` (L-GEN-7).
    pub fn node_object(&self, name: &str) -> Option<core_v1::Node> {
        Some(self.node_named(name)?.lifecycle_object(self.model.names()))
    }

    /// The claim of this name as an object, with the fields that lifecycle questions about its pods read: its name and
    /// the access modes that it requests (L-GEN-7).
    pub fn claim_object(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<core_v1::PersistentVolumeClaim> {
        let key = ClaimKey { namespace: namespace.into(), name: name.into() };
        let claim = self.storage.claims.get(&key)?;
        Some(core_v1::PersistentVolumeClaim {
            metadata: Some(ObjectMeta {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..ObjectMeta::default()
            }),
            spec: Some(core_v1::PersistentVolumeClaimSpec {
                access_modes: claim.access_modes.names().map(ToOwned::to_owned).collect(),
                ..core_v1::PersistentVolumeClaimSpec::default()
            }),
            status: None,
        })
    }

    /// Nodes like [`Snapshot::nodes`]; `cancelled` is called once for each shard, and once before sorting.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`] as soon as `cancelled` returns true.
    pub fn nodes_unless(&self, cancelled: &dyn Fn() -> bool) -> Result<Vec<NodeView>, EngineError> {
        let mut views: Vec<NodeView> = Vec::with_capacity(self.n_nodes());
        for shard in &self.shards {
            check_wanted(cancelled)?;
            views.extend(shard.nodes.rows.iter().filter_map(|row| self.node_view(shard, row)));
        }
        check_wanted(cancelled)?;
        views.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(views)
    }

    /// Pods like [`Snapshot::pods`]; `cancelled` is called once for each shard, and once before sorting.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`] as soon as `cancelled` returns true.
    pub fn pods_unless(&self, cancelled: &dyn Fn() -> bool) -> Result<Vec<PodView>, EngineError> {
        let mut views: Vec<PodView> = Vec::with_capacity(self.n_pods());
        for shard in &self.shards {
            check_wanted(cancelled)?;
            for row in shard.nodes.rows.iter() {
                let Some(node) = shard.nodes.node(row) else {
                    continue;
                };
                views.extend(shard.pods.of(row).iter().map(|placed| PodView {
                    pod: placed.pod.clone(),
                    node: node.facts().name.clone(),
                    assumed: placed.assumed.is_some(),
                }));
            }
        }
        check_wanted(cancelled)?;
        views.sort_unstable_by(|a, b| a.pod.key().cmp(b.pod.key()));
        Ok(views)
    }

    /// The node of a row; `None` for a free one.
    pub(super) fn node_view(&self, shard: &Shard, row: usize) -> Option<NodeView> {
        let names = self.model.names();
        let facts = shard.nodes.node(row)?.facts();
        let mut labels: Vec<_> =
            facts.labels.iter().map(|(k, v)| (names.name(*k), names.name(*v))).collect();
        labels.sort_unstable();
        Some(NodeView {
            name: facts.name.clone(),
            unschedulable: facts.unschedulable,
            labels,
            taints: facts.taints.iter().map(|taint| taint.text(names)).collect(),
            allocatable: facts.allocatable.listed(names),
            requested: requested(shard, row).listed(names),
            n_pods: u32::try_from(shard.pods.count(row)).unwrap_or(u32::MAX),
            allowed_pods: facts.allowed_pods,
        })
    }
}

/// A row of the usage columns as one value.
fn requested(shard: &Shard, row: usize) -> Resources {
    let usage = &shard.usage;
    let mut scalars: Vec<_> = usage
        .scalars
        .iter()
        .map(|(name, column)| (*name, column[row]))
        .filter(|(_, amount)| *amount != 0)
        .collect();
    scalars.sort_unstable();
    Resources {
        milli_cpu: usage.milli_cpu[row],
        memory: usage.memory[row],
        ephemeral_storage: usage.ephemeral_storage[row],
        scalars: scalars.into(),
    }
}
