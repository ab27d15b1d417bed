//! Recall: what is to be recalled of a cluster's past, and how another one remembers it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::recollection::{FreedPort, Recollection, SeenImage};
use super::Writer;
use crate::model::intern::Symbol;
use crate::model::port::HostPort;
use crate::model::{Node, PodKey};
use crate::rows::NodeRow;
use crate::snapshot::node_table::ImageState;

impl Writer {
    /// The facts of the past that another cluster has to be told, once it was given the nodes in the order of their rows
    /// and then the pods in the order of `pods`.
    pub(in crate::cluster) fn recollections(&self, pods: &[&PodKey]) -> Vec<Recollection> {
        let snapshot = &self.draft.snapshot;
        let sizes = self.odd_sizes();
        let mut found = vec![Recollection::Contradictions(snapshot.counts.n_contradictions)];
        if !sizes.is_empty() {
            found.push(Recollection::ImageSizes(sizes));
        }
        let rank: FxHashMap<&PodKey, usize> = pods.iter().copied().zip(0..).collect();
        for (row, node) in self.nodes_by_row() {
            found.extend(self.seen_images(row, node));
            found.extend(self.pod_order(row, node, &rank));
            found.extend(self.freed_ports(row, node));
        }
        found.extend(self.orphan_orders(&rank));
        found
    }

    /// Makes the cluster remember what another one remembers; the node and the pods are there.
    pub(in crate::cluster) fn recall(&mut self, recollection: &Recollection) {
        self.refresh_images();
        let names = self.draft.snapshot.model.names().clone();
        match recollection {
            Recollection::Contradictions(n) => self.set_contradictions(*n),
            Recollection::ImageSizes(sizes) => {
                let sizes = sizes.iter().map(|(name, bytes)| (names.intern(name), *bytes));
                self.recall_image_sizes(sizes.collect());
            }
            Recollection::Images { node, images } => {
                let Some(row) = self.draft.snapshot.row_named(node) else { return };
                let state = |seen: &SeenImage| {
                    let SeenImage { name, size_bytes, n_nodes } = seen;
                    let state = ImageState { size_bytes: *size_bytes, n_nodes: *n_nodes };
                    (names.intern(name), state)
                };
                self.recall_images(row, &images.iter().map(state).collect::<Vec<_>>());
            }
            Recollection::PodOrder { node, pods } => match self.draft.snapshot.row_named(node) {
                Some(row) => self.draft.order_pods(row, pods),
                None => self.order_orphans(node, pods),
            },
            Recollection::FreedPorts { node, ports } => {
                let Some(row) = self.draft.snapshot.row_named(node) else { return };
                let port = |freed: &FreedPort| HostPort {
                    protocol: names.intern(&freed.protocol),
                    port: freed.port,
                    ip: names.intern(&freed.ip),
                };
                self.draft.free_ports(row, &ports.iter().map(port).collect::<Vec<_>>());
            }
        }
    }

    /// Images whose size is not that of the first node, by row, that reports them.
    fn odd_sizes(&self) -> Vec<(Arc<str>, i64)> {
        let snapshot = &self.draft.snapshot;
        let mut seen: FxHashSet<Symbol> = FxHashSet::default();
        let mut odd = Vec::new();
        for (name, size_bytes) in self.nodes_by_row().flat_map(|(_, node)| &node.facts().images) {
            let size = snapshot.images.get(name).map_or(*size_bytes, |state| state.size_bytes);
            if seen.insert(*name) && size != *size_bytes {
                odd.push((snapshot.model.names().name(*name), size));
            }
        }
        odd
    }

    /// The images of a row, if any of them is not as the newest counts say.
    fn seen_images(&self, row: NodeRow, node: &Node) -> Option<Recollection> {
        let snapshot = &self.draft.snapshot;
        let (table, newest) = (&snapshot.shards.get(row.shard())?.nodes, &snapshot.images);
        let images = node.facts().images.iter().map(|(name, _)| *name);
        if images.clone().all(|name| table.image(row.row(), name) == newest.get(&name)) {
            return None;
        }
        let seen = |name: Symbol| {
            let ImageState { size_bytes, n_nodes } = *table.image(row.row(), name)?;
            Some(SeenImage { name: snapshot.model.names().name(name), size_bytes, n_nodes })
        };
        let images = images.filter_map(seen).collect();
        Some(Recollection::Images { node: node.facts().name.clone(), images })
    }

    /// The pods of a row, if they come in another order.
    fn pod_order(
        &self,
        row: NodeRow,
        node: &Node,
        rank: &FxHashMap<&PodKey, usize>,
    ) -> Option<Recollection> {
        let pods = self.draft.snapshot.shards.get(row.shard())?.pods.of(row.row());
        let keys = pods.iter().map(|placed| placed.pod.key());
        if keys.clone().is_sorted_by_key(|key| rank.get(key)) {
            return None;
        }
        let pods = keys.cloned().collect();
        Some(Recollection::PodOrder { node: node.facts().name.clone(), pods })
    }

    /// The pods of each node that is not there, where they come in another order: in theirs the node gets them.
    fn orphan_orders(&self, rank: &FxHashMap<&PodKey, usize>) -> Vec<Recollection> {
        let mut orphans: Vec<_> = self.orphans.iter().collect();
        orphans.retain(|(_, keys)| !keys.is_sorted_by_key(|key| rank.get(key)));
        orphans.sort_unstable_by_key(|(node, _)| *node);
        let order = |(node, keys): (&Arc<str>, &Vec<PodKey>)| Recollection::PodOrder {
            node: node.clone(),
            pods: keys.clone(),
        };
        orphans.into_iter().map(order).collect()
    }

    fn order_orphans(&mut self, node: &Arc<str>, pods: &[PodKey]) {
        let rank: FxHashMap<&PodKey, usize> = pods.iter().zip(0..).collect();
        if let Some(keys) = self.orphans.get_mut(node) {
            keys.sort_by_key(|key| rank.get(key).copied());
        }
    }

    /// The ports of a row's pods that count as free.
    fn freed_ports(&self, row: NodeRow, node: &Node) -> Option<Recollection> {
        let snapshot = &self.draft.snapshot;
        let shard = snapshot.shards.get(row.shard())?;
        let placed = shard.pods.of(row.row()).iter();
        let mut ports: Vec<HostPort> =
            placed.flat_map(|placed| &placed.shape.facts.host_ports).copied().collect();
        ports.retain(|port| !shard.usage.is_used(row.row(), port));
        ports.sort_unstable();
        ports.dedup();
        let names = snapshot.model.names();
        let freed = |port: HostPort| FreedPort {
            protocol: names.name(port.protocol),
            ip: names.name(port.ip),
            port: port.port,
        };
        let node = node.facts().name.clone();
        let ports: Vec<FreedPort> = ports.into_iter().map(freed).collect();
        (!ports.is_empty()).then_some(Recollection::FreedPorts { node, ports })
    }
}
