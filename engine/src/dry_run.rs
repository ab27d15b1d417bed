//! DryRun: filters run on a node with some pods removed and others added. Rules: S-NOM-1 to S-NOM-3, S-PRE-8, S-PRE-9,
//! S-PRE-14.
//!
//! Each filter that reads pods has its state of the node in a file here, updated pod by pod; the verdicts of other
//! filters do not depend on the node's pods.

mod affinity;
mod limits;
mod ports;
mod restrictions;
pub(crate) mod room;
mod spread;

use smallvec::SmallVec;

use crate::filter::ledger_fence::FENCE;
use crate::filter::{Filter, NodePods, Refusal};
use crate::model::Pod;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;
use affinity::Affinity;
use limits::Limits;
use ports::Ports;
use restrictions::Restrictions;
use room::{Room, Wanted};
use spread::Spread;

/// The pod-reading filters of a request, ready to be run on any node.
pub(crate) struct DryRuns<'p, 'a> {
    plan: &'p Filtering<'p, 'a>,
    /// Requests that are checked; `None` where the policy leaves NodeResourcesFit out.
    wanted: Option<Wanted>,
    has_ports: bool,
    has_restrictions: bool,
    has_limits: bool,
    has_spread: bool,
    has_affinity: bool,
}

/// State of one node in a dry run.
pub(crate) struct DryRun<'p, 'a> {
    runs: &'p DryRuns<'p, 'a>,
    shard: &'p Shard,
    row: usize,
    room: Room,
    ports: Option<Ports>,
    restrictions: Option<Restrictions<'p>>,
    limits: Option<Limits<'p>>,
    spread: Option<Spread<'p>>,
    affinity: Option<Affinity<'p>>,
}

/// The first filter that refuses a node, and why.
pub(crate) type Refused = (Plugin, Refusal);

impl<'p, 'a> DryRuns<'p, 'a> {
    pub(crate) fn new(plan: &'p Filtering<'p, 'a>) -> DryRuns<'p, 'a> {
        let enabled = plan.policy().spec().filter.iter().filter_map(|p| Filter::of(*p));
        let read: SmallVec<[NodePods; 13]> = enabled.map(|filter| filter.reads).collect();
        let has = |what| read.contains(&what);
        DryRuns {
            plan,
            wanted: has(NodePods::Requests).then(|| Wanted::of(plan)),
            has_ports: has(NodePods::HostPorts) && ports::applies(plan),
            has_restrictions: has(NodePods::ExclusiveVolumes) && restrictions::applies(plan),
            has_limits: has(NodePods::AttachedVolumes) && limits::applies(plan),
            has_spread: has(NodePods::SpreadCounts) && spread::applies(plan),
            has_affinity: has(NodePods::Affinity) && affinity::applies(plan),
        }
    }

    /// Requests that are checked, if no other filter depends on pods.
    pub(crate) fn resources_alone(&self) -> Option<&Wanted> {
        let is_more = self.has_ports
            || self.has_restrictions
            || self.has_limits
            || self.has_spread
            || self.has_affinity;
        self.wanted.as_ref().filter(|_| !is_more)
    }

    /// The rows among `rows` that pass every filter which does not read pods.
    pub(crate) fn passing_whatever_pods(&self, shard: &Shard, mut rows: RowSet) -> RowSet {
        for filter in self.plan.filters().iter().filter(|f| f.reads == NodePods::Nothing) {
            (filter.run)(self.plan, shard, &mut rows);
        }
        rows
    }

    /// A dry run that starts with the node as it is.
    pub(crate) fn on(&'p self, shard: &'p Shard, row: usize) -> DryRun<'p, 'a> {
        let plan = self.plan;
        let at = NodeRow::new(shard.index, row);
        DryRun {
            runs: self,
            shard,
            row,
            room: self.wanted.as_ref().map_or_else(Room::default, |wanted| wanted.room(shard, row)),
            ports: self.has_ports.then(|| Ports::on(plan, shard, row)),
            restrictions: restrictions::of(plan)
                .filter(|_| self.has_restrictions)
                .map(|found| Restrictions::on(plan, found, at)),
            limits: limits::of(plan)
                .filter(|_| self.has_limits)
                .map(|found| Limits::on(plan, found, shard, row)),
            spread: self.has_spread.then(|| Spread::on(plan, at)),
            affinity: self.has_affinity.then(|| Affinity::on(plan)),
        }
    }
}

