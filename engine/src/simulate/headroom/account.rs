//! Account: what each node has left after the last copy, and why it takes no more.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::outcome::{Headroom, HeadroomEnd, HeadroomStop, NodeHeadroom, ResourceHeadroom};
use crate::filter::node_resources_fit::{allocatable, checked, requested};
use crate::filter::{ReasonCounts, Refusal};
use crate::model::intern::Interner;
use crate::model::resources::Resource;
use crate::place::message;
use crate::place::survey::NodeRefusal;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::simulate::refusals::{self, Pass};
use crate::snapshot::Snapshot;
use crate::snapshot::shard::Shard;

/// The rows considered, those that had room at first, and the number of copies on each.
pub(super) struct Filled<'a> {
    pub(super) among: Vec<RowSet>,
    pub(super) open: &'a [RowSet],
    pub(super) copies: Vec<usize>,
}

/// Accounts for the next copy on a cluster that holds all placed copies; `before` holds none of them.
///
/// Cost: each filter once over every shard, and one look at each node.
pub(super) fn after(plan: &Filtering<'_, '_>, before: &Snapshot, filled: &Filled<'_>) -> Headroom {
    let snapshot = plan.snapshot();
    let kinds = kinds(plan);
    let mut refusals = Refusals::default();
    let mut totals = vec![Total::default(); kinds.len()];
    let (mut nodes, mut is_any_left, mut n_open) = (Vec::new(), false, 0);
    for (shard, among) in snapshot.shards.iter().zip(&filled.among) {
        let (by_row, left) = refusals.of_shard(plan, shard, among);
        is_any_left |= !left.is_empty();
        for row in among.iter() {
            let Some(node) = shard.nodes.node(row) else { continue };
            let n_fit = filled.copies[NodeRow::new(shard.index, row).index()];
            let is_open = n_fit > 0 || filled.open[shard.index].contains(row);
            let free: Vec<i64> = kinds.iter().map(|kind| kind.free(shard, row)).collect();
            let refusal = by_row[row].map(|at| refusals.kinds[at].node_refusal.clone());
            if is_open {
                n_open += 1;
                let then = &before.shards[shard.index];
                for ((total, kind), free) in totals.iter_mut().zip(&kinds).zip(&free) {
                    total.add(kind, kind.free(then, row), *free);
                }
                if let Some(at) = by_row[row] {
                    refusals.kinds[at].n_nodes += 1;
                    refusals.kinds[at].n_fit += n_fit;
                }
            }
            let node = node.facts().name.clone();
            nodes.push(NodeHeadroom { node, n_fit, refusal, free, is_open });
        }
    }
    nodes.sort_unstable_by(|a, b| a.node.cmp(&b.node));
    let names = plan.names();
    let end = if is_any_left {
        HeadroomEnd::LimitReached
    } else {
        HeadroomEnd::Unschedulable(message::tally(names, nodes.len(), &refusals.counts))
    };
    let resources = kinds.iter().zip(totals).map(|(kind, total)| total.headroom(kind, names));
    Headroom {
        generation: before.generation(),
        n_fit: 0,
        end,
        nodes,
        n_open,
        stops: refusals.stops(),
        resources: resources.collect(),
    }
}

/// Distinct refusals of the next copy.
#[derive(Default)]
struct Refusals {
    kinds: Vec<RefusalKind>,
    /// Reasons counted over all considered nodes.
    counts: ReasonCounts,
}

struct RefusalKind {
    plugin: Option<Plugin>,
    refusal: Refusal,
    node_refusal: NodeRefusal,
    /// Nodes that had room at first and now refuse for this reason, and the copies on them.
    n_nodes: usize,
    n_fit: usize,
}

