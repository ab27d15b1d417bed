//! Zones: the zones and regions that a pod's volumes are in. Rules: S-VLZ-1, S-VLZ-2.

use smallvec::SmallVec;

use crate::model::intern::Symbol;
use crate::model::key::ClaimKey;
use crate::model::label_selector::value_of;
use crate::model::storage::persistent_volume::{ZONE_LABELS, ZoneLabel};
use crate::model::storage::persistent_volume_claim::PersistentVolumeClaim;
use crate::model::storage::storage_class::BindingMode;
use crate::model::volume::{PodClaim, PodVolumes};
use crate::prepared::volumes::lookup::{CLAIMS, not_found};
use crate::snapshot::Snapshot;
use crate::snapshot::shard::Shard;

/// Facts that VolumeZone needs.
pub(crate) struct Zones<'a> {
    /// Why the pod as a whole is refused (S-VLZ-1).
    pub(crate) refusal: Option<String>,
    /// Every zone and region label of every volume, with its claim; for each, the node must have one of its values.
    pub(crate) labels: Vec<(ClaimKey, &'a ZoneLabel)>,
    /// The label keys for zones and regions that any node or volume uses.
    pub(crate) keys: SmallVec<[Symbol; 4]>,
}

impl<'a> Zones<'a> {
    pub(super) fn find(snapshot: &'a Snapshot, volumes: &PodVolumes) -> Zones<'a> {
        let names = snapshot.model.names();
        let keys = ZONE_LABELS.iter().filter_map(|(key, _)| names.get(key)).collect();
        let mut zones = Zones { refusal: None, labels: Vec::new(), keys };
        for claim in volumes.claims.iter().filter(|claim| !claim.is_ephemeral()) {
            match labels_of(snapshot, claim) {
                Ok(labels) => {
                    zones.labels.extend(labels.iter().map(|label| (claim.key.clone(), label)));
                }
                Err(why) => {
                    zones.refusal = Some(why);
                    break;
                }
            }
        }
        zones
    }
}

/// A zone or region label of a claim's volume beside the node's label.
pub(crate) struct ZoneOnRow<'z> {
    pub(crate) claim: &'z ClaimKey,
    pub(crate) label: &'z ZoneLabel,
    /// The node's value of the label's key, or else of its successor.
    pub(crate) found: Option<Symbol>,
    pub(crate) is_met: bool,
}

impl Zones<'_> {
    /// Each label beside a row's (S-VLZ-3): a node without any zone or region label passes.
    pub(crate) fn on_row<'z>(
        &'z self,
        shard: &'z Shard,
        row: usize,
    ) -> impl Iterator<Item = ZoneOnRow<'z>> + 'z {
        let labels = shard.nodes.node(row).map(|node| &node.facts().labels);
        let value = move |key| value_of(labels?, key);
        let is_labelled = self.keys.iter().any(|key| value(*key).is_some());
        self.labels.iter().map(move |(claim, label)| {
            let found = value(label.key).or_else(|| value(label.successor?));
            let is_inside = found.is_some_and(|value| label.values.contains(&value));
            ZoneOnRow { claim, label, found, is_met: !is_labelled || is_inside }
        })
    }
}

/// The labels of a claim's volume; none for a claim that waits for its first consumer.
fn labels_of<'a>(snapshot: &'a Snapshot, claim: &PodClaim) -> Result<&'a [ZoneLabel], String> {
    let storage = &snapshot.storage;
    if claim.key.name.is_empty() {
        return Err("PersistentVolumeClaim had no name".to_owned());
    }
    let claim = storage.claims.get(&claim.key).ok_or_else(|| not_found(CLAIMS, &claim.key.name))?;
    let Some(name) = &claim.volume else {
        return check_waits(snapshot, claim).map(|()| &[][..]);
    };
    let volume = storage.volumes.get(name);
    Ok(&volume.ok_or_else(|| not_found("persistentvolume", name))?.zones)
}

fn check_waits(snapshot: &Snapshot, claim: &PersistentVolumeClaim) -> Result<(), String> {
    if claim.class == Symbol::EMPTY {
        return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
    }
    let name = snapshot.model.names().name(claim.class);
    let Some(class) = snapshot.storage.class(claim.class) else {
        return Err(not_found("storageclass.storage.k8s.io", &name));
    };
    match class.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass \"{name}\"")),
        Some(BindingMode::WaitForFirstConsumer) => Ok(()),
        Some(BindingMode::Immediate) => Err("PersistentVolume had no name".to_owned()),
    }
}
