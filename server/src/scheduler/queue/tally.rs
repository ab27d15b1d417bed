//! Tally: how many pods came into which queue and why, and whom plugins hold back, as kube-scheduler counts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::Plugin;

use crate::scheduler::hints::Changes;
use crate::scheduler::plugin_set::PluginSet;

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
        tally.hold(&profile.into(), PluginSet::of([plugin]), 1);
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

    /// Adds `by` to the number of pods that each of `plugins` holds back.
    pub(super) fn hold(&mut self, profile: &Arc<str>, plugins: PluginSet, by: isize) {
        if plugins == PluginSet::NONE {
            return;
        }
        let counts = self.rejected.entry(profile.clone()).or_insert([0; Plugin::ALL.len()]);
        for plugin in Plugin::ALL.into_iter().filter(|plugin| plugins.contains(*plugin)) {
            counts[plugin as usize] = counts[plugin as usize].saturating_add_signed(by);
        }
    }
}
