//! NodeVolumeLimits: how many volumes of a driver a node can attach. Rules: S-VLL-1 to S-VLL-5.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::StatusCode;
use berth_proto::core_v1::{PersistentVolumeClaim, Pod, Volume, VolumeSource};

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::{Failure, Rejection};
use super::pod;
use super::volume_binding::{class_name, is_owned};

/// Driver and handle, which identify a volume.
type Attachable = (String, String);

/// Returns the CSI driver of an in-tree plugin's volumes; `None` for plugins that are never counted.
fn csi_driver(plugin: &str) -> Option<&'static str> {
    match plugin {
        "kubernetes.io/aws-ebs" => Some("ebs.csi.aws.com"),
        "kubernetes.io/gce-pd" => Some("pd.csi.storage.gke.io"),
        "kubernetes.io/azure-disk" => Some("disk.csi.azure.com"),
        "kubernetes.io/cinder" => Some("cinder.csi.openstack.org"),
        "kubernetes.io/portworx-volume" => Some("pxd.portworx.com"),
        _ => None,
    }
}

/// Whether the plugin has a CSI driver; not all such plugins are counted.
fn is_migratable(plugin: &str) -> bool {
    csi_driver(plugin).is_some()
        || ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"].contains(&plugin)
}

/// S-VLL-2 to S-VLL-5
pub(crate) fn filter(
    cluster: &NaiveCluster,
    of: &Pod,
    node: &NaiveNode,
) -> Result<Option<Rejection>, Failure> {
    let wanted = match attachable(cluster, of, node, true)? {
        Resolved::Volumes(volumes) => volumes,
        Resolved::Refused(reason) => {
            let code = StatusCode::UnschedulableAndUnresolvable;
            return Ok(Some(Rejection { code, reasons: vec![reason] }));
        }
    };
    let limits = limits(cluster, node);
    if wanted.is_empty() || limits.is_empty() {
        return Ok(None);
    }
    let mut on_pods: BTreeSet<Attachable> = BTreeSet::new();
    for other in &node.pods {
        if let Resolved::Volumes(volumes) = attachable(cluster, &other.pod, node, false)? {
            on_pods.extend(volumes);
        }
    }
    let new: BTreeSet<&Attachable> = wanted.iter().filter(|v| !on_pods.contains(v)).collect();
    let mut in_use = on_pods.clone();
    in_use.extend(attached(cluster, node));
    let exceeds = |(driver, limit): (&String, &i64)| {
        let n_new = new.iter().filter(|(of, _)| of == driver).count();
        let n_in_use = in_use.iter().filter(|(of, _)| of == driver).count();
        n_new > 0 && i64::try_from(n_in_use + n_new).expect("few") > *limit
    };
    let reasons = vec!["node(s) exceed max volume count".to_owned()];
    Ok(limits.iter().any(exceeds).then_some(Rejection { code: StatusCode::Unschedulable, reasons }))
}

/// S-VLL-4
fn limits(cluster: &NaiveCluster, node: &NaiveNode) -> BTreeMap<String, i64> {
    let csi_node = cluster.objects.csi_node(node.name());
    let drivers = csi_node.and_then(|csi_node| csi_node.spec.as_ref());
    let limit = |driver: &berth_proto::storage_v1::CsiNodeDriver| {
        Some((driver.name.clone(), i64::from(driver.allocatable.as_ref()?.count?)))
    };
    drivers.iter().flat_map(|spec| &spec.drivers).filter_map(limit).collect()
}

/// Returns the CSI volumes of the node's attachments, counted under the attacher, whatever driver the volume names
/// (S-VLL-5).
fn attached(cluster: &NaiveCluster, node: &NaiveNode) -> BTreeSet<Attachable> {
    let specs = cluster.objects.attachments().filter_map(|attachment| attachment.spec.as_ref());
    let here = specs.filter(|spec| spec.node_name == node.name());
    here.filter_map(|spec| {
        let name = spec.source.as_ref()?.persistent_volume_name.as_ref()?;
        let source =
            cluster.objects.volume(name)?.spec.as_ref()?.persistent_volume_source.as_ref()?;
        Some((spec.attacher.clone(), source.csi.as_ref()?.volume_handle.clone()))
    })
    .collect()
}

