//! ClaimIndex: claims by name, by volume and by class, the pods that use them, and the nodes selected for them.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::assumed::AssumptionId;
use super::hashed::{HashMap, Hashed};
use crate::model::intern::Symbol;
use crate::model::key::{ClaimKey, VolumeId};
use crate::model::storage::persistent_volume_claim::PersistentVolumeClaim;
use crate::rows::NodeRow;

/// Claims and their use. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimIndex {
    by_key: HashMap<ClaimKey, KnownClaim>,
    by_volume: OrdSet<(Arc<str>, ClaimKey)>,
    by_class: OrdSet<(Symbol, ClaimKey)>,
    users: OrdMap<(Hashed<ClaimKey>, ClaimUser), u32>,
    /// Nodes that were selected with assumed pods, in order of the assumptions (S-VLB-9).
    selected: OrdMap<(ClaimKey, AssumptionId), Symbol>,
}

/// A claim of the cluster.
#[derive(Clone, Debug)]
struct KnownClaim {
    claim: Arc<PersistentVolumeClaim>,
    /// The volume of the claim as it counts against a driver's limit; `None` where it does not count (S-VLL-3).
    counted: Option<VolumeId>,
}

/// A user of a claim.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ClaimUser {
    pub(crate) row: NodeRow,
    /// The uid of the pod, if it must own the claim (a generic ephemeral volume).
    pub(crate) owner: Option<Arc<str>>,
}

const FIRST_USER: ClaimUser = ClaimUser { row: NodeRow::FIRST, owner: None };

impl ClaimIndex {
    pub(crate) fn get(&self, key: &ClaimKey) -> Option<&PersistentVolumeClaim> {
        self.by_key.get(key).map(|known| &*known.claim)
    }

    /// The volume of a claim as it counts against a driver's limit; `None` where it does not count (S-VLL-3).
    pub(crate) fn counted(&self, key: &ClaimKey) -> Option<&VolumeId> {
        self.by_key.get(key)?.counted.as_ref()
    }

    /// The volume of a claim as it counts for a user: a claim that was created for one pod does not count for another.
    pub(super) fn counted_for(&self, key: &ClaimKey, user: &ClaimUser) -> Option<&VolumeId> {
        let KnownClaim { claim, counted } = self.by_key.get(key)?;
        let is_owned = user.owner.as_ref().is_none_or(|owner| claim.is_owned_by(owner));
        counted.as_ref().filter(|_| is_owned)
    }

    /// Sets the volume of a claim as it counts.
    pub(super) fn set_counted(&mut self, key: &ClaimKey, counted: Option<VolumeId>) {
        if let Some(known) = self.by_key.get_mut(key) {
            known.counted = counted;
        }
    }

    /// The claims that name a volume.
    pub(crate) fn of_volume(&self, name: &Arc<str>) -> Vec<ClaimKey> {
        let from = (name.clone(), first_claim());
        let claims = self.by_volume.range(from..).take_while(|(of, _)| of == name);
        claims.map(|(_, key)| key.clone()).collect()
    }

    /// The claims of a class.
    pub(crate) fn of_class(&self, class: Symbol) -> Vec<ClaimKey> {
        let claims = self.by_class.range((class, first_claim())..);
        claims.take_while(|(of, _)| *of == class).map(|(_, key)| key.clone()).collect()
    }

    /// Adds, replaces or removes the claim of a key, which does not count before [`ClaimIndex::set_counted`].
    pub(crate) fn replace(&mut self, key: &ClaimKey, new: Option<&Arc<PersistentVolumeClaim>>) {
        if let Some(KnownClaim { claim: old, .. }) = self.by_key.remove(key) {
            self.by_class.remove(&(old.class, key.clone()));
            if let Some(volume) = &old.volume {
                self.by_volume.remove(&(volume.clone(), key.clone()));
            }
        }
        let Some(claim) = new else { return };
        self.by_class.insert((claim.class, key.clone()));
        if let Some(volume) = &claim.volume {
            self.by_volume.insert((volume.clone(), key.clone()));
        }
        self.by_key.insert(key.clone(), KnownClaim { claim: claim.clone(), counted: None });
    }

    /// Adds a user of the claim; returns whether it is the first of its kind on its row.
    pub(crate) fn add_user(&mut self, key: &ClaimKey, user: &ClaimUser) -> bool {
        let entry = || (Hashed::of(key.clone()), user.clone());
        // Most users are the only one of their kind, so that this is all.
        let Some(n_uses) = self.users.insert(entry(), 1) else { return true };
        self.users.insert(entry(), n_uses + 1);
        false
    }

    /// Removes a user of the claim; returns whether it was the last of its kind on its row.
    pub(crate) fn remove_user(&mut self, key: &ClaimKey, user: &ClaimUser) -> bool {
        let entry = (Hashed::of(key.clone()), user.clone());
        let Some(n_uses) = self.users.remove(&entry) else {
            debug_assert!(false, "a claim that was never used");
            return false;
        };
        if n_uses > 1 {
            self.users.insert(entry, n_uses - 1);
        }
        n_uses == 1
    }

    /// Users of a claim, each kind of user of a row once.
    pub(crate) fn users_of<'a>(&'a self, key: &'a ClaimKey) -> impl Iterator<Item = &'a ClaimUser> {
        let users = self.users.range((Hashed::of(key.clone()), FIRST_USER)..);
        users.take_while(move |((of, _), _)| of.key == *key).map(|((_, user), _)| user)
    }

    /// Whether a pod on a node names the claim (S-VLR-2); generic ephemeral volumes do not count.
    pub(crate) fn is_used(&self, key: &ClaimKey) -> bool {
        self.users_of(key).any(|user| user.owner.is_none())
    }

    /// The node that a driver has to provision for: the cluster's annotation, or else the latest assumption (S-VLB-5).
    pub(crate) fn selected_node(&self, claim: &PersistentVolumeClaim) -> Option<Symbol> {
        if claim.selected_node.is_some() || self.selected.is_empty() {
            return claim.selected_node;
        }
        let selected = self.selected.range((claim.key.clone(), AssumptionId::FIRST)..);
        selected.take_while(|((of, _), _)| *of == claim.key).map(|(_, node)| *node).last()
    }

    /// Records that a pod that uses the claim was assumed on a node (S-VLB-9).
    pub(super) fn select(&mut self, key: &ClaimKey, id: AssumptionId, node: Symbol) {
        self.selected.insert((key.clone(), id), node);
    }

    /// Removes the record of a pod that is forgotten.
    pub(super) fn deselect(&mut self, key: &ClaimKey, id: AssumptionId) {
        self.selected.remove(&(key.clone(), id));
    }
}

/// A key before every claim.
fn first_claim() -> ClaimKey {
    ClaimKey { namespace: "".into(), name: "".into() }
}
