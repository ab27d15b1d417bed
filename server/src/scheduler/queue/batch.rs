//! Batch: the pods at the head of the queue that one call of the engine decides.
//!
//! Pods of one priority and one profile: a pod that finds no node may preempt others, and what has a lower priority must not
//! have been placed by then. A group is a batch of its own.

use std::sync::Arc;
use std::time::Instant;

use super::{AttemptId, Place, Queue, Stage};
use crate::scheduler::group::{Group, GroupName};
use crate::scheduler::pending::Pending;

/// A pod whose turn it is.
#[derive(Clone, Debug)]
pub struct Popped {
    /// What its outcome is to be told with.
    pub attempt: AttemptId,
    /// The pod.
    pub pending: Arc<Pending>,
    /// When it was first ready to be tried.
    pub since: Instant,
    /// Its attempts, this one included.
    pub n_attempts: u32,
    /// Whether it is tried again only because it waited for so long.
    pub was_flushed: bool,
}

/// Pods of one priority and profile, or one group, in the order of the queue.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The scheduler name of their profile.
    pub profile: Arc<str>,
    /// Where they are a group.
    pub group: Option<GroupTurn>,
    /// At least one.
    pub pods: Vec<Popped>,
}

/// A group whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTurn {
    /// Which.
    pub name: GroupName,
    /// How many of its pods must have a node.
    pub min_available: usize,
    /// How many have one, or are about to get it.
    pub n_placed: usize,
}

impl Queue {
    /// Takes the next pods, `max` at most unless they are a group. Those that rest or wait are not looked at, except when
    /// others of their group are taken.
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

    /// Whose turn it is. A group of which some are being told that they have no node is passed over: the others alone would be
    /// no group.
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
            match &entry.place {
                Place::InFlight { stage: Stage::Placed | Stage::Sent, .. } | Place::Held { .. } => {
                    n_placed += 1;
                }
                Place::InFlight { stage: Stage::Open, .. } | Place::Gated => {}
                Place::Active(_) | Place::Backoff { .. } | Place::Unschedulable { .. } => {
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
