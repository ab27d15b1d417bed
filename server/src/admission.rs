//! Admission: whether a call may begin now. Decided by the queue that it would wait in, before its message is read.
//!
//! ```text
//!  headers ─► count ─► enter ──────────────► handler ─────────► last byte of the answer
//!             (lane)     │ quick: by how long it waited for a thread (`codel`), unless its user has few (`user_counts`)
//!                        │ decision, simulation, ledger: would the lane's queue take it? (`queue`)
//!                        ├ stream, watch: by number
//!                        └ probe: always, unless thousands are under way
//! ```
//! A call that passes waits for its lane's worker in [`Workers`], which checks the same queue again once the message is
//! there: one queue, checked twice ([why](../../docs/decisions/0009-admission.md)).

mod bytes;
mod error;
mod lane;
mod limits;
mod queue;
mod codel;
mod user;
mod user_counts;
mod workers;

pub(crate) use bytes::{ByteBudget, Bytes, Holder, SMALL};
pub(crate) use error::{AdmissionError, Overloaded};
pub(crate) use lane::Lane;
pub use limits::LoadLimits;
pub(crate) use user::User;
pub(crate) use workers::{Worker, Workers};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::telemetry::{AdmissionCounts, LaneCounts};
use codel::CoDel;
use user_counts::{Counted, UserCounts};

/// Maximum number of probes under way. Each takes microseconds: more only come where their messages do not.
const MAX_PROBES: u64 = 4_096;
/// Maximum number of open health watches and reflection streams.
const MAX_WATCHES: u64 = 1_024;
/// Number of callers per core who may wait for each other in the quick lane, however long their calls take: with 20,000
/// nodes a pod of a new shape takes a millisecond.
const FEW_CALLERS: u64 = 8;
/// Number of calls under way of each of them: the next one may come before the last response counts as read.
const CALLS_OF_EACH: u64 = 2;
/// Number of a user's quick calls under way up to which none is refused for what other users do.
const FEW_OF_A_USER: u32 = 8;
/// One call in this many is sampled for the waits of the quick lane.
const SAMPLING: u64 = 8;
/// The share of a user in the streams: one in so many.
const SHARE: usize = 2;
/// Retry delay for calls that are limited by number alone.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Workers of the lanes that have any.
pub(crate) struct LaneWorkers {
    pub(crate) decision: Workers,
    pub(crate) simulation: Workers,
    pub(crate) ledger: Workers,
}

/// Admission of calls: counts the calls under way in each lane.
pub(crate) struct Admission {
    limits: LoadLimits,
    tallies: [Tally; Lane::ALL.len()],
    /// Open streams by user.
    streams: Mutex<HashMap<Arc<str>, usize>>,
    quick: CoDel,
    /// Number of quick calls under way below which no queue is assumed.
    few_quick: u64,
    /// Quick calls under way by user.
    quick_users: UserCounts,
    workers: LaneWorkers,
    /// Metrics by lane.
    counts: [LaneCounts; Lane::ALL.len()],
}

/// Calls of one lane. On a cache line of its own, since each call writes it twice.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Tally {
    arrived: AtomicU64,
    left: AtomicU64,
}

impl Tally {
    fn n_under_way(&self) -> u64 {
        // In this order: a call that arrives and leaves between the two loads is missed, rather than subtracted from
        // the others.
        let arrived = self.arrived.load(Ordering::Relaxed);
        arrived.saturating_sub(self.left.load(Ordering::Relaxed))
    }
}

impl Admission {
    pub(crate) fn new(
        limits: LoadLimits,
        workers: LaneWorkers,
        counts: &AdmissionCounts,
    ) -> Admission {
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        Admission {
            limits,
            tallies: Default::default(),
            streams: Mutex::default(),
            quick: CoDel::new(clock::now(), limits.max_queue_time),
            few_quick: FEW_CALLERS * CALLS_OF_EACH * n_cores as u64,
            quick_users: UserCounts::new(),
            workers,
            counts: Lane::ALL.map(|lane| counts.lane(lane.name())),
        }
    }

