//! DomainSums: a subject's weight by the domains of one topology key. Rules: S-PTS-4 to S-PTS-6, S-TS-5.

use std::sync::{Arc, OnceLock};

use crate::domain::DomainId;
use crate::kernel::FEW_DOMAINS;
use crate::model::intern::Symbol;
use crate::model::shape::ShapeFacts;
use crate::rows::{Column, NodeRow, ROWS, RowSet};
use crate::snapshot::Snapshot;
use crate::snapshot::matching::{matching, matching_pairs, tolerated, with_keys};
use crate::snapshot::shard::Shard;

/// A sum: its subject, the topology key of its domains, and the nodes that count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SumBy {
    /// Position in the demand's subjects.
    pub(crate) subject: usize,
    pub(crate) key: Symbol,
    pub(crate) nodes: CountedNodes,
}

/// Which nodes count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CountedNodes {
    /// All nodes that have the key.
    All,
    /// Nodes that a spread constraint counts (S-PTS-4).
    Eligible {
        /// Further keys that a node must have.
        keys: Vec<Symbol>,
        honors_affinity: bool,
        honors_taints: bool,
    },
}

/// Sums by domain.
#[derive(Clone, Debug)]
pub(crate) struct DomainSums {
    key: Symbol,
    /// Whether all nodes that have the key count.
    nodes_are_all: bool,
    n_domains: usize,
    /// Made of the weights of rows by the first reader, and kept up to date from then on: for keys like that of host names
    /// it has an entry for each node, and mostly the weights of rows are read instead.
    by_domain: OnceLock<Vec<i64>>,
    /// Number of counted nodes of each domain; a domain without any does not exist (S-PTS-5).
    n_nodes: Vec<u32>,
    /// The domains of the counted rows, by shard.
    shards: Vec<ShardDomains>,
    /// Whether all nodes that have the key count, and each is alone in its domain.
    is_by_row: bool,
    total: i64,
    /// The smallest sums at the last [`DomainSums::settle`].
    smallest: Smallest,
    is_settled: bool,
}

/// The domains of the counted rows of a shard.
#[derive(Clone, Debug, Default)]
struct ShardDomains {
    counted: RowSet,
    /// The column of the shard's nodes; `None` where none of them has the key.
    domains: Option<Arc<Column<DomainId>>>,
}

impl ShardDomains {
    fn of(counted: RowSet, key: Symbol, shard: &Shard) -> ShardDomains {
        let label = shard.nodes.labels.get(&key);
        ShardDomains { counted, domains: label.map(|label| label.domains.clone()) }
    }

    /// The weight of all rows that count.
    fn total(&self, weights: &[i32]) -> i64 {
        if self.counted == RowSet::FULL {
            return weights.iter().map(|weight| i64::from(*weight)).sum();
        }
        self.counted.iter().map(|row| i64::from(weights[row])).sum()
    }

    /// The domain of a row; [`DomainId::NONE`] where it does not count.
    fn of_row(&self, row: usize) -> DomainId {
        let counts = self.counted.contains(row);
        self.domains.as_ref().filter(|_| counts).map_or(DomainId::NONE, |domains| domains[row])
    }
}

/// The smallest sums of the domains that exist.
#[derive(Copy, Clone, Debug, Default)]
struct Smallest {
    n_domains: usize,
    /// The smallest sum, and that of the other domains; 0 where there are none.
    sum: i64,
    of_others: i64,
}

impl DomainSums {
    /// Sums over no rows, until [`DomainSums::count`].
    pub(super) fn new(by: &SumBy, snapshot: &Snapshot, shape: &ShapeFacts) -> DomainSums {
        let n_domains = snapshot.topology.n_domains(by.key);
        let of_shard = |shard: &Arc<Shard>| {
            ShardDomains::of(by.nodes.rows(by.key, shard, shape, snapshot), by.key, shard)
        };
        let mut sums = DomainSums {
            key: by.key,
            nodes_are_all: matches!(by.nodes, CountedNodes::All),
            n_domains,
            by_domain: OnceLock::new(),
            n_nodes: Vec::new(),
            shards: snapshot.shards.iter().map(of_shard).collect(),
            is_by_row: false,
            total: 0,
            smallest: Smallest::default(),
            is_settled: false,
        };
        sums.is_by_row = sums.nodes_are_all && snapshot.topology.is_by_node(by.key);
        if !sums.nodes_are_all {
            sums.n_nodes.resize(n_domains, 0);
            for shard in &sums.shards {
                let Some(domains) = &shard.domains else { continue };
                shard.counted.iter().for_each(|row| sums.n_nodes[domains[row].index()] += 1);
            }
        }
        sums
    }

