//! Subject: whose pods count, and how much each weighs. Rules: S-PTS-5, S-IPA-2 to S-IPA-5, S-IS-3.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::model::intern::Symbol;
use crate::model::label_selector::LabelSelector;
use crate::model::pod_affinity::{Term, TermId, TermKind};
use crate::model::population::{Population, PopulationId};
use crate::snapshot::pod_table::PlacedPod;
use crate::snapshot::{NodeRow, Snapshot};

/// Whose pods count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Pods that match count 1 each.
    Pods(PodQuery),
    /// Pods count 1 for each of their required anti-affinity terms of this topology key that matches the incoming pod.
    Blockers(Symbol),
    /// Pods weigh what preferences by this topology key say, the incoming pod's and their own.
    Preferences { key: Symbol, own: SmallVec<[(PodQuery, i32); 1]>, hard_weight: i32 },
}

/// Which pods are meant: those that every clause matches; without clauses none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodQuery {
    pub(crate) clauses: SmallVec<[Clause; 1]>,
    /// Whether pods that are being deleted are meant too.
    pub(crate) with_terminating: bool,
}

/// Pods of some namespaces that a selector matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// `None` means all.
    pub(crate) namespaces: Option<SmallVec<[Symbol; 1]>>,
    pub(crate) selector: LabelSelector,
}

/// What each pod weighs for a subject: by its population and by the terms that it owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Sorted.
    populations: Vec<(PopulationId, i32)>,
    /// Sorted.
    terms: Vec<(TermId, i32)>,
}

impl PodQuery {
    pub(crate) fn matches(&self, population: &Population) -> bool {
        let facts = &population.facts;
        (self.with_terminating || !facts.is_terminating)
            && !self.clauses.is_empty()
            && self.clauses.iter().all(|clause| {
                clause.namespaces.as_ref().is_none_or(|list| list.contains(&facts.namespace))
                    && clause.selector.matches(&facts.labels)
            })
    }

    /// Hands on every population of the snapshot that matches, once.
    ///
    /// Cost: one test for each population that has one of the labels which some clause names, or that is in one of its
    /// namespaces where it names none.
    fn for_each<'a>(&self, snapshot: &'a Snapshot, mut found: impl FnMut(&'a Population)) {
        let Some(first) = self.clauses.first() else {
            return;
        };
        let all = [None];
        let some: SmallVec<[Option<Symbol>; 1]>;
        let namespaces: &[Option<Symbol>] = match &first.namespaces {
            None => &all,
            Some(list) => {
                some = list.iter().copied().map(Some).collect();
                &some
            }
        };
        let index = &snapshot.populations;
        let mut test = |population: &'a Arc<Population>| {
            if self.matches(population) {
                found(population);
            }
        };
        for namespace in namespaces {
            match first.selector.anchor() {
                Some((key, values)) => values.iter().for_each(|value| {
                    index.with_label(key, *value, *namespace).for_each(&mut test)
                }),
                None => index.all(*namespace).for_each(&mut test),
            }
        }
    }
}

impl Weights {
    /// Looks up who there is to weigh. `terms` are those that pods on nodes own and that match the incoming pod.
    pub(crate) fn of(subject: &Subject, terms: &[Arc<Term>], snapshot: &Snapshot) -> Weights {
        let mut weights = Weights::default();
        match subject {
            Subject::Pods(query) => weights.add_pods(query, 1, snapshot),
            Subject::Blockers(key) => {
                weights.add_terms(terms, *key, |kind| {
                    (kind == TermKind::RequiredAntiAffinity).then_some(1)
                });
            }
            Subject::Preferences { key, own, hard_weight } => {
                own.iter().for_each(|(query, weight)| weights.add_pods(query, *weight, snapshot));
                weights.add_terms(terms, *key, |kind| match kind {
                    TermKind::Preferred(weight) => Some(weight),
                    TermKind::RequiredAffinity if *hard_weight > 0 => Some(*hard_weight),
                    TermKind::RequiredAffinity | TermKind::RequiredAntiAffinity => None,
                });
            }
        }
        weights.populations.sort_unstable();
        weights.populations.dedup_by(|(id, weight), (kept, sum)| {
            let is_same = id == kept;
            if is_same {
                *sum += *weight;
            }
            is_same
        });
        weights.terms.sort_unstable();
        weights
    }

    fn add_pods(&mut self, query: &PodQuery, weight: i32, snapshot: &Snapshot) {
        let populations = &mut self.populations;
        query.for_each(snapshot, |population| populations.push((population.id, weight)));
    }

    fn add_terms(
        &mut self,
        terms: &[Arc<Term>],
        key: Symbol,
        weight: impl Fn(TermKind) -> Option<i32>,
    ) {
        let of_key = terms.iter().filter(|term| term.facts.topology_key == key);
        self.terms.extend(of_key.filter_map(|term| Some((term.id, weight(term.facts.kind)?))));
    }

    /// What pods weigh together, read off the pods.
    pub(crate) fn weigh(&self, pods: &[PlacedPod]) -> i32 {
        let mut sum = 0;
        if !self.populations.is_empty() {
            sum +=
                pods.iter().map(|placed| find(&self.populations, placed.population)).sum::<i32>();
        }
        if !self.terms.is_empty() {
            let affinities = pods.iter().filter_map(|p| p.pod.shape().facts.pod_affinity.as_ref());
            let terms = affinities.flat_map(|affinity| affinity.terms());
            sum += terms.map(|term| find(&self.terms, term.id)).sum::<i32>();
        }
        sum
    }

    /// The same for every row, read off the indexes: adds to `by_row`.
    pub(crate) fn spread_over(&self, snapshot: &Snapshot, by_row: &mut [i32]) {
        self.for_each_row(snapshot, |row, n_pods, weight| {
            by_row[row.index()] += n_pods as i32 * weight;
        });
    }

    /// Hands on, for each population and each term, the rows that have it, how often, and what each weighs.
    pub(crate) fn for_each_row(
        &self,
        snapshot: &Snapshot,
        mut found: impl FnMut(NodeRow, u32, i32),
    ) {
        for (id, weight) in &self.populations {
            snapshot.populations.rows_of(*id).for_each(|(row, n)| found(row, n, *weight));
        }
        for (id, weight) in &self.terms {
            snapshot.terms.rows_of(*id).for_each(|(row, n)| found(row, n, *weight));
        }
    }
}

fn find<K: Ord + Copy>(sorted: &[(K, i32)], key: K) -> i32 {
    match sorted.binary_search_by_key(&key, |(key, _)| *key) {
        Ok(at) => sorted[at].1,
        Err(_) => 0,
    }
}
