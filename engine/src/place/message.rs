//! The failure message: counted reasons why no node is available. Rules: S-ERR-1 to S-ERR-4.

use super::decision::{CountedReason, Unschedulable};
use super::promised::refusals_with_promised;
use crate::filter::ReasonCounts;
use crate::filter::reason::Reason;
use crate::model::intern::Interner;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plugin::{Plugin, StatusCode};

/// Counts every reason over all nodes (S-ERR-3), for a pod without a feasible node.
pub(crate) fn unschedulable(plan: &Filtering<'_, '_>) -> Unschedulable {
    let mut counts = ReasonCounts::default();
    for shard in &plan.snapshot().shards {
        let mut rows = plan.candidates(shard);
        let left_out = shard.nodes.rows.without(&rows).len();
        counts.add(Reason::PreFilterNodeAffinity, left_out);
        for (row, (_, refusal)) in refusals_with_promised(plan, shard, &rows) {
            refusal.reasons.iter().for_each(|reason| counts.add(*reason, 1));
            rows.remove(row);
        }
        for filter in plan.filters() {
            if rows.is_empty() {
                break;
            }
            let before = rows;
            (filter.run)(plan, shard, &mut rows);
            filter.count(plan, shard, &before.without(&rows), &mut counts);
        }
        debug_assert!(rows.is_empty());
    }
    from_counts(plan, &counts)
}

/// The message where a PreFilter plugin refused the pod as a whole, for any of this many nodes (S-ERR-2).
pub(crate) fn refused_by_pre_filter(
    n_nodes: usize,
    refusal: (Plugin, StatusCode, Vec<String>),
) -> Unschedulable {
    let message = format!("0/{n_nodes} nodes are available: {}.", refusal.2.join(", "));
    Unschedulable {
        message,
        reasons: Vec::new(),
        pre_filter: Some(refusal),
        n_nodes: n_nodes as u32,
    }
}

/// The message of `COUNT REASON` entries, sorted as text (S-ERR-4).
pub(crate) fn from_counts(plan: &Plan<'_>, counts: &ReasonCounts) -> Unschedulable {
    tally(plan.names(), plan.n_nodes(), counts)
}

/// The message and its counted reasons for any number of nodes.
pub(crate) fn tally(names: &Interner, n_nodes: usize, counts: &ReasonCounts) -> Unschedulable {
    let counted = counts.iter().map(|(reason, n_nodes)| {
        let text = reason.text(names).into_owned();
        let entry = format!("{n_nodes} {text}");
        (entry, CountedReason { plugin: reason.plugin(), text, n_nodes })
    });
    let mut entries: Vec<_> = counted.collect();
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut message = format!("0/{n_nodes} nodes are available:");
    for (i, (entry, _)) in entries.iter().enumerate() {
        message.push_str(if i == 0 { " " } else { ", " });
        message.push_str(entry);
    }
    if !entries.is_empty() {
        message.push('.');
    }
    let reasons = entries.into_iter().map(|(_, counted)| counted).collect();
    Unschedulable { message, reasons, pre_filter: None, n_nodes: n_nodes as u32 }
}