    /// Counts the weights of all rows, in place of those that were counted before.
    pub(super) fn count(&mut self, weights: &[i32]) {
        let of_shard = |(shard, weights): (&ShardDomains, &[i32])| shard.total(weights);
        self.total = self.shards.iter().zip(weights.chunks_exact(ROWS)).map(of_shard).sum();
        if let Some(mut by_domain) = self.by_domain.take() {
            by_domain.fill(0);
            self.add_to_domains(&mut by_domain, weights);
            self.by_domain = by_domain.into();
        }
        self.is_settled = false;
    }

    /// The sums by domain, where these are the weights of all rows; the first entry, of no domain, is 0.
    pub(super) fn fill(&self, weights: &[i32]) -> &[i64] {
        self.by_domain.get_or_init(|| {
            let mut by_domain = vec![0; self.n_domains];
            self.add_to_domains(&mut by_domain, weights);
            by_domain
        })
    }

    fn add_to_domains(&self, by_domain: &mut [i64], weights: &[i32]) {
        let is_few = by_domain.len() <= FEW_DOMAINS;
        for (shard, weights) in self.shards.iter().zip(weights.chunks_exact(ROWS)) {
            let Some(domains) = &shard.domains else { continue };
            if self.nodes_are_all && !is_few {
                // A row without the key adds to the entry of no domain, which is set to 0 in the end.
                for (domain, weight) in domains.0.iter().zip(weights) {
                    by_domain[domain.index()] += i64::from(*weight);
                }
                continue;
            }
            for (row, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0) {
                if shard.counted.contains(row) {
                    by_domain[domains[row].index()] += i64::from(*weight);
                }
            }
        }
        by_domain[DomainId::NONE.index()] = 0;
    }

    /// Changes the weight of one row.
    pub(super) fn add(&mut self, row: NodeRow, change: i32) {
        let domain = self.shards[row.shard()].of_row(row.row());
        self.add_to(domain, change);
    }

    fn add_to(&mut self, domain: DomainId, change: i32) {
        if domain.is_some() {
            if let Some(by_domain) = self.by_domain.get_mut() {
                by_domain[domain.index()] += i64::from(change);
            }
            self.total += i64::from(change);
            self.is_settled = false;
        }
    }

    /// Updates rows of a shard, whose pods have these weights, after their nodes were added, removed or changed.
    ///
    /// `counted` are the rows of the shard that count now ([`CountedNodes::rows`]).
    pub(super) fn move_rows(
        &mut self,
        shard: &Shard,
        counted: RowSet,
        rows: &RowSet,
        weights: &[i32],
    ) {
        let now = ShardDomains::of(counted, self.key, shard);
        let before = std::mem::replace(&mut self.shards[shard.index], now.clone());
        for row in rows.iter() {
            let (old, new) = (before.of_row(row), now.of_row(row));
            self.add_to(old, -weights[row]);
            self.add_to(new, weights[row]);
            if let Some(n_nodes) = self.n_nodes.get_mut(old.index()).filter(|_| old.is_some()) {
                *n_nodes -= 1;
            }
            if let Some(n_nodes) = self.n_nodes.get_mut(new.index()).filter(|_| new.is_some()) {
                *n_nodes += 1;
            }
        }
        self.is_settled = false;
    }

    /// Whether each node that has the key counts and is alone in its domain, as with the key of host names: then the
    /// weight of a row's domain is that of the row.
    pub(crate) fn is_by_row(&self) -> bool {
        self.is_by_row
    }

    /// Makes room for new shards and domains, with sums of 0.
    pub(super) fn grow(&mut self, snapshot: &Snapshot) {
        self.shards.resize_with(snapshot.shards.len(), ShardDomains::default);
        self.n_domains = snapshot.topology.n_domains(self.key).max(self.n_domains);
        let n_domains = self.n_domains;
        if let Some(by_domain) = self.by_domain.get_mut() {
            by_domain.resize(n_domains, 0);
        }
        self.is_by_row = self.nodes_are_all && snapshot.topology.is_by_node(self.key);
        if !self.n_nodes.is_empty() {
            self.n_nodes.resize(n_domains, 0);
        }
    }

    /// Computes the smallest sum, after all changes; these are the weights of all rows.
    pub(super) fn settle(&mut self, weights: &[i32]) {
        if !self.nodes_are_all && !std::mem::replace(&mut self.is_settled, true) {
            let all = self.fill(weights).iter().zip(&self.n_nodes);
            let (mut n_domains, mut sum, mut of_others) = (0, i64::MAX, i64::MAX);
            for (of_domain, _) in all.filter(|(_, n_nodes)| **n_nodes > 0) {
                n_domains += 1;
                of_others = of_others.min(sum.max(*of_domain));
                sum = sum.min(*of_domain);
            }
            self.smallest = match n_domains {
                0 => Smallest::default(),
                1 => Smallest { n_domains, sum, of_others: 0 },
                _ => Smallest { n_domains, sum, of_others },
            };
        }
    }

