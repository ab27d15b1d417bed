//! Bytes: one budget for the memory of all messages that were received and are not yet decided, and of answers that are
//! not yet read, over gRPC and HTTP. A user and a connection have a share of it, so that no caller takes it from others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::AdmissionError;
use crate::net::Peer;

/// Size up to which a message is not counted: the number of calls under way bounds what these take together.
pub(crate) const SMALL: usize = 16 << 10;
/// Delay after which a refused call may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The share of a user, and of a connection, in the whole: one in so many.
const SHARE: usize = 2;

/// The bytes of all callers. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ByteBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    /// Whether callers are told apart by name.
    has_users: bool,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    n_bytes: usize,
    by_user: HashMap<Arc<str>, usize>,
    /// By an id of the connection.
    by_connection: HashMap<usize, usize>,
}

/// Who holds bytes.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) user: Arc<str>,
    /// Id of the connection: no two that are open have the same.
    pub(crate) connection: usize,
    /// Whether the caller may have all of the budget rather than a share.
    pub(crate) may_have_all: bool,
}

impl Holder {
    /// The holder of the bytes of a call of `user` on a connection, with a share.
    pub(crate) fn of(user: Arc<str>, peer: Option<&Arc<Peer>>) -> Holder {
        let connection = peer.map_or(0, |peer| Arc::as_ptr(peer) as usize);
        Holder { user, connection, may_have_all: false }
    }
}

/// Some bytes of the budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Bytes {
    budget: ByteBudget,
    holder: Holder,
    n: usize,
}

impl ByteBudget {
    /// A budget of `limit` bytes. Without `has_users` all callers have one name, and only connections have a share.
    pub(crate) fn new(limit: usize, has_users: bool) -> ByteBudget {
        ByteBudget(Arc::new(Shared { limit, has_users, taken: Mutex::default() }))
    }

    /// Most bytes that a caller with a share can hold.
    pub(crate) fn share(&self) -> usize {
        self.0.limit / SHARE
    }

    /// Most bytes that this caller can hold.
    pub(crate) fn share_of(&self, holder: &Holder) -> usize {
        if holder.may_have_all { self.0.limit } else { self.share() }
    }

    /// Takes `n` bytes.
    ///
    /// # Errors
    /// [`AdmissionError::Overloaded`] where they are not to be had now.
    pub(crate) fn take(&self, holder: &Holder, n: usize) -> Result<Bytes, AdmissionError> {
        let mut bytes = Bytes { budget: self.clone(), holder: holder.clone(), n: 0 };
        bytes.grow(n)?;
        Ok(bytes)
    }

    /// Number of bytes that are taken.
    pub(crate) fn n_taken(&self) -> usize {
        self.taken().n_bytes
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // No code panics while it holds the lock.
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bytes {
    /// Takes `n` bytes more.
    ///
    /// # Errors
    /// [`AdmissionError::Overloaded`] where they are not to be had now; those that were taken before stay.
    pub(crate) fn grow(&mut self, n: usize) -> Result<(), AdmissionError> {
        let Shared { limit, has_users, .. } = *self.budget.0;
        let share = self.budget.share_of(&self.holder);
        let mut taken = self.budget.taken();
        let of_user = taken.by_user.get(&self.holder.user).copied().unwrap_or_default();
        let of_connection = taken.by_connection.get(&self.holder.connection).copied();
        let has_room = |taken: usize, limit: usize| taken.saturating_add(n) <= limit;
        if has_users && !has_room(of_user, share)
            || !has_room(of_connection.unwrap_or_default(), share)
        {
            let reason = "one caller's messages take too much memory";
            return Err(AdmissionError::overloaded(reason, RETRY_AFTER));
        }
        if !has_room(taken.n_bytes, limit) {
            let reason = "messages under way take too much memory";
            return Err(AdmissionError::overloaded(reason, RETRY_AFTER));
        }
        taken.n_bytes += n;
        *taken.by_user.entry(self.holder.user.clone()).or_default() += n;
        *taken.by_connection.entry(self.holder.connection).or_default() += n;
        self.n += n;
        Ok(())
    }

    /// Number of bytes.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Adds other bytes of the same holder to these.
    pub(crate) fn join(&mut self, mut other: Bytes) {
        self.n += std::mem::take(&mut other.n);
    }

    /// Gives `n` bytes back.
    pub(crate) fn shrink(&mut self, n: usize) {
        let n = n.min(self.n);
        self.n -= n;
        let mut taken = self.budget.taken();
        taken.n_bytes -= n;
        give(&mut taken.by_user, &self.holder.user, n);
        give(&mut taken.by_connection, &self.holder.connection, n);
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.shrink(self.n);
    }
}

/// Subtracts from an entry, which is removed at 0.
fn give<K: Eq + Hash>(held: &mut HashMap<K, usize>, key: &K, n: usize) {
    if let Some(left) = held.get_mut(key) {
        *left = left.saturating_sub(n);
        if *left == 0 {
            held.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(user: &str, connection: usize) -> Holder {
        Holder { user: user.into(), connection, may_have_all: false }
    }

    #[test]
    fn nobody_takes_more_than_a_share() {
        let budget = ByteBudget::new(100, true);
        let jane = budget.take(&holder("jane", 1), 30).unwrap();
        let more = budget.take(&holder("jane", 2), 20).unwrap();
        assert!(budget.take(&holder("jane", 3), 1).is_err(), "of the user");
        let joe = budget.take(&holder("joe", 4), 49).unwrap();
        assert!(budget.take(&holder("joe", 4), 2).is_err());
        let mut last = budget.take(&holder("jim", 5), 1).unwrap();
        assert!(last.grow(1).is_err(), "of all");
        assert_eq!(budget.n_taken(), 100);
        drop((jane, more, joe));
        assert_eq!(last.grow(49), Ok(()));
        drop(last);
        let taken = budget.taken();
        assert_eq!((taken.n_bytes, taken.by_user.len(), taken.by_connection.len()), (0, 0, 0));
    }

    #[test]
    fn bytes_are_joined_and_some_callers_may_have_all() {
        let budget = ByteBudget::new(100, true);
        let autoscaler = Holder { may_have_all: true, ..holder("autoscaler", 1) };
        let mut bytes = budget.take(&autoscaler, 60).unwrap();
        bytes.join(budget.take(&autoscaler, 40).unwrap());
        assert_eq!((bytes.n(), budget.n_taken()), (100, 100));
        assert!(budget.take(&holder("jane", 2), 1).is_err());
        drop(bytes);
        assert_eq!(budget.n_taken(), 0);
    }

    #[test]
    fn where_nobody_has_a_name_connections_have_a_share() {
        let budget = ByteBudget::new(100, false);
        let one = budget.take(&holder("anonymous", 1), 50).unwrap();
        assert!(budget.take(&holder("anonymous", 1), 1).is_err());
        let other = budget.take(&holder("anonymous", 2), 50).unwrap();
        drop((one, other));
        assert!(budget.take(&holder("anonymous", 2), 51).is_err());
    }
}
