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

use crate::place::Prepared;
use crate::plugin::{Plugin, StatusCode};
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

/// How a filter accounts for a refused row.
pub(crate) enum Account {
    /// Always with this reason.
    Always(Reason),
    /// It depends on the row.
    ByRow(fn(&Prepared<'_>, &Shard, usize) -> Refusal),
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

    /// Why this filter refuses a row that it has cleared.
    pub(crate) fn refusal(&self, prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
        match self.account {
            Account::Always(reason) => {
                Refusal { code: reason.code(), reasons: [reason].into_iter().collect() }
            }
            Account::ByRow(account) => account(prepared, shard, row),
        }
    }
}