    /// Counts a call that has arrived: it is under way until [`Admission::leave`].
    pub(crate) fn arrive(&self, lane: Lane) {
        self.tallies[lane as usize].arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that is over: its response has left, or its caller has gone away.
    pub(crate) fn leave(&self, lane: Lane, entered: Option<Entered>) {
        self.tallies[lane as usize].left.fetch_add(1, Ordering::Relaxed);
        if let Some(Entered(Some(counted))) = entered {
            self.quick_users.leave(counted);
        }
    }

    /// Opens a stream of the user, which counts as its until the returned value is dropped.
    ///
    /// # Errors
    /// [`AdmissionError::Overloaded`] where the user has its share of streams.
    pub(crate) fn open_stream(self: &Arc<Self>, user: &User) -> Result<OpenStream, AdmissionError> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let n = streams.entry(user.name.clone()).or_default();
        if *n >= self.limits.max_open_streams.div_ceil(SHARE) {
            let reason = "one user has too many streams open";
            return Err(AdmissionError::overloaded(reason, RETRY_AFTER));
        }
        *n += 1;
        drop(streams);
        Ok(OpenStream { admission: self.clone(), user: user.name.clone() })
    }

    /// Decides whether a call that has arrived may begin; `waited` is how long it has already waited for a thread. What
    /// is returned goes to [`Admission::leave`].
    ///
    /// # Errors
    /// [`AdmissionError::Overloaded`] with the delay before a retry, [`AdmissionError::DeadlineExceeded`].
    pub(crate) fn enter(
        &self,
        lane: Lane,
        now: Instant,
        waited: Duration,
        deadline: Option<Instant>,
        user: &User,
    ) -> Result<Entered, AdmissionError> {
        if deadline.is_some_and(|at| at <= now) {
            return Err(AdmissionError::DeadlineExceeded);
        }
        let entered = self.check_number(lane).and_then(|()| match lane {
            Lane::Probe | Lane::Watch | Lane::Stream => Ok(None),
            Lane::Quick => self.enter_quick(now, waited, user).map(Some),
            Lane::Decision => self.workers.decision.check(now, deadline, user).map(|()| None),
            Lane::Simulation => self.workers.simulation.check(now, deadline, user).map(|()| None),
            Lane::Ledger => self.workers.ledger.check(now, deadline, user).map(|()| None),
        });
        if entered.is_err() {
            self.counts[lane as usize].count_refused();
        }
        entered.map(Entered)
    }

    /// Arrives and enters for a call of another protocol, which is under way for as long as the returned value lives.
    ///
    /// # Errors
    /// [`AdmissionError::Overloaded`]
    pub(crate) fn visit(
        self: &Arc<Self>,
        lane: Lane,
        now: Instant,
        user: &User,
    ) -> Result<Visit, AdmissionError> {
        self.arrive(lane);
        let visit = Visit { admission: self.clone(), lane };
        let entered = self.check_number(lane).and_then(|()| match lane {
            Lane::Decision => self.workers.decision.check(now, None, user),
            // How long it waited for a thread is unknown, so it says nothing about the queue.
            _ => Ok(()),
        });
        if entered.is_err() {
            self.counts[lane as usize].count_refused();
        }
        entered.map(|()| visit)
    }

    fn check_number(&self, lane: Lane) -> Result<(), AdmissionError> {
        let n_in = |lane: Lane| self.tallies[lane as usize].n_under_way();
        let (n, limit, reason) = match lane {
            Lane::Probe => (n_in(lane), MAX_PROBES, "too many probes are under way"),
            Lane::Watch => (n_in(lane), MAX_WATCHES, "too many watches are open"),
            Lane::Stream => {
                (n_in(lane), self.limits.max_open_streams as u64, "too many streams are open")
            }
            Lane::Quick | Lane::Decision | Lane::Simulation | Lane::Ledger => {
                let unary = [Lane::Quick, Lane::Decision, Lane::Simulation, Lane::Ledger];
                let n = unary.into_iter().map(n_in).sum();
                (n, self.limits.max_concurrent_calls as u64, "too many calls are under way")
            }
        };
        if n > limit { Err(AdmissionError::overloaded(reason, RETRY_AFTER)) } else { Ok(()) }
    }

