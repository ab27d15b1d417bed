//! Snapshot: the state of the cluster at one generation, immutable, shared by every reader. Rules: S-SNP-2 (immutable,
//! consistent across nodes), S-CCH-7 (nodes without an object are never in it).

pub(crate) mod allowance;
pub(crate) mod bindings;
pub(crate) mod by_importance;
mod covering;
pub(crate) mod devices;
pub(crate) mod draft;
mod generation;
mod indexed;
pub(crate) mod known_versions;
pub(crate) mod local_devices;
pub(crate) mod matching;
pub(crate) mod node_table;
pub(crate) mod nominations;
pub(crate) mod objects;
pub(crate) mod placed_pod;
pub(crate) mod pod_table;
pub(crate) mod population_index;
mod postings;
pub(crate) mod row_changes;
mod row_pods;
pub(crate) mod shard;
pub(crate) mod shards;
mod since;
mod spare_tables;
mod stamp;
pub(crate) mod storage;
pub(crate) mod term_index;
pub(crate) mod topology;
pub(crate) mod usage;
mod view;

use std::sync::Arc;

pub use allowance::BudgetFigures;
pub use generation::Generation;
pub use since::{Amounts, RowView};
pub use stamp::AssumptionStamp;
pub use view::{NodeView, PodView};

use imbl::OrdSet;
use rustc_hash::FxHashMap;

use crate::model::intern::Symbol;
use crate::model::{Model, Node, ObjectKey, ObjectKind, Pod};
use crate::rows::{NodeRow, ROWS};
use devices::Devices;
use node_table::ImageState;
use nominations::Nominations;
use objects::Objects;
use population_index::PopulationIndex;
use shards::Shards;
use storage::Storage;
use term_index::TermIndex;
use topology::Topology;

/// The state of the cluster at one [`Generation`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) generation: Generation,
    /// The history that the snapshot belongs to: 0 for the cluster's, a unique one for each fork's.
    pub(crate) lineage: u64,
    pub(crate) shards: Shards,
    pub(crate) counts: Counts,
    /// State of each image, for refreshing nodes' entries (S-IL-5).
    pub(crate) images: Arc<FxHashMap<Symbol, ImageState>>,
    pub(crate) topology: Topology,
    pub(crate) populations: PopulationIndex,
    pub(crate) terms: TermIndex,
    pub(crate) nominations: Nominations,
    pub(crate) objects: Objects,
    pub(crate) storage: Storage,
    pub(crate) devices: Devices,
    /// Names of the nodes under a fence of the ledger, also of nodes that the cluster does not have.
    pub(crate) fences: OrdSet<Arc<str>>,
    /// Pods on no node of the cluster, in arbitrary order. Listed only while a budget is computed from its pods.
    pub(crate) off_nodes: Arc<[Pod]>,
    pub(crate) model: Arc<Model>,
}

/// Numbers of objects in a snapshot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) n_nodes: usize,
    pub(crate) n_pods: usize,
    pub(crate) n_assumed: usize,
    pub(crate) n_pending: usize,
    pub(crate) n_orphaned: usize,
    pub(crate) n_contradictions: u64,
}

impl Snapshot {
    /// A snapshot without any object.
    pub(crate) fn empty(model: Arc<Model>) -> Snapshot {
        Snapshot {
            generation: Generation::default(),
            lineage: 0,
            shards: Shards::default(),
            counts: Counts::default(),
            images: Arc::default(),
            topology: Topology::default(),
            populations: PopulationIndex::default(),
            terms: TermIndex::default(),
            nominations: Nominations::default(),
            objects: Objects::default(),
            storage: Storage::default(),
            devices: Devices::default(),
            fences: OrdSet::new(),
            off_nodes: Arc::default(),
            model,
        }
    }

    /// The number of this publication.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.counts.n_nodes
    }

    /// Number of pods on those nodes, including assumed ones.
    pub fn n_pods(&self) -> usize {
        self.counts.n_pods
    }

    /// Number of pods placed by Berth and not yet confirmed by a feed.
    pub fn n_assumed(&self) -> usize {
        self.counts.n_assumed
    }

    /// Number of pods known without a node.
    pub fn n_pending(&self) -> usize {
        self.counts.n_pending
    }

    /// Number of pods on nodes that the cluster does not have (S-CCH-7).
    pub fn n_orphaned(&self) -> usize {
        self.counts.n_orphaned
    }

    /// Names of the nodes under a fence of the ledger, in order, also of nodes that the cluster does not have (S-FNC-2).
    pub fn fences(&self) -> impl Iterator<Item = &str> {
        self.fences.iter().map(|name| &**name)
    }

    /// Number of objects of a kind.
    pub fn n_objects(&self, kind: ObjectKind) -> usize {
        self.objects.count(kind)
    }

    /// Whether the cluster has this object.
    pub fn has_object(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some()
    }

    /// Number of contradictions that a feed sent since the cluster was last replaced (S-CCH-6).
    pub fn n_contradictions(&self) -> u64 {
        self.counts.n_contradictions
    }

    /// The version of the newest change of any row: within one history, equal versions mean that no row changed.
    pub(crate) fn newest_version(&self) -> u64 {
        self.shards.versions().max().unwrap_or(0)
    }

    /// Whether the number of nodes equals that of the occupied rows, and each shard is at its index. For assertions.
    pub(crate) fn counts_its_nodes(&self) -> bool {
        let n_rows: u32 = self.shards.iter().map(|shard| shard.nodes.rows.len()).sum();
        n_rows as usize == self.counts.n_nodes
            && self.shards.iter().enumerate().all(|(i, shard)| shard.index == i)
    }

    /// Whether the number of pods equals that of the pods listed on rows and that of each row's sums. For assertions.
    ///
    /// Cost: a step for each row.
    pub(crate) fn counts_its_pods(&self) -> bool {
        let mut n_pods = 0;
        let rows_agree = self.shards.iter().all(|shard| {
            (0..ROWS).all(|row| {
                n_pods += shard.pods.count(row);
                shard.pods.count(row) as i64 == shard.usage.pods[row]
            })
        });
        rows_agree && n_pods == self.counts.n_pods
    }

    /// The row of a node of this name.
    pub(crate) fn row_of(&self, name: Symbol) -> Option<NodeRow> {
        self.storage.row_of(name)
    }

    /// The node of this name, as it was compiled.
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.node(self.row_named(name)?)
    }

    /// The row of the node of this name; the name may be unknown to the interner.
    pub(crate) fn row_named(&self, name: &str) -> Option<NodeRow> {
        self.row_of(self.model.names().get(name)?)
    }

    /// The node object of a row, `None` for a free row.
    pub(crate) fn node(&self, row: NodeRow) -> Option<&Node> {
        self.shards.get(row.shard())?.nodes.node(row.row())
    }

    /// The name of the node of a row, `None` for a free row.
    pub(crate) fn node_name(&self, row: NodeRow) -> Option<&Arc<str>> {
        self.shards.get(row.shard())?.nodes.name(row.row())
    }
}
