//! Look: the obstacles on one node, by plugin and part.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::obstacle::{
    MAX_OBSTACLES, Obstacle, Obstacles, TaintEffect, is_condition, own_constraints,
};
use crate::census::demand::Demand;
use crate::filter::Filter;
use crate::filter::node_resources_fit::{checked, free};
use crate::filter::pod_topology_spread::highest_count;
use crate::model::intern::{Interner, Symbol};
use crate::model::label_selector::value_of;
use crate::model::port::HostPort;
use crate::model::selector::Term;
use crate::model::taint::Effect;
use crate::model::volume::PodClaim;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::matching::matching_term;
use crate::snapshot::shard::Shard;

/// The rows with few obstacles, grouped by these. Rows with an obstacle that no change can remove are left out.
///
/// Cost: each filter once over every shard, and one look at each row.
pub(super) fn by_obstacles(plan: &Filtering<'_, '_>) -> BTreeMap<Obstacles, Vec<NodeRow>> {
    let mut found: BTreeMap<Obstacles, Vec<NodeRow>> = BTreeMap::new();
    for shard in &plan.snapshot().shards {
        let candidates = plan.candidates(shard);
        let refused: Vec<(&Filter, RowSet)> = plan
            .filters()
            .iter()
            .map(|filter| {
                let mut passing = candidates;
                (filter.run)(plan, shard, &mut passing);
                (*filter, candidates.without(&passing))
            })
            .collect();
        for row in candidates.iter() {
            let mut refusing = refused.iter().filter(|(_, rows)| rows.contains(row));
            let mut look = Look { plan, shard, row, found: Obstacles::new() };
            if refusing.all(|(filter, _)| look.past(filter)) && !look.found.is_empty() {
                look.found.sort_unstable();
                found.entry(look.found).or_default().push(NodeRow::new(shard.index, row));
            }
        }
    }
    found
}

/// A look at one row.
pub(super) struct Look<'p, 'a> {
    pub(super) plan: &'p Filtering<'p, 'a>,
    pub(super) shard: &'p Shard,
    pub(super) row: usize,
    pub(super) found: Obstacles,
}

impl Look<'_, '_> {
    /// Records why a filter refuses the row; returns whether a change can remove that.
    fn past(&mut self, filter: &Filter) -> bool {
        if filter.is_fence() { self.note(Obstacle::Fence) } else { self.at(filter.plugin) }
    }

    /// Records why a plugin refuses the row; returns whether a change can remove that.
    pub(super) fn at(&mut self, plugin: Plugin) -> bool {
        match plugin {
            Plugin::NodeUnschedulable => self.note(Obstacle::Cordon),
            Plugin::TaintToleration => self.taints(),
            Plugin::NodeAffinity => self.node_affinity(),
            Plugin::NodePorts => self.ports(),
            Plugin::NodeResourcesFit => self.room(),
            Plugin::PodTopologySpread => self.spread(),
            Plugin::InterPodAffinity => self.pod_affinity(),
            Plugin::VolumeRestrictions => self.volumes_in_use(),
            Plugin::NodeVolumeLimits => self.volume_limits(),
            Plugin::VolumeBinding => self.claims(),
            Plugin::VolumeZone => self.volume_zones(),
            Plugin::NodeName
            | Plugin::DynamicResources
            | Plugin::NodeDeclaredFeatures
            | Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::DefaultPreemption
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder => false,
        }
    }

    /// Adds an obstacle; returns whether there are still few.
    fn note(&mut self, obstacle: Obstacle) -> bool {
        if !self.found.contains(&obstacle) {
            if self.found.len() == MAX_OBSTACLES {
                return false;
            }
            self.found.push(obstacle);
        }
        true
    }

    fn names(&self) -> &Interner {
        self.plan.names()
    }

    fn taints(&mut self) -> bool {
        let Some(node) = self.shard.nodes.node(self.row) else {
            return false;
        };
        let tolerations = &self.plan.shape().tolerations;
        let mut by_text: SmallVec<[(Symbol, Symbol, Option<TaintEffect>); 2]> = SmallVec::new();
        for taint in node.facts().taints.iter().filter(|taint| !tolerations.tolerates(taint)) {
            let effect = match taint.effect {
                Effect::NoSchedule => TaintEffect::NoSchedule,
                Effect::NoExecute => TaintEffect::NoExecute,
                Effect::PreferNoSchedule => continue,
            };
            let known = by_text.iter_mut().find(|(k, v, _)| (*k, *v) == (taint.key, taint.value));
            match known {
                Some((_, _, known)) => *known = known.filter(|known| *known == effect),
                None => by_text.push((taint.key, taint.value, Some(effect))),
            }
        }
        by_text.into_iter().all(|(key, value, effect)| {
            if key == Symbol::UNSCHEDULABLE_TAINT && node.facts().unschedulable {
                self.note(Obstacle::Cordon)
            } else if is_condition(&self.names().name(key)) {
                self.note(Obstacle::Condition(key))
            } else {
                self.note(Obstacle::Taint { key, value, effect })
            }
        })
    }

