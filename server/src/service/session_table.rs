//! The open sessions: forks of the live cluster, limited in their number, in the changes that each holds, and in the
//! time that each is idle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_engine::Cluster;
use rand::TryRng as _;
use rand::rngs::SysRng;

use crate::admission::{ByteBudget, Bytes, Holder};
use crate::auth::Caller;
use crate::clock;
use crate::service::CallError;
use crate::telemetry::{SessionCounts, SessionEnd};

/// Limits on what-if sessions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Maximum number of open sessions.
    pub max_sessions: usize,
    /// Maximum number of changes in a session: deltas, assumed pods and nominations, summed over its life.
    pub max_changes: usize,
    /// How long a session may be without a call before it is dropped.
    pub idle_timeout: Duration,
    /// Maximum number of bytes, about, that the changes of all sessions take. One user, and one session, has at most half
    /// of it.
    pub max_bytes: usize,
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits {
            max_sessions: 64,
            max_changes: 100_000,
            idle_timeout: Duration::from_secs(5 * 60),
            max_bytes: 192 << 20,
        }
    }
}

/// The share of a user in the sessions while callers are told apart: one in so many.
const SHARE: usize = 2;
/// Bytes that a change takes in a session besides what was sent: entries of indexes, and a part of a shard's copy.
const CHANGE_BYTES: usize = 1_000;
/// Bytes that a byte of an object takes once it is compiled and kept.
const BYTES_PER_BYTE: usize = 4;

pub(crate) struct SessionTable {
    limits: SessionLimits,
    counts: SessionCounts,
    /// Whether callers are told apart by name.
    has_users: bool,
    bytes: ByteBudget,
    sessions: Mutex<HashMap<Box<str>, Arc<Session>>>,
    /// Where the sessions are; `None` for a server that shares nothing.
    place: Option<Place>,
}

struct Session {
    cluster: Cluster,
    /// The user who opened the session.
    owner: Box<str>,
    n_changes: AtomicUsize,
    memory: Mutex<Bytes>,
    /// End of the last call on the session.
    last_used: Mutex<Instant>,
}

/// Where sessions are.
#[derive(Debug)]
struct Place {
    /// Name of the replica.
    replica: String,
    /// Differs from one start of the replica to the next.
    life: String,
}

impl SessionTable {
    /// A table for callers who are told apart by name if `has_users`: then a user has a share of it.
    pub(crate) fn new(
        limits: SessionLimits,
        counts: SessionCounts,
        has_users: bool,
    ) -> SessionTable {
        let bytes = ByteBudget::new(limits.max_bytes, has_users);
        let (sessions, place) = (Mutex::default(), None);
        SessionTable { limits, counts, has_users, bytes, sessions, place }
    }

    /// The table of a replica that was started at a time, in microseconds since 1970: the ids of its sessions tell where
    /// they are.
    pub(crate) fn at(self, replica: &str, started: u64) -> SessionTable {
        let (replica, life) = (replica.to_owned(), format!("{started:x}"));
        SessionTable { place: Some(Place { replica, life }), ..self }
    }

