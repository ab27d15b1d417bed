//! A pod's volumes: its claims and its disks of in-tree plugins. Rules: S-VLR-1, S-VLR-4, S-VLL-1 to S-VLL-3.
//!
//! Volumes belong to the pod and not to its shape: the pods of a StatefulSet differ only in their claims.

use std::fmt;
use std::sync::Arc;

use berth_proto::core_v1;
use smallvec::SmallVec;

use super::intern::Interner;
use super::key::{ClaimKey, PodKey, VolumeId};
use super::storage::in_tree;

/// Bindings that placing a pod makes for its claims that wait for their first consumer (S-VLB-9). Claims are named
/// without the pod's namespace, and sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeBindings {
    /// Claims and the persistent volumes that they are bound to. A claim that the pod names several times may be here as
    /// often, with different volumes, in the order in which they were chosen.
    pub bound: Vec<(Arc<str>, Arc<str>)>,
    /// Claims that a driver has to provision for.
    pub provisioned: Vec<Arc<str>>,
}

/// The volumes of a pod that placement reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PodVolumes {
    /// Claims in spec order, with duplicates.
    pub(crate) claims: Vec<PodClaim>,
    pub(crate) disks: Vec<Disk>,
    /// Inline volumes that a CSI driver handles.
    pub(crate) inline: Vec<VolumeId>,
    /// Why an inline volume cannot be counted.
    pub(crate) invalid: Option<String>,
}

/// A claim that a pod names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PodClaim {
    pub(crate) key: ClaimKey,
    /// The volume's name where the claim is created for the pod (a generic ephemeral volume).
    ephemeral: Option<Arc<str>>,
}

/// A disk in a pod's spec that may be written from one place only (S-VLR-4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Disk {
    /// Keys of the disk; two disks are the same if they share one.
    pub(crate) keys: SmallVec<[DiskKey; 1]>,
    /// Whether the disk is mounted read-only, so that readers do not conflict; never true of Amazon's disks.
    pub(crate) is_read_only: bool,
}

/// Identifies a disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum DiskKey {
    GcePersistentDisk(Arc<str>),
    AwsElasticBlockStore(Arc<str>),
    /// The qualified name.
    Iscsi(Arc<str>),
    /// Pool, image and one of the monitors.
    Rbd(Arc<str>, Arc<str>, Arc<str>),
}

impl Disk {
    /// Whether both are one disk: they share a key.
    pub(crate) fn is_same_as(&self, other: &Disk) -> bool {
        self.keys.iter().any(|key| other.keys.contains(key))
    }
}

/// The disk as `KIND NAME`, by its first key.
impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keys.first() {
            Some(DiskKey::GcePersistentDisk(name)) => write!(f, "gcePersistentDisk {name}"),
            Some(DiskKey::AwsElasticBlockStore(name)) => write!(f, "awsElasticBlockStore {name}"),
            Some(DiskKey::Iscsi(name)) => write!(f, "iscsi {name}"),
            Some(DiskKey::Rbd(pool, image, monitor)) => {
                write!(f, "rbd {pool}/{image} at {monitor}")
            }
            None => f.write_str("disk"),
        }
    }
}

impl PodClaim {
    /// Whether the claim is created for the pod and must belong to it.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.ephemeral.is_some()
    }
}

impl PodVolumes {
    /// Compiles a pod's volumes; `None` where placement reads none of them.
    pub(crate) fn compile(
        volumes: &[core_v1::Volume],
        pod: &PodKey,
        names: &Interner,
    ) -> Option<Arc<PodVolumes>> {
        let mut compiled =
            PodVolumes { claims: Vec::new(), disks: Vec::new(), inline: Vec::new(), invalid: None };
        for volume in volumes {
            let Some(source) = &volume.volume_source else { continue };
            if let Some(claim) = &source.persistent_volume_claim {
                compiled.claims.push(PodClaim::direct(pod, &claim.claim_name));
            } else if source.ephemeral.is_some() {
                compiled.claims.push(PodClaim::made_for(pod, volume.name.as_str().into()));
            } else {
                compiled.disks.extend(disks(source));
                match in_tree::inline_volume(source, names) {
                    Ok(volume) => compiled.inline.extend(volume),
                    Err(why) => {
                        let why =
                            format!("converting volume({}) from inline to csi: {why}", volume.name);
                        compiled.invalid.get_or_insert(why);
                    }
                }
            }
        }
        (!compiled.is_empty()).then(|| Arc::new(compiled))
    }

    /// Returns these volumes for a pod with another name.
    pub(crate) fn of_pod(self: &Arc<PodVolumes>, pod: &PodKey) -> Arc<PodVolumes> {
        if self.claims.is_empty() {
            return self.clone();
        }
        let claims = self.claims.iter().map(|claim| match &claim.ephemeral {
            Some(volume) => PodClaim::made_for(pod, volume.clone()),
            None => PodClaim::direct(pod, &claim.key.name),
        });
        Arc::new(PodVolumes { claims: claims.collect(), ..PodVolumes::clone(self) })
    }

