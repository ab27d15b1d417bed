//! Ticket: one attempt of one pod, in the hands of whoever works on it. Whatever becomes of them, the pod is not lost.

use std::sync::Arc;
use std::time::Instant;

use super::hints::Changes;
use super::pending::Pending;
use super::plugin_set::PluginSet;
use super::queue::{AttemptId, Popped};
use super::shared::Shared;
use crate::apiserver::leadership::Mandate;
use crate::clock;
use crate::telemetry::AttemptResult;

/// An attempt whose outcome is to be told. Dropped without that, it failed.
pub(super) struct Ticket {
    shared: Arc<Shared>,
    popped: Popped,
    /// Leave to write what comes of it.
    mandate: Mandate,
    began: Instant,
    is_open: bool,
    /// Whether the pod has taken its room, which is to be given back when the attempt comes to nothing.
    is_assumed: bool,
}

impl Ticket {
    pub(super) fn new(shared: &Arc<Shared>, mandate: &Mandate, popped: Popped) -> Ticket {
        let (shared, mandate) = (shared.clone(), mandate.clone());
        let began = clock::now();
        Ticket { shared, popped, mandate, began, is_open: true, is_assumed: false }
    }

    pub(super) fn attempt(&self) -> &AttemptId {
        &self.popped.attempt
    }

    pub(super) fn mandate(&self) -> &Mandate {
        &self.mandate
    }

    pub(super) fn pending(&self) -> &Arc<Pending> {
        &self.popped.pending
    }

    /// The pod as the feed told of it last: its status may have changed since the attempt began.
    pub(super) fn latest(&self) -> Arc<Pending> {
        let own = self.pending();
        let queue = self.shared.queue();
        queue.get(&own.key, &own.name.uid).unwrap_or(own).clone()
    }

    /// Whether the pod is there still, and this attempt its last.
    pub(super) fn is_under_way(&self) -> bool {
        self.shared.queue().is_under_way(&self.popped.attempt)
    }

    /// Whether what was decided may be written: the attempt is under way, in the term in which it was decided.
    pub(super) fn may_write(&self) -> bool {
        self.mandate.is_held(clock::now()) && self.is_under_way()
    }

    /// The pod has taken its room.
    pub(super) fn placed(&mut self) {
        self.is_assumed = true;
        self.shared.queue().placed(&self.popped.attempt);
    }

    /// Its Binding, or its nomination, is about to be sent; `false` if it must not be.
    pub(super) fn send(&self) -> bool {
        self.mandate.is_held(clock::now()) && self.shared.queue().sent(&self.popped.attempt)
    }

    /// Counts the attempt, whose result is known now.
    pub(super) fn count(&self, result: AttemptResult) {
        let elapsed = clock::now().saturating_duration_since(self.began);
        self.shared.counts().count_attempt(&self.pending().profile, result, elapsed);
    }

    /// It fits nowhere, by the word of these plugins, until a change of `wanted`.
    pub(super) fn reject(mut self, wanted: Changes, rejected_by: PluginSet) {
        self.close();
        let mut queue = self.shared.queue();
        queue.note_rejected_by(&self.popped.attempt, rejected_by);
        queue.reject(&self.popped.attempt, wanted, clock::now());
    }

    /// It was not tried, and is not to be before a change of `wanted`.
    pub(super) fn defer(mut self, wanted: Changes) {
        self.close();
        self.shared.queue().defer(&self.popped.attempt, wanted, clock::now());
    }

    /// It is to be tried again after a rest.
    pub(super) fn fail(mut self) {
        self.fail_now();
    }

    /// It is to be tried again at once.
    pub(super) fn retry(mut self) {
        self.close();
        self.shared.queue().retry(&self.popped.attempt, clock::now());
        self.shared.wake.notify_one();
    }

    /// It is held back by a plugin.
    pub(super) fn gate(mut self) {
        self.close();
        self.shared.queue().gate(&self.popped.attempt);
    }

    /// It has its node, whatever the feed says of it yet.
    pub(super) fn bound(mut self) {
        self.is_open = false;
        let Popped { since, n_attempts, was_flushed, .. } = self.popped;
        let waited = clock::now().saturating_duration_since(since);
        self.count(AttemptResult::Scheduled);
        self.shared.counts().record_scheduled(waited, n_attempts, was_flushed);
        self.shared.queue().hold(&self.popped.attempt, None);
    }

    /// It has its nomination, which is to be looked at again after that time.
    pub(super) fn handed_off(mut self) {
        self.is_open = false;
        self.count(AttemptResult::Scheduled);
        let until = clock::now() + self.shared.options.nomination_timeout;
        self.shared.queue().hold(&self.popped.attempt, Some(until));
    }

    /// It is left alone for that time.
    pub(super) fn set_aside(mut self) {
        self.close();
        let until = clock::now() + self.shared.options.nomination_timeout;
        self.shared.queue().hold(&self.popped.attempt, Some(until));
    }

    /// It is being deleted, and nothing is to be done about it.
    pub(super) fn dropped(mut self) {
        self.close();
        let pending = self.pending().clone();
        let mut queue = self.shared.queue();
        if queue.is_under_way(&self.popped.attempt) {
            queue.remove(&pending.key);
        }
    }

    fn close(&mut self) {
        self.is_open = false;
        self.give_room_back();
    }

    /// Gives back the room that the pod took, if it did.
    pub(super) fn give_room_back(&mut self) {
        // Where the attempt is over, so is its claim: the room may be that of a later attempt.
        if std::mem::take(&mut self.is_assumed)
            && self.shared.queue().unplaced(&self.popped.attempt)
        {
            let pending = &self.popped.pending;
            self.shared.take_back(&pending.key, &pending.name.uid);
        }
    }

    fn fail_now(&mut self) {
        self.close();
        self.shared.queue().fail(&self.popped.attempt, clock::now());
        self.shared.wake.notify_one();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_open {
            self.fail_now();
        }
    }
}
