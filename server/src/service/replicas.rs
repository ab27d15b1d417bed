//! Replicas: what a server that shares its ledger with others knows of them, and how current that is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::clock;
use crate::ledger::{Etcd, Replica, Revision, Role, Term};

/// The replicas that share a ledger, as one of them sees them.
#[derive(Debug)]
pub(crate) struct Replicas {
    etcd: Arc<Etcd>,
    /// Whether this server decides what is assumed: its cluster then has its own commits before they are written.
    decides: watch::Receiver<bool>,
    /// The last commit that the cluster has of those that others made.
    applied: watch::Sender<Revision>,
    current: Current,
    view: Mutex<View>,
}

/// Time at which the cluster last had everything that was committed. Each response tells its age.
#[derive(Debug)]
struct Current {
    began: Instant,
    /// Milliseconds from the beginning to that time, plus one; 0 if it never had.
    at_ms: AtomicU64,
}

impl Current {
    fn note(&self, at: Instant) {
        let at_ms = clock::as_millis(at.saturating_duration_since(self.began)) + 1;
        // One figure, on which nothing else rests.
        self.at_ms.fetch_max(at_ms, Ordering::Relaxed);
    }

    fn age(&self, now: Instant) -> Option<Duration> {
        let at_ms = self.at_ms.load(Ordering::Relaxed).checked_sub(1)?;
        let since = now.saturating_duration_since(self.began);
        Some(since.saturating_sub(Duration::from_millis(at_ms)))
    }
}

/// How current this replica's view is.
#[derive(Debug, Default)]
struct View {
    /// The last commit that most of etcd's members knew at a time at which the cluster did not have it yet.
    awaited: Option<(Revision, Instant)>,
    /// What keeps this replica from its part.
    trouble: Option<String>,
}

impl Replicas {
    pub(crate) fn new(etcd: Arc<Etcd>, decides: watch::Receiver<bool>) -> Replicas {
        let current = Current { began: clock::now(), at_ms: AtomicU64::new(0) };
        let (applied, view) = (watch::Sender::default(), Mutex::default());
        Replicas { etcd, decides, applied, current, view }
    }

    /// The ledger that they share.
    pub(crate) fn etcd(&self) -> &Arc<Etcd> {
        &self.etcd
    }

    /// Name of this one.
    pub(crate) fn name(&self) -> &str {
        &self.etcd.replica().name
    }

    /// Who commits, as far as this replica knows.
    pub(crate) fn role(&self) -> Role {
        self.etcd.role().borrow().clone()
    }

    /// The replica that commits, if it is known and another one.
    pub(crate) fn committer(&self) -> Option<Replica> {
        match self.role() {
            Role::Follower { committer } => Some(committer),
            Role::Unknown | Role::Elected | Role::Committer { .. } | Role::Resigned => None,
        }
    }

    /// Whether this replica is elected: it commits, or will in a moment.
    pub(crate) fn is_to_commit(&self) -> bool {
        matches!(self.role(), Role::Elected | Role::Committer { .. })
    }

    /// The term in which this replica commits, if it does.
    pub(crate) fn term(&self) -> Option<Term> {
        match self.role() {
            Role::Committer { term } => Some(term),
            Role::Unknown | Role::Follower { .. } | Role::Elected | Role::Resigned => None,
        }
    }

    /// The last commit whose reservations the cluster has.
    pub(crate) fn applied(&self) -> Revision {
        let applied = *self.applied.borrow();
        // A committer that does not decide yet knows its predecessor's last commit before it has read it.
        match *self.decides.borrow() {
            true => applied.max(self.etcd.committed()),
            false => applied,
        }
    }

    /// Waits until the cluster has a commit.
    pub(crate) async fn await_applied(&self, revision: Revision) {
        let (mut applied, mut decides) = (self.applied.subscribe(), self.decides.clone());
        while self.applied() < revision {
            let is_open = tokio::select! {
                changed = applied.changed() => changed.is_ok(),
                changed = decides.changed() => changed.is_ok(),
            };
            if !is_open {
                return;
            }
        }
    }

    /// Records that the cluster has everything up to a commit.
    pub(crate) fn note_applied(&self, revision: Revision) {
        self.applied.send_if_modified(|applied| {
            let is_news = *applied < revision;
            *applied = revision.max(*applied);
            is_news
        });
        let arrived = self.view().awaited.take_if(|(awaited, _)| *awaited <= revision);
        if let Some((_, at)) = arrived {
            self.current.note(at);
        }
    }

    /// Records that most of etcd's members knew this last commit at a time.
    pub(crate) fn note_last(&self, last: Revision, at: Instant) {
        let has_it = self.applied() >= last;
        let mut view = self.view();
        match has_it {
            true => {
                view.awaited = None;
                self.current.note(at);
            }
            false if view.awaited.is_none() => view.awaited = Some((last, at)),
            false => {}
        }
    }

    /// Time for which a commit has been awaited that others have.
    pub(crate) fn lag(&self, now: Instant) -> Duration {
        let awaited = self.view().awaited;
        awaited.map_or(Duration::ZERO, |(_, at)| now.saturating_duration_since(at))
    }

    /// Time since the cluster had everything that was committed; `None` if it never had.
    pub(crate) fn staleness(&self, now: Instant) -> Option<Duration> {
        self.current.age(now)
    }

    /// Records what keeps this replica from its part, or that nothing does any more.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        self.view().trouble = trouble;
    }

    /// What keeps this replica from its part.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.view().trouble.clone()
    }

    fn view(&self) -> MutexGuard<'_, View> {
        // Plain values: a panic elsewhere leaves nothing half done.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::ledger::{Bounds, EtcdOptions, Key, Ledger as _, Transaction};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn start(etcd: &berth_testing::etcd::Etcd, name: &str) -> Arc<Etcd> {
        let (endpoints, name) = (etcd.endpoints(), name.to_owned());
        let options = EtcdOptions { endpoints, name, ..EtcdOptions::default() };
        Arc::new(Etcd::start(&options, || Revision(0), Bounds::default()).unwrap())
    }

    fn await_committing(replica: &Etcd) {
        let until = Instant::now() + PATIENCE;
        while !replica.role().borrow().is_committer() {
            assert!(Instant::now() < until, "`{}` does not commit", replica.replica().name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_committer_has_not_applied_what_it_has_only_heard_of() {
        let Some(etcd) = berth_testing::etcd::Etcd::start(1, &[]) else { return };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _entered = runtime.enter();
        let first = start(&etcd, "first");
        await_committing(&first);
        let key = Key::volume("v");
        let write =
            Transaction { writes: vec![(key, Some(b"x".to_vec()))], ..Transaction::default() };
        let revision = first.commit(write).unwrap();
        let second = start(&etcd, "second");
        first.resign();
        await_committing(&second);
        assert_eq!(second.committed(), revision, "it knows the last commit");
        let (decides, is_deciding) = watch::channel(false);
        let replicas = Replicas::new(second, is_deciding);
        assert_eq!(replicas.applied(), Revision(0));
        let mut waiting = Box::pin(replicas.await_applied(revision));
        let pause = Duration::from_millis(50);
        let waited = runtime.block_on(async { tokio::time::timeout(pause, &mut waiting).await });
        assert!(waited.is_err(), "a read waits");
        decides.send_replace(true);
        let patience = tokio::time::timeout(PATIENCE, waiting);
        runtime.block_on(patience).expect("the read is answered");
        assert_eq!(replicas.applied(), revision);
    }
}
