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
//! | `news` | notices changes of fences |
//! | `options` | [`EtcdOptions`] and the files of credentials |
//!
//! Reads ask etcd, at every replica. Changes that wait while a transaction is under way share the next one.

mod book;
mod committer;
mod driver;
mod layout;
mod news;
mod options;
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
use committer::{Role, Settings};
use driver::{Driver, Request};
use layout::Layout;
pub use options::{EtcdOptions, EtcdStartError};
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
    runtime: Handle,
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
        let EtcdOptions { prefix, name, lease, .. } = options;
        let layout = Layout::new(prefix);
        let shared = Arc::new(Shared::default());
        let (requests, asked) = mpsc::channel(MAX_REQUESTS);
        let settings = Settings { layout: layout.clone(), name: name.clone(), bounds };
        let first_revision = Box::new(first_revision);
        let driver = Driver::new(client.clone(), settings, *lease, first_revision, shared.clone());
        tokio::spawn(driver.run(asked));
        let (counting, news) = watch::channel(0);
        let following = tokio::spawn(news::follow(client.clone(), layout.clone(), counting));
        let (following, runtime) = (following.abort_handle(), Handle::current());
        Ok(Etcd { client, layout, requests, shared, news, following, runtime })
    }

    /// Whether this replica commits, as far as it knows.
    #[must_use]
    pub fn is_committer(&self) -> bool {
        self.shared.role() == Role::Committer
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.following.abort();
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
