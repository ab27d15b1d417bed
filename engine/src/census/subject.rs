//! Subject: which pods count, and with which weight. Rules: S-PTS-5, S-IPA-2 to S-IPA-5, S-IS-3.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::label_selector::LabelSelector;
use crate::model::pod_affinity::{Term, TermId, TermKind};
use crate::model::population::{Population, PopulationId};
use crate::model::shape::{Shape, ShapeId};
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;
use crate::snapshot::placed_pod::PlacedPod;
use crate::snapshot::row_changes::PodChange;

/// Which pods count, and with which weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// Matching pods count 1 each.
    Pods(PodQuery),
    /// Pods count 1 for each of their required anti-affinity terms of this topology key that matches the incoming pod.
    Blockers(Symbol),
    /// Pods have the weight of preferences for this topology key, the incoming pod's and their own.
    Preferences { key: Symbol, own: SmallVec<[(PodQuery, i32); 1]>, hard_weight: i32 },
}

/// A query for pods: those that every clause matches; none if there are no clauses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodQuery {
    pub(crate) clauses: SmallVec<[Clause; 1]>,
    /// Whether pods that are being deleted match too.
    pub(crate) with_terminating: bool,
}

/// Pods of some namespaces that a selector matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clause {
    /// Namespaces of the pods; `None` means all.
    pub(crate) namespaces: Option<SmallVec<[Symbol; 1]>>,
    pub(crate) selector: LabelSelector,
}

/// The populations and the terms that have a weight for a subject, with the weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    populations: Vec<(PopulationId, i32)>,
    /// Weights of terms, sorted.
    terms: Vec<(TermId, i32)>,
}

/// Computes the weight of the pods of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scale {
    /// Weights of populations, and of the terms of shapes, seen before; for a subject they never change.
    known: FxHashMap<PopulationId, i32>,
    known_shapes: FxHashMap<ShapeId, i32>,
    /// Weights of terms, sorted.
    terms: Vec<(TermId, i32)>,
}

/// The largest number of populations, and of shapes, whose weights are cached.
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

    /// Passes every matching population of the snapshot to `found`, once.
    ///
    /// Cost: one test for each population that has one of the label values that the first clause requires, or, where it
    /// requires none, that is in one of its namespaces.
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
    /// Looks up the populations and terms with a weight. `terms` are those that pods on nodes own and that match the
    /// incoming pod.
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

    /// The rows with pods of each population and owners of each term.
    pub(crate) fn rows<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = NodeRow> + 'a {
        let populations = self.populations.iter().map(|(id, _)| *id);
        let of_populations = populations.flat_map(|id| snapshot.populations.rows_of(id));
        let terms = self.terms.iter().map(|(id, _)| *id);
        of_populations.chain(terms.flat_map(|id| snapshot.terms.rows_of(id))).map(|(row, _)| row)
    }

    /// Passes the weight of each row to a function, in parts: what a row gets in all is its weight.
    pub(crate) fn for_each_part(&self, snapshot: &Snapshot, mut found: impl FnMut(NodeRow, i32)) {
        for (id, weight) in &self.populations {
            snapshot.populations.for_each_part(*id, |row, n| found(row, n * weight));
        }
        for (id, weight) in &self.terms {
            snapshot.terms.for_each_part(*id, |row, n| found(row, n * weight));
        }
    }
}

impl Scale {
    /// A scale that starts from looked-up weights.
    pub(crate) fn of(weights: Weights) -> Scale {
        let mut known = FxHashMap::default();
        for (id, weight) in weights.populations {
            *known.entry(id).or_insert(0) += weight;
        }
        Scale { known, known_shapes: FxHashMap::default(), terms: weights.terms }
    }

    /// The weight of pods for the scale's subject.
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
            if self.known_shapes.len() > MAX_KNOWN {
                self.known_shapes.clear();
            }
            sum += pods.iter().map(|placed| self.weight_of_terms(&placed.shape)).sum::<i32>();
        }
        sum
    }

    /// The weight of one pod, if it is known of its population and its shape.
    pub(crate) fn known_weight(&self, subject: &Subject, pod: PodChange) -> Option<i32> {
        let by_labels = match subject.asks_pods() {
            true => *self.known.get(&pod.population)?,
            false => 0,
        };
        let by_terms = match self.terms.is_empty() {
            true => 0,
            false => *self.known_shapes.get(&pod.shape)?,
        };
        Some(by_labels + by_terms)
    }

    fn weight_of_terms(&mut self, shape: &Shape) -> i32 {
        if let Some(known) = self.known_shapes.get(&shape.id) {
            return *known;
        }
        let terms = shape.facts.pod_affinity.iter().flat_map(|affinity| affinity.terms());
        let weight = terms.map(|term| self.weight_of_term(term.id)).sum();
        if !shape.id.is_apart() {
            self.known_shapes.insert(shape.id, weight);
        }
        weight
    }

    fn weight_of_term(&self, id: TermId) -> i32 {
        let found = self.terms.binary_search_by_key(&id, |(id, _)| *id);
        found.map_or(0, |at| self.terms[at].1)
    }
}

impl Subject {
    /// Whether a pod on a node counts with a weight above 0, other than by preferences. `terms` are those that pods on
    /// nodes own and that match the incoming pod.
    pub(crate) fn counts(&self, pod: &Pod, terms: &[Arc<Term>]) -> bool {
        match self {
            Subject::Pods(query) => query.matches(pod.population()),
            Subject::Blockers(key) => {
                let affinity = pod.shape().facts.pod_affinity.as_ref();
                affinity.into_iter().flat_map(|affinity| &affinity.anti_required).any(|own| {
                    debug_assert_eq!(own.facts.kind, TermKind::RequiredAntiAffinity);
                    own.facts.topology_key == *key && terms.contains(own)
                })
            }
            Subject::Preferences { .. } => false,
        }
    }

    /// Whether pods count by their own labels, not only by the terms that they own.
    fn asks_pods(&self) -> bool {
        match self {
            Subject::Pods(_) => true,
            Subject::Blockers(_) => false,
            Subject::Preferences { own, .. } => !own.is_empty(),
        }
    }

    /// The weight of a pod by its namespace and labels.
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

#[cfg(test)]
mod tests {
    use berth_testing::object;

    use super::*;
    use crate::cluster::Cluster;

    /// The pods of a gang have the highest priority on its fork, with shapes of one id that are in no table.
    #[test]
    fn shapes_in_no_table_are_not_taken_for_each_other() {
        let cluster = Cluster::new();
        let compile = |text: &str| cluster.compile_pod(&object::pod(text)).unwrap();
        let apart = |pod: &Pod| {
            let shield = pod.changed(pod.shape().facts.clone(), &cluster.snapshot().model);
            assert!(shield.shape().id.is_apart());
            PlacedPod::new(shield, None)
        };
        let far = compile("p0 label:app=a far=zone,app:a");
        let affinity = far.shape().facts.pod_affinity.as_ref().unwrap();
        let terms: Vec<_> = affinity.terms().map(|term| (term.id, 1)).collect();
        let subject = Subject::Blockers(affinity.anti_required[0].facts.topology_key);
        let mut scale = Scale::of(Weights { populations: Vec::new(), terms });
        let near = compile("p1 label:app=a");
        for (pod, weight) in [(&far, 1), (&near, 0), (&far, 1)] {
            let placed = [apart(pod)];
            assert_eq!(scale.weigh(&subject, &placed), weight);
            let shape = placed[0].pod.shape().id;
            let change = PodChange { population: pod.population().id, shape, sign: 1 };
            assert_eq!(scale.known_weight(&subject, change), None);
        }
    }
}
