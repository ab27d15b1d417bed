//! NodeTable: columns over the node objects of a shard. Changes with nodes, not with pods.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::domain::DomainId;
use crate::kernel::{EXACT_LIMIT, NativeColumns};
use crate::model::Node;
use crate::model::feature::FEATURES;
use crate::model::intern::Symbol;
use crate::model::taint::{Effect, Taint};
use crate::rows::{Column, ROWS, RowSet, column_of};

/// Columns and bitmaps over the node objects of one shard. Every bitmap holds rows of `rows` only.
#[derive(Clone, Debug)]
pub(crate) struct NodeTable {
    /// Version that changes with every node object, except for its image entry.
    pub(crate) version: u64,
    /// Rows that hold a node.
    pub(crate) rows: RowSet,
    pub(crate) nodes: Box<[Option<Node>]>,
    /// The nodes' names, beside them: a decision reads nothing else of the node that it chooses.
    pub(crate) names: Box<[Option<Arc<str>>]>,
    pub(crate) row_of_name: FxHashMap<Symbol, usize>,
    pub(crate) name_hash: Box<Column<u32>>,
    pub(crate) unschedulable: RowSet,
    /// Rows whose node is under a fence of the ledger (S-FNC-1). No node object says so.
    pub(crate) fenced: RowSet,
    pub(crate) labels: FxHashMap<Symbol, LabelKey>,
    /// Distinct `NoSchedule` and `NoExecute` taints with the rows that carry them.
    pub(crate) hard_taints: Vec<(Taint, RowSet)>,
    /// `PreferNoSchedule` taints with their rows; a taint that a node carries n times is in n entries (S-TT-1).
    pub(crate) soft_taints: Vec<(Taint, RowSet)>,
    /// Rows that declare each feature of [`FEATURES`].
    pub(crate) features: [RowSet; FEATURES.len()],
    pub(crate) images: FxHashMap<Symbol, ImageGroups>,
    pub(crate) allocatable: Box<Allocatable>,
}

/// Allocatable amounts of each node, in the units of [`crate::model::resources::Resources`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocatable {
    pub(crate) milli_cpu: Column<i64>,
    pub(crate) memory: Column<i64>,
    pub(crate) ephemeral_storage: Column<i64>,
    pub(crate) pods: Column<i64>,
    /// Columns by symbol; a missing column is all 0.
    pub(crate) scalars: Vec<(Symbol, Box<Column<i64>>)>,
    /// Rows whose CPU and memory are exact in the kernels' doubles and not 0.
    pub(crate) exact: RowSet,
    /// 1 / CPU and 1 / memory of the exact rows.
    pub(crate) inverse_milli_cpu: Column<f64>,
    pub(crate) inverse_memory: Column<f64>,
}

/// Rows by the value of one label key.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelKey {
    pub(crate) rows: RowSet,
    pub(crate) values: FxHashMap<Symbol, RowSet>,
    /// The domain of each row; [`DomainId::NONE`] for rows without the key. Counts by domain share it.
    pub(crate) domains: Arc<Column<DomainId>>,
}

/// Rows that report one image, grouped by the image's state in their snapshot entry (S-IL-5).
pub(crate) type ImageGroups = SmallVec<[(ImageState, RowSet); 1]>;

/// State of an image in a node's entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct ImageState {
    /// Size as the first node reported it (S-IL-4).
    pub(crate) size_bytes: i64,
    /// Number of nodes that had the image when the entry was last refreshed.
    pub(crate) n_nodes: u32,
}

impl Default for NodeTable {
    fn default() -> NodeTable {
        NodeTable {
            version: 0,
            rows: RowSet::EMPTY,
            nodes: vec![None; ROWS].into(),
            names: vec![None; ROWS].into(),
            row_of_name: FxHashMap::default(),
            name_hash: Box::default(),
            unschedulable: RowSet::EMPTY,
            fenced: RowSet::EMPTY,
            labels: FxHashMap::default(),
            hard_taints: Vec::new(),
            soft_taints: Vec::new(),
            features: Default::default(),
            images: FxHashMap::default(),
            allocatable: Box::default(),
        }
    }
}

