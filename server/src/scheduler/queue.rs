//! Queue: which pending pods are tried, in which order, and when again. A state machine: the time is an argument, and
//! nothing waits or is sent. Rules: S-Q-2 to S-Q-6, S-Q-8, S-Q-10.
//!
//! ```text
//!            upsert                pop                      bound
//!  Gated ──────────► Active ──────────────► InFlight ──────────────► Held ──► (the feed tells its node)
//!                     ▲  ▲                    │    │                   │
//!          rested     │  └── Backoff ◄─ fail ─┘    └ reject            │ too long
//!                     │         ▲                       ▼              │
//!                     └─────────┴──── changed ── Unschedulable         └──► expired
//! ```
//!
//! A pod whose victims are gone goes from Backoff or Unschedulable to Active at once.
//!
//! Every known pod is in exactly one place until it is removed. A group is tried as a whole: while the outcome of some
//! of its pods is being reported, the others wait.

mod entry;
mod batch;
mod groups;
mod tally;
mod pop;
mod awaited;
mod victims;
mod group_members;
mod claim_users;
mod device_claims;
#[cfg(test)]
mod properties;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::{ClaimChange, PodKey};

use super::backoff::Backoff;
use super::hints::Changes;
use super::pending::Pending;
use super::plugin_set::PluginSet;
use awaited::Awaited;
pub use batch::{Batch, GroupTurn, Popped};
use claim_users::ClaimUsers;
pub use claim_users::HasUsableClaims;
pub use entry::{AttemptId, Counts};
use entry::{Entry, Missed, PodState, QueuePosition, Stage};
use groups::Groups;
pub use tally::{Cause, Destination, Tally};

/// Backoff and flush times of the queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Backoff between attempts.
    pub backoff: Backoff,
    /// Time after which a pod is tried again although no change could help it.
    pub flush_after: Duration,
}

impl Default for QueueOptions {
    /// kube-scheduler's times: 1 s to 10 s, and 5 minutes.
    fn default() -> QueueOptions {
        QueueOptions { backoff: Backoff::default(), flush_after: Duration::from_secs(5 * 60) }
    }
}

/// The pending pods.
#[derive(Debug)]
pub struct Queue {
    options: QueueOptions,
    pods: HashMap<PodKey, Entry>,
    active: BTreeSet<QueuePosition>,
    backoff: BTreeSet<(Instant, PodKey)>,
    /// Unschedulable pods by what they wait for, and whether they are blocked: kinds are few, pods may be many.
    unschedulable: BTreeMap<(Changes, bool), BTreeSet<(Instant, PodKey)>>,
    /// Pods that are held until a time.
    held: BTreeSet<(Instant, PodKey)>,
    groups: Groups,
    awaited: Awaited,
    claim_users: ClaimUsers,
    recent: Recent,
    counts: Counts,
    tally: Tally,
    /// Number of steps, which orders events at the same instant.
    n_steps: u64,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(options: QueueOptions) -> Queue {
        Queue {
            options,
            pods: HashMap::new(),
            active: BTreeSet::new(),
            backoff: BTreeSet::new(),
            unschedulable: BTreeMap::new(),
            held: BTreeSet::new(),
            groups: Groups::default(),
            awaited: Awaited::default(),
            claim_users: ClaimUsers::default(),
            recent: Recent::default(),
            counts: Counts::default(),
            tally: Tally::default(),
            n_steps: 0,
        }
    }

