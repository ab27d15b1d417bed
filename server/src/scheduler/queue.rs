//! Queue: which pending pods are tried, in which order, and when again. A state machine: the time is an argument, nothing
//! waits, nothing is sent. Rules: S-Q-2 to S-Q-6, S-Q-8, S-Q-10.
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
//! Every pod that was told of is in exactly one place until it is removed. A group is tried as a whole: while what came of
//! some of its pods is being told, the others wait.

mod entry;
mod batch;
mod groups;
mod tally;
mod pop;
mod group_members;
#[cfg(test)]
mod properties;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::PodKey;

use super::backoff::Backoff;
use super::hints::Changes;
use super::pending::Pending;
use super::plugin_set::PluginSet;
pub use batch::{Batch, GroupTurn, Popped};
pub use entry::{AttemptId, Counts};
use entry::{Entry, PodState, QueuePosition, Stage};
use groups::Groups;
pub use tally::{Cause, Destination, Tally};

/// How long pods rest.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Between attempts.
    pub backoff: Backoff,
    /// After this time a pod is tried again although nothing changed that could help it.
    pub flush_after: Duration,
}

impl Default for QueueOptions {
    /// kube-scheduler's: 1 s to 10 s, and 5 minutes.
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
    /// By what they wait for: kinds are few, pods may be many.
    unschedulable: BTreeMap<Changes, BTreeSet<(Instant, PodKey)>>,
    /// Of pods that are held for a time, when that is over.
    held: BTreeSet<(Instant, PodKey)>,
    groups: Groups,
    recent: Recent,
    counts: Counts,
    tally: Tally,
    /// Tells apart what happens at one instant.
    n_steps: u64,
}

