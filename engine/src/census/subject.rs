//! Subject: whose pods count, and how much each weighs. Rules: S-PTS-5, S-IPA-2 to S-IPA-5, S-IS-3.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::intern::Symbol;
use crate::model::label_selector::LabelSelector;
use crate::model::pod_affinity::{Term, TermId, TermKind};
use crate::model::population::{Population, PopulationId};
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;
use crate::snapshot::pod_table::PlacedPod;

/// Whose pods count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// Pods that match count 1 each.
    Pods(PodQuery),
    /// Pods count 1 for each of their required anti-affinity terms of this topology key that matches the incoming pod.
    Blockers(Symbol),
    /// Pods weigh what preferences by this topology key say, the incoming pod's and their own.
    Preferences { key: Symbol, own: SmallVec<[(PodQuery, i32); 1]>, hard_weight: i32 },
}

/// Which pods are meant: those that every clause matches; without clauses none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodQuery {
    pub(crate) clauses: SmallVec<[Clause; 1]>,
    /// Whether pods that are being deleted are meant too.
    pub(crate) with_terminating: bool,
}

/// Pods of some namespaces that a selector matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clause {
    /// `None` means all.
    pub(crate) namespaces: Option<SmallVec<[Symbol; 1]>>,
    pub(crate) selector: LabelSelector,
}

/// The populations and the terms that weigh anything for a subject, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    populations: Vec<(PopulationId, i32)>,
    /// Sorted.
    terms: Vec<(TermId, i32)>,
}

/// Weighs the pods of a row, whoever they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scale {
    /// What populations weigh that were met before; what a population weighs for a subject never changes.
    known: FxHashMap<PopulationId, i32>,
    /// Sorted.
    terms: Vec<(TermId, i32)>,
}

/// Populations to know the weights of at most.
const MAX_KNOWN: usize = 4096;

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

impl Scale {
    /// Knows what has been looked up.
    pub(crate) fn of(weights: Weights) -> Scale {
        let mut known = FxHashMap::default();
        for (id, weight) in weights.populations {
            *known.entry(id).or_insert(0) += weight;
        }
        Scale { known, terms: weights.terms }
    }

    /// What pods weigh together for the subject that this is the scale of.
    pub(crate) fn weigh(&mut self, subject: &Subject, pods: &[PlacedPod]) -> i32 {
        let mut sum = 0;
        if subject.asks_pods() {
            if self.known.len() > MAX_KNOWN {
                self.known.clear();
            }
            let weight = |placed: &PlacedPod| {
                let known = self.known.entry(placed.population);
                *known.or_insert_with(|| subject.weight_of(placed.pod.population()))
            };
            sum += pods.iter().map(weight).sum::<i32>();
        }
        if !self.terms.is_empty() {
            let affinities = pods.iter().filter_map(|p| p.pod.shape().facts.pod_affinity.as_ref());
            let terms = affinities.flat_map(|affinity| affinity.terms());
            sum += terms.map(|term| self.weight_of_term(term.id)).sum::<i32>();
        }
        sum
    }

    fn weight_of_term(&self, id: TermId) -> i32 {
        let found = self.terms.binary_search_by_key(&id, |(id, _)| *id);
        found.map_or(0, |at| self.terms[at].1)
    }
}

impl Subject {
    /// Whether pods count by what they are, not only by the terms that they own.
    fn asks_pods(&self) -> bool {
        match self {
            Subject::Pods(_) => true,
            Subject::Blockers(_) => false,
            Subject::Preferences { own, .. } => !own.is_empty(),
        }
    }

    /// What a pod weighs by what it is.
    fn weight_of(&self, population: &Population) -> i32 {
        match self {
            Subject::Pods(query) => i32::from(query.matches(population)),
            Subject::Blockers(_) => 0,
            Subject::Preferences { own, .. } => {
                let met = own.iter().filter(|(query, _)| query.matches(population));
                met.map(|(_, weight)| weight).sum()
            }
        }
    }
}
