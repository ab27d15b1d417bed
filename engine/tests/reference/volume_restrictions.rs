//! VolumeRestrictions: disks of one node, claims of one pod. Rules: S-VLR-1 to S-VLR-5.

use berth_engine::StatusCode;
use berth_proto::core_v1::{Pod, VolumeSource};

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::Rejection;
use super::pod;

/// `Err` tells why the pod is refused (S-VLR-1).
pub(crate) fn pre_filter(cluster: &NaiveCluster, of: &Pod) -> Result<(), String> {
    for (name, _) in pod::claims(of).into_iter().filter(|(_, is_ephemeral)| !is_ephemeral) {
        if cluster.objects.claim(pod::namespace(of), &name).is_none() {
            return Err(format!("persistentvolumeclaim \"{name}\" not found"));
        }
    }
    Ok(())
}

/// S-VLR-2 to S-VLR-5
pub(crate) fn filter(cluster: &NaiveCluster, of: &Pod, node: &NaiveNode) -> Option<Rejection> {
    let sources: Vec<&VolumeSource> = sources(of).collect();
    let is_taken = |source: &&VolumeSource| {
        let others = node.pods.iter().flat_map(|other| self::sources(&other.pod));
        others.into_iter().any(|other| conflict(source, other))
    };
    let reason = if sources.iter().any(is_taken) {
        "node(s) had no available disk"
    } else if names_a_claim_in_use(cluster, of) {
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    } else {
        return None;
    };
    Some(Rejection { code: StatusCode::Unschedulable, reasons: vec![reason.to_owned()] })
}

fn sources(of: &Pod) -> impl Iterator<Item = &VolumeSource> {
    let volumes = of.spec.iter().flat_map(|spec| &spec.volumes);
    volumes.filter_map(|volume| volume.volume_source.as_ref())
}

/// S-VLR-2
fn names_a_claim_in_use(cluster: &NaiveCluster, of: &Pod) -> bool {
    let direct = |of: &Pod| {
        let claims = pod::claims(of).into_iter().filter(|(_, is_ephemeral)| !is_ephemeral);
        claims.map(|(name, _)| name).collect::<Vec<_>>()
    };
    let namespace = pod::namespace(of);
    let is_exclusive = |name: &String| {
        let claim = cluster.objects.claim(namespace, name).and_then(|claim| claim.spec.as_ref());
        claim.is_some_and(|spec| spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod"))
    };
    direct(of).iter().filter(|name| is_exclusive(name)).any(|name| {
        cluster
            .placed_pods()
            .any(|(_, other)| pod::namespace(other) == namespace && direct(other).contains(name))
    })
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
