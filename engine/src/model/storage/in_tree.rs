//! In-tree volume plugins and the CSI drivers that replaced them: a driver counts both (S-VLL-3).

use std::sync::Arc;

use berth_proto::{core_v1, meta_v1};

use crate::model::intern::{Interner, Symbol};
use crate::model::key::VolumeId;

const AWS_EBS: &str = "ebs.csi.aws.com";
const GCE_PD: &str = "pd.csi.storage.gke.io";
const AZURE_DISK: &str = "disk.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const PORTWORX: &str = "pxd.portworx.com";

/// The driver that counts the volumes of a class's provisioner; Azure File and vSphere are never counted.
pub(crate) fn driver_of(provisioner: &str, names: &Interner) -> Option<Symbol> {
    let driver = match provisioner {
        "kubernetes.io/aws-ebs" => AWS_EBS,
        "kubernetes.io/gce-pd" => GCE_PD,
        "kubernetes.io/azure-disk" => AZURE_DISK,
        "kubernetes.io/cinder" => CINDER,
        "kubernetes.io/portworx-volume" => PORTWORX,
        "" | "kubernetes.io/azure-file" | "kubernetes.io/vsphere-volume" => return None,
        other => other,
    };
    Some(names.intern(driver))
}

/// A volume in a pod's spec, as its driver counts it: `None` where no driver does, an error where it cannot be
/// translated.
pub(crate) fn inline_volume(
    source: &core_v1::VolumeSource,
    names: &Interner,
) -> Result<Option<VolumeId>, String> {
    if let Some(disk) = &source.aws_elastic_block_store {
        return match ebs_volume(&disk.volume_id) {
            Some(id) => Ok(volume(AWS_EBS, id, names)),
            None => Err(format!("invalid format for AWS volume ({})", disk.volume_id)),
        };
    }
    if let Some(disk) = &source.gce_persistent_disk {
        return Ok(volume(GCE_PD, &gce_disk("zones", UNSPECIFIED, &disk.pd_name), names));
    }
    if let Some(disk) = &source.azure_disk {
        return Ok(volume(AZURE_DISK, &disk.disk_uri, names));
    }
    if let Some(disk) = &source.cinder {
        return Ok(volume(CINDER, &disk.volume_id, names));
    }
    Ok(source.portworx_volume.as_ref().and_then(|disk| volume(PORTWORX, &disk.volume_id, names)))
}

/// A persistent volume as its driver counts it; `None` where no driver does.
pub(crate) fn persistent_volume(
    metadata: &meta_v1::ObjectMeta,
    source: &core_v1::PersistentVolumeSource,
    names: &Interner,
) -> Option<VolumeId> {
    if let Some(csi) = &source.csi {
        return volume(&csi.driver, &csi.volume_handle, names);
    }
    if let Some(disk) = &source.aws_elastic_block_store {
        return volume(AWS_EBS, ebs_volume(&disk.volume_id)?, names);
    }
    if let Some(disk) = &source.gce_persistent_disk {
        let label = |key| metadata.labels.get(key).map(String::as_str).filter(|v| !v.is_empty());
        let zones = label("failure-domain.beta.kubernetes.io/zone")
            .or_else(|| label("topology.kubernetes.io/zone"));
        let handle = match zones {
            None => gce_disk("zones", UNSPECIFIED, &disk.pd_name),
            Some(zones) if zones.contains("__") => {
                gce_disk("regions", region_of(zones)?, &disk.pd_name)
            }
            Some(zone) => gce_disk("zones", zone, &disk.pd_name),
        };
        return volume(GCE_PD, &handle, names);
    }
    if let Some(disk) = &source.azure_disk {
        return volume(AZURE_DISK, &disk.disk_uri, names);
    }
    if let Some(disk) = &source.cinder {
        return volume(CINDER, &disk.volume_id, names);
    }
    volume(PORTWORX, &source.portworx_volume.as_ref()?.volume_id, names)
}

/// A volume with a driver and a handle; others are not counted.
fn volume(driver: &str, handle: &str, names: &Interner) -> Option<VolumeId> {
    if driver.is_empty() || handle.is_empty() {
        return None;
    }
    Some(VolumeId::of_handle(names.intern(driver), Arc::from(handle)))
}

/// The id `vol-…`, either plain or after `aws://ZONE/`.
fn ebs_volume(id: &str) -> Option<&str> {
    let Some(rest) = id.strip_prefix("aws://") else {
        return Some(id);
    };
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    Some(path.trim_matches('/')).filter(|id| id.starts_with("vol-") && !id.contains('/'))
}

