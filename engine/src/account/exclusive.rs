//! VolumeRestrictions: the pod's disks and its claims that only one pod may use, with their users. Rules: S-VLR-2, S-VLR-4.

use super::at::{At, Judged, first_by_name, pods_on};
use super::comparison::Compared;
use crate::model::key::ClaimKey;
use crate::model::volume::Disk;
use crate::plan::counted::Filtering;

pub(super) fn compare(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let (Some(found), Some(volumes)) = (plan.volumes().found(), plan.pod().volumes()) else {
        return Vec::new();
    };
    let disks = volumes.disks.iter().map(|disk| disk_on(plan, disk, at));
    let claims = found.restrictions.exclusive.iter().map(|claim| exclusive(plan, claim));
    disks.chain(claims).collect()
}

fn disk_on(plan: &Filtering<'_, '_>, disk: &Disk, at: At<'_>) -> Judged {
    let mut conflicts = plan.snapshot().storage.disks.conflicts(disk);
    let is_met = conflicts.all(|row| row != at.node_row());
    let pods = if is_met { Vec::new() } else { pods_on(at, |pod| pod.uses_disk(disk)) };
    (is_met, Compared::Disk { disk: disk.to_string().into(), pods })
}

/// The users of an exclusive claim, on whatever node.
fn exclusive(plan: &Filtering<'_, '_>, claim: &ClaimKey) -> Judged {
    let snapshot = plan.snapshot();
    let users = snapshot.storage.claims.users_of(claim).filter(|user| user.owner.is_none());
    let on_rows = users.flat_map(|user| {
        let shard = &snapshot.shards[user.row.shard()];
        shard.pods.of(user.row.row()).iter().map(|placed| &placed.pod)
    });
    let pods = first_by_name(on_rows.filter(|pod| pod.names_claim(claim)).map(|pod| pod.key()));
    (pods.is_empty(), Compared::ExclusiveClaim { claim: claim.name.clone(), pods })
}