    /// Adds or updates a pod that has no node. The last version counts; one whose spec changed is tried anew, and one
    /// whose generated claims changed if that helps (S-DRA-127).
    pub fn upsert(&mut self, pending: Pending, is_usable: HasUsableClaims<'_>, now: Instant) {
        let key = pending.key.clone();
        let known = self.pods.get(&key);
        if known.is_some_and(|known| known.pending.name.uid != pending.name.uid) {
            self.remove(&key);
        }
        // An earlier pod of this name, which had a node, is gone.
        self.groups.release(&key);
        let pending = Arc::new(pending);
        let Some(entry) = self.pods.get_mut(&key) else {
            // S-Q-9: nothing is reported for a pod that was never tried.
            if !pending.is_terminating {
                self.insert(&pending, now);
            }
            return;
        };
        let is_changed = !entry.pending.is_as(&pending);
        let has_new_claims = !entry.pending.has_claims_of(&pending);
        let old = std::mem::replace(&mut entry.pending, pending.clone());
        if old.group != pending.group {
            self.groups.leave(&old);
            self.groups.join(&pending);
        }
        if is_changed || has_new_claims {
            self.claim_users.leave(&old);
            self.claim_users.join(&pending);
        }
        match self.pods.get_mut(&key).map(|entry| &mut entry.state) {
            Some(PodState::Gated) if !pending.is_gated => {
                self.activate(&key, now, Cause::UPDATED);
                self.wake_group(&pending, now);
            }
            Some(PodState::Unschedulable { .. }) if is_changed || pending.is_terminating => {
                self.ready(&key, now, Cause::UPDATED);
            }
            Some(PodState::Unschedulable { .. }) if has_new_claims => {
                self.claims_generated(&key, is_usable, now);
            }
            Some(PodState::InFlight { is_changed: noted, has_claim_news, .. }) => {
                *noted |= is_changed;
                *has_claim_news |= has_new_claims;
            }
            _ => {}
        }
    }

    /// Removes a pod that is gone, or has a node. Returns whether it was known.
    pub fn remove(&mut self, key: &PodKey) -> bool {
        self.take_out(key);
        let Some(mut entry) = self.pods.remove(key) else { return false };
        Queue::forget_rejection(&mut self.tally, &mut entry);
        self.awaited.forget(key, entry.victims.as_deref());
        self.groups.leave(&entry.pending);
        self.claim_users.leave(&entry.pending);
        true
    }

    /// The pod of that name and uid, if it is in the queue.
    #[must_use]
    pub fn get(&self, key: &PodKey, uid: &str) -> Option<&Arc<Pending>> {
        self.pods.get(key).map(|entry| &entry.pending).filter(|pending| *pending.name.uid == *uid)
    }

    /// The pod of that name, if it is in the queue.
    #[must_use]
    pub fn find(&self, key: &PodKey) -> Option<&Arc<Pending>> {
        self.pods.get(key).map(|entry| &entry.pending)
    }

    /// Whether a pod of that name is in the queue.
    #[must_use]
    pub fn contains(&self, key: &PodKey) -> bool {
        self.pods.contains_key(key)
    }

    /// Applies a change of the cluster: pods that it can help become ready, those in backoff after that. Changes of
    /// claims for devices are applied by [`Queue::claim_changed`].
    pub fn changed(&mut self, changes: Changes, now: Instant) {
        let helped: Vec<(PodKey, Cause)> = self
            .unschedulable
            .iter()
            .filter(|((wanted, _), _)| wanted.intersects(changes))
            .map(|((wanted, _), pods)| (Cause::of_change(changes, *wanted), pods))
            .flat_map(|(cause, pods)| pods.iter().map(move |(_, key)| (key.clone(), cause)))
            .collect();
        helped.iter().for_each(|(key, cause)| self.ready(key, now, *cause));
        self.n_steps += 1;
        self.recent.note(changes, self.n_steps);
    }

    /// Moves pods whose backoff has ended, or that have waited for long enough, or for the others of their group.
    pub fn flush(&mut self, now: Instant) {
        self.resume_groups(now);
        while let Some((until, key)) = self.backoff.first().cloned()
            && until <= now
        {
            let since = match self.pods.get(&key).map(|entry| &entry.state) {
                Some(PodState::Backoff { since, .. }) => *since,
                _ => now,
            };
            self.activate(&key, since, Cause::RESTED);
        }
        let flush_after = self.options.flush_after;
        let overdue: Vec<PodKey> = self
            .unschedulable
            .values()
            .flat_map(|pods| pods.iter().take_while(|(since, _)| later(*since, flush_after) <= now))
            .map(|(_, key)| key.clone())
            .collect();
        for key in &overdue {
            if let Some(entry) = self.pods.get_mut(key) {
                entry.was_flushed = true;
            }
            self.ready(key, now, Cause::TIMEOUT);
        }
    }

    /// The pods that were held for too long: each begins an attempt that resolves that.
    pub fn expired(&mut self, now: Instant) -> Vec<Popped> {
        let mut expired = Vec::new();
        while let Some((until, key)) = self.held.first().cloned()
            && until <= now
        {
            expired.extend(self.begin(&key));
        }
        expired
    }

