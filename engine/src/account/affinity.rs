//! InterPodAffinity: the pod's required terms and the required anti-affinity of other pods, with the pods that match.
//! Rule: S-IPA-7.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::at::{At, Judged, keep_first};
use super::comparison::Compared;
use super::spread::domain_name;
use super::wording::pods_of;
use crate::domain::DomainId;
use crate::model::PodKey;
use crate::model::pod_affinity::{PodAffinity, Term};
use crate::plan::counted::Filtering;

/// Facts of a request that the comparisons of all nodes share.
pub(super) struct Shared {
    /// The selectors of required pod affinity as text, in spec order.
    near: Vec<Arc<str>>,
    /// The selectors of required pod anti-affinity as text, in spec order.
    far: Vec<Arc<str>>,
    pods: PodsByDomain,
}

impl Shared {
    pub(super) fn of(plan: &Filtering<'_, '_>) -> Shared {
        let near = selectors(plan, |own| &own.required);
        let far = selectors(plan, |own| &own.anti_required);
        Shared { near, far, pods: PodsByDomain::default() }
    }
}

/// The first few pods by name that count for a sum, by domain; looked up for all domains at once, the first time.
#[derive(Default)]
struct PodsByDomain(FxHashMap<usize, FxHashMap<DomainId, Vec<PodKey>>>);

impl PodsByDomain {
    /// Cost: at first one step for each pod of the rows that count for the sum.
    fn of(&mut self, plan: &Filtering<'_, '_>, sum: usize, domain: DomainId) -> Vec<PodKey> {
        let of_sum = self.0.entry(sum).or_insert_with(|| by_domain(plan, sum));
        of_sum.get(&domain).cloned().unwrap_or_default()
    }
}

fn by_domain(plan: &Filtering<'_, '_>, sum: usize) -> FxHashMap<DomainId, Vec<PodKey>> {
    let demand = plan.demand();
    let by = &demand.sums[sum];
    let subject = &demand.subjects[by.subject];
    let mut found: FxHashMap<DomainId, Vec<PodKey>> = FxHashMap::default();
    for shard in &plan.snapshot().shards {
        let Some(label) = shard.nodes.labels.get(&by.key) else {
            continue;
        };
        let weights = plan.census().on_shard(by.subject, shard).iter().enumerate();
        for (row, _) in weights.filter(|(row, weight)| **weight > 0 && label.rows.contains(*row)) {
            let first = found.entry(label.domains[row]).or_default();
            let placed = shard.pods.of(row).iter().map(|placed| &placed.pod);
            for pod in placed.filter(|pod| subject.counts(pod, &demand.terms)) {
                keep_first(first, pod.key());
            }
        }
    }
    found
}

pub(super) fn compare(plan: &Filtering<'_, '_>, shared: &mut Shared, at: At<'_>) -> Vec<Judged> {
    let Shared { near: near_selectors, far: far_selectors, pods } = shared;
    let mut judged = near(plan, near_selectors, at);
    judged.extend(far(plan, far_selectors, pods, at));
    judged.extend(blockers(plan, pods, at));
    judged
}

fn near(plan: &Filtering<'_, '_>, selectors: &[Arc<str>], at: At<'_>) -> Vec<Judged> {
    let (affinity, census) = (&plan.demand().affinity, plan.census());
    let is_first =
        affinity.matches_itself && affinity.sums.iter().all(|sum| census.total(*sum) == 0);
    let judged = affinity.sums.iter().zip(selectors).enumerate().map(|(term, (sum, selector))| {
        let sums = census.sum(*sum);
        let n_pods = sums.of(at.shard.nodes.domain_of(at.row, sums.key()));
        let domain = domain_name(plan, at.shard, at.row, sums.key());
        let is_met = domain.is_some() && (is_first || n_pods > 0);
        let topology_key = plan.names().name(sums.key());
        let n_anywhere = sums.total();
        let selector = selector.clone();
        let compared =
            Compared::Affinity { term, topology_key, selector, domain, n_pods, n_anywhere };
        (is_met, compared)
    });
    judged.collect()
}

fn far(
    plan: &Filtering<'_, '_>,
    selectors: &[Arc<str>],
    pods: &mut PodsByDomain,
    at: At<'_>,
) -> Vec<Judged> {
    let sums = plan.demand().anti_affinity.iter();
    let judged = sums.zip(selectors).enumerate().map(|(term, (sum, selector))| {
        let sums = plan.census().sum(*sum);
        let id = at.shard.nodes.domain_of(at.row, sums.key());
        let n_pods = sums.of(id);
        let pods = if n_pods > 0 { pods.of(plan, *sum, id) } else { Vec::new() };
        let domain = domain_name(plan, at.shard, at.row, sums.key());
        let topology_key = plan.names().name(sums.key());
        let selector = selector.clone();
        let compared =
            Compared::AntiAffinity { term, topology_key, selector, domain, n_pods, pods };
        (n_pods == 0, compared)
    });
    judged.collect()
}

fn blockers(plan: &Filtering<'_, '_>, pods: &mut PodsByDomain, at: At<'_>) -> Vec<Judged> {
    let judged = plan.demand().blockers.iter().map(|sum| {
        let sums = plan.census().sum(*sum);
        let id = at.shard.nodes.domain_of(at.row, sums.key());
        let n_terms = sums.of(id);
        let pods = if n_terms > 0 { pods.of(plan, *sum, id) } else { Vec::new() };
        let domain = domain_name(plan, at.shard, at.row, sums.key());
        let topology_key = plan.names().name(sums.key());
        (n_terms == 0, Compared::ExistingAntiAffinity { topology_key, domain, n_terms, pods })
    });
    judged.collect()
}

/// The selectors of some of the pod's terms as text, in spec order.
fn selectors(
    plan: &Filtering<'_, '_>,
    list: impl Fn(&PodAffinity) -> &[Arc<Term>],
) -> Vec<Arc<str>> {
    let own = plan.shape().pod_affinity.as_deref();
    let terms = own.map_or(&[][..], |own| list(own));
    let names = plan.names();
    terms.iter().map(|term| pods_of(term.facts.selector.as_ref(), names).into()).collect()
}
