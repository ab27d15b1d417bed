//! Groups: who belongs together, pending or placed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use berth_engine::PodKey;

use super::{Cause, Place, Queue, Stage};
use crate::scheduler::group::GroupName;
use crate::scheduler::hints::Changes;
use crate::scheduler::pending::Pending;

/// The pods of each group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Pods of the queue.
    pending: HashMap<GroupName, BTreeSet<PodKey>>,
    /// Pods that have a node.
    assigned: HashMap<GroupName, BTreeSet<PodKey>>,
    group_of_assigned: HashMap<PodKey, GroupName>,
    /// Whose turn came while what became of some of their pods was being told.
    parked: HashSet<GroupName>,
}

impl Groups {
    pub(super) fn join(&mut self, pod: &Pending) {
        if let Some(group) = &pod.group {
            self.pending.entry(group.name.clone()).or_default().insert(pod.key.clone());
        }
    }

    pub(super) fn leave(&mut self, pod: &Pending) {
        let Some(group) = &pod.group else { return };
        if let Some(members) = self.pending.get_mut(&group.name) {
            members.remove(&pod.key);
            if members.is_empty() {
                self.pending.remove(&group.name);
            }
        }
    }

    /// The pods of the queue that are in a group, by name.
    pub(super) fn members(&self, group: &GroupName) -> Vec<PodKey> {
        self.pending.get(group).map(|members| members.iter().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn n_assigned(&self, group: &GroupName) -> usize {
        self.assigned.get(group).map_or(0, BTreeSet::len)
    }

    fn assign(&mut self, key: &PodKey, group: &GroupName) -> bool {
        if self.group_of_assigned.get(key) == Some(group) {
            return false;
        }
        self.release(key);
        self.assigned.entry(group.clone()).or_default().insert(key.clone());
        self.group_of_assigned.insert(key.clone(), group.clone());
        true
    }

    pub(super) fn release(&mut self, key: &PodKey) {
        let Some(group) = self.group_of_assigned.remove(key) else { return };
        if let Some(members) = self.assigned.get_mut(&group) {
            members.remove(key);
            if members.is_empty() {
                self.assigned.remove(&group);
            }
        }
    }
}

impl Queue {
    /// A pod has a node; `group` is the one that it is counted in, if any. It waits no longer.
    pub fn assigned(&mut self, key: &PodKey, group: Option<GroupName>, now: Instant) {
        self.remove(key);
        match group {
            // Of a group that waits for members one less is needed.
            Some(group) if self.groups.assign(key, &group) => self.wake_members(&group, now),
            Some(_) => {}
            None => self.groups.release(key),
        }
    }

    /// Others of the group may have waited for this pod.
    pub(super) fn wake_group(&mut self, pending: &Pending, now: Instant) {
        if let Some(group) = &pending.group {
            self.wake_members(&group.name, now);
        }
    }

    /// The group has another number of pods: those that wait for that get ready, those that are being told of it will.
    fn wake_members(&mut self, group: &GroupName, now: Instant) {
        for key in self.groups.members(group) {
            match self.pods.get_mut(&key).map(|entry| &mut entry.place) {
                Some(Place::Unschedulable { wanted, .. })
                    if wanted.intersects(Changes::GROUP_MEMBER) =>
                {
                    let cause = Cause::of_change(Changes::GROUP_MEMBER, *wanted);
                    self.ready(&key, now, cause);
                }
                Some(Place::InFlight { is_changed, stage: Stage::Open, .. }) => *is_changed = true,
                _ => {}
            }
        }
    }

    /// Whether pods of the group are in an attempt that gives them no node: what they are about to be told holds for the group
    /// as it was.
    pub(super) fn is_being_told(&self, group: &GroupName) -> bool {
        self.groups.members(group).iter().any(|key| {
            let place = self.pods.get(key).map(|entry| &entry.place);
            matches!(place, Some(Place::InFlight { stage: Stage::Open, .. }))
        })
    }

    /// Takes the group's turn away until nobody of it is being told anything.
    pub(super) fn park(&mut self, group: &GroupName) {
        for key in self.groups.members(group) {
            if let Some(Place::Active(turn)) = self.pods.get(&key).map(|entry| &entry.place) {
                let since = turn.queued_at;
                let wanted = Changes::GROUP_MEMBER;
                self.put(&key, Place::Unschedulable { since, wanted, rests: false });
            }
        }
        self.groups.parked.insert(group.clone());
    }

    /// Gives parked groups their turn again.
    pub(super) fn resume_groups(&mut self, now: Instant) {
        let parked = self.groups.parked.iter().filter(|group| !self.is_being_told(group));
        let parked: Vec<GroupName> = parked.cloned().collect();
        for group in &parked {
            self.groups.parked.remove(group);
            self.wake_members(group, now);
        }
    }

    /// A list of all pods is in: those that it does not hold are gone.
    pub fn listed(&mut self, holds: &dyn Fn(&PodKey) -> bool) -> Vec<PodKey> {
        let gone: Vec<PodKey> = self.pods.keys().filter(|key| !holds(key)).cloned().collect();
        gone.iter().for_each(|key| self.gone(key));
        gone
    }

    /// A pod is gone, with its node if it had one.
    pub fn gone(&mut self, key: &PodKey) {
        self.remove(key);
        self.groups.release(key);
    }
}