    /// Asserts that two sums over one snapshot are equal; domains that do not exist are ignored.
    #[cfg(debug_assertions)]
    pub(super) fn assert_agrees(&self, other: &DomainSums) {
        let n_domains = self.n_domains.max(other.n_domains);
        let n_nodes = |sums: &DomainSums, i: usize| sums.n_nodes.get(i).copied().unwrap_or(0);
        let sum = |sums: &DomainSums, i: usize| sums.by_domain().get(i).copied().unwrap_or(0);
        // A shard that never held a node may be missing; its rows are in no domain.
        let domain = |sums: &DomainSums, i: usize| {
            sums.shards.get(i / ROWS).map_or(DomainId::NONE, |shard| shard.of_row(i % ROWS))
        };
        for i in 0..self.shards.len().max(other.shards.len()) * ROWS {
            assert_eq!(domain(self, i), domain(other, i), "the domain of a row");
        }
        assert_eq!(self.total, other.total, "the sum over all domains");
        assert_eq!(self.is_by_row, other.is_by_row, "whether nodes share a domain");
        for i in 0..n_domains {
            assert_eq!(sum(self, i), sum(other, i), "the sum of a domain");
            assert_eq!(n_nodes(self, i), n_nodes(other, i), "the nodes of a domain");
        }
    }

    pub(crate) fn key(&self) -> Symbol {
        self.key
    }

    /// The weight in a domain.
    pub(crate) fn of(&self, domain: DomainId) -> i64 {
        self.by_domain().get(domain.index()).copied().unwrap_or(0)
    }

    /// Whether nodes of a domain count (S-PTS-5). Only for nodes that a constraint counts.
    pub(crate) fn exists(&self, domain: DomainId) -> bool {
        self.n_nodes.get(domain.index()).is_some_and(|n_nodes| *n_nodes > 0)
    }

    /// The sums by domain; the first entry, of no domain, is 0.
    pub(crate) fn by_domain(&self) -> &[i64] {
        let by_domain = self.by_domain.get();
        debug_assert!(by_domain.is_some(), "`Census::sum` fills them");
        by_domain.map_or(&[], Vec::as_slice)
    }

    /// One more than the largest number of a domain.
    pub(super) fn n_domains(&self) -> usize {
        self.n_domains
    }

    /// The total weight of all domains.
    pub(crate) fn total(&self) -> i64 {
        self.total
    }

    /// The number of domains, and the smallest sum of one (S-PTS-6); 0 if there are none.
    pub(crate) fn smallest(&self) -> (usize, i64) {
        debug_assert!(self.is_settled);
        (self.smallest.n_domains, self.smallest.sum)
    }

    /// The smallest sum if that of one existing domain were `sum` (S-PTS-10).
    pub(crate) fn smallest_with(&self, domain: DomainId, sum: i64) -> i64 {
        debug_assert!(self.is_settled);
        if self.smallest.n_domains == 1 {
            return sum;
        }
        let is_smallest = self.of(domain) == self.smallest.sum;
        sum.min(if is_smallest { self.smallest.of_others } else { self.smallest.sum })
    }

    /// The largest sum of an existing domain less the smallest; 0 if there are none. Only for nodes that a constraint
    /// counts.
    pub(crate) fn skew(&self) -> i64 {
        let all = self.by_domain().iter().zip(&self.n_nodes);
        let existing = || all.clone().filter(|(_, n_nodes)| **n_nodes > 0).map(|(sum, _)| *sum);
        existing().max().unwrap_or(0) - existing().min().unwrap_or(0)
    }

    /// Whether the pods of a row count.
    pub(crate) fn counts(&self, row: NodeRow) -> bool {
        self.shards.get(row.shard()).is_some_and(|shard| shard.of_row(row.row()).is_some())
    }
}

impl CountedNodes {
    /// The rows of a shard that count.
    pub(crate) fn rows(
        &self,
        key: Symbol,
        shard: &Shard,
        shape: &ShapeFacts,
        snapshot: &Snapshot,
    ) -> RowSet {
        let mut rows = with_keys(&shard.nodes, [key].iter());
        let CountedNodes::Eligible { keys, honors_affinity, honors_taints } = self else {
            return rows;
        };
        rows.intersect(&with_keys(&shard.nodes, keys.iter()));
        if *honors_affinity {
            let names = snapshot.model.names();
            let pairs = shape.node_selector.as_deref().unwrap_or(&[]);
            rows = matching_pairs(pairs, &shard.nodes, rows);
            if let Some(required) = &shape.required_affinity {
                rows = matching(required, &shard.nodes, rows, names);
            }
        }
        if *honors_taints {
            rows = tolerated(&shape.tolerations, &shard.nodes, rows);
        }
        rows
    }
}
