//! The records of assumptions as they are to be in the ledger, and what of that may not be there yet. Plain data.
//!
//! What one call adds may be more than a transaction may have. Then the bodies of its records come first, in several
//! transactions, and the states of all of them together: a body without its state counts as not there. Likewise the further
//! parts of a response come before its first one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::record::{self, NewRecord, Standing};
use super::request::{self, Requests};
use super::request_table::RequestTable;
use crate::ledger::{Key, Transaction};

/// Number of keys, and of bytes, that a transaction may have: with a margin within etcd's limits of 128 operations and
/// 1.5 MiB.
pub(super) const MAX_KEYS: usize = 110;
pub(super) const MAX_BYTES: usize = 768 << 10;

/// The records with pods that have not ended.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Standings of each record's pods, by the token of its first one.
    records: BTreeMap<u64, Vec<Standing>>,
    /// Keys of the nominations.
    nominations: BTreeSet<Key>,
    requests: RequestTable,
    /// Keys whose value in the ledger is not certain to be this one; `None` for a key that must not be there.
    unsure: BTreeMap<Key, Option<Vec<u8>>>,
    n_unsure_bytes: usize,
}

impl Book {
    /// Adds records of pods with this time to live; returns their keys.
    pub(super) fn add(&mut self, records: Vec<NewRecord>, ttl: Option<Duration>) -> Vec<Key> {
        let mut added = Vec::with_capacity(records.len());
        for NewRecord { first, n_pods, body } in records {
            self.set(Key::reservation(first), Some(body));
            self.put(first, vec![Standing { has_ended: false, ttl }; n_pods]);
            added.push(Key::reservation(first));
        }
        added
    }

    /// Replaces nominations; `None` for a pod that has none. Returns the keys of new ones.
    pub(super) fn set_nominations(&mut self, changes: Vec<(Key, Option<Vec<u8>>)>) -> Vec<Key> {
        let mut added = Vec::new();
        for (key, value) in changes {
            match &value {
                Some(_) if self.nominations.insert(key.clone()) => added.push(key.clone()),
                None if !self.nominations.remove(&key) => continue,
                Some(_) | None => {}
            }
            self.set(key, value);
        }
        added
    }

    /// Replaces the records of a request, of which the last one is its first; returns their keys. Old requests are removed.
    pub(super) fn set_request(&mut self, records: Vec<(Key, Vec<u8>)>, now: Instant) -> Vec<Key> {
        let Some((first, _)) = records.last() else { return Vec::new() };
        let n_parts = u32::try_from(records.len() - 1).unwrap_or(u32::MAX);
        let n_bytes = records.iter().map(|(_, value)| value.len()).sum();
        let n_before = self.requests.put(first, n_parts, n_bytes, now);
        let others: Vec<Key> = (n_parts..n_before).map(|n| first.request_part(n)).collect();
        others.into_iter().for_each(|key| self.set(key, None));
        let keys = records.iter().map(|(key, _)| key.clone()).collect();
        records.into_iter().for_each(|(key, value)| self.set(key, Some(value)));
        while let Some((old, n_parts)) = self.requests.pop_old(now) {
            self.remove_request(old, n_parts);
        }
        keys
    }

    /// Removes the record of a request whose changes are undone.
    pub(super) fn end_request(&mut self, key: &Key) {
        if let Some(n_parts) = self.requests.remove(key) {
            self.remove_request(key.clone(), n_parts);
        }
    }

    fn remove_request(&mut self, key: Key, n_parts: u32) {
        (0..n_parts).for_each(|n| self.set(key.request_part(n), None));
        self.set(key, None);
    }

    /// Takes over the requests that the ledger has.
    pub(super) fn adopt_requests(&mut self, requests: &Requests, now: Instant) {
        for answered in &requests.answered {
            let (n_parts, n_bytes) = (request::n_parts(answered), answered.response.len());
            self.requests.put(&request::key(&answered.name), n_parts, n_bytes, now);
        }
        for unanswered in &requests.unanswered {
            self.requests.put(&request::key(&unanswered.name), 0, 0, now);
        }
        requests.strays.iter().for_each(|key| self.set(key.clone(), None));
    }

    /// Takes over a nomination that the ledger has.
    pub(super) fn adopt_nomination(&mut self, key: Key) {
        self.nominations.insert(key);
    }

    /// Takes over a record that the ledger has.
    pub(super) fn adopt(&mut self, first: u64, standings: Vec<Standing>) {
        self.records.insert(first, standings);
    }