    /// The other replica that has, or had, the session with this id.
    pub(crate) fn replica_of<'a>(&self, id: &'a str) -> Option<&'a str> {
        let own = self.place.as_ref()?;
        let mut parts = id.rsplitn(3, '.').skip(1);
        let (life, replica) = (parts.next()?, parts.next()?);
        (replica != own.replica || life != own.life).then_some(replica)
    }

    /// The error for a session that is not here.
    fn missing(&self, id: &str) -> CallError {
        match self.replica_of(id) {
            Some(replica) => {
                let is_gone = self.place.as_ref().is_some_and(|own| own.replica == replica);
                CallError::SessionElsewhere { replica: replica.to_owned(), is_gone }
            }
            None => CallError::NoSuchSession { id: id.to_owned() },
        }
    }

    pub(crate) fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// Opens a session of the user `owner` on the cluster that `fork` returns. Returns the session's id: 128 random
    /// bits, so that no client guesses another's.
    ///
    /// # Errors
    /// [`CallError::TooManySessions`].
    pub(crate) fn open(
        &self,
        now: Instant,
        owner: &str,
        fork: impl FnOnce() -> Cluster,
    ) -> Result<String, CallError> {
        self.drop_expired(now);
        self.check_room(&self.lock(), owner)?;
        let random = random_id()?;
        // `fork` may wait for a writer of the live cluster, so it is not called while the table is locked.
        let cluster = fork();
        let mut sessions = self.lock();
        self.check_room(&sessions, owner)?;
        // Of the ids that are open none is the same, and 64 bits of them are enough to tell them apart.
        let number = random.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let connection = number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
        let holder = Holder { user: owner.into(), connection, may_have_all: false };
        let memory = self.bytes.take(&holder, 0)?;
        let id = match &self.place {
            Some(Place { replica, life }) => format!("{replica}.{life}.{random}"),
            None => random,
        };
        let session = Session {
            cluster,
            owner: owner.into(),
            n_changes: AtomicUsize::new(0),
            memory: Mutex::new(memory),
            last_used: Mutex::new(now),
        };
        sessions.insert(id.as_str().into(), Arc::new(session));
        self.counts.set_open(sessions.len());
        Ok(id)
    }

    fn check_room(
        &self,
        open: &HashMap<Box<str>, Arc<Session>>,
        owner: &str,
    ) -> Result<(), CallError> {
        let limit = self.limits.max_sessions;
        if open.len() >= limit {
            return Err(CallError::TooManySessions { limit });
        }
        let share = limit.div_ceil(SHARE);
        let n_own = open.values().filter(|session| *session.owner == *owner).count();
        if self.has_users && n_own >= share {
            return Err(CallError::TooManySessions { limit: share });
        }
        Ok(())
    }

    /// The session with this id; it does not expire before the returned value is dropped.
    ///
    /// # Errors
    /// [`CallError::NoSuchSession`], also if the session is another user's, or has expired and was not dropped yet.
    pub(crate) fn get(&self, id: &str, caller: &Caller, now: Instant) -> Result<InUse, CallError> {
        let sessions = self.lock();
        let session = sessions.get(id).filter(|session| {
            caller.may_use_what_belongs_to(&session.owner)
                && !session.has_expired(now, self.limits.idle_timeout)
        });
        match session {
            Some(session) => {
                Ok(InUse { session: session.clone(), max_changes: self.limits.max_changes })
            }
            None => Err(self.missing(id)),
        }
    }

    /// Removes a session; calls that are under way on it continue.
    ///
    /// # Errors
    /// The errors of [`SessionTable::get`].
    pub(crate) fn close(&self, id: &str, caller: &Caller, now: Instant) -> Result<(), CallError> {
        self.drop_expired(now);
        let mut sessions = self.lock();
        let is_callers = |session: &Arc<Session>| caller.may_use_what_belongs_to(&session.owner);
        let closed =
            if sessions.get(id).is_some_and(is_callers) { sessions.remove(id) } else { None };
        self.counts.set_open(sessions.len());
        // Dropping a large fork takes time, so it is not done while the table is locked.
        drop(sessions);
        match closed {
            Some(_) => {
                self.counts.count_ended(SessionEnd::Closed, 1);
                Ok(())
            }
            None => Err(self.missing(id)),
        }
    }

    /// Removes the sessions that have been idle for too long.
    pub(crate) fn drop_expired(&self, now: Instant) {
        let timeout = self.limits.idle_timeout;
        self.drop_all_that(SessionEnd::Expired, |session| session.has_expired(now, timeout));
    }

    /// Removes all sessions, when the server stops.
    pub(crate) fn drain(&self) {
        self.drop_all_that(SessionEnd::Drained, |_| true);
    }

    fn drop_all_that(&self, end: SessionEnd, mut ends: impl FnMut(&Arc<Session>) -> bool) {
        let mut sessions = self.lock();
        let ended: Vec<_> = sessions.extract_if(|_, session| ends(session)).collect();
        if !ended.is_empty() {
            self.counts.set_open(sessions.len());
            self.counts.count_ended(end, ended.len());
        }
        drop(sessions);
    }

    /// Locks the table for a look-up, or for one change of the map: a panic elsewhere cannot leave it half written.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Whether the session has expired. Every call under way holds a clone of the `Arc`; a new one takes it under the
    /// lock of the table, which the caller holds here.
    fn has_expired(self: &Arc<Self>, now: Instant, idle_timeout: Duration) -> bool {
        let last_used = *self.last_used.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::strong_count(self) == 1 && now.saturating_duration_since(last_used) >= idle_timeout
    }
}

