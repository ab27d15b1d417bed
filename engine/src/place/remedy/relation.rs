//! Ways to relax what a pod requires of other pods: spread and affinity.

use super::change::RemedyChange;
use super::obstacle::own_constraints;
use super::way::{Way, name_of};
use crate::account::wording;
use crate::filter::pod_topology_spread::highest_count;
use crate::model::label_selector::value_of;
use crate::model::pod_affinity::Term;
use crate::plan::counted::Filtering;
use crate::rows::NodeRow;

pub(super) fn allow_skew(plan: &Filtering<'_, '_>, at: usize, rows: &[NodeRow]) -> Vec<Way> {
    let names = plan.names();
    let constraint = &plan.shape().spread.list[at];
    let key = names.name(constraint.topology_key);
    let mut ways = Vec::new();
    let by_skew = rows.iter().filter_map(|row| {
        let labels = &plan.snapshot().node(*row)?.facts().labels;
        Some((skew(plan, at, *row)?, names.name(value_of(labels, constraint.topology_key)?)))
    });
    if let Some((skew, value)) = by_skew.min()
        && let Ok(max_skew) = i32::try_from(skew)
    {
        let from = constraint.max_skew;
        let text = format!(
            "raise maxSkew of `{key}` from {from} to {max_skew}: `{value}` would be at skew {skew}"
        );
        ways.push(Way::new(RemedyChange::RaiseMaxSkew { constraint: at, max_skew }, text));
    }
    let n_domains = hard_position(plan, at).map(|i| {
        let hard = &plan.demand().hard[i];
        plan.census().sum(hard.sum).smallest().0
    });
    if let Some(min_domains) = n_domains.and_then(|n| i32::try_from(n).ok())
        && (1..constraint.min_domains).contains(&min_domains)
    {
        let from = constraint.min_domains;
        let text = format!(
            "lower minDomains of `{key}` from {from} to {min_domains}, as many as there are"
        );
        ways.push(Way::new(RemedyChange::LowerMinDomains { constraint: at, min_domains }, text));
    }
    ways
}

/// The skew of a constraint after placing the pod on a row.
pub(super) fn skew(plan: &Filtering<'_, '_>, at: usize, row: NodeRow) -> Option<i64> {
    let hard = &plan.demand().hard[hard_position(plan, at)?];
    let sums = plan.census().sum(hard.sum);
    let shard = &plan.snapshot().shards[row.shard()];
    let count = sums.of(shard.nodes.domain_of(row.row(), sums.key()));
    Some(count - highest_count(plan, hard) + hard.max_skew)
}

/// The position of one of the pod's own constraints among those that filter.
fn hard_position(plan: &Filtering<'_, '_>, at: usize) -> Option<usize> {
    own_constraints(plan).iter().position(|own| *own == at)
}

pub(super) fn soften(plan: &Filtering<'_, '_>, at: usize, rows: &[NodeRow]) -> Option<Way> {
    let constraint = plan.shape().spread.list.get(at)?;
    let key = plan.names().name(constraint.topology_key);
    let lacking = match rows {
        [row] => format!("`{}` lacks the label", name_of(plan, *row)),
        rows => format!("{} nodes lack the label", rows.len()),
    };
    let text = format!("spread by `{key}` with `ScheduleAnyway`: {lacking}");
    Some(Way::new(RemedyChange::SoftenSpread { constraint: at }, text))
}

/// Ways to drop each term by itself, and all together.
pub(super) fn without_affinity(plan: &Filtering<'_, '_>) -> Vec<Way> {
    let Some(affinity) = &plan.shape().pod_affinity else {
        return Vec::new();
    };
    let terms = affinity.required.iter().enumerate();
    let mut ways: Vec<Way> = terms
        .map(|(term, facts)| {
            let text = format!("drop required pod affinity to {}", term_text(plan, facts));
            Way::new(RemedyChange::DropPodAffinity { term }, text)
        })
        .collect();
    if ways.len() > 1 {
        let changes = ways.iter().flat_map(|way| way.changes.clone()).collect();
        ways.push(Way { changes, text: "drop required pod affinity".to_owned(), cost: 0 });
    }
    ways
}

pub(super) fn without_anti_affinity(plan: &Filtering<'_, '_>, term: usize) -> Option<Way> {
    let facts = plan.shape().pod_affinity.as_ref()?.anti_required.get(term)?;
    let text = format!("drop required pod anti-affinity to {}", term_text(plan, facts));
    Some(Way::new(RemedyChange::DropPodAntiAffinity { term }, text))
}

fn term_text(plan: &Filtering<'_, '_>, term: &Term) -> String {
    let names = plan.names();
    let pods = wording::pods_of(term.facts.selector.as_ref(), names);
    format!("{pods} by `{}`", names.name(term.facts.topology_key))
}
