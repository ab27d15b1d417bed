//! Spread: state of PodTopologySpread for one node. Rules: S-PTS-7, S-PTS-9 to S-PTS-11.

use smallvec::SmallVec;

use crate::census::demand::HardConstraint;
use crate::filter::Refusal;
use crate::filter::reason::Reason;
use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::prepared::Prepared;
use crate::rows::NodeRow;
use crate::snapshot::shard::Shard;

/// Changes of the node's counted pods since the census, for each constraint that counts the node.
pub(super) struct Spread<'p> {
    namespace: Symbol,
    constraints: SmallVec<[Changed<'p>; 2]>,
}

struct Changed<'p> {
    constraint: &'p HardConstraint,
    counts_node: bool,
    by: i64,
}

pub(super) fn applies(prepared: &Prepared<'_>) -> bool {
    !prepared.demand().hard.is_empty()
}

impl<'p> Spread<'p> {
    pub(super) fn on(prepared: &'p Prepared<'_>, row: NodeRow) -> Spread<'p> {
        let changed = |constraint: &'p HardConstraint| {
            let counts_node = prepared.census().sum(constraint.sum).counts(row);
            Changed { constraint, counts_node, by: 0 }
        };
        Spread {
            namespace: prepared.pod().population().facts.namespace,
            constraints: prepared.demand().hard.iter().map(changed).collect(),
        }
    }

    /// Adds or removes a pod. Unlike in the census, pods that are being deleted count, and an empty selector matches
    /// (S-PTS-9).
    pub(super) fn change(&mut self, pod: &Pod, by: i64) {
        let population = &pod.population().facts;
        if population.namespace != self.namespace {
            return;
        }
        for changed in self.constraints.iter_mut().filter(|changed| changed.counts_node) {
            let selector = changed.constraint.selector.as_ref();
            if selector.is_some_and(|selector| selector.matches(&population.labels)) {
                changed.by += by;
            }
        }
    }

    /// The refusal of the first constraint that fails (S-PTS-7).
    pub(super) fn refusal(
        &self,
        prepared: &Prepared<'_>,
        shard: &Shard,
        row: usize,
    ) -> Option<Refusal> {
        let reasons = self.constraints.iter().map(|c| c.reason(prepared, shard, row));
        reasons.flatten().next().map(Refusal::of)
    }
}

impl Changed<'_> {
    fn reason(&self, prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Option<Reason> {
        let sums = prepared.census().sum(self.constraint.sum);
        let label = shard.nodes.labels.get(&sums.key());
        let Some(label) = label.filter(|label| label.rows.contains(row)) else {
            return Some(Reason::MissingTopologyLabel);
        };
        let domain = label.domains[row];
        let count = sums.of(domain) + self.by;
        let (n_domains, smallest) = sums.smallest();
        let smallest = if self.counts_node { sums.smallest_with(domain, count) } else { smallest };
        let skew = count + self.constraint.own - self.constraint.minimum(n_domains, smallest);
        (skew > self.constraint.max_skew).then_some(Reason::PodTopologySpread)
    }
}