impl NodeTable {
    /// Puts a node into a free row, without its images (see [`NodeTable::set_images`]).
    ///
    /// `domains` are those of the node's labels, in the labels' order.
    pub(crate) fn insert(&mut self, row: usize, node: Node, domains: &[DomainId]) {
        debug_assert!(!self.rows.contains(row));
        let facts = node.facts();
        self.rows.insert(row);
        self.row_of_name.insert(facts.symbol, row);
        self.names[row] = Some(facts.name.clone());
        self.name_hash[row] = facts.name_hash;
        if facts.unschedulable {
            self.unschedulable.insert(row);
        }
        for ((key, value), domain) in facts.labels.iter().zip(domains) {
            let entry = self.labels.entry(*key).or_default();
            entry.rows.insert(row);
            Arc::make_mut(&mut entry.domains)[row] = *domain;
            entry.values.entry(*value).or_default().insert(row);
        }
        for taint in &facts.taints {
            match taint.effect {
                Effect::NoSchedule | Effect::NoExecute => {
                    insert_taint(&mut self.hard_taints, *taint, row, false)
                }
                Effect::PreferNoSchedule => insert_taint(&mut self.soft_taints, *taint, row, true),
            }
        }
        for (feature, rows) in self.features.iter_mut().enumerate() {
            if facts.features.contains(feature) {
                rows.insert(row);
            }
        }
        self.allocatable.milli_cpu[row] = facts.allocatable.milli_cpu;
        self.allocatable.memory[row] = facts.allocatable.memory;
        self.allocatable.ephemeral_storage[row] = facts.allocatable.ephemeral_storage;
        self.allocatable.pods[row] = facts.allowed_pods;
        if [facts.allocatable.milli_cpu, facts.allocatable.memory]
            .iter()
            .all(|a| (1..EXACT_LIMIT).contains(a))
        {
            self.allocatable.exact.insert(row);
            self.allocatable.inverse_milli_cpu[row] = 1.0 / facts.allocatable.milli_cpu as f64;
            self.allocatable.inverse_memory[row] = 1.0 / facts.allocatable.memory as f64;
        }
        for (name, amount) in &facts.allocatable.scalars {
            column_of(&mut self.allocatable.scalars, *name)[row] = *amount;
        }
        self.nodes[row] = Some(node);
    }

    /// Empties a row, leaving it as if it had never been used.
    pub(crate) fn remove(&mut self, row: usize) -> Option<Node> {
        self.set_images(row, &[]);
        let node = self.nodes[row].take()?;
        let facts = node.facts();
        self.rows.remove(row);
        self.row_of_name.remove(&facts.symbol);
        self.names[row] = None;
        self.name_hash[row] = 0;
        self.unschedulable.remove(row);
        self.fenced.remove(row);
        for (key, value) in &facts.labels {
            if let Some(entry) = self.labels.get_mut(key) {
                entry.remove(*value, row);
                if entry.rows.is_empty() {
                    self.labels.remove(key);
                }
            }
        }
        for taints in [&mut self.hard_taints, &mut self.soft_taints] {
            taints.retain_mut(|(_, rows)| {
                rows.remove(row);
                !rows.is_empty()
            });
        }
        for rows in &mut self.features {
            rows.remove(row);
        }
        self.allocatable.milli_cpu[row] = 0;
        self.allocatable.memory[row] = 0;
        self.allocatable.ephemeral_storage[row] = 0;
        self.allocatable.pods[row] = 0;
        self.allocatable.exact.remove(row);
        self.allocatable.inverse_milli_cpu[row] = 0.0;
        self.allocatable.inverse_memory[row] = 0.0;
        for (_, column) in &mut self.allocatable.scalars {
            column[row] = 0;
        }
        Some(node)
    }

    /// Records whether the node of an occupied row is fenced.
    pub(crate) fn set_fenced(&mut self, row: usize, is_fenced: bool) {
        debug_assert!(self.rows.contains(row));
        if is_fenced {
            self.fenced.insert(row);
        } else {
            self.fenced.remove(row);
        }
    }

    /// Replaces the image entry of a row.
    pub(crate) fn set_images(&mut self, row: usize, states: &[(Symbol, ImageState)]) {
        if let Some(node) = &self.nodes[row] {
            for (name, _) in &node.facts().images {
                if let Some(groups) = self.images.get_mut(name) {
                    groups.retain(|(_, rows)| {
                        rows.remove(row);
                        !rows.is_empty()
                    });
                    if groups.is_empty() {
                        self.images.remove(name);
                    }
                }
            }
        }
        for (name, state) in states {
            let groups = self.images.entry(*name).or_default();
            match groups.iter_mut().find(|(known, _)| known == state) {
                Some((_, rows)) => rows.insert(row),
                None => groups.push((*state, [row].into_iter().collect())),
            }
        }
    }

