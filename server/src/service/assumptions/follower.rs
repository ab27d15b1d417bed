//! Follower: brings the assumptions of a server in line with the records that it shares with others, of which one writes
//! them. Reads of every server then count what any of them has reserved.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::{AssumptionStamp, PodKey};
use prost::Message as _;

use super::Assumptions;
use super::keeper::{Ending, Keeper, Place};
use super::mirror::{Changes, Mirror, Step};
use super::record::{Nomination, Position as Written, Stored};
use super::request::Requests;
use super::undoing::Undoing;
use crate::feed::position::{Behind, Position};
use crate::ledger::{Ledger, LedgerError, Term};
use crate::service::response_cache::ResponseCache;

/// What a server knows of the records that another one writes.
pub(crate) struct Follower {
    assumptions: Arc<Assumptions>,
    mirror: Mirror,
    /// Pods that have ended, most of them since a feed has reported them: each keeps its room until this server's feed is
    /// as far as the one that has. No list has them any more.
    lingering: Vec<(Position, Vec<Gone>)>,
}

/// A pod with its token and its stamp.
type Gone = (PodKey, u64, AssumptionStamp);

impl Follower {
    /// Nothing is known yet, and nothing is assumed here until [`Follower::take_over`].
    pub(crate) fn new(assumptions: Arc<Assumptions>) -> Follower {
        assumptions.set_keeper(None);
        Follower { assumptions, mirror: Mirror::default(), lingering: Vec::new() }
    }

    /// Begins with all records: what is assumed here without one ends. `reached` is the position of this server's feed.
    /// Blocks.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`].
    pub(crate) fn begin(
        &mut self,
        records: Changes,
        reached: &Position,
        now: Instant,
    ) -> Result<(), LedgerError> {
        let mut mirror = Mirror::default();
        let steps = mirror.apply(records)?;
        let reserved: HashSet<u64> = mirror.reserved().map(|(token, ..)| token).collect();
        let nominated: HashSet<&PodKey> = mirror.nominated().collect();
        let others: Vec<PodKey> = {
            let known = self.assumptions.nominated();
            known.iter().filter(|pod| !nominated.contains(pod)).cloned().collect()
        };
        self.mirror = mirror;
        // First what a term of this server did not write: its token may be another pod's now.
        let not_recorded = self.assumptions.table().not_recorded();
        self.assumptions.take_out(&not_recorded);
        let held = self.assumptions.table().held().into_iter();
        let gone = held.filter(|(_, _, token)| !reserved.contains(token));
        self.end(gone.map(|(pod, stamp, token)| (pod, token, stamp)).collect(), reached);
        others.iter().for_each(|pod| self.withdraw(pod));
        for step in steps {
            match step {
                Step::Add(pods) => self.add(pods, now),
                Step::Nominate(nomination) => self.nominate(*nomination),
                // Nothing ends in what is read for the first time.
                Step::End(_) | Step::SetTtl { .. } | Step::Withdraw(_) => {}
            }
        }
        Ok(())
    }

    /// Takes over what some commits have changed. Blocks.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`]: everything has to be read again.
    pub(crate) fn apply(
        &mut self,
        changes: Changes,
        reached: &Position,
        now: Instant,
    ) -> Result<(), LedgerError> {
        for step in self.mirror.apply(changes)? {
            match step {
                Step::Add(pods) => self.add(pods, now),
                Step::End(pods) => {
                    let table = self.assumptions.table();
                    let gone = pods.into_iter().filter_map(|(pod, token)| {
                        let entry = table.get(&pod).filter(|entry| entry.token == token)?;
                        Some((pod, token, entry.stamp))
                    });
                    let gone = gone.collect();
                    drop(table);
                    self.end(gone, reached);
                }
                Step::SetTtl { pod, token, ttl } => {
                    self.assumptions.table().note_recorded(&pod, token, until(now, ttl));
                }
                Step::Nominate(nomination) => self.nominate(*nomination),
                Step::Withdraw(pod) => self.withdraw(&pod),
            }
        }
        Ok(())
    }

    /// Takes out what has waited for this server's feed. Blocks.
    pub(crate) fn end_lingering(&mut self, reached: &Position) {
        let lingering = std::mem::take(&mut self.lingering);
        for (wanted, gone) in lingering {
            match reached.behind(&wanted) {
                Some(_) => self.lingering.push((wanted, gone)),
                None => drop(self.assumptions.take_out(&gone)),
            }
        }
    }

    /// In what this server's feed is behind that of the last one that has written.
    pub(crate) fn behind(&self, reached: &Position) -> Option<Behind> {
        reached.behind(&self.wanted())
    }

