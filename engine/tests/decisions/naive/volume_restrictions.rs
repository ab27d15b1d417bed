//! VolumeRestrictions: disk conflicts on a node, and claims that only one pod may use. Rules: S-VLR-1 to S-VLR-6.

use std::collections::BTreeSet;

use berth_engine::StatusCode;
use berth_proto::core_v1::{Pod, VolumeSource};

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::Rejection;
use super::pod;

/// The pod's claims that only one pod may use, with the number of uses by other pods.
#[derive(Clone)]
pub(crate) struct Restrictions {
    exclusive: BTreeSet<String>,
    n_conflicts: i64,
}

/// `Err` is the reason for which the pod is refused (S-VLR-1), `None` means that the plugin skips (S-VLR-3).
pub(crate) fn pre_filter(cluster: &NaiveCluster, of: &Pod) -> Result<Option<Restrictions>, String> {
    let mut exclusive = BTreeSet::new();
    for name in direct_claims(of) {
        let Some(claim) = cluster.objects.claim(pod::namespace(of), &name) else {
            return Err(format!("persistentvolumeclaim \"{name}\" not found"));
        };
        let mut modes = claim.spec.iter().flat_map(|spec| &spec.access_modes);
        if modes.any(|mode| mode == "ReadWriteOncePod") {
            exclusive.insert(name);
        }
    }
    // A claim counts once here, regardless of the number of pods that use it (S-VLR-2).
    let is_in_use = |name: &&String| {
        cluster.placed_pods().any(|(_, other)| {
            pod::namespace(other) == pod::namespace(of) && direct_claims(other).contains(name)
        })
    };
    let n_conflicts = i64::try_from(exclusive.iter().filter(is_in_use).count()).expect("few");
    let has_disk = sources(of).any(|source| {
        source.gce_persistent_disk.is_some()
            || source.aws_elastic_block_store.is_some()
            || source.iscsi.is_some()
            || source.rbd.is_some()
    });
    Ok((has_disk || n_conflicts > 0).then_some(Restrictions { exclusive, n_conflicts }))
}

impl Restrictions {
    /// S-VLR-4, S-VLR-5
    pub(crate) fn filter(&self, of: &Pod, node: &NaiveNode) -> Option<Rejection> {
        let is_taken = |source: &VolumeSource| {
            let mut others = node.pods.iter().flat_map(|other| sources(&other.pod));
            others.any(|other| conflict(source, other))
        };
        let reason = if sources(of).any(is_taken) {
            "node(s) had no available disk"
        } else if self.n_conflicts > 0 {
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
        } else {
            return None;
        };
        Some(Rejection { code: StatusCode::Unschedulable, reasons: vec![reason.to_owned()] })
    }

    /// Adds or removes the volumes of a pod, each counted by the name of its claim alone (S-VLR-6).
    pub(crate) fn count(&mut self, other: &Pod, step: i64) {
        for name in direct_claims(other) {
            if self.exclusive.contains(&name) {
                self.n_conflicts += step;
            }
        }
    }
}

/// Names of the claims that the pod's volumes name themselves, in order.
fn direct_claims(of: &Pod) -> Vec<String> {
    let claims = pod::claims(of).into_iter().filter(|(_, is_ephemeral)| !is_ephemeral);
    claims.map(|(name, _)| name).collect()
}

fn sources(of: &Pod) -> impl Iterator<Item = &VolumeSource> {
    let volumes = of.spec.iter().flat_map(|spec| &spec.volumes);
    volumes.filter_map(|volume| volume.volume_source.as_ref())
}

/// S-VLR-4
fn conflict(a: &VolumeSource, b: &VolumeSource) -> bool {
    if let (Some(a), Some(b)) = (&a.gce_persistent_disk, &b.gce_persistent_disk)
        && a.pd_name == b.pd_name
        && !(a.read_only && b.read_only)
    {
        return true;
    }
    if let (Some(a), Some(b)) = (&a.aws_elastic_block_store, &b.aws_elastic_block_store)
        && a.volume_id == b.volume_id
    {
        return true;
    }
    if let (Some(a), Some(b)) = (&a.iscsi, &b.iscsi)
        && a.iqn == b.iqn
        && !(a.read_only && b.read_only)
    {
        return true;
    }
    if let (Some(a), Some(b)) = (&a.rbd, &b.rbd) {
        let has_common_monitor = a.monitors.iter().any(|monitor| b.monitors.contains(monitor));
        return has_common_monitor
            && (&a.pool, &a.image) == (&b.pool, &b.image)
            && !(a.read_only && b.read_only);
    }
    false
}
