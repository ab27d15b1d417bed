//! Shard: a fixed number of rows with all their state; the unit of copying and of remembered evaluations.

use std::sync::Arc;

use super::local_devices::{LocalDevices, LocalRow};
use super::node_table::NodeTable;
use super::placed_pod::PlacedPod;
use super::pod_table::PodTable;
use super::row_changes::{RowChange, RowChanges};
use super::stamp::AssumptionStamp;
use super::usage::UsageTable;
use crate::domain::DomainId;
use crate::kernel::{Kernels, balance_of};
use crate::model::Node;
use crate::model::Pod;
use crate::rows::RowSet;

/// A group of [`ROWS`](crate::rows::ROWS) rows. Equal versions mean equal content, across snapshots and forks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shard {
    /// Position in the snapshot.
    pub(crate) index: usize,
    pub(crate) version: u64,
    /// The rows that changed last.
    pub(crate) changes: RowChanges,
    pub(crate) nodes: Arc<NodeTable>,
    pub(crate) usage: Arc<UsageTable>,
    pub(crate) pods: Arc<PodTable>,
    pub(crate) devices: Arc<LocalDevices>,
}

impl Shard {
    /// Puts a node into a free row.
    pub(crate) fn insert_node(
        &mut self,
        row: usize,
        node: Node,
        domains: &[DomainId],
        version: u64,
    ) {
        let nodes = Arc::make_mut(&mut self.nodes);
        nodes.insert(row, node, domains);
        nodes.version = version;
        self.touch(row, version, RowChange::Other);
    }

    /// Replaces the node object of a row; its pods stay, and so does its fence.
    pub(crate) fn replace_node(
        &mut self,
        row: usize,
        node: Node,
        domains: &[DomainId],
        version: u64,
    ) {
        let nodes = Arc::make_mut(&mut self.nodes);
        let is_fenced = nodes.fenced.contains(row);
        nodes.remove(row);
        nodes.insert(row, node, domains);
        nodes.set_fenced(row, is_fenced);
        nodes.version = version;
        self.touch(row, version, RowChange::Other);
    }

    /// Fences the node of a row, or lifts its fence.
    pub(crate) fn set_fenced(&mut self, row: usize, is_fenced: bool, version: u64) {
        let nodes = Arc::make_mut(&mut self.nodes);
        nodes.set_fenced(row, is_fenced);
        nodes.version = version;
        self.touch(row, version, RowChange::Other);
    }

    /// Empties a row; returns its pods.
    pub(crate) fn remove_node(&mut self, row: usize, version: u64) -> Vec<PlacedPod> {
        let nodes = Arc::make_mut(&mut self.nodes);
        nodes.remove(row);
        nodes.version = version;
        Arc::make_mut(&mut self.usage).clear(row);
        self.touch(row, version, RowChange::Other);
        std::mem::take(Arc::make_mut(&mut self.pods).of_mut(row))
    }

    /// Describes the devices of the node of a row; whoever changed them has marked the row as changed.
    pub(crate) fn set_devices(&mut self, row: usize, local: Option<LocalRow>) {
        if !self.devices.is(row, local.as_ref()) {
            Arc::make_mut(&mut self.devices).set(row, local);
        }
    }

    /// Takes the room of a pod on the node of a row. [`Shard::list_pod`] has to follow.
    pub(crate) fn take_room(&mut self, row: usize, pod: &Pod, version: u64) {
        let ports = &pod.shape().facts.host_ports;
        Arc::make_mut(&mut self.usage).add(row, pod.footprint(), ports);
        self.touch(row, version, RowChange::came(pod));
    }

    /// Puts a pod whose room is taken into the list of the row.
    pub(crate) fn list_pod(&mut self, row: usize, pod: Pod, assumed: Option<AssumptionStamp>) {
        Arc::make_mut(&mut self.pods).push(row, PlacedPod::new(pod, assumed));
    }

    /// Takes a pod off the node of a row.
    pub(crate) fn remove_pod(&mut self, row: usize, pod: &Pod, version: u64) {
        let Some(placed) = Arc::make_mut(&mut self.pods).remove(row, pod.key()) else {
            debug_assert!(false, "{} is not on its row", pod.key());
            return;
        };
        let ports = &placed.pod.shape().facts.host_ports;
        Arc::make_mut(&mut self.usage).subtract(row, placed.pod.footprint(), ports);
        self.touch(row, version, RowChange::left(&placed.pod));
    }

    /// Replaces a pod of a row, if it is there, by another of its name with the same footprint; it keeps its position.
    /// A version is given where rules distinguish the two.
    pub(crate) fn replace_pod(&mut self, row: usize, pod: Pod, version: Option<u64>) {
        let key = pod.key().clone();
        let renewed = |placed: &PlacedPod| PlacedPod::new(pod, placed.assumed);
        if !Arc::make_mut(&mut self.pods).replace(row, &key, renewed) {
            return;
        }
        if let Some(version) = version {
            self.touch(row, version, RowChange::Other);
        }
    }

    /// The rows that changed above a version of the same history.
    pub(crate) fn rows_above(&self, version: u64, kernels: Kernels) -> RowSet {
        let all = || kernels.rows_above(&self.usage.version.0, version);
        let rows = self.changes.rows_above(version);
        debug_assert!(rows.is_none_or(|rows| rows == all()), "rows and their changes agree");
        rows.unwrap_or_else(all)
    }

    /// Updates values derived from a row's sums, and marks the row as changed. The version is the shard's, too.
    pub(crate) fn touch(&mut self, row: usize, version: u64, change: RowChange) {
        debug_assert_eq!(self.version, version, "the shard was opened for this change");
        self.changes.note(row, version, change);
        let room = &self.nodes.allocatable;
        let usage = Arc::make_mut(&mut self.usage);
        usage.version[row] = version;
        usage.balance[row] = if room.exact.contains(row) {
            balance_of(
                [room.milli_cpu[row], room.memory[row]],
                [usage.milli_cpu[row], usage.memory[row]],
            )
        } else {
            0.0
        };
    }
}
