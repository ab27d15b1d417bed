//! Group members: how the members of a group wake or wait for each other.

use std::time::Instant;

use berth_engine::PodKey;

use super::Queue;
use super::entry::{PodState, Stage};
use super::tally::Cause;
use crate::scheduler::group::GroupName;
use crate::scheduler::hints::Changes;
use crate::scheduler::pending::Pending;

impl Queue {
    /// Records that a pod has a node; `group` is the one that it counts for, if any. The pod is removed from the queue.
    pub fn assigned(&mut self, key: &PodKey, group: Option<GroupName>, now: Instant) {
        self.remove(key);
        match group {
            // A group that waits for members needs one less.
            Some(group) if self.groups.assign(key, &group) => self.wake_members(&group, now),
            Some(_) => {}
            None => self.groups.release(key),
        }
    }

    /// Wakes other pods of the group, which may have waited for this pod.
    pub(super) fn wake_group(&mut self, pending: &Pending, now: Instant) {
        if let Some(group) = &pending.group {
            self.wake_members(&group.name, now);
        }
    }

    /// Wakes the members of a group whose number of pods changed: waiting ones become ready, and those whose rejection
    /// is being reported will.
    fn wake_members(&mut self, group: &GroupName, now: Instant) {
        for key in self.groups.members(group) {
            match self.pods.get_mut(&key).map(|entry| &mut entry.state) {
                Some(PodState::Unschedulable { wanted, .. })
                    if wanted.intersects(Changes::GROUP_MEMBER) =>
                {
                    let cause = Cause::of_change(Changes::GROUP_MEMBER, *wanted);
                    self.ready(&key, now, cause);
                }
                Some(PodState::InFlight { is_changed, stage: Stage::Open, .. }) => {
                    *is_changed = true
                }
                _ => {}
            }
        }
    }

    /// Whether pods of the group are in an attempt that gives them no node, so that the rejection of the group as it
    /// was is being reported.
    pub(super) fn is_being_told(&self, group: &GroupName) -> bool {
        self.groups.members(group).iter().any(|key| {
            let state = self.pods.get(key).map(|entry| &entry.state);
            matches!(state, Some(PodState::InFlight { stage: Stage::Open, .. }))
        })
    }

    /// Parks the group until no rejection of its pods is being reported.
    pub(super) fn park(&mut self, group: &GroupName) {
        for key in self.groups.members(group) {
            if let Some(PodState::Active(position)) = self.pods.get(&key).map(|entry| &entry.state)
            {
                let since = position.queued_at;
                let wanted = Changes::GROUP_MEMBER;
                let (rests, is_blocked) = (false, false);
                self.put(&key, PodState::Unschedulable { since, wanted, rests, is_blocked });
            }
        }
        self.groups.parked.insert(group.clone());
    }

    /// Makes parked groups ready again.
    pub(super) fn resume_groups(&mut self, now: Instant) {
        let parked = self.groups.parked.iter().filter(|group| !self.is_being_told(group));
        let parked: Vec<GroupName> = parked.cloned().collect();
        for group in &parked {
            self.groups.parked.remove(group);
            self.wake_members(group, now);
        }
    }

    /// Applies a list of all pods: those that it does not contain are gone.
    pub fn listed(&mut self, holds: &dyn Fn(&PodKey) -> bool, now: Instant) -> Vec<PodKey> {
        for victim in self.awaited.missing(holds) {
            self.victim_gone(&victim, now);
        }
        let gone: Vec<PodKey> = self.pods.keys().filter(|key| !holds(key)).cloned().collect();
        gone.iter().for_each(|key| self.gone(key));
        gone
    }

    /// Records that a pod is gone, with its node if it had one.
    pub fn gone(&mut self, key: &PodKey) {
        self.remove(key);
        self.groups.release(key);
    }
}
