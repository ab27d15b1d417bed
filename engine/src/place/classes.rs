//! Classes: the feasible rows of each shard by class, with the best rows of each. What depends on counts of other pods is
//! then asked once for each class, and only rows that have changed are visited.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shard_evaluation::{Maxima, RawScores, ShardEvaluation, Totals};
use super::shard_set::ShardSet;
use crate::census::class::{Class, Mark, Readings};
use crate::kernel::Kernels;
use crate::plan::counted::Scoring;
use crate::rows::{FEW, NodeRow, ROWS, RowSet};
use crate::snapshot::shard::Shard;

/// The largest number of classes. With more, all rows are scored.
pub(super) const MAX_CLASSES: usize = 64;

/// Some classes, as a bitmap.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassSet(u64);

const _: () = assert!(MAX_CLASSES <= u64::BITS as usize);

impl ClassSet {
    const ALL: ClassSet = ClassSet(u64::MAX);

    pub(super) fn insert(&mut self, class: usize) {
        self.0 |= 1 << class;
    }

    pub(super) fn contains(self, class: usize) -> bool {
        self.0 >> class & 1 == 1
    }
}

/// The classes of the rows that pass all filters by row.
#[derive(Debug, Default)]
pub(super) struct Classes {
    readings: Readings,
    /// How often the census had counted another demand when the first class was found.
    n_anew: u64,
    /// By class: its mark, and the number of its rows in all shards.
    marks: Vec<Mark>,
    n_rows: Vec<u32>,
    by_mark: FxHashMap<Mark, usize>,
    shards: Vec<ShardClasses>,
    /// The highest raw scores, under which all totals are.
    maxima: Maxima,
    /// The passing classes at the last ranking, and what was added to each; shards that changed since.
    ranked: Option<(ClassSet, [i32; MAX_CLASSES])>,
    unranked: ShardSet,
    are_too_many: bool,
}

/// A shard, filtered and scored.
pub(super) struct Scored<'s> {
    pub(super) shard: &'s Shard,
    pub(super) evaluation: &'s ShardEvaluation,
    pub(super) plain: &'s [i32; ROWS],
}

impl Classes {
    /// Prepares for the counts of a plan; returns whether nothing is known of any shard.
    pub(super) fn prepare(&mut self, plan: &Scoring<'_, '_>) -> bool {
        let (readings, n_anew) = (plan.census().readings(plan.demand()), plan.census().n_anew());
        let is_new = self.readings != readings || self.n_anew != n_anew;
        if is_new {
            *self = Classes { readings, n_anew, ..Classes::default() };
        }
        self.shards.resize_with(plan.snapshot().shards.len(), ShardClasses::default);
        is_new
    }

    /// Whether there are more than [`MAX_CLASSES`], so that nothing more is known of them.
    pub(super) fn are_too_many(&self) -> bool {
        self.are_too_many
    }

    /// Takes in rows of a shard that changed.
    pub(super) fn renew(&mut self, plan: &Scoring<'_, '_>, of: &Scored<'_>, changed: &RowSet) {
        let feasible = match of.evaluation.n_feasible {
            0 => RowSet::EMPTY,
            _ => of.evaluation.feasible,
        };
        let is_few = changed.len() < FEW && !feasible.is_empty();
        let mut came = feasible;
        if is_few {
            came.intersect(changed);
        }
        let gone = if is_few { *changed } else { RowSet::FULL };
        self.take_out(of.shard.index, &gone);
        let took_in = if is_few {
            came.iter().all(|row| {
                let mark = plan.census().mark(&self.readings, of.shard, row);
                self.put_in(of.shard.index, mark, &[row].into_iter().collect())
            })
        } else {
            let on = (of.shard, plan.kernels);
            let parts = plan.census().split(&self.readings, on, came, MAX_CLASSES);
            parts.is_some_and(|parts| {
                parts.into_iter().all(|(mark, rows)| self.put_in(of.shard.index, mark, &rows))
            })
        };
        if took_in {
            self.shards[of.shard.index].note_changed(plan.kernels, &of.evaluation.raw);
            self.unranked.insert(of.shard.index);
        } else {
            let (readings, n_anew) = (std::mem::take(&mut self.readings), self.n_anew);
            *self = Classes { readings, n_anew, are_too_many: true, ..Classes::default() };
        }
    }

