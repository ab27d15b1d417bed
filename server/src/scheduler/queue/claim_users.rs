//! Claim users: the pods that name each claim for devices, and whether they can use their claims.

use std::collections::{BTreeSet, HashMap};

use berth_engine::{ObjectKey, Pod, PodKey};

use super::entry::Entry;
use crate::scheduler::pending::Pending;

/// Says whether every claim that a pod names can be used by it now (S-DRA-10, S-DRA-11).
pub type HasUsableClaims<'a> = &'a dyn Fn(&Pod) -> bool;

impl Entry {
    /// Whether the pod can use its claims; one that the engine refuses cannot.
    pub(super) fn has_usable_claims(&self, is_usable: HasUsableClaims<'_>) -> bool {
        self.pending.pod.as_ref().is_ok_and(is_usable)
    }
}

/// The pods of the queue that name each claim for devices, whether the claim is there or not.
#[derive(Debug, Default)]
pub(super) struct ClaimUsers(HashMap<ObjectKey, BTreeSet<PodKey>>);

impl ClaimUsers {
    /// Enters a pod.
    pub(super) fn join(&mut self, pending: &Pending) {
        for claim in claims_of(pending) {
            self.0.entry(claim).or_default().insert(pending.key.clone());
        }
    }

    /// Removes a pod, which is as it was when it was entered.
    pub(super) fn leave(&mut self, pending: &Pending) {
        for claim in claims_of(pending) {
            if let Some(users) = self.0.get_mut(&claim) {
                users.remove(&pending.key);
                if users.is_empty() {
                    self.0.remove(&claim);
                }
            }
        }
    }

    /// The pods that name the claim, by name.
    pub(super) fn of(&self, claim: &ObjectKey) -> Vec<PodKey> {
        self.0.get(claim).map(|users| users.iter().cloned().collect()).unwrap_or_default()
    }

    /// Number of claims that are named.
    #[cfg(test)]
    pub(super) fn n_claims(&self) -> usize {
        self.0.len()
    }
}

fn claims_of(pending: &Pending) -> impl Iterator<Item = ObjectKey> {
    pending.pod.iter().flat_map(Pod::named_device_claims)
}
