//! The table of assumptions: who holds which pod, under which token, and until when. Plain data; time is an argument.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Instant;

use berth_engine::{AssumptionStamp, PodKey};
use rustc_hash::FxHashMap;

/// Number of deadlines from which on outdated ones are removed.
const MANY_DEADLINES: usize = 1_024;

/// The assumptions of the live cluster that were made for callers.
///
/// A pod has one entry at most, that of its latest assumption. Deadlines are removed lazily: one counts only while the
/// entry of its pod still has its token and its time.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: FxHashMap<PodKey, Entry>,
    deadlines: BinaryHeap<Reverse<Deadline>>,
}

/// One assumption.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) token: u64,
    pub(super) stamp: AssumptionStamp,
    /// User that the pod was assumed for.
    pub(super) user: Arc<str>,
    pub(super) since: Instant,
    /// When the assumption ends by itself; `None` if it does not.
    pub(super) until: Option<Instant>,
    /// Whether its time is over and its pod is being taken out of the cluster.
    pub(super) is_ending: bool,
    /// Whether the ledger is known to have, or to have had, its record.
    pub(super) is_recorded: bool,
    /// Whether its record is gone, and its pod stays until this server's feed has told why.
    pub(super) is_over: bool,
}

impl Entry {
    /// An assumption that is not written yet.
    pub(super) fn new(
        token: u64,
        stamp: AssumptionStamp,
        user: Arc<str>,
        (since, until): (Instant, Option<Instant>),
    ) -> Entry {
        let (is_ending, is_recorded, is_over) = (false, false, false);
        Entry { token, stamp, user, since, until, is_ending, is_recorded, is_over }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    at: Instant,
    token: u64,
    key: PodKey,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &PodKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Adds an assumption; it replaces an earlier one of the pod, which is over.
    pub(super) fn add(&mut self, key: PodKey, entry: Entry) {
        self.note_deadline(&key, entry.token, entry.until);
        self.entries.insert(key, entry);
    }

    /// The assumption of this token, if the pod still has it.
    fn held_mut(&mut self, key: &PodKey, token: u64) -> Option<&mut Entry> {
        self.entries.get_mut(key).filter(|entry| entry.token == token)
    }

    /// Changes the time at which the pod's assumption ends.
    pub(super) fn set_until(&mut self, key: &PodKey, until: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.until = until;
        let token = entry.token;
        self.note_deadline(key, token, until);
    }

    /// Takes note that a pod has this assumption, which goes on until then, and of which there is a record. Returns whether
    /// it has it.
    pub(super) fn note_recorded(
        &mut self,
        key: &PodKey,
        token: u64,
        until: Option<Instant>,
    ) -> bool {
        let Some(entry) = self.held_mut(key, token) else { return false };
        (entry.is_ending, entry.is_recorded, entry.is_over) = (false, true, false);
        self.set_until(key, until);
        true
    }

    /// Takes note that the ledger has the record of the assumption of this token, if the pod still has it.
    pub(super) fn note_written(&mut self, key: &PodKey, token: u64) {
        self.held_mut(key, token).into_iter().for_each(|entry| entry.is_recorded = true);
    }

    /// Marks the assumption of this token as ending, if the pod still has it; returns whether it was not before.
    pub(super) fn begin_to_end(&mut self, key: &PodKey, token: u64) -> bool {
        let entry = self.held_mut(key, token);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.is_ending, true))
    }

    /// Takes note that the record of the assumption of this token is gone, if the pod still has it.
    pub(super) fn note_over(&mut self, key: &PodKey, token: u64) {
        self.held_mut(key, token).into_iter().for_each(|entry| entry.is_over = true);
    }

    /// Removes the assumption of this token, if the pod still has it.
    pub(super) fn remove(&mut self, key: &PodKey, token: u64) {
        if self.entries.get(key).is_some_and(|entry| entry.token == token) {
            self.entries.remove(key);
        }
    }

    /// Whether a deadline has passed, an outdated one perhaps.
    pub(super) fn is_any_due(&self, now: Instant) -> bool {
        self.deadlines.peek().is_some_and(|Reverse(next)| next.at <= now)
    }

    /// Marks at most `limit` assumptions whose time is over as ending; returns them in the order of their deadlines.
    pub(super) fn take_due(&mut self, now: Instant, limit: usize) -> Vec<(PodKey, Entry)> {
        let mut due = Vec::new();
        while due.len() < limit && self.is_any_due(now) {
            let Some(Reverse(Deadline { at, token, key })) = self.deadlines.pop() else { break };
            let entry = self.entries.get_mut(&key);
            let is_current = |entry: &&mut Entry| {
                entry.token == token && entry.until == Some(at) && !entry.is_ending
            };
            if let Some(entry) = entry.filter(is_current) {
                entry.is_ending = true;
                due.push((key, entry.clone()));
            }
        }
        due
    }

    /// The pods of all assumptions, with their stamps and tokens, in arbitrary order.
    pub(super) fn held(&self) -> Vec<(PodKey, AssumptionStamp, u64)> {
        let held = self.entries.iter();
        held.map(|(key, entry)| (key.clone(), entry.stamp, entry.token)).collect()
    }

    /// The pods of assumptions of which the ledger is not known to have a record, with their tokens and stamps.
    pub(super) fn not_recorded(&self) -> Vec<(PodKey, u64, AssumptionStamp)> {
        let held = self.entries.iter().filter(|(_, entry)| !entry.is_recorded);
        held.map(|(key, entry)| (key.clone(), entry.token, entry.stamp)).collect()
    }

    fn note_deadline(&mut self, key: &PodKey, token: u64, until: Option<Instant>) {
        let Some(at) = until else { return };
        if self.deadlines.len() >= MANY_DEADLINES && self.deadlines.len() > 2 * self.entries.len() {
            self.forget_outdated_deadlines();
        }
        self.deadlines.push(Reverse(Deadline { at, token, key: key.clone() }));
    }

    /// Removes the deadlines of assumptions that are over or have another time.
    fn forget_outdated_deadlines(&mut self) {
        let entries = &self.entries;
        self.deadlines.retain(|Reverse(Deadline { at, token, key })| {
            entries.get(key).is_some_and(|entry| entry.token == *token && entry.until == Some(*at))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use std::time::Duration;

    fn stamp() -> AssumptionStamp {
        let state = fixture::state(&[("n0", "4")]);
        let pod = state.cluster.compile_pod(&fixture::pod("p", "1", 0)).unwrap();
        state.cluster.assume_on(pod.key(), pod.uid(), "n0", Some(&pod)).unwrap();
        state.cluster.assumed_pods()[0].stamp.unwrap()
    }

    fn key(i: usize) -> PodKey {
        PodKey::new("default", &format!("p{i}"))
    }

    #[test]
    fn only_the_latest_deadline_of_the_latest_assumption_counts() {
        let (start, stamp) = (Instant::now(), stamp());
        let at = |seconds| start + Duration::from_secs(seconds);
        let entry = |token, until: Option<u64>| {
            Entry::new(token, stamp, "jane".into(), (start, until.map(at)))
        };
        let mut table = Table::default();
        table.add(key(0), entry(1, Some(1)));
        table.add(key(1), entry(2, Some(2)));
        table.add(key(2), entry(3, None));
        table.add(key(3), entry(4, Some(1)));
        table.add(key(4), entry(5, Some(1)));
        // Assumed anew, extended, and removed.
        table.add(key(0), entry(6, Some(3)));
        table.set_until(&key(3), Some(at(4)));
        table.remove(&key(4), 5);
        let mut due = |seconds, limit| -> Vec<u64> {
            table.take_due(at(seconds), limit).into_iter().map(|(_, entry)| entry.token).collect()
        };
        assert_eq!(due(1, 9), [0; 0]);
        assert_eq!(due(3, 1), [2]);
        assert_eq!(due(3, 9), [6]);
        assert_eq!(due(3, 9), [0; 0], "once is enough");
        assert_eq!(due(9, 9), [4]);
        table.remove(&key(0), 1);
        assert!(table.get(&key(0)).is_some_and(|entry| entry.token == 6 && entry.is_ending));
        table.remove(&key(0), 6);
        assert!(table.get(&key(0)).is_none());
    }

    /// Memory is bounded by the number of assumptions, not by how often each was extended.
    #[test]
    fn outdated_deadlines_are_forgotten() {
        let (start, stamp) = (Instant::now(), stamp());
        let mut table = Table::default();
        for i in 0..10 * MANY_DEADLINES {
            let until = Some(start + Duration::from_secs(i as u64));
            table.add(key(i % 10), Entry::new(i as u64, stamp, "jane".into(), (start, until)));
            table.set_until(&key(i % 10), until.map(|until| until + Duration::from_secs(1)));
        }
        assert!(table.deadlines.len() <= 2 * MANY_DEADLINES, "{}", table.deadlines.len());
        assert_eq!(table.take_due(start + Duration::from_secs(1 << 20), usize::MAX).len(), 10);
    }
}
