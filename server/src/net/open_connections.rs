//! Open connections of one port: at most so many, and when a slot is needed, whose is taken. First the connection that
//! has waited longest for its first call; then, if one user has more than its share, that user's connection that has
//! been without a call for longest; then any that is without one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::peer::Peer;
use crate::clock;

/// A user's share of the connections while others wait for one: one in so many.
const SHARE: usize = 2;

/// A call under way on a connection.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Peer>);

impl InUse {
    /// A call of `user` begins on the connection.
    pub(crate) fn begin(peer: &Arc<Peer>, user: &Arc<str>) -> InUse {
        peer.activity.begin(user);
        InUse(peer.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.activity.end(clock::now());
    }
}

/// The open connections of one port.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    peer: Arc<Peer>,
    is_closing: bool,
}

/// A connection in the table, which it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Listed {
    connections: Arc<OpenConnections>,
    id: u64,
}

impl OpenConnections {
    pub(super) fn add(self: &Arc<OpenConnections>, peer: &Arc<Peer>) -> Listed {
        let mut table = self.table();
        table.next += 1;
        let id = table.next;
        let open = Open { since: clock::now(), peer: peer.clone(), is_closing: false };
        table.open.insert(id, open);
        Listed { connections: self.clone(), id }
    }

    /// Closes the connection whose slot is taken first. Returns whether there is one.
    pub(super) fn make_room(&self) -> bool {
        let mut table = self.table();
        let Some(id) = table.first_to_go() else { return false };
        if let Some(open) = table.open.get_mut(&id) {
            open.is_closing = true;
            open.peer.unread.cut();
        }
        true
    }

    /// Closes the connections whose peer presented a certificate: its authority may not be one any more. Clients connect
    /// again, and are verified anew.
    pub(super) fn close_certified(&self) {
        let table = self.table();
        let certified = table.open.values().filter(|open| open.peer.identity.certificate.is_some());
        certified.for_each(|open| open.peer.unread.cut());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds the lock.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn first_to_go(&self) -> Option<u64> {
        let open = || self.open.iter().filter(|(_, open)| !open.is_closing);
        let unused = open().filter(|(_, open)| open.peer.activity.user().is_none());
        if let Some((id, _)) = unused.min_by_key(|(id, open)| (open.since, **id)) {
            return Some(*id);
        }
        let mut n_by_user: HashMap<&Arc<str>, usize> = HashMap::new();
        for user in open().filter_map(|(_, open)| open.peer.activity.user()) {
            *n_by_user.entry(user).or_default() += 1;
        }
        let most = n_by_user.into_iter().max_by_key(|(user, n)| (*n, *user));
        let greedy = most.filter(|(_, n)| *n > self.open.len() / SHARE).map(|(user, _)| user);
        let of_greedy =
            |open: &Open| greedy.is_none_or(|user| open.peer.activity.user() == Some(user));
        let idle = |open: &Open| open.peer.activity.is_idle();
        let used = |open: &Open| open.peer.activity.last_used();
        let longest = |filter: &dyn Fn(&Open) -> bool| {
            let fitting = open().filter(|(_, open)| filter(open));
            fitting.min_by_key(|(id, open)| (used(open), **id)).map(|(id, _)| *id)
        };
        longest(&|open| idle(open) && of_greedy(open))
            .or_else(|| longest(&|open| greedy.is_some() && of_greedy(open)))
            .or_else(|| longest(&idle))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // The peer is dropped after the lock is released.
        let _open = self.connections.table().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;

    async fn is_cut(peer: &Peer) -> bool {
        poll_fn(|context| Poll::Ready(peer.unread.poll_cut(context).is_ready())).await
    }

    struct World {
        connections: Arc<OpenConnections>,
        open: Vec<(Arc<Peer>, Listed)>,
    }

    impl World {
        fn of(n: usize) -> World {
            let connections = Arc::<OpenConnections>::default();
            let open = (0..n).map(|_| Arc::new(Peer::default()));
            let open = open.map(|peer| (peer.clone(), connections.add(&peer))).collect();
            World { connections, open }
        }

        fn call(&self, index: usize, user: &str) -> InUse {
            InUse::begin(&self.open[index].0, &user.into())
        }

        async fn cut(&self) -> Vec<usize> {
            let mut cut = Vec::new();
            for (index, (peer, _)) in self.open.iter().enumerate() {
                if is_cut(peer).await {
                    cut.push(index);
                }
            }
            cut
        }
    }

    #[tokio::test]
    async fn connections_without_a_call_go_first_the_oldest_of_them() {
        let world = World::of(4);
        drop(world.call(0, "jane"));
        assert!(world.connections.make_room());
        assert_eq!(world.cut().await, [1]);
        assert!(world.connections.make_room());
        assert_eq!(world.cut().await, [1, 2]);
    }

    #[tokio::test]
    async fn a_user_with_more_than_half_gives_even_what_it_uses() {
        let world = World::of(5);
        drop(world.call(0, "jane"));
        let busy: Vec<_> = (1..5).map(|index| world.call(index, "joe")).collect();
        assert!(world.connections.make_room());
        assert_eq!(world.cut().await.len(), 1);
        assert!(!world.cut().await.contains(&0), "jane's");
        drop(busy);
    }

    #[tokio::test]
    async fn among_equals_the_longest_unused_goes_and_those_in_use_stay() {
        let mut world = World::of(3);
        let busy: Vec<_> =
            [(0, "a"), (1, "b"), (2, "c")].map(|(i, user)| world.call(i, user)).into();
        assert!(!world.connections.make_room(), "all are in use");
        busy.into_iter().rev().for_each(drop);
        assert!(world.connections.make_room());
        assert_eq!(world.cut().await, [2]);
        world.open.remove(2);
        assert!(world.connections.make_room());
        assert_eq!(world.cut().await, [1]);
    }
}
