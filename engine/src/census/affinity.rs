//! Demand of inter-pod affinity: the pod's own terms, and the terms of pods on nodes that match it.
//! Rules: S-IPA-1 to S-IPA-5, S-IPA-9, S-IS-1 to S-IS-3.

use std::sync::Arc;

use smallvec::SmallVec;

use super::demand::{Demand, RequiredAffinity};
use super::subject::{Clause, PodQuery, Subject};
use super::sums::{CountedNodes, SumBy};
use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::label::Labels;
use crate::model::label_selector::LabelSelector;
use crate::model::pod_affinity::{PodAffinity, Term, TermFacts, TermKind};
use crate::policy::Policy;
use crate::snapshot::Snapshot;

pub(super) fn demand(demand: &mut Demand, pod: &Pod, policy: &Policy, snapshot: &Snapshot) {
    let facts = &pod.population().facts;
    if !snapshot.terms.is_empty() {
        let none = Labels::default();
        let namespace_labels = snapshot.objects.namespace(facts.namespace).unwrap_or(&none);
        demand.terms = snapshot.terms.matching(facts.namespace, namespace_labels, &facts.labels);
    }
    for key in keys_of(demand, |kind| kind == TermKind::RequiredAntiAffinity) {
        let sum = add(demand, Subject::Blockers(key), key);
        demand.blockers.push(sum);
    }
    let none = PodAffinity::default();
    let own = pod.shape().facts.pod_affinity.as_deref().unwrap_or(&none);
    add_required(demand, own, pod, snapshot);
    let args = &policy.spec().inter_pod_affinity;
    if !own.preferred.is_empty() || !args.ignore_preferred_terms_of_existing_pods {
        add_preferences(demand, own, args.hard_pod_affinity_weight, snapshot);
    }
}

fn add_required(demand: &mut Demand, own: &PodAffinity, pod: &Pod, snapshot: &Snapshot) {
    if !own.required.is_empty() {
        // A pod counts if it matches all terms (S-IPA-5).
        let clauses: Option<_> =
            own.required.iter().map(|term| clause(&term.facts, snapshot)).collect();
        let query = query(clauses);
        let matches_itself = query.matches(pod.population());
        // All terms share one subject, whose query has all their clauses.
        let subject = demand.subject(Subject::Pods(query));
        let by_key = |term: &Arc<Term>| {
            let key = term.facts.topology_key;
            demand.sum(SumBy { subject, key, nodes: CountedNodes::All })
        };
        let sums = own.required.iter().map(by_key).collect();
        demand.affinity = RequiredAffinity { sums, matches_itself };
    }
    for term in &own.anti_required {
        let query =
            query(clause(&term.facts, snapshot).map(|clause| [clause].into_iter().collect()));
        let sum = add(demand, Subject::Pods(query), term.facts.topology_key);
        demand.anti_affinity.push(sum);
    }
}

fn add_preferences(demand: &mut Demand, own: &PodAffinity, hard_weight: i32, snapshot: &Snapshot) {
    let mut keys = keys_of(demand, |kind| match kind {
        TermKind::Preferred(_) => true,
        TermKind::RequiredAffinity => hard_weight > 0,
        TermKind::RequiredAntiAffinity => false,
    });
    keys.extend(own.preferred.iter().map(|term| term.facts.topology_key));
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let of_key = own.preferred.iter().filter(|term| term.facts.topology_key == key);
        let own =
            of_key.filter_map(|term| match (term.facts.kind, clause(&term.facts, snapshot)) {
                (TermKind::Preferred(weight), Some(clause)) => {
                    Some((query(Some([clause].into_iter().collect())), weight))
                }
                _ => None,
            });
        let subject = Subject::Preferences { key, own: own.collect(), hard_weight };
        let sum = add(demand, subject, key);
        demand.preferences.push(sum);
    }
}

/// The topology keys of matching terms of some kinds, sorted, without duplicates.
fn keys_of(demand: &Demand, is_meant: impl Fn(TermKind) -> bool) -> Vec<Symbol> {
    let terms = demand.terms.iter().filter(|term| is_meant(term.facts.kind));
    let mut keys: Vec<Symbol> = terms.map(|term| term.facts.topology_key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn add(demand: &mut Demand, subject: Subject, key: Symbol) -> usize {
    let subject = demand.subject(subject);
    demand.sum(SumBy { subject, key, nodes: CountedNodes::All })
}

/// A query for pods that match all clauses; none if there are no clauses. Pods that are being deleted count (S-IPA-5).
fn query(clauses: Option<SmallVec<[Clause; 1]>>) -> PodQuery {
    PodQuery { clauses: clauses.unwrap_or_default(), with_terminating: true }
}

/// A clause of a term of the incoming pod, with its namespaces resolved (S-IPA-4); `None` where its selector matches no
/// pod.
fn clause(term: &TermFacts, snapshot: &Snapshot) -> Option<Clause> {
    let selector = term.selector.clone()?;
    let Some(namespace_selector) = &term.namespace_selector else {
        return Some(Clause { namespaces: Some(term.namespaces.clone()), selector });
    };
    if matches_without_labels(namespace_selector) {
        return Some(Clause { namespaces: None, selector });
    }
    let mut namespaces = term.namespaces.clone();
    let found = snapshot.objects.namespaces();
    namespaces.extend(
        found.filter(|(_, labels)| namespace_selector.matches(labels)).map(|(name, _)| name),
    );
    namespaces.sort_unstable();
    namespaces.dedup();
    Some(Clause { namespaces: Some(namespaces), selector })
}

/// Whether a namespace selector matches an empty set of labels. kube-scheduler tests the selector on this, too, so that
/// a selector of only negative requirements matches every namespace (S-IPA-4).
fn matches_without_labels(selector: &LabelSelector) -> bool {
    selector.matches(&Labels::default())
}
