//! The ledger in etcd: durable beyond one machine, and shared by several replicas, of which one commits
//! ([why](../../../docs/decisions/0013-replicas.md)).
//!
//! | where | what |
//! |---|---|
//! | here | [`Etcd`], which callers block on |
//! | `committer` | who commits, and what becomes of each change: a state machine |
//! | `book` | what the committer knows of the records, and the transactions that it makes |
//! | `driver` | carries out what the state machine asks for |
//! | `reading`, `layout` | reads; keys and values |
//! | `following` | all records, and each commit after them |
//! | `presence` | tells others where this replica is |
//! | `news` | notices changes of fences |
//! | `options` | [`EtcdOptions`] and the files of credentials |
//!
//! Reads ask etcd, at every replica. Changes that wait while a transaction is under way share the next one.

mod book;
mod committer;
mod driver;
mod following;
mod layout;
mod news;
mod options;
mod presence;
mod reading;
mod shared;
#[cfg(test)]
mod model;
#[cfg(test)]
mod simulation;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use berth_etcd::Client;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::{
    Bounds, CommitError, Entry, JournalPage, Key, Ledger, LedgerError, Revision, Transaction,
};
use crate::reload::Reloader;
use committer::Settings;
pub use committer::{Replica, Role};
use driver::{Driver, Request};
use following::Following;
pub(crate) use following::{Listed, News};
use layout::Layout;
pub use options::{EtcdOptions, EtcdStartError, PeerFiles};
use shared::Shared;

/// Maximum number of requests that the driver has not seen.
const MAX_REQUESTS: usize = 1_024;
/// Longest time to wait for the end of a term.
const RESIGN_PATIENCE: Duration = Duration::from_secs(2);

/// A ledger in etcd.
#[derive(Debug)]
pub struct Etcd {
    client: Client,
    layout: Layout,
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    news: watch::Receiver<u64>,
    following: AbortHandle,
    telling: Option<AbortHandle>,
    runtime: Handle,
    replica: Replica,
}

impl Etcd {
    /// Starts to follow the ledger, and to become its committer. Needs a Tokio runtime, and does not wait: the ledger
    /// has a fault until etcd has answered. Each term begins after the revision that `first_revision` tells then.
    ///
    /// # Errors
    /// [`EtcdStartError`] with the endpoint or the file that cannot be used.
    pub fn start(
        options: &EtcdOptions,
        first_revision: impl Fn() -> Revision + Send + 'static,
        bounds: Bounds,
    ) -> Result<Etcd, EtcdStartError> {
        Etcd::watching(options, first_revision, bounds, &Reloader::default())
    }

    /// Starts like [`Etcd::start`], and has `reloader` watch the files of the credentials.
    pub(crate) fn watching(
        options: &EtcdOptions,
        first_revision: impl Fn() -> Revision + Send + 'static,
        bounds: Bounds,
        reloader: &Reloader,
    ) -> Result<Etcd, EtcdStartError> {
        let (client, contents) = options.connect()?;
        if let Some((watched, credentials)) = options.watched(&client, &contents) {
            reloader.watch(watched, credentials);
        }
        let EtcdOptions { prefix, name, address, lease, .. } = options;
        let layout = Layout::new(prefix);
        let shared = Arc::new(Shared::default());
        let (requests, asked) = mpsc::channel(MAX_REQUESTS);
        let replica = Replica { name: name.clone(), address: address.clone() };
        let settings = Settings { layout: layout.clone(), replica: replica.clone(), bounds };
        let first_revision = Box::new(first_revision);
        let driver = Driver::new(client.clone(), settings, *lease, first_revision, shared.clone());
        tokio::spawn(driver.run(asked));
        let (counting, news) = watch::channel(0);
        let following = tokio::spawn(news::follow(client.clone(), layout.clone(), counting));
        let telling = (!replica.address.is_empty()).then(|| {
            let telling = presence::tell(client.clone(), layout.clone(), replica.clone());
            tokio::spawn(telling).abort_handle()
        });
        let (following, runtime) = (following.abort_handle(), Handle::current());
        Ok(Etcd { client, layout, requests, shared, news, following, telling, runtime, replica })
    }

    /// This replica.
    pub(crate) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The replica of a name, if it runs and has told where it is.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<Replica>, LedgerError> {
        presence::find(&self.client, &self.layout, name).await
    }

    /// Who commits, as far as this replica knows.
    #[must_use]
    pub fn role(&self) -> watch::Receiver<Role> {
        self.shared.role()
    }

    /// Reads all records whose keys start with one of `prefixes`.
    pub(crate) async fn list_all(&self, prefixes: &[&str]) -> Result<Listed, LedgerError> {
        following::list(&self.client, &self.layout, prefixes).await
    }

    /// Follows what is committed after `listed`.
    pub(crate) async fn follow(&self, listed: &Listed) -> Result<Following, LedgerError> {
        following::follow(&self.client, &self.layout, listed).await
    }

    /// The last commit of this replica's present or last term.
    pub(crate) fn committed(&self) -> Revision {
        self.shared.committed()
    }

    /// Leaves committing to another replica for a while.
    pub(crate) async fn pass_on(&self) {
        // Without the driver there is no term.
        drop(self.requests.send(Request::PassOn).await);
    }

    /// The last commit, as most of etcd's members know it.
    pub(crate) async fn last(&self) -> Result<Revision, LedgerError> {
        following::last(&self.client, &self.layout).await
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.following.abort();
        self.telling.iter().for_each(AbortHandle::abort);
    }
}

impl Ledger for Etcd {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
        self.block_on(reading::records(&self.client, &self.layout, keys))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
        self.block_on(reading::list(&self.client, &self.layout, prefix))
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let (caller, answer) = oneshot::channel();
        let ended =
            || CommitError::Ledger(LedgerError::Unavailable { reason: "it has ended".to_owned() });
        self.block_on(async {
            let request = Request::Commit(transaction, caller);
            self.requests.send(request).await.map_err(|_| ended())?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        })
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        self.block_on(reading::journal(&self.client, &self.layout, after, limit))
    }

    fn fault(&self) -> Option<String> {
        self.shared.fault().map(|reason| LedgerError::Unavailable { reason }.to_string())
    }

    fn probe(&self) -> Result<(), LedgerError> {
        // The driver tries by itself whether a fault has passed.
        self.shared.fault().map_or(Ok(()), |reason| Err(LedgerError::Unavailable { reason }))
    }

    fn n_bytes(&self) -> u64 {
        self.shared.n_bytes()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.news.clone())
    }

    fn resign(&self) {
        let (caller, resigned) = oneshot::channel();
        self.block_on(async {
            if self.requests.send(Request::Resign(caller)).await.is_ok() {
                // The lease ends by itself, too.
                drop(tokio::time::timeout(RESIGN_PATIENCE, resigned).await);
            }
        });
    }
}
