//! Hellos: connections in their TLS handshake. Nobody knows yet who they are, so they have a small pool of their own, and
//! a new one takes the slot of the oldest: handshakes that never end hold up nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Most handshakes at a time: each takes some tens of kilobytes.
const MAX_HELLOS: usize = 512;

/// The handshakes under way.
#[derive(Debug, Default)]
pub(super) struct Hellos {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    under_way: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A handshake under way, which leaves the pool when this is dropped.
#[derive(Debug)]
pub(super) struct Hello {
    hellos: Arc<Hellos>,
    id: u64,
    /// Ready once the slot was taken.
    pub(super) displaced: oneshot::Receiver<()>,
}

impl Hellos {
    /// Begins a handshake; where there is no slot, the oldest one is displaced.
    pub(super) fn begin(self: &Arc<Hellos>) -> Hello {
        let (sender, displaced) = oneshot::channel();
        let mut table = self.table();
        while table.under_way.len() >= MAX_HELLOS {
            // Dropping the sender tells it.
            drop(table.under_way.pop_first());
        }
        table.next += 1;
        let id = table.next;
        table.under_way.insert(id, sender);
        Hello { hellos: self.clone(), id, displaced }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds the lock.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        self.hellos.table().under_way.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_is_no_slot() {
        let hellos = Arc::<Hellos>::default();
        let mut open: Vec<Hello> = (0..MAX_HELLOS).map(|_| hellos.begin()).collect();
        let is_open = |hello: &mut Hello| {
            hello.displaced.try_recv() == Err(oneshot::error::TryRecvError::Empty)
        };
        assert!(open.iter_mut().all(is_open));
        open.remove(7);
        let mut one_more = hellos.begin();
        assert!(open.iter_mut().all(is_open) && is_open(&mut one_more));
        drop(hellos.begin());
        assert!(!is_open(&mut open[0]) && open[1..].iter_mut().all(is_open));
        drop((open, one_more));
        assert_eq!(hellos.table().under_way.len(), 0);
    }
}