    /// Takes rows of a shard out of their classes.
    fn take_out(&mut self, shard: usize, gone: &RowSet) {
        let ShardClasses { members, changed, .. } = &mut self.shards[shard];
        for Members { class, rows, best, .. } in members {
            let n_rows = rows.len();
            rows.subtract(gone);
            best.subtract(gone);
            let n_gone = n_rows - rows.len();
            if n_gone > 0 {
                self.n_rows[*class] -= n_gone;
                changed.insert(*class);
            }
        }
    }

    /// Puts rows of a shard into the class of a mark; returns whether there is room for it.
    fn put_in(&mut self, shard: usize, mark: Mark, rows: &RowSet) -> bool {
        let Some(class) = self.class_of(mark) else { return false };
        self.n_rows[class] += rows.len();
        self.shards[shard].put_in(class, rows);
        true
    }

    /// The class of a mark; `None` if it would be one too many.
    fn class_of(&mut self, mark: Mark) -> Option<usize> {
        if let Some(class) = self.by_mark.get(&mark) {
            return Some(*class);
        }
        let class = match self.n_rows.iter().position(|n_rows| *n_rows == 0) {
            Some(unused) => {
                self.by_mark.remove(&self.marks[unused]);
                unused
            }
            None if self.marks.len() < MAX_CLASSES => {
                self.marks.push(Mark::new());
                self.n_rows.push(0);
                self.marks.len() - 1
            }
            None => return None,
        };
        self.marks[class] = mark.clone();
        self.by_mark.insert(mark, class);
        Some(class)
    }

    /// The classes that have rows.
    pub(super) fn iter(&self) -> impl Iterator<Item = Class<'_>> {
        let classes = self.marks.iter().zip(&self.n_rows).enumerate();
        classes.filter(|(_, (_, n_rows))| **n_rows > 0).map(|(id, (mark, n_rows))| Class {
            id,
            readings: &self.readings,
            mark,
            n_rows: *n_rows,
        })
    }
}

/// The classes that a shard has rows of.
#[derive(Debug, Default)]
struct ShardClasses {
    members: SmallVec<[Members; 4]>,
    /// Classes whose best rows have to be found again.
    changed: ClassSet,
    /// The class and the highest total of each of the members: side by side, since every decision reads all of them.
    totals: SmallVec<[(u8, i32); 8]>,
}

/// The rows of one class in a shard.
#[derive(Debug, Default)]
struct Members {
    class: usize,
    rows: RowSet,
    /// Their highest total, and the rows that have it; none where it is not known.
    total: i32,
    best: RowSet,
    /// Rows that joined the class since its best rows were found.
    came: RowSet,
    /// Their highest raw scores.
    raw_max: Maxima,
}

impl ShardClasses {
    fn put_in(&mut self, class: usize, rows: &RowSet) {
        self.changed.insert(class);
        match self.members.iter_mut().find(|members| members.class == class) {
            Some(members) => {
                members.rows.union(rows);
                members.came.union(rows);
            }
            None => self.members.push(Members { class, rows: *rows, ..Members::default() }),
        }
    }

    /// Drops classes without rows, and finds the highest raw scores of those that have changed.
    fn note_changed(&mut self, kernels: Kernels, raw: &[RawScores]) {
        self.members.retain(|members| !members.rows.is_empty());
        let changed = self.changed;
        for members in self.members.iter_mut().filter(|of| changed.contains(of.class)) {
            members.raw_max.clear();
            members.raw_max.extend(raw.iter().map(|raw| match raw.max {
                0 => 0,
                _ => raw.max_of(kernels, &members.rows),
            }));
        }
    }

