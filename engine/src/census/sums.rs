//! DomainSums: a subject's weight by the domains of one topology key. Rules: S-PTS-4 to S-PTS-6, S-TS-5.

use crate::domain::DomainId;
use crate::model::intern::Symbol;
use crate::model::shape::ShapeFacts;
use crate::rows::{NodeRow, ROWS, RowSet};
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
    by_domain: Vec<i64>,
    /// Number of counted nodes of each domain; a domain without any does not exist (S-PTS-5).
    n_nodes: Vec<u32>,
    /// The domain of each counted row; [`DomainId::NONE`] for other rows.
    domains: Vec<DomainId>,
    /// Where all nodes that have the key count: the number of rows of each domain, and of those that are not alone in
    /// theirs.
    n_rows: Option<Vec<u32>>,
    n_together: usize,
    total: i64,
    /// The smallest sums at the last [`DomainSums::settle`].
    smallest: Smallest,
    is_settled: bool,
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
    /// Sums of 0 in all domains.
    pub(super) fn new(by: &SumBy, snapshot: &Snapshot, shape: &ShapeFacts) -> DomainSums {
        let n_domains = snapshot.topology.n_domains(by.key);
        let mut sums = DomainSums {
            key: by.key,
            by_domain: vec![0; n_domains],
            n_nodes: Vec::new(),
            domains: Vec::with_capacity(snapshot.shards.len() * ROWS),
            n_rows: matches!(by.nodes, CountedNodes::All).then(|| vec![0; n_domains]),
            n_together: 0,
            total: 0,
            smallest: Smallest::default(),
            is_settled: false,
        };
        if matches!(by.nodes, CountedNodes::Eligible { .. }) {
            sums.n_nodes.resize(n_domains, 0);
        }
        for shard in &snapshot.shards {
            let rows = by.nodes.rows(by.key, shard, shape, snapshot);
            let from = sums.domains.len();
            sums.domains.resize(from + ROWS, DomainId::NONE);
            if let Some(label) = shard.nodes.labels.get(&by.key) {
                for row in rows.iter() {
                    let domain = label.domains[row];
                    sums.domains[from + row] = domain;
                    let counts = sums.n_rows.as_mut().unwrap_or(&mut sums.n_nodes);
                    if let Some(n_rows) = counts.get_mut(domain.index()) {
                        *n_rows += 1;
                    }
                }
            }
        }
        let together = sums.n_rows.iter().flatten().filter(|n_rows| **n_rows > 1);
        sums.n_together = together.map(|n_rows| *n_rows as usize).sum();
        sums
    }

    /// Sets all sums to 0.
    pub(super) fn clear(&mut self) {
        self.by_domain.fill(0);
        self.total = 0;
        self.is_settled = false;
    }

    /// Adds the weights of all rows.
    pub(super) fn add_all(&mut self, weights: &[i32]) {
        for (row, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0) {
            self.add_to(row, *weight);
        }
    }

    /// Changes the weight of one row.
    pub(super) fn add(&mut self, row: NodeRow, change: i32) {
        self.add_to(row.index(), change);
    }

    fn add_to(&mut self, row: usize, change: i32) {
        let domain = self.domains[row];
        if domain.is_some() {
            self.by_domain[domain.index()] += i64::from(change);
            self.total += i64::from(change);
            self.is_settled = false;
        }
    }

    /// Updates a row, whose pods have this weight, after its node was added, removed or changed.
    ///
    /// `counted` are the rows of its shard that count now ([`CountedNodes::rows`]).
    pub(super) fn move_row(&mut self, shard: &Shard, counted: &RowSet, row: NodeRow, weight: i32) {
        self.add(row, -weight);
        let label = shard.nodes.labels.get(&self.key);
        let domain = match label.filter(|_| counted.contains(row.row())) {
            Some(label) => label.domains[row.row()],
            None => DomainId::NONE,
        };
        let old = std::mem::replace(&mut self.domains[row.index()], domain);
        self.forget_row(old);
        self.note_row(domain);
        if let Some(n_nodes) = self.n_nodes.get_mut(old.index()).filter(|_| old.is_some()) {
            *n_nodes -= 1;
        }
        if let Some(n_nodes) = self.n_nodes.get_mut(domain.index()).filter(|_| domain.is_some()) {
            *n_nodes += 1;
        }
        self.is_settled = false;
        self.add(row, weight);
    }

    /// Notes that a row came to a domain.
    fn note_row(&mut self, domain: DomainId) {
        let of_domain = self.n_rows.as_mut().and_then(|n_rows| n_rows.get_mut(domain.index()));
        if let Some(n_rows) = of_domain.filter(|_| domain.is_some()) {
            *n_rows += 1;
            self.n_together += match *n_rows {
                1 => 0,
                2 => 2,
                _ => 1,
            };
        }
    }

    /// Notes that a row left a domain.
    fn forget_row(&mut self, domain: DomainId) {
        let of_domain = self.n_rows.as_mut().and_then(|n_rows| n_rows.get_mut(domain.index()));
        if let Some(n_rows) = of_domain.filter(|_| domain.is_some()) {
            *n_rows -= 1;
            self.n_together -= match *n_rows {
                0 => 0,
                1 => 2,
                _ => 1,
            };
        }
    }

    /// Whether each node that has the key is alone in its domain, as with the key of host names: then the weight of a
    /// row's domain is that of the row.
    pub(crate) fn is_by_row(&self) -> bool {
        self.n_rows.is_some() && self.n_together == 0
    }

    /// Makes room for new rows and domains, with sums of 0.
    pub(super) fn grow(&mut self, snapshot: &Snapshot) {
        self.domains.resize(snapshot.shards.len() * ROWS, DomainId::NONE);
        let n_domains = snapshot.topology.n_domains(self.key).max(self.by_domain.len());
        self.by_domain.resize(n_domains, 0);
        if let Some(n_rows) = &mut self.n_rows {
            n_rows.resize(n_domains, 0);
        }
        if !self.n_nodes.is_empty() {
            self.n_nodes.resize(n_domains, 0);
        }
    }

    /// Computes the smallest sum, after all changes.
    pub(super) fn settle(&mut self) {
        if !std::mem::replace(&mut self.is_settled, true) {
            let all = self.by_domain.iter().zip(&self.n_nodes);
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
        let n_domains = self.by_domain.len().max(other.by_domain.len());
        let n_nodes = |sums: &DomainSums, i: usize| sums.n_nodes.get(i).copied().unwrap_or(0);
        let sum = |sums: &DomainSums, i: usize| sums.by_domain.get(i).copied().unwrap_or(0);
        // Rows of a shard that never held a node may be missing; they are in no domain.
        let domain =
            |sums: &DomainSums, i: usize| sums.domains.get(i).copied().unwrap_or(DomainId::NONE);
        for i in 0..self.domains.len().max(other.domains.len()) {
            assert_eq!(domain(self, i), domain(other, i), "the domain of a row");
        }
        assert_eq!(self.total, other.total, "the sum over all domains");
        assert_eq!(self.n_together, other.n_together, "the rows that share a domain");
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
        self.by_domain.get(domain.index()).copied().unwrap_or(0)
    }

    /// Whether nodes of a domain count (S-PTS-5). Only for nodes that a constraint counts.
    pub(crate) fn exists(&self, domain: DomainId) -> bool {
        self.n_nodes.get(domain.index()).is_some_and(|n_nodes| *n_nodes > 0)
    }

    /// The sums by domain; the first entry, of no domain, is 0.
    pub(crate) fn by_domain(&self) -> &[i64] {
        &self.by_domain
    }

    /// Whether the weight of any domain is not 0.
    pub(crate) fn is_any(&self) -> bool {
        self.total != 0 || self.by_domain.iter().any(|sum| *sum != 0)
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
        let all = self.by_domain.iter().zip(&self.n_nodes);
        let existing = || all.clone().filter(|(_, n_nodes)| **n_nodes > 0).map(|(sum, _)| *sum);
        existing().max().unwrap_or(0) - existing().min().unwrap_or(0)
    }

    /// Whether the pods of a row count.
    pub(crate) fn counts(&self, row: NodeRow) -> bool {
        self.domains.get(row.index()).is_some_and(|domain| domain.is_some())
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
