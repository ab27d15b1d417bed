//! Installed: the rows on which each CSI driver is installed. Rules: S-137-21, S-137-22.

use imbl::OrdMap;

use crate::model::intern::Symbol;
use crate::rows::{NodeRow, RowSet};

/// Drivers by row. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Installed {
    /// The rows of each driver and shard.
    by_driver: OrdMap<(Symbol, usize), RowSet>,
    /// The rows of each shard whose node has a CSINode.
    with_csi_node: OrdMap<usize, RowSet>,
}

impl Installed {
    /// Sets or removes the drivers of a row.
    pub(super) fn set(&mut self, row: NodeRow, drivers: &[Symbol], is_set: bool) {
        let change = |rows: &mut RowSet| match is_set {
            true => rows.insert(row.row()),
            false => rows.remove(row.row()),
        };
        change(self.with_csi_node.entry(row.shard()).or_default());
        for driver in drivers {
            change(self.by_driver.entry((*driver, row.shard())).or_default());
        }
    }

    /// The rows of a shard with a driver.
    pub(crate) fn rows(&self, driver: Symbol, shard: usize) -> RowSet {
        self.by_driver.get(&(driver, shard)).copied().unwrap_or_default()
    }

    /// The rows of a shard whose node has a CSINode.
    pub(crate) fn with_csi_node(&self, shard: usize) -> RowSet {
        self.with_csi_node.get(&shard).copied().unwrap_or_default()
    }
}
