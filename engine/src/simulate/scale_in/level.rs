//! Levels: how many pods of a workload are in each domain of a spread constraint. Rules: S-PTS-4 to S-PTS-6.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::replica::Replica;
use crate::census::sums::CountedNodes;
use crate::domain::DomainId;
use crate::model::ModelError;
use crate::model::intern::Symbol;
use crate::model::label::clip;
use crate::model::label_selector::value_of;
use crate::model::shape::{Shape, ShapeId};
use crate::model::topology_spread::SpreadConstraint;
use crate::rows::{NodeRow, RowSet};
use crate::simulate::scale_in::outcome::ScaleInSpread;
use crate::snapshot::Snapshot;

/// The largest number of topology keys in a request.
const MAX_TOPOLOGY_KEYS: usize = 16;

/// One spread constraint and its counts.
#[derive(Clone, Debug)]
pub(super) struct Level {
    key: Symbol,
    /// The allowed skew; 0 for a level made from a topology key.
    max_skew: i32,
    is_hard: bool,
    min_domains: usize,
    /// The constraint whose selector counts pods; `None` to count the replicas themselves.
    constraint: Option<SpreadConstraint>,
    /// The rows of each shard whose pods count.
    rows: Vec<RowSet>,
    by_domain: Vec<i64>,
    /// For each number of pods, how many existing domains have it.
    by_number: BTreeMap<i64, usize>,
}

/// The levels, the most important first: the requested topology keys, or the workload's own constraints, hard ones
/// first, or zone and host.
///
/// # Errors
/// For topology keys in `requested` that are too many, listed twice, or unknown to the cluster.
pub(super) fn of(
    snapshot: &Snapshot,
    replicas: &[Replica],
    requested: &[String],
) -> Result<Vec<Level>, ModelError> {
    let requested = topology_keys(snapshot, requested)?;
    let Some(shape) = commonest(replicas) else { return Ok(Vec::new()) };
    let own = &shape.facts.spread.list;
    let mut levels = Vec::new();
    if !requested.is_empty() || own.is_empty() {
        let keys =
            if requested.is_empty() { vec![Symbol::ZONE, Symbol::HOSTNAME] } else { requested };
        levels.extend(keys.into_iter().map(|key| Level::of_key(key, shape, snapshot)));
    } else {
        for is_hard in [true, false] {
            let alike = || own.iter().filter(move |constraint| constraint.is_hard == is_hard);
            let keys: Vec<Symbol> = alike().map(|constraint| constraint.topology_key).collect();
            levels.extend(alike().map(|c| Level::of_constraint(c, &keys, shape, snapshot)));
        }
    }
    levels.iter_mut().for_each(|level| level.count(snapshot, replicas));
    Ok(levels)
}