fn random_id() -> Result<String, CallError> {
    let mut bytes = [0; 16];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the system has no random numbers for a session's id");
        CallError::Broken
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A session that a call is using.
pub(crate) struct InUse {
    session: Arc<Session>,
    max_changes: usize,
}

impl InUse {
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.session.cluster
    }

    /// Reserves `n` of the changes that the session may still hold; [`InUse::release`] returns those that are not used.
    ///
    /// # Errors
    /// [`CallError::SessionTooLarge`], [`CallError::Overloaded`] where sessions take too much memory; nothing is reserved
    /// then.
    pub(crate) fn reserve(&self, n: usize) -> Result<(), CallError> {
        self.reserve_number(n)?;
        let taken = self.memory().grow(n.saturating_mul(CHANGE_BYTES));
        taken.inspect_err(|_| self.release_number(n))?;
        Ok(())
    }

    /// Takes the memory of objects that took `n_bytes` when they were sent.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] where sessions take too much memory.
    pub(crate) fn hold(&self, n_bytes: usize) -> Result<(), CallError> {
        Ok(self.memory().grow(n_bytes.saturating_mul(BYTES_PER_BYTE))?)
    }

    fn memory(&self) -> MutexGuard<'_, Bytes> {
        self.session.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve_number(&self, n: usize) -> Result<(), CallError> {
        let add = |held: usize| held.checked_add(n).filter(|&held| held <= self.max_changes);
        // The count alone is shared: no other data depends on its ordering.
        match self.session.n_changes.try_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(_) => Err(CallError::SessionTooLarge { limit: self.max_changes }),
        }
    }

    /// Returns reserved changes that were not used.
    pub(crate) fn release(&self, n: usize) {
        self.release_number(n);
        self.memory().shrink(n.saturating_mul(CHANGE_BYTES));
    }

    fn release_number(&self, n: usize) {
        self.session.n_changes.fetch_sub(n, Ordering::Relaxed);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Before the `Arc` is dropped: whoever sees the session idle then also sees the time.
        *self.session.last_used.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Role, Roles};
    use crate::telemetry::Metrics;

    const JANE: &str = "jane";

    fn caller(user: &str, roles: Roles) -> Caller {
        Caller { user: user.into(), ..Caller::unauthenticated(roles) }
    }

    fn jane() -> Caller {
        caller(JANE, Roles::NONE)
    }

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn table(max_sessions: usize) -> (SessionTable, Metrics) {
        let metrics = Metrics::new();
        let limits = SessionLimits {
            max_sessions,
            max_changes: 10,
            idle_timeout: TIMEOUT,
            max_bytes: 100 * CHANGE_BYTES,
        };
        (SessionTable::new(limits, metrics.sessions().clone(), false), metrics)
    }

    fn check_metric(metrics: &Metrics, line: &str) {
        let text = metrics.render(&Cluster::new().snapshot(), 0, None);
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }

    #[test]
    fn ids_are_long_and_of_no_two_sessions() {
        let (table, _) = table(100);
        let ids: std::collections::HashSet<_> =
            (0..100).map(|_| table.open(clock::now(), JANE, Cluster::new).unwrap()).collect();
        assert_eq!(ids.len(), 100);
        let is_hexadecimal = |id: &String| id.chars().all(|c| c.is_ascii_hexdigit());
        assert!(ids.iter().all(|id| id.len() == 32 && is_hexadecimal(id)), "{ids:?}");
    }

    #[test]
    fn a_session_expires_when_it_was_idle_and_makes_room() {
        let (table, metrics) = table(1);
        let start = clock::now();
        let id = table.open(start, JANE, Cluster::new).unwrap();
        let full = table.open(start + TIMEOUT / 2, JANE, || panic!("there is no room"));
        assert_eq!(full.unwrap_err(), CallError::TooManySessions { limit: 1 });
        assert!(table.get(&id, &jane(), start + TIMEOUT / 2).is_ok());
        // That call ended just now, so the idle time starts anew.
        let later = clock::now() + TIMEOUT;
        assert!(table.get(&id, &jane(), later).is_err(), "expired, although nobody dropped it yet");
        check_metric(&metrics, "berth_sessions 1");
        let other = table.open(later, JANE, Cluster::new).unwrap();
        check_metric(&metrics, "berth_sessions 1");
        check_metric(&metrics, "berth_sessions_ended_total{reason=\"expired\"} 1");
        table.drop_expired(later + TIMEOUT / 2);
        assert!(table.get(&other, &jane(), later).is_ok());
        table.drop_expired(later + TIMEOUT * 2);
        check_metric(&metrics, "berth_sessions 0");
    }

    #[test]
    fn the_session_of_another_replica_is_told_apart_from_none() {
        let (table, _) = table(8);
        let table = table.at("r.1", 0x1234_5678);
        let id = table.open(clock::now(), JANE, Cluster::new).unwrap();
        assert!(id.starts_with("r.1.") && table.get(&id, &jane(), clock::now()).is_ok());
        let missing = |id: &str| table.get(id, &jane(), clock::now()).err().unwrap();
        let elsewhere = |replica: &str, is_gone| CallError::SessionElsewhere {
            replica: replica.to_owned(),
            is_gone,
        };
        let other = id.replace("r.1.", "r.2.");
        assert_eq!(missing(&other), elsewhere("r.2", false));
        let mut earlier = id.clone();
        earlier.replace_range(4..12, "00000000");
        assert_eq!(missing(&earlier), elsewhere("r.1", true));
        assert_eq!(table.close(&other, &jane(), clock::now()), Err(elsewhere("r.2", false)));
        assert_eq!(table.close(&id, &jane(), clock::now()), Ok(()));
        for unknown in [&*id, "", "x", "a.b", "..."] {
            let is_unknown = matches!(missing(unknown), CallError::NoSuchSession { .. });
            assert_eq!(is_unknown, unknown != "...", "{unknown}");
        }
    }

    #[test]
    fn a_session_under_a_call_does_not_expire() {
        let (table, _) = table(1);
        let id = table.open(clock::now(), JANE, Cluster::new).unwrap();
        let call = table.get(&id, &jane(), clock::now()).unwrap();
        let later = clock::now() + TIMEOUT * 10;
        table.drop_expired(later);
        assert!(table.get(&id, &jane(), later).is_ok());
        drop(call);
        table.drop_expired(clock::now() + TIMEOUT);
        assert!(table.get(&id, &jane(), clock::now()).is_err());
    }

    #[test]
    fn closing_and_draining_forget() {
        let (table, metrics) = table(3);
        let now = clock::now();
        let id = table.open(now, JANE, Cluster::new).unwrap();
        let call = table.get(&id, &jane(), now).unwrap();
        assert_eq!(table.close(&id, &jane(), now), Ok(()));
        assert_eq!(call.cluster().snapshot().n_nodes(), 0, "a call under way goes on");
        assert_eq!(
            table.close(&id, &jane(), now),
            Err(CallError::NoSuchSession { id: id.clone() })
        );
        assert!(table.get(&id, &jane(), now).is_err());
        for _ in 0..2 {
            table.open(now, JANE, Cluster::new).unwrap();
        }
        table.drain();
        check_metric(&metrics, "berth_sessions 0");
        check_metric(&metrics, "berth_sessions_ended_total{reason=\"closed\"} 1");
        check_metric(&metrics, "berth_sessions_ended_total{reason=\"drained\"} 2");
    }

    #[test]
    fn changes_are_bounded() {
        let (table, _) = table(1);
        let id = table.open(clock::now(), JANE, Cluster::new).unwrap();
        let call = table.get(&id, &jane(), clock::now()).unwrap();
        assert_eq!(call.reserve(11), Err(CallError::SessionTooLarge { limit: 10 }));
        assert_eq!(call.reserve(10), Ok(()));
        assert_eq!(call.reserve(1), Err(CallError::SessionTooLarge { limit: 10 }));
        call.release(4);
        assert_eq!((call.reserve(usize::MAX), call.reserve(4)).1, Ok(()));
        assert!(
            table.get(&id, &jane(), clock::now()).unwrap().reserve(1).is_err(),
            "one count a session"
        );
    }

    #[test]
    fn a_user_has_a_share_of_sessions_and_of_their_memory() {
        let metrics = Metrics::new();
        let max_bytes = 20 * CHANGE_BYTES;
        let limits = SessionLimits { max_sessions: 4, max_bytes, ..SessionLimits::default() };
        let table = SessionTable::new(limits, metrics.sessions().clone(), true);
        let now = clock::now();
        let open = |user: &str| table.open(now, user, Cluster::new);
        let (one, two) = (open(JANE).unwrap(), open(JANE).unwrap());
        assert_eq!(open(JANE).unwrap_err(), CallError::TooManySessions { limit: 2 });
        let joes = open("joe").unwrap();
        let [one, two] = [one, two].map(|id| table.get(&id, &jane(), now).unwrap());
        assert_eq!((one.reserve(6), two.reserve(4)), (Ok(()), Ok(())));
        assert!(matches!(two.reserve(1), Err(CallError::Overloaded(_))));
        assert!(matches!(one.hold(1), Err(CallError::Overloaded(_))));
        let joe = caller("joe", Roles::NONE);
        assert_eq!(table.get(&joes, &joe, now).unwrap().hold(10 * CHANGE_BYTES / 4), Ok(()));
        one.release(6);
        assert_eq!(two.reserve(6), Ok(()));
        drop((one, two));
        table.drain();
        assert_eq!(table.bytes.n_taken(), 0, "a session gives back what it took");
    }

    #[test]
    fn a_session_is_its_users_and_an_admins() {
        let (table, _) = table(1);
        let now = clock::now();
        let id = table.open(now, JANE, Cluster::new).unwrap();
        let no_such = CallError::NoSuchSession { id: id.clone() };
        let joe = caller("joe", Roles::NONE.with(Role::Scheduler).with(Role::Feeder));
        assert_eq!(table.get(&id, &joe, now).err(), Some(no_such.clone()));
        assert_eq!(table.close(&id, &joe, now), Err(no_such));
        let admin = caller("joe", Roles::NONE.with(Role::Admin));
        assert!(table.get(&id, &jane(), now).is_ok() && table.get(&id, &admin, now).is_ok());
        assert_eq!(table.close(&id, &admin, now), Ok(()));
    }
}
