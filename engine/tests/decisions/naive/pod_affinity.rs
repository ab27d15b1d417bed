//! InterPodAffinity, both halves and both directions, a pod and a term at a time. Rules: S-IPA-1 to S-IPA-9,
//! S-IS-1 to S-IS-6, W-SEL-6.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::{InterPodAffinityArgs, StatusCode};
use berth_proto::core_v1::{Pod, PodAffinityTerm, WeightedPodAffinityTerm};

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::{Rejection, unresolvable};
use super::label_selector::{self, Labels, Selector, Unparsable};
use super::pod;
use super::score::Scores;

/// A topology key and a node's value for it.
type Pair = (String, String);

/// A term that parses (S-IPA-1).
#[derive(Clone)]
struct Term {
    selector: Selector,
    namespaces: BTreeSet<String>,
    namespace_selector: Selector,
    key: String,
}

/// The four lists of one pod.
#[derive(Clone, Default)]
struct Terms {
    required: Vec<Term>,
    required_anti: Vec<Term>,
    preferred: Vec<(i64, Term)>,
    preferred_anti: Vec<(i64, Term)>,
}

/// S-IPA-1
fn term(of: &Pod, term: &PodAffinityTerm) -> Result<Term, Unparsable> {
    let mut namespaces: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    if term.namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.insert(pod::namespace(of).to_owned());
    }
    Ok(Term {
        selector: label_selector::parse(term.label_selector.as_ref())?,
        namespaces,
        namespace_selector: label_selector::parse(term.namespace_selector.as_ref())?,
        key: term.topology_key.clone(),
    })
}

fn required(of: &Pod, terms: &[PodAffinityTerm]) -> Result<Vec<Term>, Unparsable> {
    terms.iter().map(|wire| term(of, wire)).collect()
}

fn preferred(of: &Pod, terms: &[WeightedPodAffinityTerm]) -> Result<Vec<(i64, Term)>, Unparsable> {
    let of_term = |weighted: &WeightedPodAffinityTerm| {
        let wire = weighted.pod_affinity_term.clone().unwrap_or_default();
        Ok((i64::from(weighted.weight), term(of, &wire)?))
    };
    terms.iter().map(of_term).collect()
}

/// Each of the pod's lists, or an error if a term of it does not parse.
struct Parsed {
    required: Result<Vec<Term>, Unparsable>,
    required_anti: Result<Vec<Term>, Unparsable>,
    preferred: Result<Vec<(i64, Term)>, Unparsable>,
    preferred_anti: Result<Vec<(i64, Term)>, Unparsable>,
}

fn parsed(of: &Pod) -> Parsed {
    let affinity = of.spec.as_ref().and_then(|spec| spec.affinity.clone()).unwrap_or_default();
    let near = affinity.pod_affinity.unwrap_or_default();
    let far = affinity.pod_anti_affinity.unwrap_or_default();
    Parsed {
        required: required(of, &near.required_during_scheduling_ignored_during_execution),
        required_anti: required(of, &far.required_during_scheduling_ignored_during_execution),
        preferred: preferred(of, &near.preferred_during_scheduling_ignored_during_execution),
        preferred_anti: preferred(of, &far.preferred_during_scheduling_ignored_during_execution),
    }
}

/// Returns the terms of the pod that is being placed: all must parse, and every namespace that a selector matches joins
/// the set (S-IPA-4).
fn incoming(cluster: &NaiveCluster, of: &Pod) -> Result<Terms, Unparsable> {
    let Parsed { required, required_anti, preferred, preferred_anti } = parsed(of);
    let mut terms = Terms {
        required: required?,
        required_anti: required_anti?,
        preferred: preferred?,
        preferred_anti: preferred_anti?,
    };
    let weighted = terms.preferred.iter_mut().chain(&mut terms.preferred_anti).map(|(_, t)| t);
    for term in terms.required.iter_mut().chain(&mut terms.required_anti).chain(weighted) {
        if term.namespace_selector.is_empty() {
            continue;
        }
        for namespace in cluster.objects.namespaces() {
            let metadata = namespace.metadata.as_ref().expect("objects have metadata");
            if term.namespace_selector.matches(&metadata.labels) {
                term.namespaces.insert(metadata.name.clone());
            }
        }
    }
    Ok(terms)
}

