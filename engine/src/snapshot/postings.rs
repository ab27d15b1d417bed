//! Postings: the rows where a thing occurs, with the number of occurrences. Updated in one step for each pod delta.

use std::sync::Arc;

use imbl::OrdMap;

use crate::rows::NodeRow;

/// Number of changes that are noted before they are entered.
const MAX_RECENT: usize = 256;

/// Counts by thing and row. A copy costs a few pointers.
///
/// A change of `counts` copies the path to it, with a counted pointer for each branch beside the path. So changes are
/// noted in plain memory, and entered many at a time: they share most of their paths.
#[derive(Clone, Debug)]
pub(crate) struct Postings<K: Ord + Clone> {
    counts: OrdMap<(K, NodeRow), u32>,
    /// Sums of `counts` over all rows, by thing; none is zero.
    totals: OrdMap<K, u64>,
    /// Changes that are not in `counts` yet, by thing and row; fewer than [`MAX_RECENT`], none of them zero.
    recent: Arc<Vec<Change<K>>>,
    /// Number of occurrences of all things.
    n: u64,
}

/// Where a count is to change, and by how much.
type Change<K> = ((K, NodeRow), i32);

impl<K: Ord + Clone> Default for Postings<K> {
    fn default() -> Postings<K> {
        Postings {
            counts: OrdMap::default(),
            totals: OrdMap::default(),
            recent: Arc::default(),
            n: 0,
        }
    }
}

impl<K: Ord + Copy> Postings<K> {
    /// Adds an occurrence on a row; returns whether it is the first on any row.
    pub(crate) fn add(&mut self, thing: K, row: NodeRow) -> bool {
        let is_first = !self.occurs(thing);
        self.n += 1;
        self.note((thing, row), 1);
        is_first
    }

    /// Removes an occurrence on a row, which must exist; returns whether it was the last on any row.
    pub(crate) fn remove(&mut self, thing: K, row: NodeRow) -> bool {
        debug_assert!(self.count_at((thing, row)) > 0, "what was never added");
        self.n = self.n.saturating_sub(1);
        self.note((thing, row), -1);
        !self.occurs(thing)
    }

    /// The rows where the thing occurs, with the number of occurrences, by row.
    pub(crate) fn rows_of(&self, thing: K) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        Rows { counts: self.entered_of(thing), ahead: None, recent: self.recent_of(thing) }
    }

    /// Passes the rows where the thing occurs to a function with parts of the number of occurrences: what a row gets in all
    /// is its number, and may be 0. Faster than [`Postings::rows_of`].
    pub(crate) fn for_each_part(&self, thing: K, mut found: impl FnMut(NodeRow, i32)) {
        self.entered_of(thing).for_each(|(row, count)| found(row, count as i32));
        self.recent_of(thing).iter().for_each(|((_, row), by)| found(*row, *by));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.n == 0
    }

    fn occurs(&self, thing: K) -> bool {
        let mut n_left = 0;
        for (_, by) in self.recent_of(thing) {
            if *by > 0 {
                return true;
            }
            n_left += u64::from(by.unsigned_abs());
        }
        self.totals.get(&thing).is_some_and(|n| *n > n_left)
    }

    /// The rows of a thing with their counts, as far as they are entered, by row.
    fn entered_of(&self, thing: K) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        let counts = self.counts.range((thing, NodeRow::FIRST)..);
        let counts = counts.take_while(move |((of, _), _)| *of == thing);
        counts.map(|((_, row), count)| (*row, *count))
    }

    /// The noted changes of a thing.
    fn recent_of(&self, thing: K) -> &[Change<K>] {
        let from = self.recent.partition_point(|((of, _), _)| *of < thing);
        let recent = &self.recent[from..];
        &recent[..recent.partition_point(|((of, _), _)| *of == thing)]
    }

    fn count_at(&self, at: (K, NodeRow)) -> u32 {
        let noted = self.recent.binary_search_by_key(&at, |(at, _)| *at);
        let by = noted.map_or(0, |index| self.recent[index].1);
        self.counts.get(&at).copied().unwrap_or_default().saturating_add_signed(by)
    }

    fn note(&mut self, at: (K, NodeRow), by: i32) {
        if Arc::get_mut(&mut self.recent).is_none() {
            let mut copy = Vec::with_capacity(self.recent.len() + 1);
            copy.extend_from_slice(&self.recent);
            self.recent = Arc::new(copy);
        }
        let recent = Arc::make_mut(&mut self.recent);
        match recent.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(index) => {
                recent[index].1 += by;
                if recent[index].1 == 0 {
                    recent.remove(index);
                }
            }
            Err(index) => recent.insert(index, (at, by)),
        }
        if recent.len() == MAX_RECENT {
            let changes = std::mem::take(recent);
            self.enter(&changes);
        }
    }

    /// Enters changes, which are sorted. Most counts are 1, so that one step enters what came or takes out what left;
    /// where there is more, a second step puts the sum in.
    fn enter(&mut self, changes: &[Change<K>]) {
        for of_thing in changes.chunk_by(|((a, _), _), ((b, _), _)| a == b) {
            self.add_to_total(of_thing);
        }
        for (at, by) in changes {
            let before = match u32::try_from(*by) {
                Ok(n_more) => self.counts.insert(*at, n_more),
                Err(_) => self.counts.remove(at),
            };
            let Some(before) = before else { continue };
            let after = before.saturating_add_signed(*by);
            if after > 0 {
                self.counts.insert(*at, after);
            }
        }
    }

    /// Adds changes of one thing to its total.
    fn add_to_total(&mut self, changes: &[Change<K>]) {
        let Some(((thing, _), _)) = changes.first() else { return };
        let by = changes.iter().map(|(_, by)| i64::from(*by)).sum();
        let before = self.totals.get(thing).copied().unwrap_or_default();
        match before.saturating_add_signed(by) {
            0 => self.totals.remove(thing),
            total => self.totals.insert(*thing, total),
        };
    }
}