    fn enter_quick(
        &self,
        now: Instant,
        waited: Duration,
        user: &User,
    ) -> Result<Counted, AdmissionError> {
        let tally = &self.tallies[Lane::Quick as usize];
        if tally.arrived.load(Ordering::Relaxed).is_multiple_of(SAMPLING) {
            self.counts[Lane::Quick as usize].record_wait(waited);
        }
        let (counted, n_of_user) = self.quick_users.enter(&user.name);
        if self.quick.is_too_late(now, waited)
            && tally.n_under_way() > self.few_quick
            && n_of_user > FEW_OF_A_USER
        {
            self.quick_users.leave(counted);
            return Err(AdmissionError::overloaded(
                "calls wait too long for a thread",
                self.quick.retry_after(),
            ));
        }
        Ok(counted)
    }

    /// Publishes the counts as metrics.
    pub(crate) fn publish(&self) {
        for lane in Lane::ALL {
            let (tally, counts) = (&self.tallies[lane as usize], &self.counts[lane as usize]);
            let n_arrived = tally.arrived.load(Ordering::Relaxed);
            let n_under_way = usize::try_from(tally.n_under_way()).unwrap_or(usize::MAX);
            counts.publish(n_arrived, n_under_way);
            let workers = match lane {
                Lane::Probe | Lane::Watch | Lane::Quick | Lane::Stream => continue,
                Lane::Decision => &self.workers.decision,
                Lane::Simulation => &self.workers.simulation,
                Lane::Ledger => &self.workers.ledger,
            };
            counts.publish_workers(workers.load().0, workers.n_open());
        }
    }
}

/// A call that has begun.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entered(Option<Counted>);

/// An open stream of a user.
pub(crate) struct OpenStream {
    admission: Arc<Admission>,
    user: Arc<str>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut streams = self.admission.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = streams.get_mut(&self.user) {
            *n -= 1;
            if *n == 0 {
                streams.remove(&self.user);
            }
        }
    }
}