/// Returns the terms of an existing pod: a list with a term that does not parse counts as empty (W-SEL-6).
fn existing(of: &Pod) -> Terms {
    let parsed = parsed(of);
    Terms {
        required: parsed.required.unwrap_or_default(),
        required_anti: parsed.required_anti.unwrap_or_default(),
        preferred: parsed.preferred.unwrap_or_default(),
        preferred_anti: parsed.preferred_anti.unwrap_or_default(),
    }
}

impl Term {
    /// S-IPA-2
    fn matches(&self, other: &Pod, namespace_labels: &Labels) -> bool {
        let is_in_scope = self.namespaces.contains(pod::namespace(other))
            || self.namespace_selector.matches(namespace_labels);
        is_in_scope && self.selector.matches(pod::labels(other))
    }

    /// Whether a term of the incoming pod matches an existing pod: its namespace selector is evaluated against empty
    /// labels (S-IPA-4).
    fn matches_existing(&self, other: &Pod) -> bool {
        self.matches(other, &Labels::new())
    }

    fn pair(&self, node: &NaiveNode) -> Option<Pair> {
        node.label(&self.key).map(|value| (self.key.clone(), value.to_owned()))
    }
}

fn matches_all(terms: &[Term], other: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.matches_existing(other))
}

/// Counts for the required terms over the whole cluster (S-IPA-5).
#[derive(Clone)]
pub(crate) struct Required {
    terms: Terms,
    /// Labels of the pod's namespace (S-IPA-3).
    namespace_labels: Labels,
    of: Pod,
    /// E: existing pods' anti-affinity against this pod.
    existing_anti: BTreeMap<Pair, i64>,
    /// F: pods that match all of this pod's affinity.
    affinity: BTreeMap<Pair, i64>,
    /// A: pods that match this pod's anti-affinity, a map for each term.
    anti: Vec<BTreeMap<Pair, i64>>,
    is_own_match: bool,
}

/// Returns the counts for the required terms; `None` means that the plugin skips (S-IPA-6).
pub(crate) fn required_terms(
    cluster: &NaiveCluster,
    of: &Pod,
) -> Result<Option<Required>, Unparsable> {
    let terms = incoming(cluster, of)?;
    let mut required = Required {
        namespace_labels: cluster.objects.namespace_labels(pod::namespace(of)),
        of: of.clone(),
        existing_anti: BTreeMap::new(),
        affinity: BTreeMap::new(),
        anti: vec![BTreeMap::new(); terms.required_anti.len()],
        is_own_match: matches_all(&terms.required, of),
        terms,
    };
    for (node, other) in cluster.placed_pods() {
        required.count(other, node, 1);
    }
    let has_terms = !required.terms.required.is_empty() || !required.terms.required_anti.is_empty();
    Ok((has_terms || !required.existing_anti.is_empty()).then_some(required))
}

/// Adds to the count of a pair, and removes a count that reaches 0 (S-IPA-8).
fn add(counts: &mut BTreeMap<Pair, i64>, pair: Option<Pair>, step: i64) {
    if let Some(pair) = pair {
        let count = counts.entry(pair.clone()).or_default();
        *count += step;
        if *count == 0 {
            counts.remove(&pair);
        }
    }
}

impl Required {
    /// Adds or removes the counts of a pod on a node (S-IPA-5, S-IPA-8).
    pub(crate) fn count(&mut self, other: &Pod, node: &NaiveNode, step: i64) {
        for term in &existing(other).required_anti {
            if term.matches(&self.of, &self.namespace_labels) {
                add(&mut self.existing_anti, term.pair(node), step);
            }
        }
        if matches_all(&self.terms.required, other) {
            for term in &self.terms.required {
                add(&mut self.affinity, term.pair(node), step);
            }
        }
        for (term, counts) in self.terms.required_anti.iter().zip(&mut self.anti) {
            if term.matches_existing(other) {
                add(counts, term.pair(node), step);
            }
        }
    }