    /// Records the node selector's pairs that do not match, and the requirement that the nearest term lacks.
    fn node_affinity(&mut self) -> bool {
        let plan = self.plan;
        let (nodes, row): (_, RowSet) = (&self.shard.nodes, [self.row].into_iter().collect());
        if let Some(added) = plan.added_required()
            && !added.terms.iter().any(|t| !matching_term(t, nodes, row, self.names()).is_empty())
        {
            return false;
        }
        let Some(node) = nodes.node(self.row) else {
            return false;
        };
        let labels = &node.facts().labels;
        let pairs = plan.shape().node_selector.as_deref().unwrap_or(&[]);
        let pairs = pairs.iter().enumerate();
        let failing = pairs.filter(|(_, (key, value))| value_of(labels, *key) != Some(*value));
        let failing: SmallVec<[usize; 2]> = failing.map(|(i, _)| i).collect();
        let lacking = self.lacking_requirements(&row);
        match (failing.as_slice(), &lacking) {
            ([pair], None) => self.note(Obstacle::Pair(*pair)),
            ([], Some(Some((term, requirement)))) => {
                self.note(Obstacle::Requirement { term: *term, requirement: *requirement })
            }
            (failing, lacking) => self.note(Obstacle::NodeConstraints {
                node_selector: !failing.is_empty(),
                node_affinity: lacking.is_some(),
            }),
        }
    }

    /// `None` where required node affinity matches; else the position of the single requirement on labels that fails in
    /// the first term where nothing else fails, if there is such a term.
    fn lacking_requirements(&self, row: &RowSet) -> Option<Option<(usize, usize)>> {
        let required = self.plan.shape().required_affinity.as_ref()?;
        let (nodes, names) = (&self.shard.nodes, self.names());
        let mut nearest = None;
        for (i, term) in required.terms.iter().enumerate() {
            let holds = |labels: &[_], fields: &[_]| {
                let part = Term {
                    labels: labels.iter().cloned().collect(),
                    fields: fields.iter().cloned().collect(),
                };
                !matching_term(&part, nodes, *row, names).is_empty()
            };
            let failing = term.labels.iter().enumerate();
            let failing = failing.filter(|(_, r)| !holds(std::slice::from_ref(*r), &[]));
            let failing: SmallVec<[usize; 2]> = failing.map(|(j, _)| j).collect();
            match (failing.as_slice(), holds(&[], &term.fields)) {
                ([], true) => return None,
                ([one], true) => nearest = nearest.or(Some((i, *one))),
                _ => {}
            }
        }
        Some(nearest)
    }

    fn ports(&mut self) -> bool {
        let (wanted, row) = (&self.plan.shape().host_ports, self.row);
        let used = &self.shard.usage.ports;
        let is_taken = |wanted: &HostPort| {
            used.iter().any(|(used, rows)| rows.contains(row) && used.conflicts_with(wanted))
        };
        let taken = wanted.iter().enumerate().filter(|(_, wanted)| is_taken(wanted));
        let taken = taken.fold(0, |ports, (i, _)| ports | 1_u64.checked_shl(i as u32).unwrap_or(0));
        // Ports beyond the first 64 have no bit, so `taken` may be 0 for a pod with more.
        taken != 0 && self.note(Obstacle::Ports(taken))
    }

    fn room(&mut self) -> bool {
        let (shard, row) = (self.shard, self.row);
        let (on_node, allowed) = (shard.usage.pods[row], shard.nodes.allocatable.pods[row]);
        if on_node > allowed || (on_node == allowed && !self.note(Obstacle::Full)) {
            return false;
        }
        checked(self.plan).into_iter().enumerate().all(|(i, (resource, request))| {
            request <= free(shard, row, resource) || self.note(Obstacle::Short(i))
        })
    }

    fn spread(&mut self) -> bool {
        let (plan, shard, row) = (self.plan, self.shard, self.row);
        let own = own_constraints(self.plan);
        plan.demand().hard.iter().enumerate().all(|(i, constraint)| {
            let sums = plan.census().sum(constraint.sum);
            let domain = shard.nodes.domain_of(row, sums.key());
            let obstacle = match own.get(i) {
                _ if domain.is_some() && sums.of(domain) <= highest_count(plan, constraint) => {
                    return true;
                }
                Some(at) if domain.is_some() => Obstacle::Skew(*at),
                Some(at) => Obstacle::Unlabelled(*at),
                None => return false,
            };
            self.note(obstacle)
        })
    }