/// A call under way.
pub(crate) struct Visit {
    admission: Arc<Admission>,
    lane: Lane,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.admission.leave(self.lane, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    fn admission(limits: LoadLimits) -> Admission {
        let counts = Metrics::new().admission().clone();
        let workers = |lane| Workers::new(lane, 1, limits.max_queue_time, &counts);
        let workers = LaneWorkers {
            decision: workers(Lane::Decision),
            simulation: workers(Lane::Simulation),
            ledger: workers(Lane::Ledger),
        };
        Admission::new(limits, workers, &counts)
    }

    fn enter(admission: &Admission, lane: Lane) -> Result<(), AdmissionError> {
        admission.arrive(lane);
        let user = User::current();
        admission.enter(lane, clock::now(), Duration::ZERO, None, &user).map(drop)
    }

    #[test]
    fn each_kind_of_call_has_its_bound() {
        let limits =
            LoadLimits { max_concurrent_calls: 2, max_open_streams: 1, ..LoadLimits::default() };
        let admission = admission(limits);
        assert_eq!(enter(&admission, Lane::Quick), Ok(()));
        assert_eq!(enter(&admission, Lane::Decision), Ok(()));
        let refused = enter(&admission, Lane::Ledger).unwrap_err();
        assert_eq!(
            refused,
            AdmissionError::overloaded("too many calls are under way", RETRY_AFTER)
        );
        admission.leave(Lane::Ledger, None);
        admission.leave(Lane::Quick, None);
        assert_eq!(enter(&admission, Lane::Simulation), Ok(()));
        assert_eq!(enter(&admission, Lane::Stream), Ok(()));
        let refused = enter(&admission, Lane::Stream).unwrap_err();
        assert_eq!(refused, AdmissionError::overloaded("too many streams are open", RETRY_AFTER));
        // Health checks are answered whatever else is full, however many watches are open.
        for _ in 0..MAX_WATCHES {
            assert_eq!(enter(&admission, Lane::Watch), Ok(()));
        }
        assert!(enter(&admission, Lane::Watch).is_err());
        assert_eq!(enter(&admission, Lane::Probe), Ok(()));
    }

    #[tokio::test]
    async fn a_full_lane_is_no_reason_to_refuse_another() {
        let limits = LoadLimits { max_queue_time: Duration::ZERO, ..LoadLimits::default() };
        let admission = admission(limits);
        let worker = admission.workers.decision.take(None).await.unwrap();
        let mut waits = Box::pin(admission.workers.decision.take(None));
        let is_waiting =
            std::future::poll_fn(|cx| std::task::Poll::Ready(waits.as_mut().poll(cx).is_pending()));
        assert!(is_waiting.await);
        let refused = enter(&admission, Lane::Decision).unwrap_err();
        assert!(matches!(refused, AdmissionError::Overloaded(_)), "{refused:?}");
        assert_eq!(enter(&admission, Lane::Simulation), Ok(()));
        drop((worker, waits));
        assert_eq!(enter(&admission, Lane::Decision), Ok(()));
    }

    /// Where all quick calls wait for a thread, those of a user who has few are not refused for it.
    #[test]
    fn quick_calls_of_a_user_who_has_few_are_not_refused_for_others() {
        let admission = admission(LoadLimits::default());
        let user = |name: &str| User { name: name.into(), weight: 1 };
        let (greedy, honest) = (user("greedy"), user("honest"));
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wait = Duration::from_secs(1);
        let enter = |user: &User| {
            admission.arrive(Lane::Quick);
            admission.enter(Lane::Quick, clock::now(), wait, None, user)
        };
        let n_taken = (0..100 * n_cores).filter(|_| enter(&greedy).is_ok()).count();
        assert!(n_taken < 100 * n_cores, "the greedy user is refused");
        let entered: Vec<_> = (0..FEW_OF_A_USER).map(|_| enter(&honest).unwrap()).collect();
        assert!(enter(&honest).is_err(), "these are many");
        admission.leave(Lane::Quick, Some(entered[0]));
        assert!(enter(&honest).is_ok());
    }

    /// On two cores, sixteen callers in a closed loop.
    #[test]
    fn few_callers_wait_for_each_other_however_long_their_calls_take() {
        let admission = admission(LoadLimits::default());
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let (user, wait) = (User { name: "closed-loop".into(), weight: 1 }, Duration::from_secs(1));
        let call = || {
            admission.arrive(Lane::Quick);
            admission.enter(Lane::Quick, clock::now(), wait, None, &user)
        };
        let mut last: Vec<_> = (0..FEW_CALLERS * n_cores).map(|_| call().unwrap()).collect();
        for _ in 0..100 {
            // Each calls again before its last response counts as read.
            let next: Vec<_> = last.iter().map(|_| call().unwrap()).collect();
            let read = std::mem::replace(&mut last, next);
            read.into_iter().for_each(|entered| admission.leave(Lane::Quick, Some(entered)));
        }
        let n_more = (0..1_000).take_while(|_| call().is_ok()).count() as u64;
        assert_eq!(n_more, FEW_CALLERS * n_cores, "twice as many callers are refused");
    }

    #[test]
    fn what_comes_too_late_is_not_begun() {
        let admission = admission(LoadLimits::default());
        let now = clock::now();
        admission.arrive(Lane::Quick);
        let late = admission.enter(Lane::Quick, now, Duration::ZERO, Some(now), &User::current());
        assert_eq!(late, Err(AdmissionError::DeadlineExceeded));
    }
}