    /// State of an image in a row's entry.
    pub(crate) fn image(&self, row: usize, name: Symbol) -> Option<&ImageState> {
        let mut groups = self.images.get(&name)?.iter();
        groups.find(|(_, rows)| rows.contains(row)).map(|(state, _)| state)
    }

    /// The domain of a row by a topology key; none where the node lacks the label.
    pub(crate) fn domain_of(&self, row: usize, key: Symbol) -> DomainId {
        self.labels.get(&key).map_or(DomainId::NONE, |label| label.domains[row])
    }

    /// The node of an occupied row.
    pub(crate) fn node(&self, row: usize) -> Option<&Node> {
        self.nodes.get(row)?.as_ref()
    }

    /// The name of a row's node, `None` for a free row.
    pub(crate) fn name(&self, row: usize) -> Option<&Arc<str>> {
        self.names.get(row)?.as_ref()
    }
}

/// Up to this many values of a key in a shard are iterated over; with more the rows are.
const FEW_VALUES: usize = 32;

impl LabelKey {
    /// Passes each domain that has any of `rows` to `found`, with these rows; a domain may be passed in several parts.
    #[expect(
        clippy::iter_over_hash_type,
        reason = "what is done for domains must not depend on order"
    )]
    pub(crate) fn for_each_domain(&self, rows: &RowSet, mut found: impl FnMut(DomainId, RowSet)) {
        let mut rows = *rows;
        rows.intersect(&self.rows);
        if self.values.len() > FEW_VALUES {
            rows.iter().for_each(|row| found(self.domains[row], [row].into_iter().collect()));
            return;
        }
        for holders in self.values.values() {
            let mut part = *holders;
            part.intersect(&rows);
            if let Some(first) = part.iter().next() {
                found(self.domains[first], part);
            }
        }
    }

    /// The rows among `rows` whose domain satisfies `is_wanted`; rows without the key are left out.
    pub(crate) fn rows_where(&self, rows: &RowSet, is_wanted: impl Fn(DomainId) -> bool) -> RowSet {
        let mut wanted = RowSet::EMPTY;
        if self.values.len() > FEW_VALUES {
            let mut keyed = *rows;
            keyed.intersect(&self.rows);
            keyed.iter().filter(|row| is_wanted(self.domains[*row])).for_each(|r| wanted.insert(r));
            return wanted;
        }
        self.for_each_domain(rows, |domain, part| {
            if is_wanted(domain) {
                wanted.union(&part);
            }
        });
        wanted
    }

    fn remove(&mut self, value: Symbol, row: usize) {
        self.rows.remove(row);
        Arc::make_mut(&mut self.domains)[row] = DomainId::NONE;
        if let Some(rows) = self.values.get_mut(&value) {
            rows.remove(row);
            if rows.is_empty() {
                self.values.remove(&value);
            }
        }
    }
}

impl Allocatable {
    /// The column of a scalar; `None` when no node of the shard has any of it.
    pub(crate) fn scalar(&self, name: Symbol) -> Option<&Column<i64>> {
        self.scalars.iter().find(|(symbol, _)| *symbol == name).map(|(_, column)| &**column)
    }

    /// The columns of the resources that every node has.
    #[inline]
    pub(crate) fn native(&self) -> NativeColumns<'_> {
        NativeColumns {
            milli_cpu: &self.milli_cpu.0,
            memory: &self.memory.0,
            ephemeral_storage: &self.ephemeral_storage.0,
            pods: &self.pods.0,
        }
    }
}

fn insert_taint(
    taints: &mut Vec<(Taint, RowSet)>,
    taint: Taint,
    row: usize,
    count_duplicates: bool,
) {
    for (known, rows) in taints.iter_mut().filter(|(known, _)| *known == taint) {
        debug_assert_eq!(*known, taint);
        if !rows.contains(row) {
            rows.insert(row);
            return;
        }
        if !count_duplicates {
            return;
        }
    }
    taints.push((taint, [row].into_iter().collect()));
}
