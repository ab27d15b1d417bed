//! Request table: which requests have records in a ledger, so that old ones are removed. Plain data.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::ledger::Key;
use crate::service::response_cache::{MAX_AGE, MAX_ANSWERS, MAX_BYTES};

/// The requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct RequestTable {
    known: HashMap<Key, Known>,
    /// One that was changed or removed since is passed over.
    order: VecDeque<(Instant, Key)>,
    n_bytes: usize,
}

#[derive(Copy, Clone, Debug)]
struct Known {
    since: Instant,
    /// Number of records besides the first one.
    n_parts: u32,
    n_bytes: usize,
}

impl RequestTable {
    /// Notes a request, with the number of its further records and of all their bytes. Returns the number of further
    /// records that it had before.
    pub(super) fn put(&mut self, key: &Key, n_parts: u32, n_bytes: usize, now: Instant) -> u32 {
        let before = self.remove(key).unwrap_or(0);
        self.known.insert(key.clone(), Known { since: now, n_parts, n_bytes });
        self.order.push_back((now, key.clone()));
        self.n_bytes += n_bytes;
        before
    }

    /// Forgets a request; returns the number of its further records.
    pub(super) fn remove(&mut self, key: &Key) -> Option<u32> {
        let Known { n_parts, n_bytes, .. } = self.known.remove(key)?;
        self.n_bytes -= n_bytes;
        Some(n_parts)
    }

    /// Forgets the oldest request, if it is too old or there are too many; returns it with the number of its further
    /// records.
    pub(super) fn pop_old(&mut self, now: Instant) -> Option<(Key, u32)> {
        loop {
            let (since, key) = self.order.front()?;
            let is_current = self.known.get(key).is_some_and(|known| known.since == *since);
            let is_old = now.saturating_duration_since(*since) >= MAX_AGE;
            let are_many = self.known.len() > MAX_ANSWERS || self.n_bytes > MAX_BYTES;
            if is_current && !is_old && !are_many {
                return None;
            }
            let (_, key) = self.order.pop_front()?;
            if is_current {
                let n_parts = self.remove(&key)?;
                return Some((key, n_parts));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_go_by_age_and_by_bytes() {
        let (mut table, start) = (RequestTable::default(), Instant::now());
        let key = |id: &str| Key::request("u", "/m", id);
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, id) in (0..).zip(["a", "b", "c"]) {
            assert_eq!(table.put(&key(id), 0, 10, at(second)), 0);
        }
        // Changed, it is the newest.
        assert_eq!(table.put(&key("a"), 2, 10, at(3)), 0);
        assert_eq!(table.put(&key("a"), 1, 10, at(3)), 2);
        assert_eq!(table.remove(&key("c")), Some(0));
        assert_eq!(table.pop_old(at(4)), None);
        assert_eq!(table.pop_old(at(1) + MAX_AGE), Some((key("b"), 0)));
        assert_eq!(table.pop_old(at(1) + MAX_AGE), None);
        table.put(&key("large"), 7, MAX_BYTES, at(4));
        assert_eq!(table.pop_old(at(4)), Some((key("a"), 1)));
        assert_eq!(table.pop_old(at(4)), None);
        assert_eq!(table.pop_old(at(4) + MAX_AGE), Some((key("large"), 7)));
        assert_eq!((table.pop_old(at(5) + MAX_AGE), table.n_bytes), (None, 0));
    }
}
