//! Pop: takes the next batch from the head of the queue.

use std::sync::Arc;
use std::time::Instant;

use super::Queue;
use super::batch::{Batch, GroupTurn, Popped};
use super::entry::{PodState, Stage};
use crate::scheduler::group::{Group, GroupName};
use crate::scheduler::pending::Pending;

impl Queue {
    /// Takes the next pods, `max` at most unless they are a group. Pods in backoff or unschedulable are not taken,
    /// except when others of their group are.
    pub fn pop(&mut self, now: Instant, max: usize) -> Option<Batch> {
        self.flush(now);
        let pending = self.head()?;
        if let Some(Group { name, min_available: Ok(min_available) }) = &pending.group {
            return Some(self.pop_group(name, *min_available, &pending));
        }
        let is_like = |other: &Pending| {
            other.profile == pending.profile
                && other.priority == pending.priority
                && !matches!(&other.group, Some(Group { min_available: Ok(_), .. }))
        };
        let pods = &self.pods;
        let next = self.active.iter().take(max.max(1)).map(|turn| turn.key.clone());
        let next: Vec<_> = next
            .take_while(|key| pods.get(key).is_some_and(|entry| is_like(&entry.pending)))
            .collect();
        let popped: Vec<Popped> = next.iter().filter_map(|key| self.begin(key)).collect();
        Some(Batch { profile: pending.profile.clone(), group: None, pods: popped })
    }

    /// The pod whose attempt is next. A group is skipped while the rejection of some of its pods is being reported: the
    /// others alone would be no group.
    fn head(&mut self) -> Option<Arc<Pending>> {
        loop {
            let head = self.active.first()?.key.clone();
            let pending = self.pods.get(&head)?.pending.clone();
            match &pending.group {
                Some(Group { name, min_available: Ok(_) }) if self.is_being_told(name) => {
                    self.park(name);
                }
                _ => return Some(pending),
            }
        }
    }

    fn pop_group(&mut self, name: &GroupName, min_available: usize, head: &Pending) -> Batch {
        let mut n_placed = self.groups.n_assigned(name);
        let mut members = Vec::new();
        for key in self.groups.members(name) {
            let Some(entry) = self.pods.get(&key) else { continue };
            if entry.pending.profile != head.profile {
                continue;
            }
            match &entry.state {
                PodState::InFlight { stage: Stage::Placed | Stage::Sent, .. }
                | PodState::Held { .. } => {
                    n_placed += 1;
                }
                PodState::InFlight { stage: Stage::Open, .. } | PodState::Gated => {}
                PodState::Active(_) | PodState::Backoff { .. } | PodState::Unschedulable { .. } => {
                    members.push((entry.since, key));
                }
            }
        }
        members.sort();
        let pods: Vec<Popped> = members.iter().filter_map(|(_, key)| self.begin(key)).collect();
        let group = GroupTurn { name: name.clone(), min_available, n_placed };
        Batch { profile: head.profile.clone(), group: Some(group), pods }
    }
}
