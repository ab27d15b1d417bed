//! Refusals: who keeps a pod off nodes, found for all of them together.

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

/// Which filters are asked how.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// As in an attempt: twice where pods of no lower priority are nominated (S-NOM-1).
    Production,
    /// Once, and never on a cordoned node (S-CAS-1).
    Once,
}

/// Who refuses rows first.
pub(crate) enum Refuser {
    /// NodeAffinity's PreFilter, which leaves out all but the nodes that the pod names (S-PF-6).
    Narrowing,
    /// The node is cordoned, and that is enough.
    Cordon,
    /// A filter, once the nominated pods are there.
    Nominated(Plugin, Refusal),
    /// A filter.
    Filter(&'static Filter),
}

/// Hands on who refuses rows, and those of `rows` that it is the first to refuse; answers the rows that nobody does.
///
/// No PreFilter refuses the pod as a whole, and what filters want counted is counted. Cost: each filter once over the shard.
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

/// Counts why these rows of each shard refuse a pod in one pass, and how many do not; no PreFilter refuses it as a whole.
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
    /// The plugin; `None` where a PreFilter result left the node out.
    pub(crate) fn plugin(&self) -> Option<Plugin> {
        match self {
            Refuser::Narrowing => None,
            Refuser::Cordon => Some(Plugin::NodeUnschedulable),
            Refuser::Nominated(plugin, _) => Some(*plugin),
            Refuser::Filter(filter) => Some(filter.plugin),
        }
    }

    /// Why it refuses a row of those it was handed on with.
    pub(crate) fn refusal(&self, plan: &Plan<'_>, shard: &Shard, row: usize) -> Refusal {
        match self {
            Refuser::Narrowing => Refusal::of(Reason::PreFilterNodeAffinity),
            Refuser::Cordon => Refusal::of(Reason::NodeUnschedulable),
            Refuser::Nominated(_, refusal) => refusal.clone(),
            Refuser::Filter(filter) => filter.refusal(plan, shard, row),
        }
    }

    /// Counts the reasons of all of them.
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

/// A refusal as it is told.
pub(crate) fn told(names: &Interner, plugin: Option<Plugin>, refusal: &Refusal) -> NodeRefusal {
    NodeRefusal { plugin, code: refusal.code, reasons: refusal.texts(names) }
}