    /// Changes the time to live of a pod; one that has ended keeps none.
    pub(super) fn set_ttl(&mut self, token: u64, ttl: Option<Duration>) {
        if let Some((first, standing)) = self.standing_mut(token) {
            standing.ttl = ttl;
            self.rewrite(first);
        }
    }

    /// Ends pods. A record goes with its last one.
    pub(super) fn end(&mut self, tokens: impl IntoIterator<Item = u64>) {
        let mut changed = None;
        for token in tokens {
            let Some((first, standing)) = self.standing_mut(token) else { continue };
            standing.has_ended = true;
            if let Some(before) = changed.replace(first).filter(|before| *before != first) {
                self.rewrite(before);
            }
        }
        changed.into_iter().for_each(|first| self.rewrite(first));
    }

    /// Number of keys that the end of these pods changes at most.
    pub(super) fn n_keys_of(&self, tokens: impl IntoIterator<Item = u64>) -> usize {
        2 * self.begin_records(tokens).filter(|begins| *begins).count()
    }

    /// Number of the first ones of these pods whose end fits into one transaction.
    pub(super) fn n_that_fit(&self, tokens: impl IntoIterator<Item = u64>) -> usize {
        let mut n_records = 0;
        let fits = |begins: &bool| {
            n_records += usize::from(*begins);
            2 * n_records < MAX_KEYS
        };
        self.begin_records(tokens).take_while(fits).count()
    }

    /// Whether each of these pods is in another record than the one before.
    fn begin_records(&self, tokens: impl IntoIterator<Item = u64>) -> impl Iterator<Item = bool> {
        let mut before = None;
        tokens.into_iter().map(move |token| {
            let record = self.records.range(..=token).next_back();
            let first = record.map(|(first, _)| *first);
            before.replace(first) != Some(first)
        })
    }

    /// Forgets records and nominations that the ledger has refused.
    pub(super) fn withdraw(&mut self, added: &[Key]) {
        for key in added {
            self.nominations.remove(key);
            match self.unsure.contains_key(key) {
                true => self.forget(key),
                // A body or a part that came before the rest.
                false => self.set(key.clone(), None),
            }
            if let Some(first) = key.number_of_reservation() {
                self.records.remove(&first);
                self.forget(&Key::reservation_state(first));
            }
        }
    }

    /// Removes a body whose state never came.
    pub(super) fn remove_body(&mut self, first: u64) {
        self.set(Key::reservation(first), None);
    }

    fn forget(&mut self, key: &Key) {
        if let Some(Some(value)) = self.unsure.remove(key) {
            self.n_unsure_bytes -= value.len();
        }
    }

    /// Whether the ledger may have something else.
    pub(super) fn is_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// Number of keys, and of bytes of their values, that are to be written.
    pub(super) fn n_unsure(&self) -> (usize, usize) {
        (self.unsure.len(), self.n_unsure_bytes)
    }

