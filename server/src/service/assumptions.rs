//! Assumptions: pods that were assumed in the live cluster for callers, each with a token and, as a rule, a time to live
//! (S-CCH-5).
//!
//! The engine knows which pods are assumed and has no clock; this is the clock beside it. The engine's stamp of an
//! assumption ties the two: whatever ends an assumption from here names its stamp, so that a late end never meets a
//! later assumption of the pod, nor a pod that a feed has confirmed. Neither lock is taken while the other is held.
//!
//! | where | what |
//! |---|---|
//! | `table` | who holds which pod, under which token, until when |
//! | `keeper`, `book`, `record` | what a ledger has of it, where a server has one that lasts |
//! | `renewal`, `list` | what requests ask about: one assumption, or all |
//! | `restore` | reads that again when the server is started |
//! | `follower`, `mirror` | where several servers share a ledger: what the one has written that commits |

pub(crate) mod error;
mod table;
mod record;
mod book;
mod written;
mod keeper;
mod mirror;
mod request;
mod request_table;
mod undoing;
mod restore;
mod follower;
mod renewal;
mod list;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use berth_engine::{
    AssignedDevices, AssumptionStamp, Cluster, PodKey, PodStanding, VolumeBindings,
};
use tokio::sync::watch;

use super::error::CallError;
use super::response_cache::InProgress;
use crate::clock;
use crate::ledger::{GrantError, Key};
use crate::telemetry::{AssumptionCounts, AssumptionEnd};
pub(crate) use follower::Follower;
use keeper::{Ending, Keeper, Undone};
pub(crate) use list::{Listed, ListedHold, assumption};
use record::Assumed;
pub(crate) use renewal::{Named, Renewed};
pub(crate) use request::Requests;
pub use restore::RestoreError;
pub(crate) use restore::{Kept, PREFIXES};
use table::{Entry, Table};
pub(crate) use written::Written;

/// Maximum number of pods that are taken out of the cluster, or looked up in it, under one lock of its writer.
const HOLD: usize = 1_024;
/// Longest time to live that a request may ask for.
const MAX_TTL: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Number of assumptions that may be over without being forgotten, besides as many as are not.
const MAX_ENDED: usize = 1_024;

/// The assumptions of a server.
pub(crate) struct Assumptions {
    cluster: Arc<Cluster>,
    /// Time to live of requests that name none; `None` if they have none.
    default_ttl: Option<Duration>,
    next_token: AtomicU64,
    counts: AssumptionCounts,
    table: Mutex<Table>,
    /// Pods whose nominations are in the ledger.
    nominated: Mutex<BTreeSet<PodKey>>,
    /// Not set where assumptions end with the process. `None` where another server writes them.
    ///
    /// Its lock is taken before that of the table. Whoever records pods holds it meanwhile, so that none is recorded after
    /// another server has begun to write.
    keeper: OnceLock<RwLock<Option<Keeper>>>,
    /// Whether assumptions can be made here.
    made_here: watch::Sender<bool>,
}

/// A pod that was just assumed.
#[derive(Clone, Debug)]
pub(crate) struct HeldPod {
    pub(crate) key: PodKey,
    pub(crate) stamp: AssumptionStamp,
    /// Volumes and devices that its placement takes.
    pub(crate) volumes: VolumeBindings,
    pub(crate) devices: Option<Arc<AssignedDevices>>,
}

/// For whom pods are assumed.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Holder<'h> {
    pub(crate) user: &'h Arc<str>,
    /// Time to live; `None` for none.
    pub(crate) ttl: Option<Duration>,
    /// The request, if its caller has named it.
    pub(crate) request: Option<&'h Arc<InProgress>>,
}