    fn pod_affinity(&mut self) -> bool {
        let plan = self.plan;
        let (demand, census): (&Demand, _) = (plan.demand(), plan.census());
        let near = || demand.affinity.sums.iter().map(|sum| census.sum(*sum));
        let domain = |key| self.shard.nodes.domain_of(self.row, key);
        let is_first = demand.affinity.matches_itself && near().all(|sum| sum.total() == 0);
        let is_near = near().all(|sum| {
            let domain = domain(sum.key());
            domain.is_some() && (is_first || sum.of(domain) > 0)
        });
        let occupied = |sum: usize| {
            let (sum, domain) = (census.sum(sum), domain(census.sum(sum).key()));
            (domain.is_some() && sum.of(domain) > 0).then_some(domain)
        };
        let far = demand.anti_affinity.iter().enumerate();
        let far =
            far.filter_map(|(term, sum)| Some(Obstacle::Far { term, domain: occupied(*sum)? }));
        let blocked = demand.blockers.iter();
        let blocked = blocked
            .filter_map(|sum| Some(Obstacle::Blocked { sum: *sum, domain: occupied(*sum)? }));
        let near = (!is_near).then_some(Obstacle::Near);
        let all: SmallVec<[Obstacle; 4]> = near.into_iter().chain(far).chain(blocked).collect();
        all.into_iter().all(|obstacle| self.note(obstacle))
    }

    /// Records each claim of these names, which are in the pod's namespace.
    fn note_claims(&mut self, names: impl Iterator<Item = Arc<str>>) -> bool {
        let claims = self.plan.pod().volumes().map_or(&[][..], |volumes| &volumes.claims);
        let mut is_any = false;
        for name in names {
            let at = claims.iter().position(|claim| claim.key.name == name);
            if !at.is_some_and(|at| self.note(Obstacle::Claim(at))) {
                return false;
            }
            is_any = true;
        }
        is_any
    }

    fn claims(&mut self) -> bool {
        let Some(found) = self.plan.volumes().found() else {
            return false;
        };
        let on_row = found.binding.claims_on(self.shard, self.row);
        let unmet = on_row.into_iter().filter(|claim| !claim.standing.is_met());
        self.note_claims(unmet.map(|claim| claim.claim.key.name.clone()))
    }

    fn volume_zones(&mut self) -> bool {
        let Some(found) = self.plan.volumes().found() else {
            return false;
        };
        let outside = found.zones.on_row(self.shard, self.row).filter(|zone| !zone.is_met);
        self.note_claims(outside.map(|zone| zone.claim.name.clone()))
    }

    fn volumes_in_use(&mut self) -> bool {
        let plan = self.plan;
        let (Some(found), Some(volumes)) = (plan.volumes().found(), plan.pod().volumes()) else {
            return false;
        };
        let (storage, row) = (&plan.snapshot().storage, NodeRow::new(self.shard.index, self.row));
        let is_here = |disk| storage.disks.conflicts(disk).any(|used| used == row);
        let disks = volumes.disks.iter().enumerate().filter(|(_, disk)| is_here(disk));
        let disks = disks.map(|(i, _)| Obstacle::DiskInUse(i));
        let is_used = |claim: &PodClaim| {
            found.restrictions.exclusive.contains(&claim.key) && storage.claims.is_used(&claim.key)
        };
        let claims = volumes.claims.iter().enumerate().filter(|(_, claim)| is_used(claim));
        let claims = claims.map(|(i, _)| Obstacle::ClaimInUse(i));
        let all: SmallVec<[Obstacle; 4]> = disks.chain(claims).collect();
        !all.is_empty() && all.into_iter().all(|obstacle| self.note(obstacle))
    }

    fn volume_limits(&mut self) -> bool {
        let plan = self.plan;
        let Some(found) = plan.volumes().found().filter(|found| found.limits.refusal.is_none())
        else {
            return false;
        };
        let here = NodeRow::new(self.shard.index, self.row);
        let demands = found.limits.demands.iter().enumerate();
        let storage = &plan.snapshot().storage;
        let full = demands.filter(|(_, demand)| demand.on_row(storage, here).excess() > 0);
        let full: SmallVec<[usize; 2]> = full.map(|(i, _)| i).collect();
        !full.is_empty() && full.into_iter().all(|i| self.note(Obstacle::VolumeLimit(i)))
    }
}
