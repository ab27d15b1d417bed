//! Candidates: the nodes that may take pods, in the order in which they are tried (S-CAS-2).

use crate::model::ModelError;
use crate::model::label::clip;
use crate::rows::{NodeRow, RowSet};
use crate::simulate::rows::Rows;
use crate::snapshot::Snapshot;

/// Nodes in an order, each once.
pub(super) struct Candidates {
    order: Vec<NodeRow>,
    /// By row; only rows of candidates have one that means anything.
    position: Vec<u32>,
    rows: Rows,
}

impl Candidates {
    /// Those of these names, or all by name.
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

    /// The candidate of a name.
    pub(super) fn named(&self, snapshot: &Snapshot, name: &str) -> Option<NodeRow> {
        snapshot.row_named(name).filter(|row| self.rows.contains(*row))
    }

    /// All of them, beginning at a position and going round.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = NodeRow> + '_ {
        let (before, behind) = self.order.split_at(first.min(self.order.len()));
        behind.iter().chain(before).copied()
    }

    /// The position behind that of a candidate.
    pub(super) fn behind(&self, row: NodeRow) -> usize {
        (self.position[row.index()] as usize + 1) % self.order.len().max(1)
    }

    /// The first few.
    pub(super) fn first(&self, n: usize) -> Rows {
        self.order.iter().take(n).copied().collect()
    }

    /// Their rows, by shard; shards behind the last that has any may be left out.
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

/// The node that a request names at a position of a list.
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
