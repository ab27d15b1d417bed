//! Tally: how many pods came into which queue and why, and whom plugins hold back, as kube-scheduler counts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::Plugin;

use super::{AttemptId, Entry, Queue};
use crate::scheduler::hints::Changes;

/// A queue that pods come into.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Ready to be tried.
    Active,
    /// Resting.
    Backoff,
    /// Waiting for a change; gated pods too.
    Unschedulable,
}

impl Destination {
    /// All of them.
    pub const ALL: [Destination; 3] =
        [Destination::Active, Destination::Backoff, Destination::Unschedulable];

    /// As in labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Destination::Active => "active",
            Destination::Backoff => "backoff",
            Destination::Unschedulable => "unschedulable",
        }
    }
}

/// Why a pod came into a queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Cause(usize);

const NAMES: [&str; 5] = [
    "UnscheduledPodAdd",
    "UnscheduledPodUpdate",
    "ScheduleAttemptFailure",
    "BackoffComplete",
    "UnschedulableTimeout",
];

impl Cause {
    /// How many there are: a change of each kind, and a few more.
    pub const N: usize = NAMES.len() + Changes::N_KINDS;
    /// It is new.
    pub const ADDED: Cause = Cause(0);
    /// It was changed.
    pub const UPDATED: Cause = Cause(1);
    /// Its attempt came to nothing.
    pub const ATTEMPT_FAILED: Cause = Cause(2);
    /// It has rested.
    pub const RESTED: Cause = Cause(3);
    /// It has waited for too long.
    pub const TIMEOUT: Cause = Cause(4);

    /// One of `changes` that it waited for; it was changed itself if none is.
    #[must_use]
    pub fn of_change(changes: Changes, wanted: Changes) -> Cause {
        // Of an attempt that overlooked a change of its own pod, anything may have changed.
        let told = if changes == Changes::ALL { Changes::NONE } else { changes };
        let helped = told.each().find(|(_, kind)| kind.intersects(wanted));
        helped.map_or(Cause::UPDATED, |(kind, _)| Cause(NAMES.len() + kind))
    }

    /// From 0 to [`Cause::N`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }

    /// As in labels: kube-scheduler's where it has the same.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0.checked_sub(NAMES.len()) {
            None => NAMES[self.0],
            Some(kind) => Changes::EVENT_NAMES[kind],
        }
    }
}

/// What a queue counted.
#[derive(Clone, Debug)]
pub struct Tally {
    incoming: [[u64; Cause::N]; Destination::ALL.len()],
    /// Of each profile, the pods that each plugin had a part in rejecting.
    rejected: BTreeMap<Arc<str>, [usize; Plugin::ALL.len()]>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { incoming: [[0; Cause::N]; Destination::ALL.len()], rejected: BTreeMap::new() }
    }
}

impl Tally {
    /// One new pod, and one that a plugin holds back.
    #[cfg(test)]
    pub(crate) fn example(profile: &str, plugin: Plugin) -> Tally {
        let mut tally = Tally::default();
        tally.count(Destination::Active, Cause::ADDED);
        tally.hold(&profile.into(), Plugins::of([plugin]), 1);
        tally
    }

    pub(super) fn count(&mut self, destination: Destination, cause: Cause) {
        self.incoming[destination as usize][cause.0] += 1;
    }

    /// How many pods came into which queue why; only what has happened.
    pub fn incoming(&self) -> impl Iterator<Item = (Destination, Cause, u64)> {
        Destination::ALL.into_iter().flat_map(move |destination| {
            let causes = self.incoming[destination as usize].iter().enumerate();
            causes.filter(|(_, n)| **n > 0).map(move |(cause, n)| (destination, Cause(cause), *n))
        })
    }

    /// How many pods of a profile a plugin holds back; 0 where it held some back before.
    pub fn rejected(&self) -> impl Iterator<Item = (&str, Plugin, usize)> {
        self.rejected.iter().flat_map(|(profile, counts)| {
            Plugin::ALL.into_iter().map(move |plugin| (&**profile, plugin, counts[plugin as usize]))
        })
    }

    fn hold(&mut self, profile: &Arc<str>, plugins: Plugins, by: isize) {
        if plugins == Plugins::NONE {
            return;
        }
        let counts = self.rejected.entry(profile.clone()).or_insert([0; Plugin::ALL.len()]);
        for plugin in Plugin::ALL.into_iter().filter(|plugin| plugins.contains(*plugin)) {
            counts[plugin as usize] = counts[plugin as usize].saturating_add_signed(by);
        }
    }
}

/// A set of plugins.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins(u32);

impl Plugins {
    /// None.
    pub const NONE: Plugins = Plugins(0);

    /// These.
    #[must_use]
    pub fn of(plugins: impl IntoIterator<Item = Plugin>) -> Plugins {
        Plugins(plugins.into_iter().fold(0, |bits, plugin| bits | 1 << plugin as u32))
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u32) != 0
    }
}

const _: () = assert!(Plugin::ALL.len() <= 32, "a plugin is a bit");

impl Queue {
    /// What was counted since the queue was made.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The attempt is about to be rejected, by these plugins.
    pub fn note_rejected_by(&mut self, attempt: &AttemptId, plugins: Plugins) {
        if self.is_under_way(attempt)
            && let Some(entry) = self.pods.get_mut(&attempt.key)
        {
            entry.rejected_by = plugins;
            self.tally.hold(&entry.pending.profile, plugins, 1);
        }
    }

    /// The pod is tried again, or gone: nobody holds it back.
    pub(super) fn forget_rejection(tally: &mut Tally, entry: &mut Entry) {
        tally.hold(&entry.pending.profile, entry.rejected_by, -1);
        entry.rejected_by = Plugins::NONE;
    }
}