const UNSPECIFIED: &str = "UNSPECIFIED";

/// The handle of a disk in a zone or a region of an unspecified project.
fn gce_disk(level: &str, place: &str, name: &str) -> String {
    format!("projects/{UNSPECIFIED}/{level}/{place}/disks/{name}")
}

/// The common region of zones such as `us-east1-b__us-east1-c`.
fn region_of(zones: &str) -> Option<&str> {
    let region = |zone: &'_ str| -> Option<usize> {
        (zone.matches('-').count() == 2).then(|| zone.rfind('-')).flatten()
    };
    let first = zones.split("__").next()?;
    let found = &first[..region(first)?];
    zones
        .split("__")
        .all(|zone| region(zone).is_some_and(|end| &zone[..end] == found))
        .then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-VLL-3
    #[test]
    fn provisioners() {
        let names = Interner::new();
        let driver =
            |provisioner| driver_of(provisioner, &names).map(|d| names.name(d).to_string());
        for (provisioner, expected) in [
            ("kubernetes.io/aws-ebs", Some("ebs.csi.aws.com")),
            ("kubernetes.io/gce-pd", Some("pd.csi.storage.gke.io")),
            ("kubernetes.io/azure-disk", Some("disk.csi.azure.com")),
            ("kubernetes.io/cinder", Some("cinder.csi.openstack.org")),
            ("kubernetes.io/portworx-volume", Some("pxd.portworx.com")),
            ("csi.example.com", Some("csi.example.com")),
            ("kubernetes.io/azure-file", None),
            ("kubernetes.io/vsphere-volume", None),
            ("", None),
        ] {
            assert_eq!(driver(provisioner).as_deref(), expected, "{provisioner}");
        }
    }

    /// S-VLL-3
    #[test]
    fn persistent_volumes() {
        let names = Interner::new();
        for (json, driver) in [
            (r#"{"azureDisk": {"diskName": "n", "diskURI": "h"}}"#, AZURE_DISK),
            (r#"{"cinder": {"volumeID": "h"}}"#, CINDER),
            (r#"{"portworxVolume": {"volumeID": "h"}}"#, PORTWORX),
            (r#"{"csi": {"driver": "d", "volumeHandle": "h"}}"#, "d"),
            (r#"{"awsElasticBlockStore": {"volumeID": "h"}}"#, AWS_EBS),
        ] {
            let source = serde_json::from_str(json).unwrap();
            let counted = persistent_volume(&meta_v1::ObjectMeta::default(), &source, &names);
            assert_eq!(counted, volume(driver, "h", &names), "{json}");
        }
        let local = serde_json::from_str(r#"{"local": {"path": "/"}}"#).unwrap();
        assert_eq!(persistent_volume(&meta_v1::ObjectMeta::default(), &local, &names), None);
    }

    #[test]
    fn disks_of_amazon() {
        for (id, expected) in [
            ("vol-1", Some("vol-1")),
            ("aws:///vol-1", Some("vol-1")),
            ("aws://us-east-1a/vol-1", Some("vol-1")),
            ("anything", Some("anything")),
            ("aws://us-east-1a/disk-1", None),
            ("aws://us-east-1a", None),
        ] {
            assert_eq!(ebs_volume(id), expected, "{id}");
        }
    }

    #[test]
    fn disks_of_google() {
        let names = Interner::new();
        let handle = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            let metadata = meta_v1::ObjectMeta { labels, ..Default::default() };
            let disk = core_v1::GcePersistentDiskVolumeSource {
                pd_name: "d".into(),
                ..Default::default()
            };
            let source = core_v1::PersistentVolumeSource {
                gce_persistent_disk: Some(disk),
                ..Default::default()
            };
            persistent_volume(&metadata, &source, &names)
        };
        let expected = |handle: &str| volume(GCE_PD, handle, &names);
        let (old, new) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
        assert_eq!(handle(&[]), expected("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"));
        let zonal = expected("projects/UNSPECIFIED/zones/us-east1-b/disks/d");
        assert_eq!(handle(&[(new, "us-east1-b")]), zonal);
        assert_eq!(handle(&[(old, "us-east1-b"), (new, "us-east1-c")]), zonal);
        let regional = expected("projects/UNSPECIFIED/regions/us-east1/disks/d");
        assert_eq!(handle(&[(new, "us-east1-b__us-east1-c")]), regional);
        assert_eq!(handle(&[(new, "us-east1-b__us-west1-c")]), None);
        assert_eq!(handle(&[(new, "a__b")]), None);
    }
}