    /// When [`Queue::flush`] or [`Queue::expired`] has something to do next.
    #[must_use]
    pub fn next_move(&self) -> Option<Instant> {
        let overdue = self.unschedulable.values().filter_map(|pods| pods.first());
        let overdue = overdue.map(|(since, _)| later(*since, self.options.flush_after)).min();
        let rested = self.backoff.first().map(|(until, _)| *until);
        let held = self.held.first().map(|(until, _)| *until);
        [overdue, rested, held].into_iter().flatten().min()
    }

    /// Whether a pod can be popped.
    #[must_use]
    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Numbers of pods by queue.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Ends an attempt that found no node: the pod waits for a change of `wanted`, with a backoff before it is tried
    /// again.
    pub fn reject(
        &mut self,
        attempt: &AttemptId,
        wanted: Changes,
        is_usable: HasUsableClaims<'_>,
        now: Instant,
    ) {
        let Some((entry, missed)) = self.end(attempt) else { return };
        entry.n_rejected = entry.n_rejected.saturating_add(1);
        entry.n_failed = 0;
        let changed = self.helpful(&attempt.key, wanted, missed, is_usable);
        self.wait(&attempt.key, wanted, changed, true, now);
        self.free(&attempt.key, now);
    }

    /// Ends an attempt in which the pod was not tried, and will not be before a change of `wanted`; that is no failure,
    /// so there is no backoff.
    pub fn defer(
        &mut self,
        attempt: &AttemptId,
        wanted: Changes,
        is_usable: HasUsableClaims<'_>,
        now: Instant,
    ) {
        let Some((_, missed)) = self.end(attempt) else { return };
        let changed = self.helpful(&attempt.key, wanted, missed, is_usable);
        self.wait(&attempt.key, wanted, changed, false, now);
    }

    /// Ends an attempt that failed, for a reason that may be temporary: the pod gets a backoff.
    pub fn fail(&mut self, attempt: &AttemptId, now: Instant) {
        let Some((entry, _)) = self.end(attempt) else { return };
        entry.n_failed = entry.n_failed.saturating_add(1);
        let until = later(now, self.options.backoff.after(self.failures(&attempt.key).1));
        self.tally.count(Destination::Backoff, Cause::ATTEMPT_FAILED);
        self.put(&attempt.key, PodState::Backoff { since: now, until });
    }

    /// Ends an attempt that failed, for no reason of the pod's: it is tried again at once.
    pub fn retry(&mut self, attempt: &AttemptId, now: Instant) {
        if self.end(attempt).is_some() {
            self.activate(&attempt.key, now, Cause::ATTEMPT_FAILED);
        }
    }

    /// Ends an attempt in which a plugin holds the pod back until its gates are gone (S-Q-5).
    pub fn gate(&mut self, attempt: &AttemptId) {
        if self.end(attempt).is_some() {
            self.tally.count(Destination::Unschedulable, Cause::ATTEMPT_FAILED);
            self.put(&attempt.key, PodState::Gated);
        }
    }

    /// Ends an attempt of a pod that is bound, or handed off: it is held until the feed reports its node, or until that
    /// time.
    pub fn hold(&mut self, attempt: &AttemptId, until: Option<Instant>) {
        if self.end(attempt).is_some() {
            self.put(&attempt.key, PodState::Held { until });
        }
    }

    /// Records that the pod is assumed, so that it counts as placed in its group.
    pub fn placed(&mut self, attempt: &AttemptId) {
        self.reach(attempt, Stage::Placed);
    }

    /// Records that the Binding, or the nomination, is sent now. Returns `false` if it must not be: the attempt is
    /// over.
    pub fn sent(&mut self, attempt: &AttemptId) -> bool {
        self.reach(attempt, Stage::Sent)
    }

    /// Records that the pod is released. Returns `false` if that is no longer this attempt's task: it was done when the
    /// attempt ended.
    pub fn unplaced(&mut self, attempt: &AttemptId) -> bool {
        self.reach(attempt, Stage::Open)
    }

    /// Ends the attempt of a pod whose binding was not sent yet (S-PRE-23); returns `false` if there is none. The pod
    /// gets a backoff, and has to be released.
    pub fn cancel(&mut self, key: &PodKey, uid: &str, now: Instant) -> bool {
        let Some(entry) = self.pods.get(key).filter(|entry| *entry.pending.name.uid == *uid) else {
            return false;
        };
        let PodState::InFlight { number, stage: Stage::Placed, .. } = entry.state else {
            return false;
        };
        self.fail(&AttemptId { key: key.clone(), number }, now);
        true
    }