    /// These volumes without some claims; `None` where placement reads none of the others.
    pub(crate) fn without_claims(&self, names: &[Arc<str>]) -> Option<Arc<PodVolumes>> {
        let mut left = self.clone();
        left.claims.retain(|claim| !names.contains(&claim.key.name));
        (!left.is_empty()).then(|| Arc::new(left))
    }

    fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.disks.is_empty()
            && self.inline.is_empty()
            && self.invalid.is_none()
    }
}

impl PodClaim {
    fn direct(pod: &PodKey, name: &str) -> PodClaim {
        let key = ClaimKey { namespace: pod.namespace.clone(), name: name.into() };
        PodClaim { key, ephemeral: None }
    }

    /// S-VLL-2
    fn made_for(pod: &PodKey, volume: Arc<str>) -> PodClaim {
        let name = format!("{}-{volume}", pod.name).into();
        let key = ClaimKey { namespace: pod.namespace.clone(), name };
        PodClaim { key, ephemeral: Some(volume) }
    }
}

fn disks(source: &core_v1::VolumeSource) -> impl Iterator<Item = Disk> {
    let gce = source.gce_persistent_disk.as_ref().map(|disk| Disk {
        keys: [DiskKey::GcePersistentDisk(disk.pd_name.as_str().into())].into(),
        is_read_only: disk.read_only,
    });
    let aws = source.aws_elastic_block_store.as_ref().map(|disk| Disk {
        keys: [DiskKey::AwsElasticBlockStore(disk.volume_id.as_str().into())].into(),
        is_read_only: false,
    });
    let iscsi = source.iscsi.as_ref().map(|disk| Disk {
        keys: [DiskKey::Iscsi(disk.iqn.as_str().into())].into(),
        is_read_only: disk.read_only,
    });
    let rbd = source.rbd.as_ref().map(|disk| {
        let (pool, image): (Arc<str>, Arc<str>) =
            (disk.pool.as_str().into(), disk.image.as_str().into());
        let mut monitors: Vec<&str> = disk.monitors.iter().map(String::as_str).collect();
        monitors.sort_unstable();
        monitors.dedup();
        let key = |monitor: &str| DiskKey::Rbd(pool.clone(), image.clone(), monitor.into());
        Disk { keys: monitors.into_iter().map(key).collect(), is_read_only: disk.read_only }
    });
    [gce, aws, iscsi, rbd].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(json: &str, names: &Interner) -> Option<Arc<PodVolumes>> {
        let volumes: Vec<core_v1::Volume> = serde_json::from_str(json).unwrap();
        PodVolumes::compile(&volumes, &PodKey::new("ns", "p"), names)
    }

    /// S-VLL-1, S-VLL-2
    #[test]
    fn claims_are_named_directly_or_after_pod_and_volume() {
        let names = Interner::new();
        let json = r#"[
            {"name": "a", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "b", "ephemeral": {}},
            {"name": "d", "emptyDir": {}}]"#;
        let volumes = compile(json, &names).unwrap();
        let claims = |volumes: &PodVolumes| -> Vec<_> {
            let key = |claim: &PodClaim| format!("{}/{}", claim.key.namespace, claim.key.name);
            volumes.claims.iter().map(|claim| (key(claim), claim.is_ephemeral())).collect()
        };
        assert_eq!(claims(&volumes), [("ns/c".into(), false), ("ns/p-b".into(), true)]);
        let other = volumes.of_pod(&PodKey::new("other", "q"));
        assert_eq!(claims(&other), [("other/c".into(), false), ("other/q-b".into(), true)]);
        assert_eq!(compile(r#"[{"name": "d", "emptyDir": {}}]"#, &names), None);
    }

    /// S-VLR-4, S-VLL-3
    #[test]
    fn inline_disks_have_keys_and_drivers() {
        let names = Interner::new();
        let json = r#"[
            {"name": "a", "gcePersistentDisk": {"pdName": "d", "readOnly": true}},
            {"name": "b", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": true}},
            {"name": "c", "rbd": {"pool": "p", "image": "i", "monitors": ["y", "x", "y"]}},
            {"name": "d", "iscsi": {"iqn": "q", "targetPortal": "t", "lun": 0}},
            {"name": "e", "azureDisk": {"diskName": "n", "diskURI": "uri"}},
            {"name": "f", "awsElasticBlockStore": {"volumeID": "aws://zone/disk"}}]"#;
        let volumes = compile(json, &names).unwrap();
        let read_only: Vec<bool> = volumes.disks.iter().map(|disk| disk.is_read_only).collect();
        assert_eq!(read_only, [true, false, false, false, false]);
        let rbd = |monitor: &str| DiskKey::Rbd("p".into(), "i".into(), monitor.into());
        assert_eq!(*volumes.disks[2].keys, [rbd("x"), rbd("y")]);
        let id = |driver, handle: &str| VolumeId::of_handle(names.intern(driver), handle.into());
        let expected = [
            id("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            id("ebs.csi.aws.com", "vol-1"),
            id("disk.csi.azure.com", "uri"),
        ];
        assert_eq!(volumes.inline, expected);
        assert!(volumes.invalid.as_ref().is_some_and(|why| why.contains("volume(f)")));
    }
}
