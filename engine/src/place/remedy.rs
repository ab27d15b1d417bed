//! Remedies: the nearest changes after which a pod that fits nowhere would fit; each is tried before it is offered.
//!
//! The reasons that keep the pod off each node are split up (`look`, `obstacle`); for each obstacle there are ways to
//! remove it (`ways`); nodes with equal obstacles share one candidate (`candidate`); each candidate is applied, to the
//! pod or to a fork of the snapshot, and the filters run again (`trial`). Only changes that open a node are offered.

mod candidate;
pub(crate) mod change;
mod change_node;
mod change_pod;
mod look;
mod node_kind;
mod obstacle;
mod relation;
mod removal;
mod trial;
mod way;
mod ways;
mod wording;

use std::cmp::{Ordering, Reverse};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::decision::Remedy;
use crate::plan::counted::Filtering;
use change::RemedyChange;
use way::Way;

/// The largest number of remedies to offer.
const MAX_REMEDIES: usize = 5;
/// The largest number of offered remedies of one kind.
const MAX_OF_A_KIND: usize = 2;

/// The remedies, smallest changes first, of equal ones those that open most nodes. Other pods must be counted already,
/// and no row feasible.
///
/// Two changes together are offered only where no single one helps. Cost: a pass over the whole cluster, and the pass
/// of an attempt for each candidate, of which there are a few dozen. Once `cancelled` returns true, no more are tried.
pub(crate) fn remedies(
    plan: &Filtering<'_, '_>,
    versions: &Arc<AtomicU64>,
    cancelled: &dyn Fn() -> bool,
) -> Vec<Remedy> {
    let groups = look::by_obstacles(plan);
    let attempt = |way: Way| {
        if cancelled() {
            return None;
        }
        let trial::Opened { n_nodes, examples } = trial::attempt(plan, &way.changes, versions)?;
        let remedy = Remedy { change: way.text, changes: way.changes, n_nodes, examples };
        Some((remedy, way.cost))
    };
    let singles = candidate::singles(plan, &groups).into_iter();
    let mut remedies: Vec<(Remedy, i64)> =
        singles.filter_map(|candidate| attempt(candidate.way)).collect();
    remedies.extend(node_kind::ways(plan).into_iter().find_map(attempt));
    if remedies.is_empty() {
        let pairs = candidate::pairs(plan, &groups).into_iter();
        remedies.extend(pairs.filter_map(|candidate| attempt(candidate.way)));
    }
    remedies.sort_by(smallest_first);
    best_of_each_kind(remedies.into_iter().map(|(remedy, _)| remedy).collect())
}

/// Order of remedies: by size, then by nodes opened, then by ease; of two changes of one kind the cheaper one first.
fn smallest_first((a, a_cost): &(Remedy, i64), (b, b_cost): &(Remedy, i64)) -> Ordering {
    let order =
        |r: &Remedy| (r.changes.iter().map(RemedyChange::size).sum::<usize>(), Reverse(r.n_nodes));
    let kind = |r: &Remedy| r.changes.first().map(discriminant);
    let costs = if kind(a) == kind(b) { a_cost.cmp(b_cost) } else { Ordering::Equal };
    order(a).cmp(&order(b)).then(costs).then_with(|| a.changes.cmp(&b.changes))
}

/// The first few remedies, with a limit for each kind, and without equal texts.
fn best_of_each_kind(mut remedies: Vec<Remedy>) -> Vec<Remedy> {
    let mut kept: Vec<(Vec<Discriminant<RemedyChange>>, String)> = Vec::new();
    remedies.retain(|remedy| {
        let kind: Vec<_> = remedy.changes.iter().map(discriminant).collect();
        let n_alike = kept.iter().filter(|(known, _)| *known == kind).count();
        let is_kept =
            n_alike < MAX_OF_A_KIND && kept.iter().all(|(_, text)| *text != remedy.change);
        if is_kept {
            kept.push((kind, remedy.change.clone()));
        }
        is_kept
    });
    remedies.truncate(MAX_REMEDIES);
    remedies
}
