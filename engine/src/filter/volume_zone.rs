//! VolumeZone: volumes that name their zone or region by a label. Rules: S-VLZ-1 to S-VLZ-4.
//! Reads: `NodeTable::labels`.
//!
//! Pods that VolumeBinding's PreFilter refuses never reach this filter (S-VLZ-4), unless the policy leaves that plugin
//! out.

use super::reason::Reason;
use super::{Account, Filter, NodePods, PreFilterFailure, Scope};
use crate::model::intern::Symbol;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::prepared::volumes::zones::Zones;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::VolumeZone,
    scope: Scope::Request,
    reads: NodePods::Nothing,
    pre_filter,
    applies,
    run,
    account: Account::Always(Reason::VolumeZone),
};

/// Refuses the pod as a whole (S-VLZ-1).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    match zones(prepared).and_then(|zones| zones.refusal.as_ref()) {
        Some(why) => Err(PreFilterFailure::Refused(why.clone())),
        None => Ok(()),
    }
}

/// Whether the filter applies (S-VLZ-2).
fn applies(prepared: &Prepared<'_>) -> bool {
    zones(prepared).is_some_and(|zones| !zones.labels.is_empty())
}

/// Clears the rows that have zone or region labels but lack a value of some volume's label (S-VLZ-3).
///
/// Cost: one lookup for each value of each label.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let Some(zones) = zones(prepared) else { return };
    let mut labelled = RowSet::EMPTY;
    for label in zones.keys.iter().filter_map(|key| shard.nodes.labels.get(key)) {
        labelled.union(&label.rows);
    }
    for (_, label) in &zones.labels {
        let mut inside = rows_with(shard, label.key, &label.values);
        if let Some(successor) = label.successor {
            let own = shard.nodes.labels.get(&label.key).map_or(RowSet::EMPTY, |label| label.rows);
            inside.union(&rows_with(shard, successor, &label.values).without(&own));
        }
        rows.subtract(&labelled.without(&inside));
    }
}

/// The rows whose label of a key has one of the values.
fn rows_with(shard: &Shard, key: Symbol, values: &[Symbol]) -> RowSet {
    let mut rows = RowSet::EMPTY;
    if let Some(label) = shard.nodes.labels.get(&key) {
        values.iter().filter_map(|value| label.values.get(value)).for_each(|v| rows.union(v));
    }
    rows
}

fn zones<'a>(prepared: &'a Prepared<'_>) -> Option<&'a Zones<'a>> {
    prepared.volumes().found().map(|found| &found.zones)
}
