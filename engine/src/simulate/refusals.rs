//! Refusals: which plugin keeps a pod off each node, found for all nodes of a shard together.

use crate::filter::reason::Reason;
use crate::filter::{Filter, ReasonCounts, Refusal};
use crate::model::intern::Interner;
use crate::place::Evaluation;
use crate::place::promised::refusals_with_promised;
use crate::place::survey::NodeRefusal;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

/// How filters are run.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// Twice where pods of no lower priority are nominated, as in a scheduling attempt (S-NOM-1).
    Production,
    /// Once, and cordoned nodes are refused (S-CAS-1).
    Once,
}

/// The first check that refuses a row.
pub(crate) enum Refuser {
    /// The PreFilter of NodeAffinity, which leaves out all but the nodes that the pod names (S-PF-6).
    Narrowing,
    /// The check for cordoned nodes.
    Cordon,
    /// A filter that refuses the node with its nominated pods added.
    Nominated(Plugin, Refusal),
    /// A filter that refuses the node as it is.
    Filter(&'static Filter),
}

/// Passes each refuser to `take` with those of `rows` that it is the first to refuse; returns the rows that nothing
/// refuses.
///
/// The pod must pass PreFilter, and the filters' counts must have been made. Cost: each filter once over the shard.
pub(crate) fn walk(
    plan: &Filtering<'_, '_>,
    shard: &Shard,
    mut rows: RowSet,
    pass: Pass,
    mut take: impl FnMut(Refuser, &RowSet),
) -> RowSet {
    let mut refuse = |rows: &mut RowSet, refuser: Refuser, left: RowSet| {
        let refused = rows.without(&left);
        if !refused.is_empty() {
            take(refuser, &refused);
        }
        *rows = left;
    };
    let mut named = rows;
    named.intersect(&plan.candidates(shard));
    refuse(&mut rows, Refuser::Narrowing, named);
    match pass {
        Pass::Once => {
            let schedulable = rows.without(&shard.nodes.unschedulable);
            refuse(&mut rows, Refuser::Cordon, schedulable);
        }
        Pass::Production => {
            for (row, (plugin, refusal)) in refusals_with_promised(plan, shard, &rows) {
                let others = rows.without(&[row].into_iter().collect());
                refuse(&mut rows, Refuser::Nominated(plugin, refusal), others);
            }
        }
    }
    for filter in plan.filters() {
        if rows.is_empty() {
            break;
        }
        let mut passing = rows;
        (filter.run)(plan, shard, &mut passing);
        refuse(&mut rows, Refuser::Filter(filter), passing);
    }
    rows
}

/// Counts why these rows of each shard refuse a pod in one pass, and how many do not; the pod must pass PreFilter.
pub(crate) fn count(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    among: &[RowSet],
) -> (ReasonCounts, u32) {
    plan.filtering(evaluation, |plan, _| {
        let (mut counts, mut n_open) = (ReasonCounts::default(), 0);
        for (shard, rows) in plan.snapshot().shards.iter().zip(among) {
            let open = walk(plan, shard, *rows, Pass::Once, |refuser, refused| {
                refuser.count(plan, shard, refused, &mut counts);
            });
            n_open += open.len();
        }
        (counts, n_open)
    })
}

impl Refuser {
    /// The plugin that refuses; `None` where a PreFilter result left the node out.
    pub(crate) fn plugin(&self) -> Option<Plugin> {
        match self {
            Refuser::Narrowing => None,
            Refuser::Cordon => Some(Plugin::NodeUnschedulable),
            Refuser::Nominated(plugin, _) => Some(*plugin),
            Refuser::Filter(filter) => Some(filter.plugin),
        }
    }

    /// The refusal of one row, which must be among those passed with this refuser.
    pub(crate) fn refusal(&self, plan: &Plan<'_>, shard: &Shard, row: usize) -> Refusal {
        match self {
            Refuser::Narrowing => Refusal::of(Reason::PreFilterNodeAffinity),
            Refuser::Cordon => Refusal::of(Reason::NodeUnschedulable),
            Refuser::Nominated(_, refusal) => refusal.clone(),
            Refuser::Filter(filter) => filter.refusal(plan, shard, row),
        }
    }

    /// Counts the reasons of all these rows.
    pub(crate) fn count(
        &self,
        plan: &Plan<'_>,
        shard: &Shard,
        rows: &RowSet,
        counts: &mut ReasonCounts,
    ) {
        match self {
            Refuser::Narrowing => counts.add(Reason::PreFilterNodeAffinity, rows.len()),
            Refuser::Cordon => counts.add(Reason::NodeUnschedulable, rows.len()),
            Refuser::Nominated(_, refusal) => {
                refusal.reasons.iter().for_each(|reason| counts.add(*reason, rows.len()));
            }
            Refuser::Filter(filter) => filter.count(plan, shard, rows, counts),
        }
    }
}

/// The refusal with its reasons as text.
pub(crate) fn node_refusal(
    names: &Interner,
    plugin: Option<Plugin>,
    refusal: &Refusal,
) -> NodeRefusal {
    NodeRefusal { plugin, code: refusal.code, reasons: refusal.texts(names) }
}
