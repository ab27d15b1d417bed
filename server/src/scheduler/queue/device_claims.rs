//! Device claims: which pods a change of a claim for devices wakes. Rules: S-DRA-126 to S-DRA-128.
//!
//! kube-scheduler asks each waiting pod about each event, and keeps the events of an attempt under way. Here the pods
//! that name a claim are found by its name, and a pod under way keeps one bit, so that no event has to be kept.

use std::time::Instant;

use berth_engine::{ClaimChange, ObjectKey, PodKey};

use super::Queue;
use super::claim_users::HasUsableClaims;
use super::entry::{Missed, PodState};
use super::tally::Cause;
use crate::scheduler::hints::Changes;

impl Queue {
    /// Applies a change of a claim for devices, which is in the cluster already: pods that it can help become ready,
    /// those in backoff after that. Returns whether it helped any.
    ///
    /// A pod that DynamicResources rejected is helped only if all its claims can be used and either a claim lost its
    /// allocation, or the pod names the claim and it is new or has another status (S-DRA-126). A pod that waits for
    /// any change is always helped.
    ///
    /// Cost: a step for each pod that names the claim. If the claim lost its allocation, also one for each pod that
    /// waits for devices: it becomes ready, or is blocked, and a blocked pod costs nothing until a claim that it names
    /// changes. So a burst of n changes with m waiting pods, each with claims of its own, costs n + m steps. A claim
    /// that many pods share costs a step for each change and each of these pods.
    pub fn claim_changed(
        &mut self,
        claim: &ObjectKey,
        change: ClaimChange,
        is_usable: HasUsableClaims<'_>,
        now: Instant,
    ) -> bool {
        let mut helped = self.waiting(|wanted, _| wanted == Changes::ALL);
        helped.extend(self.note_users(claim, change, is_usable));
        if change.frees_devices {
            helped.extend(self.sift_waiting(is_usable));
        }
        let cause = Cause::of_change(Changes::RESOURCE_CLAIM, Changes::RESOURCE_CLAIM);
        helped.iter().for_each(|key| self.ready(key, now, cause));
        self.n_steps += 1;
        self.recent.note_claim(change, self.n_steps);
        !helped.is_empty()
    }

    /// Notes the change for the pods that name the claim; returns the waiting ones that it helps.
    fn note_users(
        &mut self,
        claim: &ObjectKey,
        change: ClaimChange,
        is_usable: HasUsableClaims<'_>,
    ) -> Vec<PodKey> {
        let mut helped = Vec::new();
        for key in self.claim_users.of(claim) {
            let Some(entry) = self.pods.get_mut(&key) else { continue };
            match &mut entry.state {
                PodState::InFlight { has_claim_news, .. } => *has_claim_news |= change.helps_users,
                PodState::Unschedulable { wanted, .. } if wanted.has_claim_hint() => {
                    if change.helps_users && entry.has_usable_claims(is_usable) {
                        helped.push(key);
                    } else {
                        // Whether its claims can be used may have changed.
                        self.set_blocked(&key, false);
                    }
                }
                _ => {}
            }
        }
        helped
    }

    /// Blocks the pods that wait for devices and have a claim that cannot be used; returns all others.
    fn sift_waiting(&mut self, is_usable: HasUsableClaims<'_>) -> Vec<PodKey> {
        let waiting = self.waiting(|wanted, is_blocked| wanted.has_claim_hint() && !is_blocked);
        let (helped, blocked): (Vec<PodKey>, Vec<PodKey>) = waiting.into_iter().partition(|key| {
            self.pods.get(key).is_some_and(|entry| entry.has_usable_claims(is_usable))
        });
        blocked.iter().for_each(|key| self.set_blocked(key, true));
        helped
    }

    /// The waiting pods that wait for such changes, and are blocked or not.
    fn waiting(&self, is_meant: impl Fn(Changes, bool) -> bool) -> Vec<PodKey> {
        let sets = self.unschedulable.iter();
        let sets = sets.filter(|((wanted, is_blocked), _)| is_meant(*wanted, *is_blocked));
        sets.flat_map(|(_, pods)| pods.iter().map(|(_, key)| key.clone())).collect()
    }

    /// Applies an update of a waiting pod whose spec is as before, and whose generated claims are others: it becomes
    /// ready if DynamicResources rejected it and its claims can be used now (S-DRA-127), or if it waits for any change.
    pub(super) fn claims_generated(
        &mut self,
        key: &PodKey,
        is_usable: HasUsableClaims<'_>,
        now: Instant,
    ) {
        let Some(entry) = self.pods.get(key) else { return };
        let PodState::Unschedulable { wanted, .. } = entry.state else { return };
        let is_helped =
            wanted == Changes::ALL || wanted.has_claim_hint() && entry.has_usable_claims(is_usable);
        // If its claims cannot be used, a blocked pod is rightly blocked.
        if is_helped {
            self.ready(key, now, Cause::UPDATED);
        }
    }

    /// The changes during an attempt, of which those of claims are in it only if they help the pod. The pod waits for
    /// `wanted` from now on.
    ///
    /// Cost: if claims changed that concern the pod, a look-up for each claim that it names.
    pub(super) fn helpful(
        &self,
        key: &PodKey,
        wanted: Changes,
        missed: Missed,
        is_usable: HasUsableClaims<'_>,
    ) -> Changes {
        let Missed { changes, has_claim_news, has_freed_devices } = missed;
        if wanted == Changes::ALL && has_claim_news {
            return changes.or(Changes::RESOURCE_CLAIM);
        }
        // After a change of the pod's own any kind may have changed.
        if !wanted.has_claim_hint() || changes == Changes::ALL {
            return changes;
        }
        let is_helped = (has_claim_news || has_freed_devices)
            && self.pods.get(key).is_some_and(|entry| entry.has_usable_claims(is_usable));
        let others = changes.without(Changes::RESOURCE_CLAIM);
        if is_helped { others.or(Changes::RESOURCE_CLAIM) } else { others }
    }

    /// Records whether a waiting pod is known to have a claim that cannot be used.
    fn set_blocked(&mut self, key: &PodKey, is_blocked: bool) {
        let state = self.pods.get(key).map(|entry| entry.state.clone());
        if let Some(PodState::Unschedulable { since, wanted, rests, is_blocked: was_blocked }) =
            state
            && was_blocked != is_blocked
        {
            self.put(key, PodState::Unschedulable { since, wanted, rests, is_blocked });
        }
    }
}

#[cfg(test)]
mod tests;
