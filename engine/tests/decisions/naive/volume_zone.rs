//! VolumeZone: bound volumes with zone or region labels. Rules: S-VLZ-1 to S-VLZ-3.

use std::collections::BTreeSet;

use berth_proto::core_v1::Pod;

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::{Rejection, unresolvable};
use super::pod;
use super::volume_binding::class_name;

/// Each key with the alternative that is looked up on a node without it.
const KEYS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// The values that one label of a volume allows on a node.
#[derive(Clone)]
pub(crate) struct Demand {
    key: &'static str,
    other_key: &'static str,
    values: BTreeSet<String>,
}

/// Returns the demands of the pod's volumes, or why the pod is refused (S-VLZ-1, S-VLZ-2).
pub(crate) fn pre_filter(cluster: &NaiveCluster, of: &Pod) -> Result<Vec<Demand>, String> {
    let mut demands = Vec::new();
    for (name, _) in pod::claims(of).into_iter().filter(|(_, is_ephemeral)| !is_ephemeral) {
        if name.is_empty() {
            return Err("PersistentVolumeClaim had no name".to_owned());
        }
        let Some(claim) = cluster.objects.claim(pod::namespace(of), &name) else {
            return Err(format!("persistentvolumeclaim \"{name}\" not found"));
        };
        let volume = claim.spec.as_ref().map(|spec| spec.volume_name.clone()).unwrap_or_default();
        if volume.is_empty() {
            let class = class_name(claim);
            if class.is_empty() {
                return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
            }
            let Some(found) = cluster.objects.class(&class) else {
                return Err(format!("storageclass.storage.k8s.io \"{class}\" not found"));
            };
            match found.volume_binding_mode.as_deref() {
                None => {
                    return Err(format!("VolumeBindingMode not set for StorageClass \"{class}\""));
                }
                Some("WaitForFirstConsumer") => continue,
                Some(_) => return Err("PersistentVolume had no name".to_owned()),
            }
        }
        let Some(found) = cluster.objects.volume(&volume) else {
            return Err(format!("persistentvolume \"{volume}\" not found"));
        };
        let labels = found.metadata.as_ref().map(|metadata| metadata.labels.clone());
        let labels = labels.unwrap_or_default();
        for (key, other_key) in KEYS {
            let Some(value) = labels.get(key) else {
                continue;
            };
            let values: BTreeSet<String> =
                value.split("__").map(|part| part.trim().to_owned()).collect();
            if !values.contains("") {
                demands.push(Demand { key, other_key, values });
            }
        }
    }
    Ok(demands)
}

/// S-VLZ-3
pub(crate) fn filter(demands: &[Demand], node: &NaiveNode) -> Option<Rejection> {
    if KEYS.iter().all(|(key, _)| node.label(key).is_none()) {
        return None;
    }
    let is_met = |demand: &Demand| {
        let value = node.label(demand.key).or_else(|| node.label(demand.other_key));
        value.is_some_and(|value| demand.values.contains(value))
    };
    let are_met = demands.iter().all(is_met);
    if are_met { None } else { unresolvable("node(s) had no available volume zone") }
}