/// The symbols of these labels. A request adds no symbols to the cluster.
fn topology_keys(snapshot: &Snapshot, requested: &[String]) -> Result<Vec<Symbol>, ModelError> {
    let at = |i: usize, reason: String| ModelError::new(format!("topology_keys[{i}]"), reason);
    if requested.len() > MAX_TOPOLOGY_KEYS {
        let reason = format!("has {} labels, more than {MAX_TOPOLOGY_KEYS}", requested.len());
        return Err(ModelError::new("topology_keys", reason));
    }
    let mut keys = Vec::with_capacity(requested.len());
    for (i, name) in requested.iter().enumerate() {
        let Some(key) = snapshot.model.names().get(name) else {
            return Err(at(i, format!("no node has a label `{}`", clip(name))));
        };
        if keys.contains(&key) {
            return Err(at(i, format!("`{}` stands in the list twice", clip(name))));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// The shape of most replicas; of equally common ones that of the first replica.
fn commonest(replicas: &[Replica]) -> Option<&Arc<Shape>> {
    let mut n_of: FxHashMap<ShapeId, usize> = FxHashMap::default();
    replicas.iter().for_each(|replica| *n_of.entry(replica.pod.shape().id).or_default() += 1);
    let most = n_of.values().copied().max()?;
    let mut shapes = replicas.iter().map(|replica| replica.pod.shape());
    shapes.find(|shape| n_of.get(&shape.id) == Some(&most))
}

impl Level {
    /// A level over a topology key, like kube-scheduler's default constraints, but counting the replicas only.
    fn of_key(key: Symbol, shape: &Shape, snapshot: &Snapshot) -> Level {
        let nodes =
            CountedNodes::Eligible { keys: vec![key], honors_affinity: true, honors_taints: false };
        Level::new(key, &nodes, shape, snapshot)
    }

    fn of_constraint(
        constraint: &SpreadConstraint,
        keys: &[Symbol],
        shape: &Shape,
        snapshot: &Snapshot,
    ) -> Level {
        let SpreadConstraint { honors_affinity, honors_taints, .. } = *constraint;
        let keys = keys.to_vec();
        let nodes = CountedNodes::Eligible { keys, honors_affinity, honors_taints };
        Level {
            max_skew: constraint.max_skew,
            is_hard: constraint.is_hard,
            min_domains: usize::try_from(constraint.min_domains).unwrap_or(0),
            constraint: Some(constraint.clone()),
            ..Level::new(constraint.topology_key, &nodes, shape, snapshot)
        }
    }

    fn new(key: Symbol, nodes: &CountedNodes, shape: &Shape, snapshot: &Snapshot) -> Level {
        let rows = |shard| nodes.rows(key, shard, &shape.facts, snapshot);
        Level {
            key,
            max_skew: 0,
            is_hard: false,
            min_domains: 0,
            constraint: None,
            rows: snapshot.shards.iter().map(|shard| rows(shard)).collect(),
            by_domain: vec![0; snapshot.topology.n_domains(key)],
            by_number: BTreeMap::new(),
        }
    }

    fn count(&mut self, snapshot: &Snapshot, replicas: &[Replica]) {
        match &self.constraint {
            None => {
                for replica in replicas {
                    self.add(snapshot, replica.row, 1);
                }
            }
            Some(SpreadConstraint { selector, .. }) => {
                // An empty selector matches everything but counts nothing (S-PTS-5), like a missing one.
                let selector = selector.clone().filter(|selector| !selector.is_empty());
                let namespace = replicas.first().map(|r| r.pod.population().facts.namespace);
                for population in snapshot.populations.all(namespace) {
                    let facts = &population.facts;
                    let is_counted = !facts.is_terminating
                        && selector.as_ref().is_some_and(|s| s.matches(&facts.labels));
                    if is_counted {
                        for (row, n) in snapshot.populations.rows_of(population.id) {
                            self.add(snapshot, row, i64::from(n));
                        }
                    }
                }
            }
        }
        let mut exists = vec![false; self.by_domain.len()];
        for (shard, rows) in snapshot.shards.iter().zip(&self.rows) {
            if let Some(label) = shard.nodes.labels.get(&self.key) {
                label.for_each_domain(rows, |domain, _| exists[domain.index()] = true);
            }
        }
        let existing = self.by_domain.iter().zip(exists).filter(|(_, exists)| *exists);
        for (number, _) in existing {
            *self.by_number.entry(*number).or_default() += 1;
        }
    }

    fn add(&mut self, snapshot: &Snapshot, row: NodeRow, n: i64) {
        if let Some(domain) = self.domain(snapshot, row) {
            self.by_domain[domain.index()] += n;
        }
    }

    fn domain(&self, snapshot: &Snapshot, row: NodeRow) -> Option<DomainId> {
        let label = snapshot.shards[row.shard()].nodes.labels.get(&self.key)?;
        let counts = self.rows[row.shard()].contains(row.row());
        counts.then(|| label.domains[row.row()]).filter(|domain| domain.is_some())
    }

    /// The domain in which a replica is counted; `None` where it is not counted.
    pub(super) fn domain_of(&self, snapshot: &Snapshot, replica: &Replica) -> Option<DomainId> {
        let labels = &replica.pod.population().facts.labels;
        let is_counted = self.constraint.as_ref().is_none_or(|constraint| {
            let selector = constraint.selector.as_ref();
            selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels))
        });
        self.domain(snapshot, replica.row).filter(|_| is_counted)
    }

    /// The number of pods in a domain; 0 without a domain.
    pub(super) fn number(&self, domain: Option<DomainId>) -> i64 {
        domain.map_or(0, |domain| self.by_domain[domain.index()])
    }

    /// Removes one pod of a domain from the counts.
    pub(super) fn remove(&mut self, domain: DomainId) {
        let number = &mut self.by_domain[domain.index()];
        if let Some(n_domains) = self.by_number.get_mut(number) {
            *n_domains -= 1;
            if *n_domains == 0 {
                self.by_number.remove(number);
            }
        }
        *number -= 1;
        *self.by_number.entry(*number).or_default() += 1;
    }

    /// The largest number less the smallest (S-PTS-6).
    pub(super) fn skew(&self) -> i64 {
        self.skew_of(&self.by_number)
    }

    fn skew_of(&self, by_number: &BTreeMap<i64, usize>) -> i64 {
        let largest = by_number.last_key_value().map_or(0, |(number, _)| *number);
        let smallest = by_number.first_key_value().map_or(0, |(number, _)| *number);
        largest - if self.n_domains() < self.min_domains { 0 } else { smallest }
    }

    /// By how much the constraint would be violated with one pod less in a domain; 0 for a soft constraint.
    pub(super) fn excess_without(&self, domain: Option<DomainId>) -> i64 {
        if !self.is_hard {
            return 0;
        }
        let number = self.number(domain);
        let is_only = self.by_number.get(&number) == Some(&1);
        let numbers = self.by_number.keys().copied();
        let skew = match domain {
            None => self.skew(),
            Some(_) => {
                let largest = match numbers.clone().next_back() {
                    Some(largest) if largest == number && is_only => {
                        let next = numbers.clone().rev().nth(1);
                        next.map_or(number - 1, |next| next.max(number - 1))
                    }
                    largest => largest.unwrap_or(0),
                };
                let smallest = numbers.clone().next().map_or(0, |s| s.min(number - 1));
                largest - if self.n_domains() < self.min_domains { 0 } else { smallest }
            }
        };
        (skew - i64::from(self.max_skew)).max(0)
    }

    fn n_domains(&self) -> usize {
        self.by_number.values().sum()
    }

    pub(super) fn key(&self) -> Symbol {
        self.key
    }

    /// Compares the level with itself in `after`, from which these replicas are removed.
    pub(super) fn spread<'r>(
        &self,
        after: &Level,
        gone: impl Iterator<Item = &'r Replica>,
        snapshot: &Snapshot,
    ) -> ScaleInSpread {
        let names = snapshot.model.names();
        let mut changed: BTreeMap<Arc<str>, (i64, i64)> = BTreeMap::new();
        for replica in gone {
            if let Some(domain) = self.domain_of(snapshot, replica)
                && let Some(name) = domain_name(snapshot, replica.row, self.key)
            {
                let numbers = (self.number(Some(domain)), after.number(Some(domain)));
                changed.insert(name, numbers);
            }
        }
        ScaleInSpread {
            topology_key: names.name(self.key),
            max_skew: self.max_skew,
            is_hard: self.is_hard,
            skew_before: self.skew(),
            skew_after: after.skew(),
            n_domains: self.n_domains(),
            domains: changed.into_iter().map(|(name, (n, m))| (name, n, m)).collect(),
        }
    }
}

/// The value of a label of a row's node.
pub(super) fn domain_name(snapshot: &Snapshot, row: NodeRow, key: Symbol) -> Option<Arc<str>> {
    let value = value_of(&snapshot.node(row)?.facts().labels, key)?;
    Some(snapshot.model.names().name(value))
}