    /// The next transaction on the way to a ledger that is certain; the last one is the one after which it is.
    pub(super) fn transaction(&self) -> Transaction {
        let fits = self.unsure.len() <= MAX_KEYS && self.n_unsure_bytes <= MAX_BYTES;
        let bodies = || self.unsure.iter().filter(|it| !fits && is_first(it)).peekable();
        let mut writes = Vec::new();
        if bodies().peek().is_none() {
            writes.extend(self.unsure.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let mut n_bytes = 0;
        for (key, value) in bodies() {
            let size = value.as_ref().map_or(0, Vec::len);
            if writes.len() >= MAX_KEYS || !writes.is_empty() && n_bytes + size > MAX_BYTES {
                break;
            }
            n_bytes += size;
            writes.push((key.clone(), value.clone()));
        }
        Transaction { writes, ..Transaction::default() }
    }

    /// Takes note that a transaction of this book was committed, after which nothing was changed.
    pub(super) fn settle(&mut self, keys: &[Key]) {
        keys.iter().for_each(|key| self.forget(key));
    }

    /// The standing of a pod that has not ended, and the first token of its record.
    fn standing_mut(&mut self, token: u64) -> Option<(u64, &mut Standing)> {
        let (&first, standings) = self.records.range_mut(..=token).next_back()?;
        let index = usize::try_from(token - first).ok()?;
        let standing = standings.get_mut(index).filter(|standing| !standing.has_ended)?;
        Some((first, standing))
    }

    /// Has a record written as it is now, or removed if all of its pods have ended.
    fn rewrite(&mut self, first: u64) {
        let Some(standings) = self.records.remove(&first) else { return };
        if standings.iter().all(|standing| standing.has_ended) {
            self.set(Key::reservation(first), None);
            self.set(Key::reservation_state(first), None);
        } else {
            self.put(first, standings);
        }
    }

    fn put(&mut self, first: u64, standings: Vec<Standing>) {
        self.set(Key::reservation_state(first), Some(record::encode(&standings)));
        self.records.insert(first, standings);
    }

    fn set(&mut self, key: Key, value: Option<Vec<u8>>) {
        self.n_unsure_bytes += value.as_ref().map_or(0, Vec::len);
        if let Some(Some(old)) = self.unsure.insert(key, value) {
            self.n_unsure_bytes -= old.len();
        }
    }
}

/// Whether this may be written before the rest, since it does not count alone.
fn is_first((key, value): &(&Key, &Option<Vec<u8>>)) -> bool {
    let is_part = || key.as_str().starts_with(Key::REQUEST_PARTS);
    value.is_some() && (key.number_of_reservation().is_some() || is_part())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger as _, Memory, Revision};

    fn records(sizes: &[(u64, usize)]) -> Vec<NewRecord> {
        let record =
            |&(first, n_pods): &(u64, usize)| NewRecord { first, n_pods, body: vec![7; 10] };
        sizes.iter().map(record).collect()
    }

    fn commit(book: &mut Book, ledger: &Memory) {
        while book.is_unsure() {
            write(book, ledger);
        }
    }

    /// Commits the next transaction; returns its number of keys.
    fn write(book: &mut Book, ledger: &Memory) -> usize {
        let transaction = book.transaction();
        let keys: Vec<Key> = transaction.writes.iter().map(|(key, _)| key.clone()).collect();
        ledger.commit(transaction).unwrap();
        book.settle(&keys);
        keys.len()
    }

    fn keys(ledger: &Memory) -> Vec<String> {
        let listed = ledger.list("").unwrap().into_iter();
        listed.map(|(key, _)| key.as_str().replace("00000000000000000", "")).collect()
    }

    #[test]
    fn the_end_of_many_pods_is_split_by_their_records() {
        let (mut book, ledger) = (Book::default(), Memory::new(Revision(0)));
        let sizes: Vec<(u64, usize)> = (0..100).map(|n| (1_000 * n, 3)).collect();
        book.add(records(&sizes), None);
        commit(&mut book, &ledger);
        let tokens: Vec<u64> = sizes.iter().flat_map(|&(first, _)| first..first + 3).collect();
        assert_eq!(book.n_keys_of(tokens.iter().copied()), 200);
        let (mut left, mut n_transactions) = (&tokens[..], 0);
        while !left.is_empty() {
            let (now, later) = left.split_at(book.n_that_fit(left.iter().copied()));
            book.end(now.iter().copied());
            let n_keys = write(&mut book, &ledger);
            assert!(n_keys <= MAX_KEYS && !book.is_unsure(), "{n_keys}");
            (left, n_transactions) = (later, n_transactions + 1);
        }
        assert_eq!((n_transactions, ledger.list("").unwrap().len()), (2, 0));
    }

    #[test]
    fn a_record_goes_with_its_last_pod() {
        let (mut book, ledger) = (Book::default(), Memory::new(Revision(0)));
        book.add(records(&[(100, 2), (102, 1)]), None);
        assert_eq!(book.n_unsure().0, 4);
        commit(&mut book, &ledger);
        let all = [
            "reservation-state/100",
            "reservation-state/102",
            "reservation/100",
            "reservation/102",
        ];
        assert_eq!(keys(&ledger), all);
        book.end([101]);
        book.set_ttl(101, Some(Duration::from_secs(1)));
        assert_eq!(book.n_unsure().0, 1, "only the state changes");
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), all);
        book.end([100]);
        book.end([100]);
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), ["reservation-state/102", "reservation/102"]);
        for unknown in [0, 99, 100, 101, 103, u64::MAX] {
            book.end([unknown]);
        }
        assert!(!book.is_unsure());
    }

    #[test]
    fn what_ends_before_it_is_written_is_removed_all_the_same() {
        let (mut book, ledger) = (Book::default(), Memory::new(Revision(0)));
        book.add(records(&[(100, 1)]), None);
        // The outcome is in doubt: it may be there.
        ledger.commit(book.transaction()).unwrap();
        book.end([100]);
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), Vec::<String>::new());
        assert_eq!(book.n_unsure(), (0, 0));
    }

    #[test]
    fn a_nomination_is_replaced_and_removed() {
        let (mut book, ledger) = (Book::default(), Memory::new(Revision(0)));
        let key = Key::nomination("default", "p");
        let set = |book: &mut Book, value: Option<u8>| {
            book.set_nominations(vec![(key.clone(), value.map(|value| vec![value]))]).len()
        };
        assert_eq!((set(&mut book, None), book.n_unsure().0), (0, 0));
        assert_eq!((set(&mut book, Some(1)), set(&mut book, Some(2))), (1, 0));
        commit(&mut book, &ledger);
        assert_eq!(
            ledger.read(std::slice::from_ref(&key)).unwrap()[0].as_ref().unwrap().value,
            [2]
        );
        assert_eq!((set(&mut book, None), book.n_unsure().0), (0, 1));
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), Vec::<String>::new());
        assert_eq!(set(&mut book, Some(3)), 1);
        book.withdraw(std::slice::from_ref(&key));
        assert_eq!(book.n_unsure(), (0, 0));
    }

    #[test]
    fn a_request_has_the_records_of_its_last_change() {
        let (mut book, ledger) = (Book::default(), Memory::new(Revision(0)));
        let (now, key) = (Instant::now(), Key::request("u", "/m", "r"));
        let records = |sizes: &[usize]| {
            let parts = (0..).zip(sizes.iter().skip(1));
            let parts = parts.map(|(n, &size)| (key.request_part(n), vec![7; size]));
            parts.chain([(key.clone(), vec![7; sizes[0]])]).collect::<Vec<_>>()
        };
        assert_eq!(book.set_request(records(&[1]), now), std::slice::from_ref(&key));
        commit(&mut book, &ledger);
        let half = MAX_BYTES / 2;
        let refused = book.set_request(records(&[1, half, half, half]), now);
        // The parts go first; the record that makes them count is still the old one.
        assert_eq!((refused.len(), write(&mut book, &ledger)), (4, 2));
        book.withdraw(&refused);
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), [key.as_str()]);
        book.set_request(records(&[1, 1, 1]), now);
        commit(&mut book, &ledger);
        book.set_request(records(&[1, 1]), now);
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), ["request-part/0000/request/1/u/m/r", key.as_str()]);
        // An old one goes with the next.
        let late = now + crate::service::response_cache::MAX_AGE;
        let other = Key::request("u", "/m", "s");
        book.set_request(vec![(other.clone(), vec![7])], late);
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), [other.as_str()]);
        book.end_request(&other);
        book.end_request(&other);
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger), Vec::<String>::new());
        assert_eq!(book.n_unsure(), (0, 0));
    }

    #[test]
    fn refused_records_are_forgotten_and_others_are_not() {
        let mut book = Book::default();
        book.add(records(&[(100, 1)]), None);
        commit(&mut book, &Memory::new(Revision(0)));
        book.add(records(&[(200, 3), (203, 1)]), None);
        book.end([100]);
        book.withdraw(&[200, 203].map(Key::reservation));
        let writes = book.transaction().writes;
        let keys = [Key::reservation_state(100), Key::reservation(100)];
        assert_eq!(writes, keys.map(|key| (key, None)));
        assert_eq!(book.n_unsure(), (2, 0));
        book.end([201]);
        assert_eq!(book.n_unsure(), (2, 0));
    }

    #[test]
    fn what_is_too_large_for_one_transaction_is_there_with_its_last_one() {
        let (mut book, ledger) = (Book::default(), Memory::new(Revision(0)));
        let large = |first| NewRecord { first, n_pods: 1, body: vec![7; MAX_BYTES / 2] };
        let added = book.add((100..105).map(large).collect(), None);
        assert_eq!([(); 2].map(|()| write(&mut book, &ledger)), [2, 2]);
        assert_eq!(keys(&ledger).iter().filter(|key| key.contains("state")).count(), 0);
        // The last body, and the states of all.
        assert_eq!((write(&mut book, &ledger), book.is_unsure()), (6, false));
        // Many small ones are as much: 60 records have 120 keys.
        book.add((200..260).map(|first| records(&[(first, 1)]).remove(0)).collect(), None);
        assert_eq!((write(&mut book, &ledger), write(&mut book, &ledger)), (60, 60));
        // Refused when half of it is written: the bodies go again.
        let refused = book.add((300..303).map(large).collect(), None);
        assert_eq!((added.len(), write(&mut book, &ledger)), (5, 2));
        book.withdraw(&refused);
        commit(&mut book, &ledger);
        assert_eq!(keys(&ledger).iter().filter(|key| key.contains("/3")).count(), 0);
    }
}