    /// Finds the best rows of the classes that have changed.
    fn settle(&mut self, totals: &Totals<'_, '_, '_>) {
        let (changed, mut whole) = (self.changed, None);
        for members in self.members.iter_mut().filter(|of| changed.contains(of.class)) {
            let came = std::mem::take(&mut members.came);
            (members.total, members.best) = if members.best.is_empty() {
                whole.get_or_insert_with(|| totals.of_shard()).best(&members.rows)
            } else {
                totals.best_again((members.total, members.best), &came, &members.rows)
            };
        }
        self.changed = ClassSet::default();
        self.totals.clear();
        for members in &self.members {
            self.totals.push((members.class as u8, members.total));
        }
    }
}

impl Classes {
    /// The highest raw scores of the rows of some classes.
    pub(super) fn raw_maxima(&self, passing: ClassSet, n_scores: usize) -> Maxima {
        let mut maxima: Maxima = SmallVec::from_elem(0, n_scores);
        let members = self.shards.iter().flat_map(|shard| &shard.members);
        for members in members.filter(|members| passing.contains(members.class)) {
            let raw_max = maxima.iter_mut().zip(&members.raw_max);
            raw_max.for_each(|(max, raw)| *max = (*max).max(*raw));
        }
        maxima
    }

    /// Sets the highest raw scores, under which totals are.
    pub(super) fn set_maxima(&mut self, maxima: Maxima) {
        if self.maxima != maxima {
            self.maxima = maxima;
            self.ranked = None;
            for shard in &mut self.shards {
                shard.changed = ClassSet::ALL;
                shard.members.iter_mut().for_each(|members| members.best = RowSet::EMPTY);
            }
        }
    }

    /// The shards whose best rows may have changed since the last ranking, if these classes pass and this is added to each.
    pub(super) fn take_unranked(
        &mut self,
        passing: ClassSet,
        added: &[i32; MAX_CLASSES],
    ) -> ShardSet {
        let unranked = std::mem::take(&mut self.unranked);
        if self.ranked.as_ref().is_some_and(|(then, of)| *then == passing && of == added) {
            return unranked;
        }
        self.ranked = Some((passing, *added));
        ShardSet::all(self.shards.len())
    }

    /// Notes that another ranking was made.
    pub(super) fn forget_ranking(&mut self) {
        self.ranked = None;
    }

    /// Finds the best rows of a shard's classes, after some have changed.
    pub(super) fn settle(&mut self, plan: &Scoring<'_, '_>, of: &Scored<'_>) {
        let shard = &mut self.shards[of.shard.index];
        if shard.changed != ClassSet::default() {
            let (plain, raw) = (of.plain, &of.evaluation.raw);
            shard.settle(&Totals { plan, plain, raw, maxima: &self.maxima });
        }
    }

    /// The highest total in a shard of the rows of some classes, with what is added to each class, and the rows that have
    /// it; `i32::MIN` if there are none.
    pub(super) fn best(
        &self,
        shard: usize,
        passing: ClassSet,
        added: &[i32; MAX_CLASSES],
    ) -> (i32, RowSet) {
        let ShardClasses { members, totals, .. } = &self.shards[shard];
        let total = |(class, total): &(u8, i32)| {
            let class = usize::from(*class);
            passing.contains(class).then(|| total + added[class % MAX_CLASSES])
        };
        let Some(highest) = totals.iter().filter_map(total).max() else {
            return (i32::MIN, RowSet::EMPTY);
        };
        let mut rows = RowSet::EMPTY;
        for (members, of_class) in members.iter().zip(totals) {
            if total(of_class) == Some(highest) {
                rows.union(&members.best);
            }
        }
        (highest, rows)
    }

    /// The first row of some classes.
    pub(super) fn first_row(&self, passing: ClassSet) -> Option<NodeRow> {
        self.shards.iter().enumerate().find_map(|(shard, classes)| {
            let of = classes.members.iter().filter(|members| passing.contains(members.class));
            let row = of.filter_map(|members| members.rows.iter().next()).min()?;
            Some(NodeRow::new(shard, row))
        })
    }
}