enum Resolved {
    Volumes(BTreeSet<Attachable>),
    Refused(String),
}

/// Returns the volumes of a pod as this node would attach them (S-VLL-2, S-VLL-3). Volumes of an existing pod are left
/// out if their claim is missing or does not belong to the pod.
fn attachable(
    cluster: &NaiveCluster,
    of: &Pod,
    node: &NaiveNode,
    is_new: bool,
) -> Result<Resolved, Failure> {
    let mut found = BTreeSet::new();
    let is_migrating = cluster.objects.csi_node(node.name()).is_some();
    for volume in of.spec.iter().flat_map(|spec| &spec.volumes) {
        let Some((claim_name, is_ephemeral)) = claim_of(of, volume) else {
            let inline = volume.volume_source.as_ref().and_then(inline);
            found.extend(inline.filter(|_| is_migrating));
            continue;
        };
        if claim_name.is_empty() && is_new {
            return Err(Failure);
        }
        let namespace = pod::namespace(of);
        let Some(claim) = cluster.objects.claim(namespace, &claim_name) else {
            if is_new {
                return Ok(Resolved::Refused(format!(
                    "looking up PVC {namespace}/{claim_name}: persistentvolumeclaim \"{claim_name}\" not found"
                )));
            }
            continue;
        };
        if is_ephemeral && !is_owned(claim, of) {
            if is_new {
                return Err(Failure);
            }
            continue;
        }
        let of_claim = of_claim(cluster, claim, is_migrating);
        // A volume without a driver or handle is not counted.
        found.extend(of_claim.filter(|(driver, handle)| !driver.is_empty() && !handle.is_empty()));
    }
    Ok(Resolved::Volumes(found))
}

fn claim_of(of: &Pod, volume: &Volume) -> Option<(String, bool)> {
    let spec =
        berth_proto::core_v1::PodSpec { volumes: vec![volume.clone()], ..Default::default() };
    pod::claims(&Pod { spec: Some(spec), metadata: of.metadata.clone(), status: None }).pop()
}

/// S-VLL-3
fn of_claim(
    cluster: &NaiveCluster,
    claim: &PersistentVolumeClaim,
    is_migrating: bool,
) -> Option<Attachable> {
    let spec = claim.spec.clone().unwrap_or_default();
    if !spec.volume_name.is_empty()
        && let Some(volume) = cluster.objects.volume(&spec.volume_name)
    {
        let source = volume.spec.as_ref()?.persistent_volume_source.as_ref()?;
        if let Some(csi) = &source.csi {
            return Some((csi.driver.clone(), csi.volume_handle.clone()));
        }
        let in_tree = VolumeSource {
            gce_persistent_disk: source.gce_persistent_disk.clone(),
            aws_elastic_block_store: source.aws_elastic_block_store.clone(),
            azure_disk: source.azure_disk.clone().map(Box::new),
            ..VolumeSource::default()
        };
        return inline(&in_tree).filter(|_| is_migrating);
    }
    let class = cluster.objects.class(&class_name(claim))?;
    let metadata = claim.metadata.as_ref()?;
    let handle = format!("private-{}/{}", super::objects::namespace(metadata), metadata.name);
    if !is_migratable(&class.provisioner) {
        return Some((class.provisioner.clone(), handle));
    }
    let driver = csi_driver(&class.provisioner).filter(|_| is_migrating)?;
    Some((driver.to_owned(), handle))
}

/// Returns an in-tree volume in the form of its CSI driver.
fn inline(source: &VolumeSource) -> Option<Attachable> {
    let (plugin, handle) = if let Some(disk) = &source.aws_elastic_block_store {
        ("kubernetes.io/aws-ebs", &disk.volume_id)
    } else if let Some(disk) = &source.gce_persistent_disk {
        ("kubernetes.io/gce-pd", &disk.pd_name)
    } else if let Some(disk) = &source.azure_disk {
        ("kubernetes.io/azure-disk", &disk.disk_uri)
    } else if let Some(disk) = &source.cinder {
        ("kubernetes.io/cinder", &disk.volume_id)
    } else {
        return None;
    };
    Some((csi_driver(plugin)?.to_owned(), handle.clone()))
}