    /// Writes the records from now on: all of them are known, and this server's feed is not behind. The times to live begin
    /// anew, responses are remembered, and pods of a request that has no response end. `claimed` tells the newest versions
    /// that the cluster may have. No token is less than `least_token`, nor than one that was told.
    ///
    /// # Errors
    /// The system's, if it has no thread.
    pub(crate) fn take_over(
        &mut self,
        ledger: Arc<dyn Ledger>,
        term: Term,
        claimed: impl Fn() -> Position + Send + 'static,
        (requests, responses): (Requests, &Arc<ResponseCache>),
        (now, least_token): (Instant, u64),
    ) -> std::io::Result<()> {
        let (assumptions, mirror) = (self.assumptions.clone(), std::mem::take(&mut self.mirror));
        assumptions.raise_next_token(mirror.next_token().max(least_token));
        let mut gone = Vec::new();
        responses.restore(&requests.answered, now);
        let mut undoing = Undoing::begin(&requests.unanswered, responses);
        {
            let mut table = assumptions.table();
            for (token, pod, ttl) in mirror.reserved() {
                let is_there = table.note_recorded(pod, token, until(now, ttl));
                let stamp = table.get(pod).filter(|_| is_there).map(|entry| entry.stamp);
                match (undoing.ends_with(token), stamp) {
                    (Some(ends), Some(stamp)) => ends.push(Ending::of((pod.clone(), token, stamp))),
                    (Some(_), None) | (None, None) => gone.push(token),
                    (None, Some(_)) => {}
                }
            }
        }
        let mut book = mirror.into_book();
        book.adopt_requests(&requests, now);
        let next_token = Arc::downgrade(&assumptions);
        let position = move || {
            let next_token = next_token.upgrade()?.next_token();
            let versions = claimed().0;
            Some(Written { next_token, versions }.encode_to_vec())
        };
        let (take_out, position) = (Box::new(assumptions.taking_out()), Box::new(position));
        let note_written = Box::new(assumptions.noting_written());
        let place = Place { ledger, term: Some(term), note_written, take_out, position };
        let keeper = Keeper::start(place, book)?;
        assumptions.set_keeper(Some(keeper));
        undoing.finish(&assumptions);
        // A feed has reported them, or this version refuses them. Nobody waits for it.
        drop(assumptions.end_gone(&gone));
        Ok(())
    }

    /// Assumes nothing any more: the term of this server is over, or is about to be.
    pub(crate) fn hand_over(&mut self) {
        self.assumptions.set_keeper(None);
    }

    fn wanted(&self) -> Position {
        Position(self.mirror.position().versions.clone())
    }

    fn add(&mut self, mut pods: Vec<Stored>, now: Instant) {
        self.end_replaced(&pods);
        let mut table = self.assumptions.table();
        pods.retain(|stored| {
            !table.note_recorded(&stored.key, stored.token, until(now, stored.standing.ttl))
        });
        drop(table);
        // Those that are not assumed have been reported by this server's feed. Their record ends soon.
        drop(self.assumptions.assume_again(pods, now));
    }

    /// Takes out what lingers under the names of pods that are reserved anew.
    fn end_replaced(&mut self, pods: &[Stored]) {
        if self.lingering.is_empty() {
            return;
        }
        let names: HashSet<&PodKey> = pods.iter().map(|stored| &stored.key).collect();
        for (_, gone) in &mut self.lingering {
            let replaced: Vec<Gone> = gone.extract_if(.., |it| names.contains(&it.0)).collect();
            self.assumptions.take_out(&replaced);
        }
    }

    fn end(&mut self, gone: Vec<Gone>, reached: &Position) {
        let wanted = self.wanted();
        match reached.behind(&wanted) {
            _ if gone.is_empty() => {}
            Some(_) => {
                let mut table = self.assumptions.table();
                gone.iter().for_each(|(pod, token, _)| table.note_over(pod, *token));
                self.lingering.push((wanted, gone));
            }
            None => drop(self.assumptions.take_out(&gone)),
        }
    }

    fn nominate(&self, nomination: Nomination) {
        let object = nomination.object.clone().unwrap_or_default();
        let pod = super::record::key_of(&object);
        let known = self.assumptions.cluster.own_nomination(&pod);
        if known.is_some_and(|(_, node)| *node != *nomination.node) {
            self.withdraw(&pod);
        }
        let nominated = self.assumptions.nominate_again(vec![nomination]);
        self.assumptions.nominated().extend(nominated);
    }

    fn withdraw(&self, pod: &PodKey) {
        self.assumptions.nominated().remove(pod);
        if let Some((nominated, _)) = self.assumptions.cluster.own_nomination(pod) {
            let pod = (pod.clone(), nominated.uid().into());
            self.assumptions.cluster.withdraw_nominations(&[pod]);
        }
    }
}

fn until(now: Instant, ttl: Option<Duration>) -> Option<Instant> {
    ttl.and_then(|ttl| now.checked_add(ttl))
}