    /// S-IPA-6, S-IPA-7
    pub(crate) fn filter(&self, node: &NaiveNode) -> Option<Rejection> {
        if !self.has_affinity(node) {
            return unresolvable("node(s) didn't match pod affinity rules");
        }
        let is_kept_off =
            self.terms.required_anti.iter().zip(&self.anti).any(|(term, counts)| {
                term.pair(node).is_some_and(|pair| counts.contains_key(&pair))
            });
        let reason = if is_kept_off {
            "node(s) didn't match pod anti-affinity rules"
        } else if self
            .existing_anti
            .keys()
            .any(|(key, value)| node.label(key) == Some(value.as_str()))
        {
            "node(s) didn't satisfy existing pods anti-affinity rules"
        } else {
            return None;
        };
        Some(Rejection { code: StatusCode::Unschedulable, reasons: vec![reason.to_owned()] })
    }

    fn has_affinity(&self, node: &NaiveNode) -> bool {
        let terms = &self.terms.required;
        let pairs: Option<Vec<Pair>> = terms.iter().map(|term| term.pair(node)).collect();
        let Some(pairs) = pairs else {
            return false;
        };
        pairs.iter().all(|pair| self.affinity.contains_key(pair))
            || (self.affinity.is_empty() && self.is_own_match)
    }
}

/// Returns the scores of the soft terms; `None` means that the plugin skips (S-IS-1 to S-IS-6).
pub(crate) fn score(
    cluster: &NaiveCluster,
    args: &InterPodAffinityArgs,
    of: &Pod,
    feasible: &[&NaiveNode],
) -> Result<Option<Scores>, Unparsable> {
    let terms = incoming(cluster, of)?;
    let has_preferred = !terms.preferred.is_empty() || !terms.preferred_anti.is_empty();
    if args.ignore_preferred_terms_of_existing_pods && !has_preferred {
        return Ok(None);
    }
    let namespace_labels = cluster.objects.namespace_labels(pod::namespace(of));
    let mut weights: BTreeMap<Pair, i64> = BTreeMap::new();
    let mut add = |weight: i64, pair: Option<Pair>| {
        if let Some(pair) = pair {
            *weights.entry(pair).or_default() += weight;
        }
    };
    let hard_weight = i64::from(args.hard_pod_affinity_weight);
    for (node, other) in cluster.placed_pods() {
        for (sign, list) in [(1, &terms.preferred), (-1, &terms.preferred_anti)] {
            for (weight, term) in list.iter().filter(|(_, term)| term.matches_existing(other)) {
                add(sign * weight, term.pair(node));
            }
        }
        let theirs = existing(other);
        for term in theirs.required.iter().filter(|_| hard_weight > 0) {
            if term.matches(of, &namespace_labels) {
                add(hard_weight, term.pair(node));
            }
        }
        for (sign, list) in [(1, &theirs.preferred), (-1, &theirs.preferred_anti)] {
            for (weight, term) in list.iter().filter(|(_, t)| t.matches(of, &namespace_labels)) {
                add(sign * weight, term.pair(node));
            }
        }
    }
    if weights.is_empty() {
        return Ok(None);
    }
    let raw = feasible.iter().map(|node| {
        let here =
            weights.iter().filter(|((key, value), _)| node.label(key) == Some(value.as_str()));
        here.map(|(_, weight)| weight).sum()
    });
    Ok(Some(normalized(raw.collect())))
}

/// S-IS-6
fn normalized(raw: Vec<i64>) -> Scores {
    let low = raw.iter().copied().min().unwrap_or(0);
    let high = raw.iter().copied().max().unwrap_or(0);
    let of = |raw: &i64| match high - low {
        0 => 0,
        range => (100.0 * ((raw - low) as f64 / range as f64)).trunc() as i64,
    };
    Scores { normalized: raw.iter().map(of).collect(), raw }
}
