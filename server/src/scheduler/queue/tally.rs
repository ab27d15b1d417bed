//! Tally: how many pods came into which queue and why, and which pods plugins hold back, as kube-scheduler counts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::Plugin;

use crate::scheduler::hints::Changes;
use crate::scheduler::plugin_set::PluginSet;

/// A queue that pods come into.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Pods that are ready to be tried.
    Active,
    /// Pods in backoff.
    Backoff,
    /// Pods that wait for a change, including gated pods.
    Unschedulable,
}

impl Destination {
    /// All queues.
    pub const ALL: [Destination; 3] =
        [Destination::Active, Destination::Backoff, Destination::Unschedulable];

    /// Name in labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Destination::Active => "active",
            Destination::Backoff => "backoff",
            Destination::Unschedulable => "unschedulable",
        }
    }
}

/// Cause for which a pod came into a queue.
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
    /// Number of causes: a change of each kind, and a few more.
    pub const N: usize = NAMES.len() + Changes::N_KINDS;
    /// The pod is new.
    pub const ADDED: Cause = Cause(0);
    /// The pod was changed.
    pub const UPDATED: Cause = Cause(1);
    /// The pod's attempt failed.
    pub const ATTEMPT_FAILED: Cause = Cause(2);
    /// The pod's backoff ended.
    pub const RESTED: Cause = Cause(3);
    /// The pod has waited for too long.
    pub const TIMEOUT: Cause = Cause(4);

    /// The first of `changes` that the pod waited for; [`Cause::UPDATED`] if there is none.
    #[must_use]
    pub fn of_change(changes: Changes, wanted: Changes) -> Cause {
        // After an attempt that missed a change of its own pod, any kind may have changed.
        let precise = if changes == Changes::ALL { Changes::NONE } else { changes };
        let helped = precise.each().find(|(_, kind)| kind.intersects(wanted));
        helped.map_or(Cause::UPDATED, |(kind, _)| Cause(NAMES.len() + kind))
    }

    /// Index of the cause, from 0 to below [`Cause::N`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }

    /// Name in labels: kube-scheduler's where it has the same.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0.checked_sub(NAMES.len()) {
            None => NAMES[self.0],
            Some(kind) => Changes::EVENT_NAMES[kind],
        }
    }
}

/// Counts of a queue.
#[derive(Clone, Debug)]
pub struct Tally {
    incoming: [[u64; Cause::N]; Destination::ALL.len()],
    /// For each profile, the pods that each plugin helped to reject.
    rejected: BTreeMap<Arc<str>, [usize; Plugin::ALL.len()]>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { incoming: [[0; Cause::N]; Destination::ALL.len()], rejected: BTreeMap::new() }
    }
}

impl Tally {
    /// Tally of one new pod, and of one that a plugin holds back.
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

    /// Numbers of pods by queue and cause; without zeros.
    pub fn incoming(&self) -> impl Iterator<Item = (Destination, Cause, u64)> {
        Destination::ALL.into_iter().flat_map(move |destination| {
            let causes = self.incoming[destination as usize].iter().enumerate();
            causes.filter(|(_, n)| **n > 0).map(move |(cause, n)| (destination, Cause(cause), *n))
        })
    }

    /// Numbers of pods of each profile that a plugin holds back; 0 if it held some back before.
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
