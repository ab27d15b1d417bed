//! Counts by user: how many calls each has under way, in a table of a fixed size. Users who share both of their slots
//! count together: with 4,096 slots one pair of users in eight millions.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of slots; a power of two.
const SLOTS: u16 = 4_096;

/// Calls under way by user.
#[derive(Debug)]
pub(super) struct UserCounts {
    hasher: RandomState,
    slots: Box<[AtomicU32]>,
}

/// Where a call is counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted([u16; 2]);

impl UserCounts {
    pub(super) fn new() -> UserCounts {
        let slots = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        UserCounts { hasher: RandomState::new(), slots }
    }

    /// Counts a call of the user until [`UserCounts::leave`]; returns how many there are with it, or more where two users
    /// share both slots.
    #[expect(clippy::cast_possible_truncation, reason = "bits of a hash")]
    pub(super) fn enter(&self, user: &str) -> (Counted, u32) {
        let hash = self.hasher.hash_one(user);
        let first = hash as u16 % SLOTS;
        // Never the same one.
        let second = first + 1 + (hash >> 32) as u16 % (SLOTS - 1);
        let counted = Counted([first, second % SLOTS]);
        // Counts alone: no other data depends on their order.
        let n = counted.0.map(|slot| self.slot(slot).fetch_add(1, Ordering::Relaxed) + 1);
        (counted, n[0].min(n[1]))
    }

    /// Ends a call.
    pub(super) fn leave(&self, counted: Counted) {
        for slot in counted.0 {
            self.slot(slot).fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn slot(&self, slot: u16) -> &AtomicU32 {
        &self.slots[usize::from(slot % SLOTS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_for_their_user_until_they_leave() {
        let counts = UserCounts::new();
        let (first, n) = counts.enter("jane");
        let (second, more) = counts.enter("jane");
        let (other, n_of_other) = counts.enter("joe");
        assert_eq!((n, more), (1, 2));
        // One in eight millions has both slots of jane.
        assert_eq!(n_of_other, 1);
        for counted in [first, second, other] {
            counts.leave(counted);
        }
        assert!(counts.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
    }
}
