//! Affinity: state of InterPodAffinity for one node. Rules: S-IPA-5 to S-IPA-9.

use smallvec::SmallVec;

use crate::census::subject::{PodQuery, Subject};
use crate::census::sums::DomainSums;
use crate::domain::DomainId;
use crate::filter::Refusal;
use crate::filter::reason::Reason;
use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::label::Labels;
use crate::model::pod_affinity::TermFacts;
use crate::prepared::Prepared;
use crate::snapshot::shard::Shard;

/// Changes of the node's counted pods since the census.
pub(super) struct Affinity<'p> {
    prepared: &'p Prepared<'p>,
    /// Change in pods that match all of the pod's required affinity.
    near: i64,
    /// Changes in pods that match each term of its required anti-affinity, in the demand's order.
    far: SmallVec<[i64; 2]>,
    /// Changes in the pods' required anti-affinity terms that match the pod, by topology key.
    blockers: SmallVec<[(Symbol, i64); 2]>,
}

/// Whether the filter applies: the pod has required terms, or required anti-affinity of existing pods matches it
/// (S-IPA-6).
pub(super) fn applies(prepared: &Prepared<'_>) -> bool {
    let demand = prepared.demand();
    !demand.affinity.sums.is_empty()
        || !demand.anti_affinity.is_empty()
        || demand.blockers.iter().any(|sum| prepared.census().total(*sum) > 0)
}

impl<'p> Affinity<'p> {
    pub(super) fn on(prepared: &'p Prepared<'p>) -> Affinity<'p> {
        let far = SmallVec::from_elem(0, prepared.demand().anti_affinity.len());
        Affinity { prepared, near: 0, far, blockers: SmallVec::new() }
    }

    /// Adds or removes a pod (S-IPA-8).
    pub(super) fn change(&mut self, pod: &Pod, by: i64) {
        let (prepared, demand) = (self.prepared, self.prepared.demand());
        let matches =
            |sum: usize| query(prepared, sum).is_some_and(|q| q.matches(pod.population()));
        if demand.affinity.sums.first().is_some_and(|sum| matches(*sum)) {
            self.near += by;
        }
        for (sum, n) in demand.anti_affinity.iter().zip(&mut self.far) {
            if matches(*sum) {
                *n += by;
            }
        }
        let Some(affinity) = &pod.shape().facts.pod_affinity else { return };
        for term in affinity.anti_required.iter().filter(|term| is_meant(prepared, &term.facts)) {
            let key = term.facts.topology_key;
            match self.blockers.iter_mut().find(|(known, _)| *known == key) {
                Some((_, n)) => *n += by,
                None => self.blockers.push((key, by)),
            }
        }
    }

    /// The first reason in order: affinity, the pod's anti-affinity, then that of the pods on the node (S-IPA-7).
    pub(super) fn refusal(&self, shard: &Shard, row: usize) -> Option<Refusal> {
        if !self.is_near(shard, row) {
            return Some(Refusal::of(Reason::PodAffinity));
        }
        if self.is_disturbed(shard, row) {
            return Some(Refusal::of(Reason::PodAntiAffinity));
        }
        self.is_kept_away(shard, row).then(|| Refusal::of(Reason::ExistingAntiAffinity))
    }

    /// Whether required affinity is satisfied, or the pod may be the first of its group.
    fn is_near(&self, shard: &Shard, row: usize) -> bool {
        let affinity = &self.prepared.demand().affinity;
        let sums = || affinity.sums.iter().map(|sum| self.prepared.census().sum(*sum));
        if sums().any(|sum| domain(shard, row, sum.key()).is_none()) {
            return false;
        }
        let is_there = |sum: &DomainSums| {
            domain(shard, row, sum.key()).is_some_and(|domain| sum.of(domain) + self.near > 0)
        };
        sums().all(is_there)
            || (affinity.matches_itself && sums().all(|sum| sum.total() + self.near == 0))
    }

    fn is_disturbed(&self, shard: &Shard, row: usize) -> bool {
        let mut terms = self.prepared.demand().anti_affinity.iter().zip(&self.far);
        terms.any(|(sum, more)| {
            let sum = self.prepared.census().sum(*sum);
            domain(shard, row, sum.key()).is_some_and(|domain| sum.of(domain) + more > 0)
        })
    }

    fn is_kept_away(&self, shard: &Shard, row: usize) -> bool {
        let counted = self.prepared.demand().blockers.iter();
        let counted = counted.map(|sum| self.prepared.census().sum(*sum));
        let more = |key| self.blockers.iter().find(|(of, _)| *of == key).map_or(0, |(_, n)| *n);
        let is_counted = |sum: &DomainSums| {
            domain(shard, row, sum.key()).is_some_and(|domain| sum.of(domain) + more(sum.key()) > 0)
        };
        let mut uncounted = self
            .blockers
            .iter()
            .filter(|(key, n)| *n > 0 && !counted.clone().any(|sum| sum.key() == *key));
        counted.clone().any(is_counted)
            || uncounted.any(|(key, _)| domain(shard, row, *key).is_some())
    }
}

/// The query for the pods that a sum counts.
fn query<'p>(prepared: &'p Prepared<'_>, sum: usize) -> Option<&'p PodQuery> {
    let demand = prepared.demand();
    match &demand.subjects[demand.sums[sum].subject] {
        Subject::Pods(query) => Some(query),
        Subject::Blockers(_) | Subject::Preferences { .. } => None,
    }
}

/// Whether a term of another pod matches the pod that is placed.
fn is_meant(prepared: &Prepared<'_>, term: &TermFacts) -> bool {
    let own = &prepared.pod().population().facts;
    let none = Labels::default();
    let namespace_labels = prepared.snapshot().objects.namespace(own.namespace).unwrap_or(&none);
    term.matches(own.namespace, namespace_labels, &own.labels)
}

/// The domain of a row; `None` where its node lacks the key.
fn domain(shard: &Shard, row: usize, key: Symbol) -> Option<DomainId> {
    let label = shard.nodes.labels.get(&key)?;
    Some(label.domains[row]).filter(|domain| domain.is_some())
}