    fn reach(&mut self, attempt: &AttemptId, reached: Stage) -> bool {
        match self.pods.get_mut(&attempt.key).map(|entry| &mut entry.state) {
            Some(PodState::InFlight { number, stage, .. }) if *number == attempt.number => {
                *stage = reached;
                true
            }
            _ => false,
        }
    }

    /// Whether this attempt is under way: its pod was not removed or replaced.
    #[must_use]
    pub fn is_under_way(&self, attempt: &AttemptId) -> bool {
        let state = self.pods.get(&attempt.key).map(|entry| &entry.state);
        matches!(state, Some(PodState::InFlight { number, .. }) if *number == attempt.number)
    }

    /// Counts since the queue was created.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Records the plugins that reject the attempt, before its outcome.
    pub fn note_rejected_by(&mut self, attempt: &AttemptId, plugins: PluginSet) {
        if self.is_under_way(attempt)
            && let Some(entry) = self.pods.get_mut(&attempt.key)
        {
            entry.rejected_by = plugins;
            self.tally.hold(&entry.pending.profile, plugins, 1);
        }
    }

    /// Records that no plugin holds the pod back any more, since it is tried again, or gone.
    fn forget_rejection(tally: &mut Tally, entry: &mut Entry) {
        tally.hold(&entry.pending.profile, entry.rejected_by, -1);
        entry.rejected_by = PluginSet::NONE;
    }

    fn insert(&mut self, pending: &Arc<Pending>, now: Instant) {
        self.groups.join(pending);
        self.claim_users.join(pending);
        let (key, is_gated) = (&pending.key, pending.is_gated);
        let entry = Entry {
            pending: pending.clone(),
            since: now,
            ready_since: None,
            n_attempts: 0,
            n_rejected: 0,
            n_failed: 0,
            rejected_by: PluginSet::NONE,
            was_flushed: false,
            victims: None,
            state: PodState::Gated,
        };
        self.pods.insert(key.clone(), entry);
        self.counts.gated += 1;
        if is_gated {
            self.tally.count(Destination::Unschedulable, Cause::ADDED);
        } else {
            self.activate(key, now, Cause::ADDED);
            self.wake_group(pending, now);
        }
    }

    /// Moves the pod after an attempt: to the unschedulable ones, or on if a change that it would wait for has come
    /// already.
    fn wait(&mut self, key: &PodKey, wanted: Changes, changed: Changes, rests: bool, now: Instant) {
        self.tally.count(Destination::Unschedulable, Cause::ATTEMPT_FAILED);
        self.put(key, PodState::Unschedulable { since: now, wanted, rests, is_blocked: false });
        if wanted.intersects(changed) {
            self.ready(key, now, Cause::of_change(changed, wanted));
        }
    }

    /// Makes a waiting pod ready: now, or after its backoff.
    fn ready(&mut self, key: &PodKey, now: Instant, cause: Cause) {
        let Some(Entry { state: PodState::Unschedulable { since, rests, .. }, .. }) =
            self.pods.get(key)
        else {
            return;
        };
        let (since, rests) = (*since, *rests);
        let until = later(since, self.options.backoff.after(self.failures(key).0));
        if rests && until > now {
            self.tally.count(Destination::Backoff, cause);
            self.put(key, PodState::Backoff { since, until });
        } else {
            self.activate(key, since, cause);
        }
    }

    /// Numbers of consecutive rejections and failures.
    fn failures(&self, key: &PodKey) -> (u32, u32) {
        self.pods.get(key).map_or((0, 0), |entry| (entry.n_rejected, entry.n_failed))
    }