impl Refusals {
    /// The index of the refusal of each row of a shard, and the rows that no filter refuses.
    fn of_shard(
        &mut self,
        plan: &Filtering<'_, '_>,
        shard: &Shard,
        among: &RowSet,
    ) -> ([Option<usize>; ROWS], RowSet) {
        let mut by_row = [None; ROWS];
        let left = refusals::walk(plan, shard, *among, Pass::Production, |refuser, rows| {
            refuser.count(plan, shard, rows, &mut self.counts);
            for row in rows.iter() {
                let refusal = refuser.refusal(plan, shard, row);
                by_row[row] = Some(self.at(plan.names(), refuser.plugin(), refusal));
            }
        });
        (by_row, left)
    }

    fn at(&mut self, names: &Interner, plugin: Option<Plugin>, refusal: Refusal) -> usize {
        let is_it = |kind: &RefusalKind| kind.plugin == plugin && kind.refusal == refusal;
        self.kinds.iter().rposition(is_it).unwrap_or_else(|| {
            let node_refusal = refusals::node_refusal(names, plugin, &refusal);
            self.kinds.push(RefusalKind { plugin, refusal, node_refusal, n_nodes: 0, n_fit: 0 });
            self.kinds.len() - 1
        })
    }

    /// Reasons of the nodes that had room at first.
    fn stops(&self) -> Vec<HeadroomStop> {
        let mut stops: BTreeMap<(Option<Plugin>, &str), (usize, usize)> = BTreeMap::new();
        for kind in self.kinds.iter().filter(|kind| kind.n_nodes > 0) {
            for reason in &kind.node_refusal.reasons {
                let (n_nodes, n_fit) = stops.entry((kind.plugin, reason)).or_default();
                *n_nodes += kind.n_nodes;
                *n_fit += kind.n_fit;
            }
        }
        let stop = |((plugin, reason), (n_nodes, n_fit)): ((_, &str), _)| HeadroomStop {
            plugin,
            reason: reason.to_owned(),
            n_nodes,
            n_fit,
        };
        let mut stops: Vec<HeadroomStop> = stops.into_iter().map(stop).collect();
        stops.sort_by_key(|stop| (Reverse(stop.n_fit), Reverse(stop.n_nodes), stop.reason.clone()));
        stops
    }
}

/// A resource that a copy takes from a node.
struct Kind {
    /// The resource; `None` for the number of pods.
    resource: Option<Resource>,
    request: i64,
}

fn kinds(plan: &Plan<'_>) -> SmallVec<[Kind; 4]> {
    let of = |(resource, request)| Kind { resource: Some(resource), request };
    let slot = Kind { resource: None, request: 1 };
    checked(plan).into_iter().map(of).chain([slot]).collect()
}

impl Kind {
    fn free(&self, shard: &Shard, row: usize) -> i64 {
        let (room, used) = match self.resource {
            Some(resource) => (allocatable(shard, row, resource), requested(shard, row, resource)),
            None => (shard.nodes.allocatable.pods[row], shard.usage.pods[row]),
        };
        room.saturating_sub(used)
    }

    fn name(&self, names: &Interner) -> Arc<str> {
        match self.resource {
            None => "pods".into(),
            Some(Resource::Cpu) => "cpu".into(),
            Some(Resource::Memory) => "memory".into(),
            Some(Resource::EphemeralStorage) => "ephemeral-storage".into(),
            Some(Resource::Scalar(name)) => names.name(name),
        }
    }
}

#[derive(Clone, Default)]
struct Total {
    free_before: i64,
    free_after: i64,
    n_nodes_short: usize,
    n_fit_alone: u64,
}

impl Total {
    fn add(&mut self, kind: &Kind, before: i64, after: i64) {
        self.free_before = self.free_before.saturating_add(before);
        self.free_after = self.free_after.saturating_add(after);
        self.n_nodes_short += usize::from(after < kind.request);
        self.n_fit_alone += u64::try_from(before / kind.request).unwrap_or(0);
    }

    fn headroom(self, kind: &Kind, names: &Interner) -> ResourceHeadroom {
        let Total { free_before, free_after, n_nodes_short, n_fit_alone } = self;
        ResourceHeadroom {
            name: kind.name(names),
            request: kind.request,
            free_before,
            free_after,
            n_nodes_short,
            n_fit_alone,
        }
    }
}
