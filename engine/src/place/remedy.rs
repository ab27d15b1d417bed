//! Remedies: the nearest changes after which a pod that fits nowhere would fit; each is tried before it is offered.
//!
//! The reasons that keep the pod off each node are split up (`look`, `obstacle`); for each obstacle there are ways to
//! remove it (`ways`); nodes with equal obstacles share one candidate (`candidate`); each candidate is applied, to the
//! pod or to a fork of the snapshot, and the filters run again (`trial`). Only changes that open a node are offered.

mod candidate;
pub(crate) mod change;
mod change_node;
mod change_pod;
mod claims;
mod look;
mod node_kind;
mod obstacle;
mod relation;
mod removal;
mod trial;
mod way;
mod ways;

use std::cmp::{Ordering, Reverse};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::decision::Remedy;
use crate::plan::Plan;
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
    let trials = Trials { plan, versions, cancelled };
    let singles = candidate::singles(plan, &groups).into_iter();
    let mut found: Vec<Found> =
        singles.filter_map(|candidate| trials.attempt(candidate.way)).collect();
    found.extend(node_kind::ways(plan).into_iter().find_map(|way| trials.attempt(way)));
    if found.is_empty() {
        let pairs = candidate::pairs(plan, &groups).into_iter();
        found.extend(pairs.filter_map(|candidate| trials.attempt(candidate.way)));
    }
    ranked(found)
}

/// The remedies for a pod that a PreFilter refuses as a whole.
pub(crate) fn of_pre_filter(
    plan: &Plan<'_>,
    versions: &Arc<AtomicU64>,
    cancelled: &dyn Fn() -> bool,
) -> Vec<Remedy> {
    let trials = Trials { plan, versions, cancelled };
    let mut ways = claims::ways(plan);
    ways.extend(ways::past_conflict(plan));
    let mut found: Vec<Found> = ways.iter().filter_map(|way| trials.attempt(way.clone())).collect();
    if found.is_empty() {
        found.extend(claims::together(ways).and_then(|way| trials.attempt(way)));
    }
    ranked(found)
}

/// Tries ways.
struct Trials<'t, 'a> {
    plan: &'t Plan<'a>,
    versions: &'t Arc<AtomicU64>,
    cancelled: &'t dyn Fn() -> bool,
}

/// A remedy that helped.
struct Found {
    remedy: Remedy,
    cost: i64,
    /// Whether no operator would do it: it lets a pod onto nodes that are kept for pods with other needs.
    is_abuse: bool,
}

impl Trials<'_, '_> {
    fn attempt(&self, way: Way) -> Option<Found> {
        if (self.cancelled)() {
            return None;
        }
        let opened = trial::attempt(self.plan, &way.changes, self.versions)?;
        let tolerates = |change: &RemedyChange| matches!(change, RemedyChange::Tolerate { .. });
        let is_abuse = way.changes.iter().any(tolerates) && opened.n_special == opened.n_nodes;
        let trial::Opened { n_nodes, examples, .. } = opened;
        let remedy = Remedy { change: way.text, changes: way.changes, n_nodes, examples };
        Some(Found { remedy, cost: way.cost, is_abuse })
    }
}

fn ranked(mut found: Vec<Found>) -> Vec<Remedy> {
    found.sort_by(smallest_first);
    best_of_each_kind(found.into_iter().map(|found| found.remedy).collect())
}

/// Order of remedies: what no operator would do last; then by size, then by nodes opened, then by ease; of two changes
/// of one kind the cheaper one first.
fn smallest_first(a: &Found, b: &Found) -> Ordering {
    let size = |r: &Remedy| r.changes.iter().map(RemedyChange::size).sum::<usize>();
    let order = |f: &Found| (f.is_abuse, size(&f.remedy), Reverse(f.remedy.n_nodes));
    let kind = |f: &Found| f.remedy.changes.first().map(discriminant);
    let costs = if kind(a) == kind(b) { a.cost.cmp(&b.cost) } else { Ordering::Equal };
    order(a).cmp(&order(b)).then(costs).then_with(|| a.remedy.changes.cmp(&b.remedy.changes))
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