impl Queue {
    /// An empty one.
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
            recent: Recent::default(),
            counts: Counts::default(),
            tally: Tally::default(),
            n_steps: 0,
        }
    }

    /// A pod is told of that has no node. Its last word counts; one whose spec changed is tried anew.
    pub fn upsert(&mut self, pending: Pending, now: Instant) {
        let key = pending.key.clone();
        let known = self.pods.get(&key);
        if known.is_some_and(|known| known.pending.name.uid != pending.name.uid) {
            self.remove(&key);
        }
        // Who had its name and a node is gone.
        self.groups.release(&key);
        let pending = Arc::new(pending);
        let Some(entry) = self.pods.get_mut(&key) else {
            // S-Q-9: nobody need be told of one that was never tried.
            if !pending.is_terminating {
                self.insert(&pending, now);
            }
            return;
        };
        let is_changed = !entry.pending.is_as(&pending);
        let old = std::mem::replace(&mut entry.pending, pending.clone());
        if old.group != pending.group {
            self.groups.leave(&old);
            self.groups.join(&pending);
        }
        match self.pods.get_mut(&key).map(|entry| &mut entry.state) {
            Some(PodState::Gated) if !pending.is_gated => {
                self.activate(&key, now, Cause::UPDATED);
                self.wake_group(&pending, now);
            }
            Some(PodState::Unschedulable { .. }) if is_changed || pending.is_terminating => {
                self.ready(&key, now, Cause::UPDATED);
            }
            Some(PodState::InFlight { is_changed: noted, .. }) => *noted |= is_changed,
            _ => {}
        }
    }

    /// A pod is gone, or has a node. Says whether it was known.
    pub fn remove(&mut self, key: &PodKey) -> bool {
        self.take_out(key);
        let Some(mut entry) = self.pods.remove(key) else { return false };
        Queue::forget_rejection(&mut self.tally, &mut entry);
        self.groups.leave(&entry.pending);
        true
    }

    /// A pod of that name and uid waits here, and this is what is known of it.
    #[must_use]
    pub fn get(&self, key: &PodKey, uid: &str) -> Option<&Arc<Pending>> {
        self.pods.get(key).map(|entry| &entry.pending).filter(|pending| pending.name.uid == uid)
    }

    /// What is known of the pod of that name that waits here.
    #[must_use]
    pub fn find(&self, key: &PodKey) -> Option<&Arc<Pending>> {
        self.pods.get(key).map(|entry| &entry.pending)
    }

    /// A pod of that name waits here.
    #[must_use]
    pub fn contains(&self, key: &PodKey) -> bool {
        self.pods.contains_key(key)
    }

    /// Something changed in the cluster: pods that it can help get ready, those that rest still after their rest.
    pub fn changed(&mut self, changes: Changes, now: Instant) {
        let helped: Vec<(PodKey, Cause)> = self
            .unschedulable
            .iter()
            .filter(|(wanted, _)| wanted.intersects(changes))
            .map(|(wanted, pods)| (Cause::of_change(changes, *wanted), pods))
            .flat_map(|(cause, pods)| pods.iter().map(move |(_, key)| (key.clone(), cause)))
            .collect();
        helped.iter().for_each(|(key, cause)| self.ready(key, now, *cause));
        self.n_steps += 1;
        self.recent.note(changes, self.n_steps);
    }

    /// Moves what has rested, or waited for long enough, or for the others of its group.
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

    /// The pods that were held for longer than they should: each begins an attempt in which that is mended.
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

    /// Pods by where they wait.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The attempt found no node: the pod waits for a change of `wanted`, and rests before it is tried again.
    pub fn reject(&mut self, attempt: &AttemptId, wanted: Changes, now: Instant) {
        let Some((entry, changed)) = self.end(attempt) else { return };
        entry.n_rejected = entry.n_rejected.saturating_add(1);
        entry.n_failed = 0;
        self.wait(&attempt.key, wanted, changed, true, now);
    }

    /// The pod was not tried, and will not be before a change of `wanted`; that is no failure, so it need not rest.
    pub fn defer(&mut self, attempt: &AttemptId, wanted: Changes, now: Instant) {
        let Some((_, changed)) = self.end(attempt) else { return };
        self.wait(&attempt.key, wanted, changed, false, now);
    }

    /// The attempt failed, for a reason that time may mend: the pod rests.
    pub fn fail(&mut self, attempt: &AttemptId, now: Instant) {
        let Some((entry, _)) = self.end(attempt) else { return };
        entry.n_failed = entry.n_failed.saturating_add(1);
        let until = later(now, self.options.backoff.after(self.failures(&attempt.key).1));
        self.tally.count(Destination::Backoff, Cause::ATTEMPT_FAILED);
        self.put(&attempt.key, PodState::Backoff { since: now, until });
    }

    /// The attempt came to nothing, for no reason that lies in the pod: it is tried again at once.
    pub fn retry(&mut self, attempt: &AttemptId, now: Instant) {
        if self.end(attempt).is_some() {
            self.activate(&attempt.key, now, Cause::ATTEMPT_FAILED);
        }
    }

    /// A plugin holds the pod back until its gates are gone (S-Q-5).
    pub fn gate(&mut self, attempt: &AttemptId) {
        if self.end(attempt).is_some() {
            self.tally.count(Destination::Unschedulable, Cause::ATTEMPT_FAILED);
            self.put(&attempt.key, PodState::Gated);
        }
    }

    /// The pod is bound, or handed off: it is held until the feed tells its node, or until then.
    pub fn hold(&mut self, attempt: &AttemptId, until: Option<Instant>) {
        if self.end(attempt).is_some() {
            self.put(&attempt.key, PodState::Held { until });
        }
    }

    /// The pod has taken its room: of its group it counts as placed.
    pub fn placed(&mut self, attempt: &AttemptId) {
        self.reach(attempt, Stage::Placed);
    }

    /// Its Binding, or its nomination, is sent now. `false` if it must not be: the attempt is over.
    pub fn sent(&mut self, attempt: &AttemptId) -> bool {
        self.reach(attempt, Stage::Sent)
    }

    /// It is to give its room back. `false` if that is no longer this attempt's: whoever ended it saw to it.
    pub fn unplaced(&mut self, attempt: &AttemptId) -> bool {
        self.reach(attempt, Stage::Open)
    }

    /// Ends the attempt of a pod whose node nobody was told yet (S-PRE-23); `false` if there is none. The pod rests; its room is
    /// to be given back.
    pub fn cancel(&mut self, key: &PodKey, uid: &str, now: Instant) -> bool {
        let Some(entry) = self.pods.get(key).filter(|entry| entry.pending.name.uid == uid) else {
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

    /// What was counted since the queue was made.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The attempt is about to be rejected, by these plugins.
    pub fn note_rejected_by(&mut self, attempt: &AttemptId, plugins: PluginSet) {
        if self.is_under_way(attempt)
            && let Some(entry) = self.pods.get_mut(&attempt.key)
        {
            entry.rejected_by = plugins;
            self.tally.hold(&entry.pending.profile, plugins, 1);
        }
    }

    /// The pod is tried again, or gone: nobody holds it back.
    fn forget_rejection(tally: &mut Tally, entry: &mut Entry) {
        tally.hold(&entry.pending.profile, entry.rejected_by, -1);
        entry.rejected_by = PluginSet::NONE;
    }

    fn insert(&mut self, pending: &Arc<Pending>, now: Instant) {
        self.groups.join(pending);
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

    /// After an attempt: to where the pod waits, or on if what it would wait for has come already.
    fn wait(&mut self, key: &PodKey, wanted: Changes, changed: Changes, rests: bool, now: Instant) {
        self.tally.count(Destination::Unschedulable, Cause::ATTEMPT_FAILED);
        self.put(key, PodState::Unschedulable { since: now, wanted, rests });
        if wanted.intersects(changed) {
            self.ready(key, now, Cause::of_change(changed, wanted));
        }
    }

    /// A pod that waits may be tried: now, or once it has rested.
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

    /// Rejections and failures in a row.
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

    /// Ends an attempt, if it is the pod's last; what changed meanwhile.
    fn end(&mut self, attempt: &AttemptId) -> Option<(&mut Entry, Changes)> {
        let entry = self.pods.get_mut(&attempt.key)?;
        match entry.state {
            PodState::InFlight { number, is_changed, .. } if number == attempt.number => {
                let changed = if is_changed { Changes::ALL } else { self.recent.since(number) };
                Some((entry, changed))
            }
            _ => None,
        }
    }

    /// Begins an attempt of a pod, wherever it waits.
    fn begin(&mut self, key: &PodKey) -> Option<Popped> {
        self.n_steps += 1;
        let number = self.n_steps;
        self.put(key, PodState::InFlight { number, is_changed: false, stage: Stage::Open });
        let entry = self.pods.get_mut(key)?;
        entry.n_attempts = entry.n_attempts.saturating_add(1);
        Queue::forget_rejection(&mut self.tally, entry);
        Some(Popped {
            attempt: AttemptId { key: key.clone(), number },
            pending: entry.pending.clone(),
            since: entry.ready_since.unwrap_or(entry.since),
            n_attempts: entry.n_attempts,
            was_flushed: std::mem::take(&mut entry.was_flushed),
        })
    }

    /// Moves a pod; the one place where the sets and the counts change.
    fn put(&mut self, key: &PodKey, state: PodState) {
        self.take_out(key);
        let Some(entry) = self.pods.get_mut(key) else { return };
        match &state {
            PodState::Gated => {}
            PodState::Active(position) => drop(self.active.insert(position.clone())),
            PodState::Backoff { until, .. } => drop(self.backoff.insert((*until, key.clone()))),
            PodState::Unschedulable { since, wanted, .. } => {
                self.unschedulable.entry(*wanted).or_default().insert((*since, key.clone()));
            }
            PodState::InFlight { .. } => {}
            PodState::Held { until } => {
                self.held.extend(until.map(|until| (until, key.clone())));
            }
        }
        *self.counts.of(&state) += 1;
        entry.state = state;
    }

    /// Out of the sets; the entry says still where it was.
    fn take_out(&mut self, key: &PodKey) {
        let Some(entry) = self.pods.get(key) else { return };
        match &entry.state {
            PodState::Gated | PodState::InFlight { .. } => {}
            PodState::Active(position) => drop(self.active.remove(position)),
            PodState::Backoff { until, .. } => drop(self.backoff.remove(&(*until, key.clone()))),
            PodState::Unschedulable { since, wanted, .. } => {
                if let Some(pods) = self.unschedulable.get_mut(wanted) {
                    pods.remove(&(*since, key.clone()));
                    if pods.is_empty() {
                        self.unschedulable.remove(wanted);
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

/// As late as can be where the sum is later still.
fn later(from: Instant, by: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    from + by.min(YEAR)
}

/// When each kind of change happened last: what an attempt that is under way has missed.
#[derive(Debug, Default)]
struct Recent([u64; Changes::N_KINDS]);

impl Recent {
    fn note(&mut self, changes: Changes, step: u64) {
        changes.each().for_each(|(kind, _)| self.0[kind] = step);
    }

    fn since(&self, step: u64) -> Changes {
        let missed = Changes::ALL.each().filter(|&(kind, _)| self.0[kind] > step);
        missed.map(|(_, change)| change).fold(Changes::NONE, Changes::or)
    }
}
