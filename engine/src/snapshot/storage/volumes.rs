//! VolumeIndex: persistent volumes by name, by their claim, and unclaimed ones by class and size.

use std::sync::Arc;

use berth_proto::Amount;
use imbl::{OrdMap, OrdSet};

use super::anchored::Anchored;
use super::assumed::AssumptionId;
use super::claims::ClaimIndex;
use super::hashed::HashMap;
use crate::model::intern::Symbol;
use crate::model::key::ClaimKey;
use crate::model::storage::persistent_volume::{ClaimReference, PersistentVolume};

/// Persistent volumes. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeIndex {
    by_name: HashMap<Arc<str>, Arc<PersistentVolume>>,
    /// Available volumes without a claim, smallest first.
    free: Anchored<(Amount, Arc<str>), Arc<PersistentVolume>>,
    /// Claim and volume → the uid of the intended claim, empty where any matches.
    claimed: OrdMap<(ClaimKey, Arc<str>), Arc<str>>,
    /// Volumes and the claims of assumed pods that they were chosen for, in order of the assumptions (S-VLB-9).
    assumed: OrdMap<(Arc<str>, AssumptionId), ClaimKey>,
    /// Assumed volumes by claim.
    assumed_for: OrdSet<(ClaimKey, AssumptionId, Arc<str>)>,
}

impl VolumeIndex {
    pub(crate) fn get(&self, name: &str) -> Option<&PersistentVolume> {
        self.by_name.get(name).map(|volume| &**volume)
    }

    /// Volumes that are reserved for a claim, by name (S-VLB-6).
    pub(crate) fn claimed_by<'a>(
        &'a self,
        key: &'a ClaimKey,
        uid: &'a str,
    ) -> impl Iterator<Item = &'a PersistentVolume> {
        let claimed = self.claimed.range((key.clone(), Arc::from(""))..);
        claimed
            .take_while(move |((of, _), _)| of == key)
            .filter(move |(_, meant)| meant.is_empty() || ***meant == *uid)
            .filter_map(|((_, name), _)| self.get(name))
    }

    /// Available volumes without a claim.
    pub(crate) fn free(&self) -> &Anchored<(Amount, Arc<str>), Arc<PersistentVolume>> {
        &self.free
    }

    /// Adds, replaces or removes the volume of a name.
    pub(crate) fn replace(
        &mut self,
        name: &Arc<str>,
        new: Option<&Arc<PersistentVolume>>,
        claims: &ClaimIndex,
    ) {
        self.unindex(name, claims);
        match new {
            Some(volume) => self.by_name.insert(name.clone(), volume.clone()),
            None => self.by_name.remove(name),
        };
        self.index(name, claims);
    }

    /// Records that a pod was assumed, whose claim gets the volume (S-VLB-9).
    pub(super) fn assume(
        &mut self,
        name: &Arc<str>,
        id: AssumptionId,
        claim: &ClaimKey,
        claims: &ClaimIndex,
    ) {
        self.unindex(name, claims);
        self.assumed.insert((name.clone(), id), claim.clone());
        self.assumed_for.insert((claim.clone(), id, name.clone()));
        self.index(name, claims);
    }

    /// Removes the record of a pod that is forgotten.
    pub(super) fn release(
        &mut self,
        name: &Arc<str>,
        id: AssumptionId,
        claim: &ClaimKey,
        claims: &ClaimIndex,
    ) {
        self.unindex(name, claims);
        self.assumed.remove(&(name.clone(), id));
        self.assumed_for.remove(&(claim.clone(), id, name.clone()));
        self.index(name, claims);
    }

    /// Volumes that were assumed for a claim: whether it owns them depends on the claim. They have to be removed from
    /// the index while the claim changes.
    pub(super) fn assumed_for(&self, claim: &ClaimKey) -> Vec<Arc<str>> {
        let from = (claim.clone(), AssumptionId::FIRST, Arc::from(""));
        let assumed = self.assumed_for.range(from..).take_while(|(of, _, _)| of == claim);
        assumed.map(|(_, _, name)| name.clone()).collect()
    }

    /// Adds a volume to the index under its current claim.
    pub(super) fn index(&mut self, name: &Arc<str>, claims: &ClaimIndex) {
        let Some(volume) = self.by_name.get(name).cloned() else { return };
        match self.claim_of(&volume, claims) {
            Some(claim) => {
                self.claimed.insert((claim.key, name.clone()), claim.uid);
            }
            None if is_offered(&volume) => {
                let key = (volume.capacity, name.clone());
                self.free.insert(volume.class, volume.anchors(), &key, &volume);
            }
            None => {}
        }
    }

    /// Removes a volume from the index; nothing may have changed since [`VolumeIndex::index`].
    pub(super) fn unindex(&mut self, name: &Arc<str>, claims: &ClaimIndex) {
        let Some(volume) = self.by_name.get(name).cloned() else { return };
        match self.claim_of(&volume, claims) {
            Some(claim) => {
                self.claimed.remove(&(claim.key, name.clone()));
            }
            None if is_offered(&volume) => {
                let key = (volume.capacity, name.clone());
                self.free.remove(volume.class, volume.anchors(), &key);
            }
            None => {}
        }
    }

    /// The claim that owns a volume (S-VLB-6): the cluster's reference, or else the latest assumption for a claim that
    /// has no other volume.
    fn claim_of(&self, volume: &PersistentVolume, claims: &ClaimIndex) -> Option<ClaimReference> {
        if volume.claim.is_some() || self.assumed.is_empty() {
            return volume.claim.clone();
        }
        let from = (volume.name.clone(), AssumptionId::FIRST);
        let assumed = self.assumed.range(from..).take_while(|((of, _), _)| *of == volume.name);
        let claims = assumed.filter_map(|(_, key)| claims.get(key));
        let claim = claims.filter(|claim| claim.volume.is_none()).last()?;
        Some(ClaimReference { key: claim.key.clone(), uid: claim.uid.clone() })
    }
}

/// Whether a claim without a volume could get this one (S-VLB-6).
fn is_offered(volume: &PersistentVolume) -> bool {
    volume.is_available && !volume.is_deleting && volume.class != Symbol::EMPTY
}
