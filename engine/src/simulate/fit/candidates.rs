//! Candidates: the nodes that may take pods, in the order in which they are tried (S-CAS-2).

use crate::model::ModelError;
use crate::model::label::clip;
use crate::rows::{NodeRow, RowSet};
use crate::simulate::rows::Rows;
use crate::snapshot::Snapshot;

/// Nodes in an order, without duplicates.
pub(super) struct Candidates {
    order: Vec<NodeRow>,
    /// Position of each row; meaningful for rows of candidates only.
    position: Vec<u32>,
    rows: Rows,
}

impl Candidates {
    /// The candidates of these names, or all nodes by name.
    pub(super) fn of(
        snapshot: &Snapshot,
        names: Option<&[String]>,
    ) -> Result<Candidates, ModelError> {
        let order = match names {
            Some(names) => rows_named(snapshot, names)?,
            None => all_by_name(snapshot),
        };
        let mut position = vec![0; snapshot.shards.len() * crate::rows::ROWS];
        for (at, row) in (0_u32..).zip(&order) {
            position[row.index()] = at;
        }
        let rows = order.iter().copied().collect();
        Ok(Candidates { order, position, rows })
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The candidate with a name.
    pub(super) fn named(&self, snapshot: &Snapshot, name: &str) -> Option<NodeRow> {
        snapshot.row_named(name).filter(|row| self.rows.contains(*row))
    }

    /// All candidates, beginning at a position and wrapping around.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = NodeRow> + '_ {
        let (before, behind) = self.order.split_at(first.min(self.order.len()));
        behind.iter().chain(before).copied()
    }

    /// The position after that of a candidate.
    pub(super) fn behind(&self, row: NodeRow) -> usize {
        (self.position[row.index()] as usize + 1) % self.order.len().max(1)
    }

    /// The first `n` candidates.
    pub(super) fn first(&self, n: usize) -> Rows {
        self.order.iter().take(n).copied().collect()
    }

    /// Rows of the candidates, by shard; trailing shards without candidates may be left out.
    pub(super) fn by_shard(&self) -> &[RowSet] {
        self.rows.by_shard()
    }
}

fn all_by_name(snapshot: &Snapshot) -> Vec<NodeRow> {
    let shards = snapshot.shards.iter();
    let mut order: Vec<NodeRow> = shards
        .flat_map(|shard| shard.nodes.rows.iter().map(|row| NodeRow::new(shard.index, row)))
        .collect();
    order.sort_unstable_by_key(|row| snapshot.node(*row).map(|node| node.name()));
    order
}

fn rows_named(snapshot: &Snapshot, names: &[String]) -> Result<Vec<NodeRow>, ModelError> {
    let mut seen = Rows::default();
    let mut order = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        let row = named(snapshot, i, name)?;
        if seen.contains(row) {
            let reason = format!("`{}` stands in the list twice", clip(name));
            return Err(ModelError::new(format!("node_names[{i}]"), reason));
        }
        seen.insert(row);
        order.push(row);
    }
    Ok(order)
}

/// The node named at a position of a request's list.
pub(in crate::simulate) fn named(
    snapshot: &Snapshot,
    position: usize,
    name: &str,
) -> Result<NodeRow, ModelError> {
    snapshot.row_named(name).ok_or_else(|| {
        let reason = format!("the cluster has no node `{}`", clip(name));
        ModelError::new(format!("node_names[{position}]"), reason)
    })
}
