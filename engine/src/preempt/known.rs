//! Known: what earlier searches for a shape found on each shard, so that a search tries only the nodes of shards that
//! have changed since; and what those among samples of the nodes found on each node.

use std::sync::Arc;

use super::known_rows::KnownRows;
use super::sample::LastOrder;
use super::tried::Tried;
use crate::place::memo::Remembered;
use crate::plan::Plan;
use crate::rows::RowSet;

/// Results of earlier searches for evictions, for one shape and policy.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_shard: Vec<OfShard>,
    /// For searches among samples: results by row, and the order in which nodes are tried.
    pub(super) by_row: KnownRows,
    pub(super) order: Arc<LastOrder>,
}

/// The state of a shard that a search for evictions reads: for one shape and policy, equal states have equal results.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Basis {
    /// The shard's version; 0, which no shard has, for none.
    pub(super) version: u64,
    /// The rows where evicting might help.
    pub(super) rows: RowSet,
    /// The rows where evicting might help and which pass every filter that does not read pods.
    pub(super) passing: RowSet,
}

#[derive(Debug, Default)]
pub(super) struct OfShard {
    basis: Basis,
    tried: Tried,
}

/// A shard that has to be tried: its position, its basis, and where the results go.
pub(super) type Due<'a> = (usize, Basis, &'a mut OfShard);

/// Results of earlier searches among samples of the nodes: a type of its own, since they take more memory.
#[derive(Debug, Default)]
pub(crate) struct OfSamples(Known);

/// About as many kibibytes as the results on a shard take, where some evictions are equally good.
const SHARD_KIBIBYTES: usize = 4;
/// About as many kibibytes as a shard takes with a result for each of its rows.
const ROWS_KIBIBYTES: usize = 20;

impl Remembered for Known {
    fn emptied(mut self) -> Known {
        self.by_shard.clear();
        self.by_row.clear();
        self
    }

    fn size(plan: &Plan<'_>) -> usize {
        plan.snapshot().shards.len() * SHARD_KIBIBYTES
    }
}

impl Remembered for OfSamples {
    fn emptied(self) -> OfSamples {
        OfSamples(self.0.emptied())
    }

    fn size(plan: &Plan<'_>) -> usize {
        plan.snapshot().shards.len() * ROWS_KIBIBYTES
    }
}

impl OfSamples {
    /// The results, for a search that tries nodes in this order. A cluster has one order for all shapes.
    pub(crate) fn with_order(&mut self, order: &Arc<LastOrder>) -> &mut Known {
        self.0.order.clone_from(order);
        &mut self.0
    }
}

impl Known {
    /// The shards whose basis is another one than that of the known results.
    pub(super) fn due(&mut self, now: &[Basis]) -> Vec<Due<'_>> {
        self.by_shard.resize_with(now.len(), OfShard::default);
        let shards = self.by_shard.iter_mut().zip(now).enumerate();
        let due = shards.filter(|(_, (known, now))| known.basis != **now);
        due.map(|(index, (known, now))| (index, *now, known)).collect()
    }

    /// The results, in the shards' order.
    pub(super) fn tried(&self) -> impl Iterator<Item = &Tried> {
        self.by_shard.iter().map(|known| &known.tried)
    }
}

impl OfShard {
    /// Notes results; `None` for none, which are not known.
    pub(super) fn set(&mut self, basis: Basis, tried: Option<Tried>) {
        let basis = if tried.is_some() { basis } else { Basis::default() };
        (self.basis, self.tried) = (basis, tried.unwrap_or_default());
    }
}
