//! [`BindSlots`]: the slots of the bindings in flight, as many as [`BindLimit`] says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::bind_limit::{BindLimit, Ended};
use crate::clock;

/// Slots for bindings. Whoever waits for one is counted, so that less urgent requests can hold back meanwhile.
pub(super) struct BindSlots {
    free: Semaphore,
    sizing: Mutex<Sizing>,
    n_waiting: Arc<AtomicUsize>,
}

struct Sizing {
    limit: BindLimit,
    /// Number of slots that exist, taken or free.
    n_slots: usize,
}

/// A slot, which is free again when dropped.
pub(super) struct BindSlot<'a> {
    slots: &'a BindSlots,
    permit: Option<SemaphorePermit<'a>>,
}

impl BindSlots {
    /// At most `max` slots.
    pub(super) fn new(max: usize) -> BindSlots {
        let limit = BindLimit::new(max, clock::now());
        let n_slots = limit.get();
        BindSlots {
            free: Semaphore::new(n_slots),
            sizing: Mutex::new(Sizing { limit, n_slots }),
            n_waiting: Arc::default(),
        }
    }

    /// Number of bindings that wait for a slot.
    pub(super) fn waiting(&self) -> Arc<AtomicUsize> {
        self.n_waiting.clone()
    }

    /// Number of bindings that may be in flight at present.
    pub(super) fn limit(&self) -> usize {
        self.sizing().limit.get()
    }

    /// Waits for a slot.
    pub(super) async fn take(&self) -> BindSlot<'_> {
        let _waiting = Waiting::new(&self.n_waiting);
        // The semaphore is never closed.
        let permit = self.free.acquire().await.ok();
        BindSlot { slots: self, permit }
    }

    fn sizing(&self) -> MutexGuard<'_, Sizing> {
        self.sizing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_number(&self, sizing: &mut Sizing) {
        let limit = sizing.limit.get();
        if limit > sizing.n_slots {
            self.free.add_permits(limit - sizing.n_slots);
            sizing.n_slots = limit;
        } else {
            // Slots that are taken end when they are given back.
            sizing.n_slots -= self.free.forget_permits(sizing.n_slots - limit);
        }
    }
}

impl BindSlot<'_> {
    /// Records how the binding ended that had this slot.
    pub(super) fn ended(&self, how: Ended, time: Duration) {
        let slots = self.slots;
        let mut sizing = slots.sizing();
        let is_full = slots.free.available_permits() == 0;
        sizing.limit.ended(how, time, is_full, clock::now());
        slots.set_number(&mut sizing);
    }
}

impl Drop for BindSlot<'_> {
    fn drop(&mut self) {
        let mut sizing = self.slots.sizing();
        if sizing.n_slots > sizing.limit.get() {
            sizing.n_slots -= 1;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

/// One that waits; also if its future is dropped meanwhile.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(n_waiting: &'a AtomicUsize) -> Waiting<'a> {
        n_waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(n_waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    fn n_free(slots: &BindSlots) -> usize {
        slots.free.available_permits()
    }

    #[tokio::test]
    async fn slots_come_and_go_with_the_limit() {
        let slots = BindSlots::new(100);
        let first = slots.limit();
        let mut taken = Vec::new();
        for _ in 0..first {
            taken.push(slots.take().await);
        }
        assert_eq!((slots.n_waiting.load(Ordering::Relaxed), n_free(&slots)), (0, 0));
        // Slots that are taken end when they are given back.
        taken[0].ended(Ended::Overloaded, Duration::ZERO);
        let halved = slots.limit();
        assert_eq!(halved, first / 2);
        taken.truncate(halved);
        assert_eq!(n_free(&slots), 0);
        taken.clear();
        assert_eq!(n_free(&slots), halved);
        // Everything in flight at once, in 1 ms: more are worth a try.
        for _ in 0..40 {
            let mut taken = Vec::new();
            while n_free(&slots) > 0 {
                taken.push(slots.take().await);
            }
            taken.iter().for_each(|slot| slot.ended(Ended::Answered, Duration::from_millis(1)));
        }
        assert!(slots.limit() > first, "{}", slots.limit());
        assert_eq!(n_free(&slots), slots.limit());
    }

    #[tokio::test]
    async fn those_who_wait_are_counted_until_they_leave() {
        let slots = BindSlots::new(1);
        let taken = slots.take().await;
        let n_waiting = slots.waiting();
        let waits = tokio::time::timeout(Duration::from_millis(1), slots.take());
        assert!(waits.await.is_err());
        assert_eq!(n_waiting.load(Ordering::Relaxed), 0, "it has left");
        {
            let mut waits = std::pin::pin!(slots.take());
            let is_pending =
                poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending()));
            assert!(is_pending.await);
            assert_eq!(n_waiting.load(Ordering::Relaxed), 1);
            drop(taken);
            waits.await;
        }
        assert_eq!((n_waiting.load(Ordering::Relaxed), n_free(&slots)), (0, 1));
    }
}
