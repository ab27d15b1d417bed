//! Victims: a pod whose preemption found victims is tried again in the moment in which the last of them is gone. Its
//! backoff ends then, since the attempt is not repeated: it has what it asked for.

use std::time::Instant;

use berth_engine::PodKey;

use super::Queue;
use super::entry::{AttemptId, PodState};
use super::tally::Cause;
use crate::scheduler::hints::Changes;

impl Queue {
    /// Records the victims of an attempt, before they are evicted: the pod becomes ready when all of them are gone.
    pub fn await_victims(&mut self, attempt: &AttemptId, victims: &[PodKey]) {
        if victims.is_empty() || !self.is_under_way(attempt) {
            return;
        }
        if let Some(entry) = self.pods.get_mut(&attempt.key) {
            self.awaited.forget(&attempt.key, entry.victims.as_deref());
            entry.victims = Some(victims.to_vec());
            victims.iter().for_each(|victim| self.awaited.add(victim, &attempt.key));
        }
    }

    /// Records that a pod no longer takes room. Returns whether this makes a pod ready that has waited for it.
    pub fn victim_gone(&mut self, victim: &PodKey, now: Instant) -> bool {
        let Some(preemptors) = self.awaited.take(victim) else { return false };
        let mut is_any_ready = false;
        for preemptor in preemptors {
            let Some(entry) = self.pods.get_mut(&preemptor) else { continue };
            if let Some(victims) = &mut entry.victims {
                victims.retain(|known| known != victim);
            }
            is_any_ready |= self.free(&preemptor, now);
        }
        is_any_ready
    }

    /// Makes a waiting pod ready whose victims are gone; one whose attempt is not over yet will be ready after it.
    pub(super) fn free(&mut self, key: &PodKey, now: Instant) -> bool {
        let is_freed = self.pods.get(key).is_some_and(|entry| {
            let waits =
                matches!(entry.state, PodState::Unschedulable { .. } | PodState::Backoff { .. });
            waits && entry.has_room()
        });
        if is_freed {
            let cause = Cause::of_change(Changes::POD_DELETED, Changes::POD_DELETED);
            self.activate(key, now, cause);
        }
        is_freed
    }
}