impl DryRun<'_, '_> {
    /// Adds a pod to the node.
    pub(crate) fn add(&mut self, pod: &Pod) {
        self.change(pod, 1);
    }

    /// Removes a pod from the node.
    pub(crate) fn remove(&mut self, pod: &Pod) {
        self.change(pod, -1);
    }

    fn change(&mut self, pod: &Pod, by: i64) {
        if let Some(wanted) = &self.runs.wanted {
            self.room.change(wanted, pod.footprint(), -by);
        }
        if let Some(ports) = &mut self.ports {
            ports.change(self.runs.plan, pod, by);
        }
        if let Some(restrictions) = &mut self.restrictions {
            restrictions.change(pod, by);
        }
        if let Some(limits) = &mut self.limits {
            limits.change(pod, by);
        }
        if let Some(spread) = &mut self.spread {
            spread.change(pod, by);
        }
        if let Some(affinity) = &mut self.affinity {
            affinity.change(pod, by);
        }
    }

    /// Whether every filter that reads pods passes, both with and without the pods nominated to the node (S-NOM-1).
    pub(crate) fn passes(&mut self, nominated: &[&Pod]) -> bool {
        if nominated.is_empty() {
            return self.passes_once();
        }
        nominated.iter().for_each(|pod| self.add(pod));
        let passes = self.passes_once();
        nominated.iter().for_each(|pod| self.remove(pod));
        passes && self.passes_once()
    }

    fn passes_once(&self) -> bool {
        let plan = self.runs.plan;
        self.runs.wanted.as_ref().is_none_or(|wanted| self.room.fits(wanted))
            && self.ports.as_ref().is_none_or(Ports::are_free)
            && self.restrictions.as_ref().is_none_or(|r| r.refusal().is_none())
            && self.limits.as_ref().is_none_or(Limits::are_kept)
            && self.spread.as_ref().is_none_or(|s| s.refusal(plan, self.shard, self.row).is_none())
            && self.affinity.as_ref().is_none_or(|a| a.refusal(self.shard, self.row).is_none())
    }

    /// The first refusal in the policy's order with the nominated pods, or else without them (S-NOM-1).
    pub(crate) fn refusal(&mut self, nominated: &[&Pod]) -> Option<Refused> {
        if !nominated.is_empty() {
            nominated.iter().for_each(|pod| self.add(pod));
            let refusal = self.refusal_once();
            nominated.iter().for_each(|pod| self.remove(pod));
            if refusal.is_some() {
                return refusal;
            }
        }
        self.refusal_once()
    }

    fn refusal_once(&self) -> Option<Refused> {
        let of_policy = self.runs.plan.policy().spec().filter.iter();
        let of_policy = of_policy.flat_map(|plugin| Filter::all_of(*plugin));
        std::iter::once(&FENCE)
            .chain(of_policy)
            .filter_map(|filter| Some((filter.plugin, self.refusal_of(filter)?)))
            .inspect(|(plugin, refusal)| {
                debug_assert!(refusal.reasons.iter().all(|reason| reason.plugin() == *plugin));
            })
            .next()
    }

    fn refusal_of(&self, filter: &Filter) -> Option<Refusal> {
        let plan = self.runs.plan;
        match filter.reads {
            NodePods::Nothing => self.refusal_whatever_pods(filter),
            NodePods::Requests => {
                self.room.refusal(self.runs.wanted.as_ref()?, self.shard, self.row)
            }
            NodePods::HostPorts => self.ports.as_ref()?.refusal(),
            NodePods::ExclusiveVolumes => self.restrictions.as_ref()?.refusal(),
            NodePods::AttachedVolumes => self.limits.as_ref()?.refusal(plan),
            NodePods::SpreadCounts => self.spread.as_ref()?.refusal(plan, self.shard, self.row),
            NodePods::Affinity => self.affinity.as_ref()?.refusal(self.shard, self.row),
        }
    }

    /// The verdict of a filter that does not read the node's pods.
    fn refusal_whatever_pods(&self, filter: &Filter) -> Option<Refusal> {
        let plan = self.runs.plan;
        let is_it = |planned: &&&Filter| {
            planned.plugin == filter.plugin
                && planned.scope.is_row() == filter.scope.is_row()
                && planned.is_fence() == filter.is_fence()
        };
        let filter = plan.filters().iter().find(is_it)?;
        let mut rows: RowSet = [self.row].into_iter().collect();
        (filter.run)(plan, self.shard, &mut rows);
        rows.is_empty().then(|| filter.refusal(plan, self.shard, self.row))
    }
}
