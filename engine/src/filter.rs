//! Filters: which nodes could take the pod. `table.rs` lists them; each filter has a file named after its plugin.
//!
//! A filter clears rows; the rows left by all filters are feasible. The first filter in the policy's order that clears
//! a row gives the reason (S-PLG-3), which is computed only on demand.

pub(crate) mod reason;

mod dynamic_resources;
pub(crate) mod ledger_fence;
pub(crate) mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
pub(crate) mod node_resources_fit;
mod node_volume_limits;
mod inter_pod_affinity;
mod node_unschedulable;
pub(crate) mod pod_topology_spread;
pub(crate) mod table;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use smallvec::SmallVec;

use crate::census::class::Class;
use crate::model::intern::Interner;
use crate::plugin::{Plugin, StatusCode};
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;
use reason::Reason;

/// One filter plugin.
pub(crate) struct Filter {
    pub(crate) plugin: Plugin,
    pub(crate) scope: Scope,
    /// Facts of the node's own pods that the verdict depends on.
    pub(crate) reads: NodePods,
    /// The filter's PreFilter: its verdict on the pod as a whole.
    pub(crate) pre_filter: fn(&Prepared<'_>) -> Result<(), PreFilterFailure>,
    /// Whether the filter can refuse anything; `false` where PreFilter returns `Skip` (S-PF-1).
    pub(crate) applies: fn(&Prepared<'_>) -> bool,
    /// Clears the rows that the filter refuses from a set of occupied rows.
    pub(crate) run: fn(&Prepared<'_>, &Shard, &mut RowSet),
    /// Computes the reasons for refused rows.
    pub(crate) account: Account,
}

/// State that the verdict on a row depends on.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Scope {
    /// The row and the pod's shape: the verdict may be remembered until the row changes.
    Row,
    /// Other rows, other objects or the pod's identity: the filter runs in every attempt.
    Request,
    /// Counts of other pods: the filter runs in every attempt, and its verdict is the same for all rows of a class.
    Counts(ClassFilter),
}

/// Whether the rows of a class pass a filter.
pub(crate) type ClassFilter = fn(&Prepared<'_>, &Class<'_>) -> bool;

impl Scope {
    /// Whether a verdict may be remembered until the row changes.
    pub(crate) fn is_row(self) -> bool {
        matches!(self, Scope::Row)
    }
}

/// Facts of a node's own pods that a filter's verdict on that node depends on.
///
/// `dry_run` updates each of these while pods are added to a node and removed; a filter that reads another fact of the
/// pods needs a new variant here.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum NodePods {
    /// No fact: the verdict does not depend on the node's pods.
    Nothing,
    /// Number and requests of the pods.
    Requests,
    /// The host ports in use.
    HostPorts,
    /// The disks and claims in use that only one pod may use at a time.
    ExclusiveVolumes,
    /// The volumes in use of each driver.
    AttachedVolumes,
    /// The labels that topology spread constraints count.
    SpreadCounts,
    /// The labels and the terms that inter-pod affinity reads.
    Affinity,
}

/// How a PreFilter ends an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PreFilterFailure {
    /// No node can take the pod (S-PF-2); the text is the reason.
    Refused(String),
    /// The attempt fails (S-PF-4).
    Error(String),
}

/// The PreFilter of a filter that has none, or whose PreFilter never fails.
fn passes(_: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    Ok(())
}

/// How the reasons for refused rows are computed.
pub(crate) enum Account {
    /// Every row has this reason.
    Always(Reason),
    /// The reasons depend on the row.
    ByRow {
        /// Computes the refusal of one row.
        refusal: fn(&Prepared<'_>, &Shard, usize) -> Refusal,
        /// Counts the reasons of a set of refused rows.
        count: fn(&Prepared<'_>, &Shard, &RowSet, &mut ReasonCounts),
        /// The rows of such a set where evicting pods might help: those with code `Unschedulable`.
        resolvable: fn(&Prepared<'_>, &Shard, &RowSet) -> RowSet,
    },
}

/// No resolvable rows, for a filter against which evicting pods never helps.
fn none_resolvable(_: &Prepared<'_>, _: &Shard, _: &RowSet) -> RowSet {
    RowSet::EMPTY
}

/// Number of nodes for each reason (S-ERR-3).
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

impl Refusal {
    /// The reasons as texts, in the order in which the filter checks.
    pub(crate) fn texts<B: FromIterator<String>>(&self, names: &Interner) -> B {
        self.reasons.iter().map(|reason| reason.text(names).into_owned()).collect()
    }

    /// A refusal for one reason.
    pub(crate) fn of(reason: Reason) -> Refusal {
        Refusal { code: reason.code(), reasons: [reason].into_iter().collect() }
    }

    /// The refusal of one row by a filter with one reason for each row, derived from its counting function.
    fn counted(
        count: fn(&Prepared<'_>, &Shard, &RowSet, &mut ReasonCounts),
        prepared: &Prepared<'_>,
        shard: &Shard,
        row: usize,
    ) -> Refusal {
        let rows: RowSet = [row].into_iter().collect();
        let mut counts = ReasonCounts::default();
        count(prepared, shard, &rows, &mut counts);
        let reasons: SmallVec<[Reason; 2]> = counts.iter().map(|(reason, _)| reason).collect();
        debug_assert_eq!(reasons.len(), 1, "a refused row has one reason");
        let code = reasons.first().map_or(StatusCode::Unschedulable, |reason| reason.code());
        Refusal { code, reasons }
    }
}

impl Filter {
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

    /// The rows among those that the filter has cleared where evicting pods might help.
    pub(crate) fn resolvable(
        &self,
        prepared: &Prepared<'_>,
        shard: &Shard,
        refused: &RowSet,
    ) -> RowSet {
        match self.account {
            Account::Always(reason) if reason.code() == StatusCode::Unschedulable => *refused,
            Account::Always(_) => RowSet::EMPTY,
            Account::ByRow { resolvable, .. } => resolvable(prepared, shard, refused),
        }
    }

    /// Why this filter refuses a row that it has cleared.
    pub(crate) fn refusal(&self, prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
        let refusal = match self.account {
            Account::Always(reason) => Refusal::of(reason),
            Account::ByRow { refusal, .. } => refusal(prepared, shard, row),
        };
        debug_assert!(refusal.reasons.iter().all(|reason| reason.plugin() == self.plugin));
        refusal
    }
}
