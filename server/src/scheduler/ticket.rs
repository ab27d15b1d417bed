//! Ticket: one attempt of one pod, owned by the task that works on it. If the task ends early, the pod is not lost.

use std::sync::Arc;
use std::time::Instant;

use berth_engine::Pod;

use super::hints::Changes;
use super::pending::Pending;
use super::plugin_set::PluginSet;
use super::queue::{AttemptId, Popped};
use super::shared::Shared;
use crate::apiserver::leadership::Mandate;
use crate::clock;
use crate::telemetry::AttemptResult;

/// An attempt whose outcome is still to be recorded. Dropped before that, it fails.
pub(super) struct Ticket {
    shared: Arc<Shared>,
    popped: Popped,
    /// Permission to write its outcome.
    mandate: Mandate,
    began: Instant,
    is_open: bool,
    /// Whether the pod is assumed, and has to be released if the attempt fails.
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

    /// The pod as the feed last reported it: its status may have changed since the attempt began.
    pub(super) fn latest(&self) -> Arc<Pending> {
        let own = self.pending();
        let queue = self.shared.queue();
        queue.get(&own.key, &own.name.uid).unwrap_or(own).clone()
    }

    /// Whether the pod still exists, and this attempt is its last.
    pub(super) fn is_under_way(&self) -> bool {
        self.shared.queue().is_under_way(&self.popped.attempt)
    }

    /// Whether the decision may be written: the attempt is under way, in the term in which it was decided.
    pub(super) fn may_write(&self) -> bool {
        self.mandate.is_held(clock::now()) && self.is_under_way()
    }

    /// Records that the pod is assumed.
    pub(super) fn placed(&mut self) {
        self.is_assumed = true;
        self.shared.queue().placed(&self.popped.attempt);
    }

    /// Records that its Binding, or its nomination, is about to be sent; returns `false` if it must not be.
    pub(super) fn send(&self) -> bool {
        self.mandate.is_held(clock::now()) && self.shared.queue().sent(&self.popped.attempt)
    }

    /// Counts the attempt, whose result is known now.
    pub(super) fn count(&self, result: AttemptResult) {
        let elapsed = clock::now().saturating_duration_since(self.began);
        self.shared.counts().count_attempt(&self.pending().profile, result, elapsed);
    }

    /// Ends the attempt: the pod fits nowhere because of these plugins, until a change of `wanted`.
    pub(super) fn reject(mut self, wanted: Changes, rejected_by: PluginSet) {
        self.close();
        let mut queue = self.shared.queue();
        queue.note_rejected_by(&self.popped.attempt, rejected_by);
        let is_usable = |pod: &Pod| self.shared.cluster().has_usable_claims(pod);
        queue.reject(&self.popped.attempt, wanted, &is_usable, clock::now());
    }

    /// Ends the attempt: the pod was not tried, and is not to be before a change of `wanted`.
    pub(super) fn defer(mut self, wanted: Changes) {
        self.close();
        let is_usable = |pod: &Pod| self.shared.cluster().has_usable_claims(pod);
        self.shared.queue().defer(&self.popped.attempt, wanted, &is_usable, clock::now());
    }

    /// Ends the attempt: the pod is to be tried again after a backoff.
    pub(super) fn fail(mut self) {
        self.fail_now();
    }

    /// Ends the attempt: the pod is to be tried again at once.
    pub(super) fn retry(mut self) {
        self.close();
        self.shared.queue().retry(&self.popped.attempt, clock::now());
        self.shared.wake.notify_one();
    }

    /// Ends the attempt: a plugin holds the pod back.
    pub(super) fn gate(mut self) {
        self.close();
        self.shared.queue().gate(&self.popped.attempt);
    }

    /// Ends the attempt: the pod has its node, even if the feed has not reported it yet.
    pub(super) fn bound(mut self) {
        self.is_open = false;
        let Popped { since, n_attempts, was_flushed, .. } = self.popped;
        let waited = clock::now().saturating_duration_since(since);
        self.count(AttemptResult::Scheduled);
        self.shared.counts().record_scheduled(waited, n_attempts, was_flushed);
        self.shared.queue().hold(&self.popped.attempt, None);
    }

    /// Ends the attempt: the pod has its nomination, which is to be checked again after the timeout.
    pub(super) fn handed_off(mut self) {
        self.is_open = false;
        self.count(AttemptResult::Scheduled);
        let until = clock::now() + self.shared.options.nomination_timeout;
        self.shared.queue().hold(&self.popped.attempt, Some(until));
    }

    /// Ends the attempt: the pod is left alone until the timeout.
    pub(super) fn set_aside(mut self) {
        self.close();
        let until = clock::now() + self.shared.options.nomination_timeout;
        self.shared.queue().hold(&self.popped.attempt, Some(until));
    }

    /// Ends the attempt: the pod is being deleted, and nothing is to be done.
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

    /// Releases the room of the pod, if it was assumed.
    pub(super) fn give_room_back(&mut self) {
        // If the attempt is over, so is its claim: the room may belong to a later attempt.
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
