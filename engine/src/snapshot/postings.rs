//! Postings: the rows where a thing occurs, with the number of occurrences. Updated in a step or two for each pod
//! delta.

use imbl::OrdMap;

use crate::rows::NodeRow;

/// Counts by thing and row. A copy costs a few pointers.
#[derive(Clone, Debug)]
pub(crate) struct Postings<K: Ord + Clone> {
    counts: OrdMap<(K, NodeRow), u32>,
    /// The number of rows of each thing.
    n_rows: OrdMap<K, u32>,
}

impl<K: Ord + Clone> Default for Postings<K> {
    fn default() -> Postings<K> {
        Postings { counts: OrdMap::default(), n_rows: OrdMap::default() }
    }
}

impl<K: Ord + Copy> Postings<K> {
    /// Adds an occurrence on a row; returns whether it is the first on any row.
    pub(crate) fn add(&mut self, thing: K, row: NodeRow) -> bool {
        // Most often the row has no occurrence yet: then this is the only lookup.
        if let Some(count) = self.counts.insert((thing, row), 1) {
            self.counts.insert((thing, row), count + 1);
            return false;
        }
        let n_rows = self.n_rows.entry(thing).or_insert(0);
        *n_rows += 1;
        *n_rows == 1
    }

    /// Removes an occurrence on a row, which must exist; returns whether it was the last on any row.
    pub(crate) fn remove(&mut self, thing: K, row: NodeRow) -> bool {
        let Some(count) = self.counts.get_mut(&(thing, row)) else {
            debug_assert!(false, "what was never added");
            return false;
        };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.counts.remove(&(thing, row));
        let Some(n_rows) = self.n_rows.get_mut(&thing) else {
            return true;
        };
        *n_rows -= 1;
        if *n_rows > 0 {
            return false;
        }
        self.n_rows.remove(&thing);
        true
    }

    /// The rows where the thing occurs, with the number of occurrences.
    pub(crate) fn rows_of(&self, thing: K) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        let rows = self.counts.range((thing, NodeRow::FIRST)..);
        rows.take_while(move |((of, _), _)| *of == thing).map(|((_, row), count)| (*row, *count))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

#[cfg(test)]
mod tests {
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
}
