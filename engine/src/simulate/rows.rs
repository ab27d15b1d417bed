//! Rows: a set of rows of a snapshot.

use crate::rows::{NodeRow, RowSet};

/// A set of rows, by shard; missing shards have no rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows(Vec<RowSet>);

impl Rows {
    pub(crate) fn contains(&self, row: NodeRow) -> bool {
        self.0.get(row.shard()).is_some_and(|rows| rows.contains(row.row()))
    }

    pub(crate) fn insert(&mut self, row: NodeRow) {
        if self.0.len() <= row.shard() {
            self.0.resize(row.shard() + 1, RowSet::EMPTY);
        }
        self.0[row.shard()].insert(row.row());
    }

    pub(crate) fn remove(&mut self, row: NodeRow) {
        if let Some(rows) = self.0.get_mut(row.shard()) {
            rows.remove(row.row());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|rows| rows.len() as usize).sum()
    }

    /// Rows in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeRow> + '_ {
        let shards = self.0.iter().enumerate();
        shards.flat_map(|(shard, rows)| rows.iter().map(move |row| NodeRow::new(shard, row)))
    }

    pub(crate) fn by_shard(&self) -> &[RowSet] {
        &self.0
    }
}

impl From<Vec<RowSet>> for Rows {
    fn from(rows: Vec<RowSet>) -> Rows {
        Rows(rows)
    }
}

impl FromIterator<NodeRow> for Rows {
    fn from_iter<I: IntoIterator<Item = NodeRow>>(rows: I) -> Rows {
        let mut set = Rows::default();
        rows.into_iter().for_each(|row| set.insert(row));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_several_shards() {
        let row = NodeRow::new;
        let mut rows: Rows = [row(2, 7), row(0, 3), row(2, 255)].into_iter().collect();
        assert_eq!(rows.iter().collect::<Vec<_>>(), [row(0, 3), row(2, 7), row(2, 255)]);
        assert_eq!((rows.len(), rows.by_shard().len()), (3, 3));
        assert!(rows.contains(row(2, 7)) && !rows.contains(row(1, 7)) && !rows.contains(row(9, 0)));
        rows.remove(row(0, 3));
        rows.remove(row(2, 255));
        assert_eq!(rows.iter().collect::<Vec<_>>(), [row(2, 7)]);
        rows.remove(row(2, 7));
        rows.remove(row(8, 1));
        assert_eq!(rows.len(), 0);
    }
}
