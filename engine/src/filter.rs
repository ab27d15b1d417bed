//! Filters: which nodes could take the pod. FILTERS is the table; one file a filter, named as its plugin.
//!
//! A filter clears rows; the conjunction of filters is what remains. Whoever clears a row first in the policy's order
//! names the reason (S-PLG-3), which is worked out only when somebody asks.

pub(crate) mod reason;

pub(crate) mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
pub(crate) mod node_resources_fit;
mod node_unschedulable;
mod taint_toleration;

use smallvec::SmallVec;

use crate::plugin::{Plugin, StatusCode};
use crate::prepared::Prepared;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;
use reason::Reason;

/// One filter plugin.
pub(crate) struct Filter {
    pub(crate) plugin: Plugin,
    /// Whether it can refuse anything; `false` where PreFilter answers `Skip` (S-PF-1).
    pub(crate) applies: fn(&Prepared<'_>) -> bool,
    /// Clears the rows that it refuses from a set of occupied rows.
    pub(crate) run: fn(&Prepared<'_>, &Shard, &mut RowSet),
    /// Why it refuses a row.
    pub(crate) account: Account,
}

/// How a filter accounts for the rows that it refuses.
pub(crate) enum Account {
    /// Each with this reason.
    Always(Reason),
    /// It depends on the row.
    ByRow {
        /// Why it refuses one row.
        refusal: fn(&Prepared<'_>, &Shard, usize) -> Refusal,
        /// Counts the reasons of a set of refused rows.
        count: fn(&Prepared<'_>, &Shard, &RowSet, &mut ReasonCounts),
    },
}

/// On how many nodes each reason was given (S-ERR-3).
#[derive(Clone, Debug, Default)]
pub(crate) struct ReasonCounts(SmallVec<[(Reason, u32); 8]>);

impl ReasonCounts {
    pub(crate) fn add(&mut self, reason: Reason, n_nodes: u32) {
        if n_nodes == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, n)) => *n += n_nodes,
            None => self.0.push((reason, n_nodes)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Reason, u32)> + '_ {
        self.0.iter().copied()
    }
}

/// A filter's verdict on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    pub(crate) reasons: SmallVec<[Reason; 2]>,
}

/// Every filter that is built. The order in which they run is the policy's.
pub(crate) const FILTERS: [Filter; 7] = [
    node_unschedulable::FILTER,
    node_name::FILTER,
    taint_toleration::FILTER,
    node_affinity::FILTER,
    node_ports::FILTER,
    node_resources_fit::FILTER,
    node_declared_features::FILTER,
];

impl Filter {
    /// The filter of a plugin, if it is built and filters.
    pub(crate) fn of(plugin: Plugin) -> Option<&'static Filter> {
        const { &FILTERS }.iter().find(|filter| filter.plugin == plugin)
    }

    /// Counts the reasons of rows that this filter has cleared.
    pub(crate) fn count(
        &self,
        prepared: &Prepared<'_>,
        shard: &Shard,
        refused: &RowSet,
        counts: &mut ReasonCounts,
    ) {
        match self.account {
            Account::Always(reason) => counts.add(reason, refused.len()),
            Account::ByRow { count, .. } => count(prepared, shard, refused, counts),
        }
    }

    /// Why this filter refuses a row that it has cleared.
    pub(crate) fn refusal(&self, prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
        match self.account {
            Account::Always(reason) => {
                Refusal { code: reason.code(), reasons: [reason].into_iter().collect() }
            }
            Account::ByRow { refusal, .. } => refusal(prepared, shard, row),
        }
    }
}