    fn activate(&mut self, key: &PodKey, queued_at: Instant, cause: Cause) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        entry.ready_since.get_or_insert(queued_at);
        self.tally.count(Destination::Active, cause);
        self.n_steps += 1;
        let position = QueuePosition {
            priority: Reverse(entry.pending.priority),
            queued_at,
            step: self.n_steps,
            key: key.clone(),
        };
        self.put(key, PodState::Active(position));
    }

    /// Ends an attempt, if it is the pod's last; returns its entry, and the changes meanwhile.
    fn end(&mut self, attempt: &AttemptId) -> Option<(&mut Entry, Missed)> {
        let entry = self.pods.get_mut(&attempt.key)?;
        match entry.state {
            PodState::InFlight { number, is_changed, has_claim_news, .. }
                if number == attempt.number =>
            {
                let changes = if is_changed { Changes::ALL } else { self.recent.since(number) };
                let has_freed_devices = self.recent.devices_freed > number;
                Some((entry, Missed { changes, has_claim_news, has_freed_devices }))
            }
            _ => None,
        }
    }

    /// Begins an attempt of a pod, wherever it waits.
    fn begin(&mut self, key: &PodKey) -> Option<Popped> {
        self.n_steps += 1;
        let number = self.n_steps;
        let stage = Stage::Open;
        let (is_changed, has_claim_news) = (false, false);
        self.put(key, PodState::InFlight { number, is_changed, has_claim_news, stage });
        let entry = self.pods.get_mut(key)?;
        entry.n_attempts = entry.n_attempts.saturating_add(1);
        self.awaited.forget(key, entry.victims.take().as_deref());
        Queue::forget_rejection(&mut self.tally, entry);
        Some(Popped {
            attempt: AttemptId { key: key.clone(), number },
            pending: entry.pending.clone(),
            since: entry.ready_since.unwrap_or(entry.since),
            n_attempts: entry.n_attempts,
            was_flushed: std::mem::take(&mut entry.was_flushed),
        })
    }

    /// Moves a pod; the only function that changes the sets and the counts.
    fn put(&mut self, key: &PodKey, state: PodState) {
        self.take_out(key);
        let Some(entry) = self.pods.get_mut(key) else { return };
        match &state {
            PodState::Gated => {}
            PodState::Active(position) => drop(self.active.insert(position.clone())),
            PodState::Backoff { until, .. } => drop(self.backoff.insert((*until, key.clone()))),
            PodState::Unschedulable { since, wanted, is_blocked, .. } => {
                let pods = self.unschedulable.entry((*wanted, *is_blocked)).or_default();
                pods.insert((*since, key.clone()));
            }
            PodState::InFlight { .. } => {}
            PodState::Held { until } => {
                self.held.extend(until.map(|until| (until, key.clone())));
            }
        }
        *self.counts.of(&state) += 1;
        entry.state = state;
    }

    /// Removes the pod from the sets; its entry still has the old place.
    fn take_out(&mut self, key: &PodKey) {
        let Some(entry) = self.pods.get(key) else { return };
        match &entry.state {
            PodState::Gated | PodState::InFlight { .. } => {}
            PodState::Active(position) => drop(self.active.remove(position)),
            PodState::Backoff { until, .. } => drop(self.backoff.remove(&(*until, key.clone()))),
            PodState::Unschedulable { since, wanted, is_blocked, .. } => {
                let set = (*wanted, *is_blocked);
                if let Some(pods) = self.unschedulable.get_mut(&set) {
                    pods.remove(&(*since, key.clone()));
                    if pods.is_empty() {
                        self.unschedulable.remove(&set);
                    }
                }
            }
            PodState::Held { until } => {
                if let Some(until) = until {
                    self.held.remove(&(*until, key.clone()));
                }
            }
        }
        *self.counts.of(&entry.state) -= 1;
    }
}

/// Adds a duration to an instant, at most a year.
fn later(from: Instant, by: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    from + by.min(YEAR)
}

/// Steps of the last changes, to find those that an attempt under way has missed.
#[derive(Debug, Default)]
struct Recent {
    /// For each kind, the step of its last change.
    kinds: [u64; Changes::N_KINDS],
    /// The step at which a claim lost its allocation.
    devices_freed: u64,
}

impl Recent {
    fn note(&mut self, changes: Changes, step: u64) {
        changes.each().for_each(|(kind, _)| self.kinds[kind] = step);
    }

    fn note_claim(&mut self, change: ClaimChange, step: u64) {
        self.note(Changes::RESOURCE_CLAIM, step);
        if change.frees_devices {
            self.devices_freed = step;
        }
    }

    fn since(&self, step: u64) -> Changes {
        let missed = Changes::ALL.each().filter(|&(kind, _)| self.kinds[kind] > step);
        missed.map(|(_, change)| change).fold(Changes::NONE, Changes::or)
    }
}
