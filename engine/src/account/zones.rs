//! VolumeZone: the zones and regions of the pod's volumes. Rule: S-VLZ-3.

use super::at::{At, Judged};
use super::comparison::Compared;
use crate::plan::counted::Filtering;

pub(super) fn compare(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let Some(found) = plan.volumes().found() else {
        return Vec::new();
    };
    let names = plan.names();
    let judged = found.zones.on_row(at.shard, at.row).map(|zone| {
        let mut values: Vec<_> = zone.label.values.iter().map(|value| names.name(*value)).collect();
        values.sort_unstable();
        let (claim, key) = (zone.claim.name.clone(), names.name(zone.label.key));
        let found = zone.found.map(|value| names.name(value));
        (zone.is_met, Compared::VolumeZone { claim, key, values, found })
    });
    judged.collect()
}
