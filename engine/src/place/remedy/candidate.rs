//! Candidates: a limited number of changes worth trying, the most promising first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::discriminant;

use rustc_hash::{FxHashMap, FxHashSet};

use super::change::RemedyChange;
use super::obstacle::{Obstacle, Obstacles};
use super::way::Way;
use crate::place::remedy::ways::{Ways, nearest};
use crate::plan::counted::Filtering;
use crate::rows::NodeRow;

/// Changes that may help, and how many rows have no other obstacle.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) way: Way,
    n_rows: usize,
}

/// The largest number of candidates of one kind that are tried.
const MAX_OF_A_KIND: usize = 4;
/// The largest number of pairs that are tried.
const MAX_PAIRS: usize = 16;

/// Rows by their obstacles.
pub(super) type Groups = BTreeMap<Obstacles, Vec<NodeRow>>;

/// Candidates for one obstacle, and single changes that remove two obstacles.
pub(super) fn singles(plan: &Filtering<'_, '_>, groups: &Groups) -> Vec<Candidate> {
    let mut ways = Ways::new(plan);
    let mut candidates = Vec::new();
    for (obstacles, rows) in groups {
        let past: Vec<(Obstacle, Vec<Way>)> =
            obstacles.iter().map(|obstacle| (*obstacle, ways.past(*obstacle, rows))).collect();
        let helps = |way: &Way, (obstacle, past): &(Obstacle, Vec<Way>)| {
            past.iter().any(|other| other.changes == way.changes) || frees(way, *obstacle)
        };
        let all = past.iter().flat_map(|(_, ways)| ways);
        let helpful = all.filter(|way| past.iter().all(|past| helps(way, past)));
        let candidate = |way: &Way| Candidate { way: way.clone(), n_rows: rows.len() };
        candidates.extend(helpful.map(candidate));
    }
    let mut candidates = most_promising_first(candidates);
    let mut n_of_kind: FxHashMap<_, usize> = FxHashMap::default();
    candidates.retain(|candidate| {
        let n_seen = n_of_kind.entry(candidate.way.changes.first().map(discriminant)).or_default();
        *n_seen += 1;
        *n_seen <= MAX_OF_A_KIND
    });
    candidates
}

/// Whether removing a pod may free the resources that are missing.
fn frees(way: &Way, obstacle: Obstacle) -> bool {
    matches!(way.changes[..], [RemedyChange::RemovePod { .. }])
        && matches!(obstacle, Obstacle::Full | Obstacle::Short(_))
}

/// Candidates for two obstacles.
pub(super) fn pairs(plan: &Filtering<'_, '_>, groups: &Groups) -> Vec<Candidate> {
    let mut ways = Ways::new(plan);
    let mut candidates = Vec::new();
    for (obstacles, rows) in groups {
        if let [first, second] = obstacles[..] {
            let rows = nearest(plan, obstacles, rows);
            let seconds = ways.past(second, &rows);
            for first in ways.past(first, &rows) {
                let others = seconds.iter().filter(|second| second.changes != first.changes);
                let both = others.map(|second| together(&first, second));
                candidates.extend(both.map(|way| Candidate { way, n_rows: rows.len() }));
            }
        }
    }
    let mut candidates = most_promising_first(candidates);
    candidates.truncate(MAX_PAIRS);
    candidates
}

fn together(first: &Way, second: &Way) -> Way {
    let mut changes: Vec<RemedyChange> =
        first.changes.iter().chain(&second.changes).cloned().collect();
    changes.sort_unstable();
    changes.dedup();
    // Sorts the changes, so that the order of the obstacles does not show.
    let (first, second) =
        if first.changes <= second.changes { (first, second) } else { (second, first) };
    let text = format!("{} and {}", first.text, second.text);
    Way { changes, text, cost: first.cost.saturating_add(second.cost) }
}

/// Sorts candidates; of equal changes only the most promising remains.
fn most_promising_first(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by(|a, b| {
        let key = |c: &Candidate| (Reverse(c.n_rows), c.way.cost);
        let texts = || a.way.text.cmp(&b.way.text);
        key(a).cmp(&key(b)).then_with(texts).then_with(|| a.way.changes.cmp(&b.way.changes))
    });
    let mut seen: FxHashSet<Vec<RemedyChange>> = FxHashSet::default();
    candidates.retain(|candidate| seen.insert(candidate.way.changes.clone()));
    candidates
}
