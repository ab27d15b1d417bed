//! Groups: the pods of each group, pending or placed.

use std::collections::{BTreeSet, HashMap, HashSet};

use berth_engine::PodKey;

use crate::scheduler::group::GroupName;
use crate::scheduler::pending::Pending;

/// The pods of each group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Pods of the queue, by group.
    pending: HashMap<GroupName, BTreeSet<PodKey>>,
    /// Pods with a node, by group.
    assigned: HashMap<GroupName, BTreeSet<PodKey>>,
    group_of_assigned: HashMap<PodKey, GroupName>,
    /// Groups that were next while the outcome of some of their pods was being reported.
    pub(super) parked: HashSet<GroupName>,
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

    /// The pods of the queue in a group, by name.
    pub(super) fn members(&self, group: &GroupName) -> Vec<PodKey> {
        self.pending.get(group).map(|members| members.iter().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn n_assigned(&self, group: &GroupName) -> usize {
        self.assigned.get(group).map_or(0, BTreeSet::len)
    }

    pub(super) fn assign(&mut self, key: &PodKey, group: &GroupName) -> bool {
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