/// The rows of a thing: those that are entered, with the changes that are noted.
struct Rows<'a, K, I> {
    counts: I,
    /// The next of `counts`, if it is known.
    ahead: Option<(NodeRow, u32)>,
    recent: &'a [Change<K>],
}

impl<K, I: Iterator<Item = (NodeRow, u32)>> Iterator for Rows<'_, K, I> {
    type Item = (NodeRow, u32);

    #[inline]
    fn next(&mut self) -> Option<(NodeRow, u32)> {
        loop {
            let entered = self.ahead.take().or_else(|| self.counts.next());
            let [((_, noted), by), recent @ ..] = self.recent else { return entered };
            let count = match entered {
                Some((row, _)) if row < *noted => return entered,
                Some((row, count)) if row == *noted => count,
                later => {
                    self.ahead = later;
                    0
                }
            };
            self.recent = recent;
            let count = count.saturating_add_signed(*by);
            if count > 0 {
                return Some((*noted, count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_comes_and_the_last_goes() {
        let (here, there) = (NodeRow::new(0, 1), NodeRow::new(3, 0));
        let mut postings: Postings<u32> = Postings::default();
        assert!(postings.add(7, here));
        assert!(!postings.add(7, here) && !postings.add(7, there));
        assert!(postings.add(8, here));
        assert_eq!(postings.rows_of(7).collect::<Vec<_>>(), [(here, 2), (there, 1)]);
        assert!(!postings.remove(7, here) && !postings.remove(7, there));
        assert!(postings.remove(7, here));
        assert_eq!(postings.rows_of(7).count(), 0);
        assert!(!postings.is_empty() && postings.remove(8, here) && postings.is_empty());
    }

    proptest! {
        /// Enough changes that they are entered many times; an earlier copy stays as it was.
        #[test]
        fn counts_are_those_of_a_plain_map(
            changes in prop::collection::vec((0_u32..6, 0_usize..90, any::<bool>()), 0..1_500),
        ) {
            let mut postings: Postings<u32> = Postings::default();
            let mut plain: BTreeMap<(u32, NodeRow), u32> = BTreeMap::new();
            let all = |postings: &Postings<u32>| -> BTreeMap<(u32, NodeRow), u32> {
                let mut all = BTreeMap::new();
                for thing in 0..6 {
                    let rows: Vec<_> = postings.rows_of(thing).collect();
                    let mut of_parts: BTreeMap<NodeRow, i32> = BTreeMap::new();
                    postings.for_each_part(thing, |row, n| *of_parts.entry(row).or_default() += n);
                    let of_parts = of_parts.into_iter().filter(|(_, n)| *n != 0);
                    let of_parts: Vec<_> = of_parts.map(|(row, n)| (row, n as u32)).collect();
                    assert_eq!(of_parts, rows);
                    all.extend(rows.into_iter().map(|(row, n)| ((thing, row), n)));
                }
                all
            };
            let mut earlier = Vec::new();
            for (step, (thing, row, comes)) in changes.into_iter().enumerate() {
                let at = (thing, NodeRow::new(row / 16, row % 16));
                let of_thing = |plain: &BTreeMap<(u32, NodeRow), u32>| {
                    plain.keys().filter(|(of, _)| *of == thing).count()
                };
                if comes {
                    let is_first = of_thing(&plain) == 0;
                    *plain.entry(at).or_default() += 1;
                    prop_assert_eq!(postings.add(thing, at.1), is_first);
                } else if let Some(count) = plain.get_mut(&at) {
                    *count -= 1;
                    if *count == 0 {
                        plain.remove(&at);
                    }
                    prop_assert_eq!(postings.remove(thing, at.1), of_thing(&plain) == 0);
                }
                prop_assert_eq!(postings.is_empty(), plain.is_empty());
                if step % 300 == 0 {
                    earlier.push((postings.clone(), plain.clone()));
                }
            }
            earlier.push((postings, plain));
            for (postings, plain) in earlier {
                prop_assert_eq!(all(&postings), plain);
            }
        }
    }
}
