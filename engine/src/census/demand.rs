//! Demand: the counts that a pod needs, derived from the pod, the policy and the cluster's objects.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;

use super::subject::Subject;
use super::sums::SumBy;
use crate::model::intern::Symbol;
use crate::model::label_selector::LabelSelector;
use crate::model::pod_affinity::Term;

/// Which pods count, over which domains, and for which rule. Positions refer to `sums` unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) sums: Vec<SumBy>,
    /// Terms that pods on nodes own and that match the pod.
    pub(crate) terms: Vec<Arc<Term>>,
    pub(crate) hard: Vec<HardConstraint>,
    pub(crate) soft: SoftConstraints,
    pub(crate) affinity: RequiredAffinity,
    /// Sums of the pod's required anti-affinity.
    pub(crate) anti_affinity: Vec<usize>,
    /// Sums of required anti-affinity of pods on nodes.
    pub(crate) blockers: Vec<usize>,
    /// Sums of preferences of the pod and of pods on nodes.
    pub(crate) preferences: Vec<usize>,
}

/// A spread constraint that filters.
#[derive(Clone, Debug)]
pub(crate) struct HardConstraint {
    pub(crate) sum: usize,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: usize,
    /// 1 where the pod counts itself (S-PTS-7).
    pub(crate) own: i64,
    /// The constraint's own selector: pods that are added or removed in a dry run are matched with it (S-PTS-9).
    pub(crate) selector: Option<LabelSelector>,
}

impl HardConstraint {
    /// The minimum that the skew is counted from, given the smallest sum of so many domains (S-PTS-6).
    pub(crate) fn minimum(&self, n_domains: usize, smallest: i64) -> i64 {
        if n_domains < self.min_domains { 0 } else { smallest }
    }
}

/// Spread constraints that score.
#[derive(Clone, Debug, Default)]
pub(crate) struct SoftConstraints {
    pub(crate) list: Vec<SoftConstraint>,
    /// Whether nodes that lack one of the keys are ignored (S-TS-2).
    pub(crate) is_strict: bool,
}

/// A spread constraint that scores.
#[derive(Clone, Debug)]
pub(crate) struct SoftConstraint {
    /// Position of the constraint's subject.
    pub(crate) subject: usize,
    /// Position of the sum; `None` for `kubernetes.io/hostname`, which is counted by node (S-TS-6).
    pub(crate) sum: Option<usize>,
    pub(crate) key: Symbol,
    pub(crate) max_skew: i32,
}

/// The pod's required affinity.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequiredAffinity {
    /// The sum of each term.
    pub(crate) sums: Vec<usize>,
    /// Whether the pod matches all its own terms, so that it may be the first of its group (S-IPA-7).
    pub(crate) matches_itself: bool,
}

impl Demand {
    /// Whether nothing has to be counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// Whether filters, and not only scores, need counts.
    pub(crate) fn filters(&self) -> bool {
        !self.hard.is_empty()
            || !self.affinity.sums.is_empty()
            || !self.anti_affinity.is_empty()
            || !self.blockers.is_empty()
    }

    /// Whether both demands need the same counts; their limits and purposes may differ.
    pub(super) fn counts_as(&self, other: &Demand) -> bool {
        self.subjects == other.subjects && self.sums == other.sums && self.terms == other.terms
    }

    /// A hash that is equal for demands that need the same counts; 0 where nothing has to be counted.
    pub(crate) fn fingerprint(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let mut hasher = FxHasher::default();
        (&self.subjects, &self.sums, &self.terms).hash(&mut hasher);
        hasher.finish() | 1
    }

    /// The position of a subject, which is added if it is missing.
    pub(super) fn subject(&mut self, subject: Subject) -> usize {
        position_or_push(&mut self.subjects, subject)
    }

    /// The position of a sum, which is added if it is missing.
    pub(super) fn sum(&mut self, sum: SumBy) -> usize {
        position_or_push(&mut self.sums, sum)
    }
}

fn position_or_push<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    match list.iter().position(|known| *known == item) {
        Some(at) => at,
        None => {
            list.push(item);
            list.len() - 1
        }
    }
}