impl Assumptions {
    /// No assumptions; the first token is `first_token`, which has to be greater than those of earlier servers.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        default_ttl: Duration,
        first_token: u64,
        counts: AssumptionCounts,
    ) -> Assumptions {
        let default_ttl = (!default_ttl.is_zero()).then_some(default_ttl);
        let next_token = AtomicU64::new(first_token);
        let (table, nominated, keeper) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let made_here = watch::Sender::new(true);
        Assumptions {
            cluster,
            default_ttl,
            next_token,
            counts,
            table,
            nominated,
            keeper,
            made_here,
        }
    }

    /// The time to live that a request asks for in `field`; `None` for none.
    ///
    /// # Errors
    /// A time that is too long.
    pub(crate) fn ttl(
        &self,
        field: &str,
        milliseconds: Option<u64>,
    ) -> Result<Option<Duration>, CallError> {
        match milliseconds.map(Duration::from_millis) {
            None => Ok(self.default_ttl),
            Some(Duration::ZERO) => Ok(None),
            Some(ttl) if ttl <= MAX_TTL => Ok(Some(ttl)),
            Some(_) => {
                let limit = clock::as_millis(MAX_TTL);
                Err(CallError::field(field, format!("must be at most {limit} (366 days)")))
            }
        }
    }

    /// Whether assumptions outlive the process. Then the pods that are assumed have to have their objects.
    pub(crate) fn are_kept(&self) -> bool {
        self.keeper.get().is_some()
    }

    /// Whether assumptions can be made here: no other server writes them.
    pub(crate) fn are_made_here(&self) -> bool {
        *self.made_here.borrow()
    }

    /// The same, and its changes.
    pub(crate) fn made_here(&self) -> watch::Receiver<bool> {
        self.made_here.subscribe()
    }

    /// Records pods that were just assumed for `holder`; returns the first of their tokens, which are consecutive. The caller
    /// may hear of them once they are written.
    pub(crate) fn record(
        &self,
        pods: &[HeldPod],
        holder: Holder<'_>,
        now: Instant,
    ) -> (u64, Written) {
        // The number alone is shared: no other data depends on its ordering.
        let first = self.next_token.fetch_add(pods.len() as u64, Ordering::Relaxed);
        let record = || self.add_all(first, pods, holder, now);
        let written = self.with_keeper(|keeper| match keeper {
            Some(keeper) => {
                record();
                self.keep(keeper, first, pods, holder)
            }
            None => {
                // The term of this server has just ended.
                let pods = pods.iter().zip(first..);
                let pods = pods.map(|(pod, token)| (pod.key.clone(), token, pod.stamp));
                self.take_out(&pods.collect::<Vec<_>>());
                Written::refused(GrantError::OtherTerm)
            }
        });
        let written = written.unwrap_or_else(|| {
            record();
            Written::default()
        });
        (first, written)
    }

    fn add_all(
        &self,
        first: u64,
        pods: &[HeldPod],
        Holder { user, ttl, .. }: Holder<'_>,
        now: Instant,
    ) {
        let until = ttl.and_then(|ttl| now.checked_add(ttl));
        let mut table = self.table();
        for (token, HeldPod { key, stamp, .. }) in (first..).zip(pods) {
            table.add(key.clone(), Entry::new(token, *stamp, user.clone(), (now, until)));
        }
    }

    /// Records pods like [`Assumptions::record`], and has the nominations of others written.
    pub(crate) fn record_all(
        &self,
        pods: &[HeldPod],
        nominated: impl IntoIterator<Item = PodKey>,
        holder: Holder<'_>,
        now: Instant,
    ) -> (u64, Written) {
        let (first, written) = match pods.is_empty() {
            true => (0, Written::default()),
            false => self.record(pods, holder, now),
        };
        (first, written.and(self.keep_nominations(nominated)))
    }

    /// Has pods written that were just recorded.
    fn keep(
        &self,
        keeper: &Keeper,
        first: u64,
        pods: &[HeldPod],
        Holder { user, ttl, request }: Holder<'_>,
    ) -> Written {
        let keys: Vec<PodKey> = pods.iter().map(|pod| pod.key.clone()).collect();
        let standings = self.cluster.standing_of(&keys);
        let assumed = (first..).zip(pods).zip(standings).filter_map(|((token, held), standing)| {
            // A pod that a feed has reported already needs no record.
            let standing = standing.filter(|standing| standing.stamp == Some(held.stamp))?;
            let PodStanding { pod, node, .. } = standing;
            let (volumes, devices) = (held.volumes.clone(), held.devices.clone());
            Some(Assumed { token, pod, node, volumes, devices })
        });
        let assumed: Vec<Assumed> = assumed.collect();
        let request = request.map(|request| &**request);
        match record::split(&assumed, user) {
            Some(records) => {
                let pods = assumed.iter().map(|it| (it.pod.key().clone(), it.token));
                keeper.add(records, pods.collect(), ttl, request)
            }
            None => {
                debug_assert!(false, "a pod was assumed without its object");
                Written::broken()
            }
        }
    }

    /// Has the nominations of pods written as they are now, after a call that may have changed them.
    pub(crate) fn keep_nominations(&self, pods: impl IntoIterator<Item = PodKey>) -> Written {
        self.at_keeper(|keeper| {
            // Held until they are sent, so that the last state is the last one that is written.
            let mut nominated = self.nominated();
            let mut nominations = Vec::new();
            for pod in pods {
                let nomination = self.cluster.own_nomination(&pod);
                let value =
                    nomination.and_then(|(pod, node)| record::encode_nomination(&pod, &node));
                nominations.push((Key::nomination(&pod.namespace, &pod.name), value.clone()));
                match value {
                    Some(_) => nominated.insert(pod),
                    None => nominated.remove(&pod),
                };
            }
            keeper.nominate(nominations)
        })
    }

    /// Has the response to a named request written: then whoever decides next repeats it, too.
    pub(crate) fn answer(&self, request: &InProgress, response: &[u8]) -> Written {
        self.at_keeper(|keeper| keeper.answer(request, response))
    }

    /// Waits until all that was changed before is written: whoever is told that an assumption is over does not find it
    /// again.
    pub(crate) fn settled(&self) -> Written {
        self.at_keeper(Keeper::settled)
    }

    /// Ends assumptions whose callers did not receive the response; a retry of `request` waits for that.
    pub(crate) fn give_back(
        &self,
        pods: &[(PodKey, u64, AssumptionStamp)],
        request: Option<&Arc<InProgress>>,
    ) {
        let given_back = self.with_keeper(|keeper| {
            let mut table = self.table();
            if let Some(keeper) = keeper {
                for (key, token, _) in pods {
                    table.begin_to_end(key, *token);
                }
                drop(table);
                let pods: Vec<Ending> = pods.iter().cloned().map(Ending::of).collect();
                // Nobody waits for it.
                drop(keeper.end(&pods, AssumptionEnd::Undelivered, request.map(Undone::of)));
                return;
            }
            // Another server commits now, and ends the pods that have a record.
            let unrecorded = |(key, token, _): &&(PodKey, u64, AssumptionStamp)| {
                let entry = table.get(key).filter(|entry| entry.token == *token);
                entry.is_some_and(|entry| !entry.is_recorded)
            };
            let unrecorded: Vec<_> = pods.iter().filter(unrecorded).cloned().collect();
            drop(table);
            self.take_out(&unrecorded);
        });
        if given_back.is_none() {
            self.end(pods, AssumptionEnd::Undelivered);
        }
    }

    /// Whether the time of an assumption is over.
    pub(crate) fn is_any_due(&self, now: Instant) -> bool {
        self.table().is_any_due(now) && self.are_made_here()
    }

    /// Ends the assumptions whose time is over; returns their number. Where they are kept, they end once that is written.
    pub(crate) fn expire(&self, now: Instant) -> usize {
        let mut n_expired = 0;
        while self.are_made_here() {
            let due = self.table().take_due(now, HOLD);
            if due.is_empty() {
                break;
            }
            let due: Vec<_> =
                due.into_iter().map(|(key, entry)| (key, entry.token, entry.stamp)).collect();
            if !self.are_kept() {
                n_expired += self.end(&due, AssumptionEnd::Expired);
                continue;
            }
            n_expired += due.len();
            let pods: Vec<Ending> = due.into_iter().map(Ending::of).collect();
            // Nobody waits for it.
            drop(self.at_keeper(|keeper| keeper.end(&pods, AssumptionEnd::Expired, None)));
        }
        n_expired
    }

    /// Whether there are many assumptions that feeds or deletions have ended.
    pub(crate) fn are_many_ended(&self) -> bool {
        self.table().len() > 2 * self.cluster.snapshot().n_assumed() + MAX_ENDED
    }

    /// Forgets assumptions and nominations that feeds or deletions have ended.
    pub(crate) fn forget_ended(&self) {
        if !self.are_made_here() {
            return;
        }
        let nominated: Vec<PodKey> = self.nominated().iter().cloned().collect();
        let has_none = |pod: &PodKey| self.cluster.own_nomination(pod).is_none();
        // Nobody waits for it.
        drop(self.keep_nominations(nominated.into_iter().filter(has_none)));
        let held = self.table().held();
        for held in held.chunks(HOLD) {
            let pods: Vec<_> = held.iter().map(|(key, stamp, _)| (key.clone(), *stamp)).collect();
            let still = self.cluster.still_assumed(&pods);
            let ended = held.iter().zip(still).filter(|(_, still)| !still);
            let ended: Vec<_> = ended.map(|((key, _, token), _)| (key, *token)).collect();
            let mut table = self.table();
            ended.iter().for_each(|(key, token)| table.remove(key, *token));
            drop(table);
            let gone: Vec<u64> = ended.into_iter().map(|(_, token)| token).collect();
            // Nobody waits for it.
            drop(self.end_gone(&gone));
        }
    }

    /// Takes pods out of the cluster that are still assumed under their stamps, and forgets their assumptions; returns
    /// the number of those that were.
    fn end(&self, pods: &[(PodKey, u64, AssumptionStamp)], reason: AssumptionEnd) -> usize {
        let n_ended = self.take_out(pods);
        if n_ended > 0 {
            self.counts.count_ended(reason, n_ended);
            tracing::debug!(n_pods = n_ended, ?reason, "the room of assumed pods has come back");
        }
        n_ended
    }

    /// Takes pods out like [`Assumptions::end`], without counting them.
    fn take_out(&self, pods: &[(PodKey, u64, AssumptionStamp)]) -> usize {
        let mut n_ended = 0;
        for pods in pods.chunks(HOLD) {
            let stamped: Vec<_> =
                pods.iter().map(|(key, _, stamp)| (key.clone(), *stamp)).collect();
            let ended = self.cluster.end_assumptions(&stamped);
            n_ended += ended.iter().filter(|&&ended| ended).count();
            let mut table = self.table();
            pods.iter().for_each(|(key, token, _)| table.remove(key, *token));
        }
        n_ended
    }

    /// Runs `then` with the keeper, or with `None` where another server writes assumptions; returns `None` where they end
    /// with the process.
    fn with_keeper<T>(&self, then: impl FnOnce(Option<&Keeper>) -> T) -> Option<T> {
        let keeper = self.keeper.get()?;
        let keeper = keeper.read().unwrap_or_else(PoisonError::into_inner);
        Some(then(keeper.as_ref()))
    }

    /// Has a change written; where assumptions end with the process it needs no writing.
    fn at_keeper(&self, write: impl FnOnce(&Keeper) -> Written) -> Written {
        let written = self.with_keeper(|keeper| match keeper {
            Some(keeper) => write(keeper),
            None => Written::refused(GrantError::OtherTerm),
        });
        written.unwrap_or_default()
    }

    /// Sets who writes assumptions from now on: this server, or another one.
    fn set_keeper(&self, keeper: Option<Keeper>) {
        let current = self.keeper.get_or_init(RwLock::default);
        let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
        let is_here = keeper.is_some();
        // The thread of the one before ends once it has answered all who wait for it.
        *current = keeper;
        drop(current);
        self.made_here.send_replace(is_here);
    }

    fn next_token(&self) -> u64 {
        self.next_token.load(Ordering::Relaxed)
    }

    fn raise_next_token(&self, least: u64) {
        self.next_token.fetch_max(least, Ordering::Relaxed);
    }

    /// What takes pods out of the cluster whose end is written; it does not hold this value.
    fn taking_out(self: &Arc<Self>) -> impl Fn(&[Ending], AssumptionEnd) + Send + use<> {
        let assumptions = Arc::downgrade(self);
        move |pods, reason| {
            if let Some(assumptions) = assumptions.upgrade() {
                assumptions.finish(pods, reason);
            }
        }
    }

    /// A function with which the keeper's thread says whose records are written. It keeps these assumptions by a weak
    /// reference only.
    fn noting_written(self: &Arc<Self>) -> impl Fn(&[(PodKey, u64)]) + Send + use<> {
        let assumptions = Arc::downgrade(self);
        move |pods| {
            let Some(assumptions) = assumptions.upgrade() else { return };
            let mut table = assumptions.table();
            pods.iter().for_each(|(key, token)| table.note_written(key, *token));
        }
    }

    fn nominated(&self) -> MutexGuard<'_, BTreeSet<PodKey>> {
        self.nominated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes pods out of the cluster whose end is written.
    fn finish(&self, pods: &[Ending], reason: AssumptionEnd) {
        let assumed = pods.iter().filter_map(|Ending { token, assumed }| {
            let (key, stamp) = assumed.clone()?;
            Some((key, *token, stamp))
        });
        self.end(&assumed.collect::<Vec<_>>(), reason);
    }

    /// Locks the table for short changes, each of which leaves it whole.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ending {
    /// The end of a pod that is assumed.
    fn of((key, token, stamp): (PodKey, u64, AssumptionStamp)) -> Ending {
        Ending { token, assumed: Some((key, stamp)) }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod keeping_tests;
#[cfg(test)]
mod replicas_fixture;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod follower_tests;
