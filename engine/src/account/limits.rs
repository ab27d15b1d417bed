//! NodeVolumeLimits: the drivers that the node has to have, and the volumes of each driver beside its limit there. Rules:
//! S-VLL-2, S-VLL-5, S-137-21.

use super::at::{At, Judged, largest};
use super::comparison::Compared;
use crate::plan::counted::Filtering;
use crate::prepared::volumes::limits::{DriverDemand, DriverOnRow, NeededDriver};

pub(super) fn compare(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let Some(found) = plan.volumes().found() else {
        return Vec::new();
    };
    if let Some(why) = &found.limits.refusal {
        return vec![(false, Compared::UnknownClaim { why: why.as_str().into() })];
    }
    let needs = found.limits.needs.iter().map(|needed| of_needed(plan, *needed, at));
    let limits = found.limits.demands.iter().map(|demand| of_driver(plan, demand, at));
    needs.chain(limits).collect()
}

fn of_needed(plan: &Filtering<'_, '_>, needed: NeededDriver, at: At<'_>) -> Judged {
    let storage = &plan.snapshot().storage;
    let lacking = needed.lacking(storage, at.shard.index, &at.rows());
    let driver = plan.names().name(needed.driver);
    (lacking.is_empty(), Compared::NeededDriver { driver })
}

fn of_driver(plan: &Filtering<'_, '_>, demand: &DriverDemand, at: At<'_>) -> Judged {
    let storage = &plan.snapshot().storage;
    let on_row = demand.on_row(storage, at.node_row());
    let placed = at.shard.pods.of(at.row).iter().map(|placed| &placed.pod);
    let amounts = placed.filter(|pod| pod.volumes().is_some()).map(|pod| {
        let volumes = storage.volumes_of(pod, at.node_row());
        let of_driver = volumes.iter().filter(|volume| volume.driver == demand.driver);
        (of_driver.count() as i64, pod.key())
    });
    let holders = largest(amounts.filter(|(amount, _)| *amount > 0));
    let driver = plan.names().name(demand.driver);
    let DriverOnRow { asked, in_use, limit } = on_row;
    let compared = Compared::VolumeLimit { driver, asked, in_use, limit, holders };
    (on_row.excess() == 0, compared)
}
