//! Feeds: sources of the cluster's state, namely files, the API server, and the gRPC stream of `grpc/cluster/sync.rs`.
//! All produce engine deltas. This module has their shared parts: the errors of a feed, and the freshness of the
//! cluster.

pub mod file;
pub(crate) mod handed;
pub mod kube;
pub(crate) mod position;
mod sink;

pub(crate) use sink::{FeedSink, LONG_BATCH, LongWrite, LongWrites};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_proto::meta_v1;
use tokio::sync::watch;

use self::kube::Watches;
use self::position::Positions;
use crate::clock;

/// Reason why a whole source could not be read. A single bad object is never one of these: it is a [`file::Refused`].
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The file cannot be opened or read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// Name of the file as given; `-` is standard input.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file starts like gzip and is truncated or corrupt.
    #[error("cannot decompress `{path}`: {source}")]
    Gzip {
        /// Name of the file as given.
        path: String,
        /// The error in it.
        source: io::Error,
    },
    /// More than [`file::MAX_BYTES`] bytes after decompression.
    #[error("`{path}` holds more than {limit} bytes")]
    TooLarge {
        /// Name of the file as given.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The text is neither JSON nor YAML, truncated, or beyond the limits on nesting and aliases.
    #[error("{path}:{line}:{column}: {reason}")]
    Syntax {
        /// Name of the file as given.
        path: String,
        /// Line of the error, from 1.
        line: u64,
        /// Column of the error, from 1.
        column: u64,
        /// The error.
        reason: String,
    },
    /// No object in the files is of a kind that Berth reads: loaded as a cluster, the files would empty it.
    #[error(
        "nothing in {paths} is of a kind that is read; there are only others, such as `{kind}`"
    )]
    OtherKinds {
        /// Names of the files as given.
        paths: String,
        /// Name of the first kind in the files.
        kind: String,
    },
    /// The file contains no object at all.
    #[error("`{path}` holds no Kubernetes object")]
    Empty {
        /// Name of the file as given.
        path: String,
    },
}

/// Whether a feed has completed, and when the cluster was last updated or confirmed. Shared by all feeds; readers never
/// wait long.
#[derive(Debug, Default)]
pub struct Freshness {
    /// Whether a feed has delivered a whole cluster.
    fed: watch::Sender<bool>,
    /// Whether the cluster is complete: it was fed, and what was reserved in it before is there again.
    completed: watch::Sender<bool>,
    /// Whether reservations of earlier runs are still to be restored.
    is_restoring: Mutex<bool>,
    loading: AtomicBool,
    last: Mutex<Option<Instant>>,
    /// Watches of the API-server feed; if set, no other feed changes the cluster.
    watches: Mutex<Option<Arc<Watches>>>,
    positions: Positions,
}

/// Reason why the cluster cannot be used, or fed, now.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// Files are being read that will replace the cluster.
    #[error("the cluster is still being loaded")]
    Loading,
    /// The API server has not listed every kind yet.
    #[error("the API server has not listed everything yet; /readyz says what is missing")]
    Listing,
    /// The API server is the feed, and a cluster has only one.
    #[error("the cluster is read from its API server (`--kube`); nothing else may feed it")]
    FedByApiServer,
    /// The cluster was fed, and what was reserved in it before is not there yet.
    #[error("the reservations of earlier runs are being restored")]
    Restoring,
    /// Neither a file nor a client has fed the cluster: an empty one would look real.
    #[error("no feed has delivered a cluster yet")]
    NeverFed,
}

impl Freshness {
    /// Records that a feed applied a whole cluster, or independent deltas: from here on the server is ready, unless there
    /// are reservations to restore.
    pub fn note_applied(&self) {
        self.note_alive();
        let is_restoring = self.is_restoring.lock().unwrap_or_else(PoisonError::into_inner);
        turn_true(&self.fed);
        if !*is_restoring {
            turn_true(&self.completed);
        }
    }

    /// Records that reservations are to be restored once the cluster was fed. Returns the signal for that.
    pub(crate) fn begin_restore(&self) -> watch::Receiver<bool> {
        *self.is_restoring.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.fed.subscribe()
    }

    /// Checks that what was reserved before is there again, so that it can be confirmed or released.
    ///
    /// # Errors
    /// [`NotReady::Restoring`].
    pub(crate) fn check_restored(&self) -> Result<(), NotReady> {
        match *self.is_restoring.lock().unwrap_or_else(PoisonError::into_inner) {
            true => Err(NotReady::Restoring),
            false => Ok(()),
        }
    }

    /// Records that the reservations are restored.
    pub(crate) fn end_restore(&self) {
        let mut is_restoring = self.is_restoring.lock().unwrap_or_else(PoisonError::into_inner);
        *is_restoring = false;
        if *self.fed.borrow() {
            turn_true(&self.completed);
        }
    }

    /// How far the feed is.
    pub(crate) fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Records that a feed is alive although the cluster has not changed yet, as while a snapshot is being collected.
    pub fn note_alive(&self) {
        *self.lock() = Some(clock::now());
    }

    /// Records that files are being read: until [`Freshness::end_load`] no other feed may change the cluster, since its
    /// changes would be lost.
    pub fn begin_load(&self) {
        // Release and acquire: a reader that sees the end of a load sees what it published.
        self.loading.store(true, Ordering::Release);
    }

    /// Records that the files have been read, or cannot be.
    pub fn end_load(&self) {
        self.loading.store(false, Ordering::Release);
    }

    /// Records that the API server is the feed from now on.
    pub(crate) fn begin_watch(&self, watches: Arc<Watches>) {
        *self.watches.lock().unwrap_or_else(PoisonError::into_inner) = Some(watches);
        self.end_load();
    }

    /// State of the watches of the API server, if it is the feed.
    pub(crate) fn watches(&self) -> Option<Arc<Watches>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that a client may feed the cluster.
    ///
    /// # Errors
    /// [`NotReady::Loading`] while files are being read, for the first time or again; [`NotReady::FedByApiServer`]
    /// permanently.
    pub fn check_feedable(&self) -> Result<(), NotReady> {
        if self.watches().is_some() {
            return Err(NotReady::FedByApiServer);
        }
        if self.loading.load(Ordering::Acquire) { Err(NotReady::Loading) } else { Ok(()) }
    }

    /// Checks that pods may be decided on. Once the cluster was fed, they always may: while files are read again the
    /// old cluster is used.
    ///
    /// # Errors
    /// [`NotReady`], until the first feed completes.
    pub fn check_decidable(&self) -> Result<(), NotReady> {
        if self.is_complete() {
            return Ok(());
        }
        match self.check_feedable() {
            Ok(()) => {}
            Err(NotReady::FedByApiServer) if self.is_complete() => return Ok(()),
            Err(NotReady::FedByApiServer) if *self.fed.borrow() => {}
            Err(NotReady::FedByApiServer) => return Err(NotReady::Listing),
            Err(other) => return Err(other),
        }
        // A load, or a restore, may have ended between the two checks.
        match self.is_complete() {
            true => Ok(()),
            false if *self.fed.borrow() => Err(NotReady::Restoring),
            false => Err(NotReady::NeverFed),
        }
    }

    /// Whether any feed has completed since the start.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        *self.completed.borrow()
    }

    /// Signal that turns true when the first feed completes, and stays so.
    #[must_use]
    pub fn completed(&self) -> watch::Receiver<bool> {
        self.completed.subscribe()
    }

    /// Time since a feed last changed or confirmed the cluster; `None` before the first time. With the API server as
    /// the feed: since the watch that is silent for longest was last known to be alive.
    #[must_use]
    pub fn staleness(&self) -> Option<Duration> {
        let now = clock::now();
        if let Some(watches) = self.watches() {
            return self.is_complete().then(|| watches.staleness(now));
        }
        let last = (*self.lock())?;
        self.is_complete().then(|| now.saturating_duration_since(last))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        // A plain value: a panic elsewhere cannot leave it half written.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn turn_true(signal: &watch::Sender<bool>) {
    signal.send_if_modified(|is_true| !std::mem::replace(is_true, true));
}

/// Name of an object for messages: ``Pod `default/web-0` ``, ``Node `n1` ``, or the kind alone if it has no name.
pub(crate) fn object_name(kind: &str, metadata: Option<&meta_v1::ObjectMeta>) -> String {
    let (namespace, name) =
        metadata.map_or(("", ""), |metadata| (&metadata.namespace, &metadata.name));
    match (namespace, name) {
        (_, "") => kind.to_owned(),
        ("", name) => format!("{kind} `{name}`"),
        (namespace, name) => format!("{kind} `{namespace}/{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::kube::Pace;
    use super::*;

    #[test]
    fn feeding_and_deciding_wait_for_a_load() {
        let freshness = Freshness::default();
        assert_eq!(freshness.check_decidable(), Err(NotReady::NeverFed));
        assert_eq!(freshness.check_feedable(), Ok(()));
        freshness.begin_load();
        assert_eq!(freshness.check_decidable(), Err(NotReady::Loading));
        assert_eq!(freshness.check_feedable(), Err(NotReady::Loading));
        freshness.note_applied();
        freshness.end_load();
        assert_eq!((freshness.check_decidable(), freshness.check_feedable()), (Ok(()), Ok(())));
        freshness.begin_load();
        assert_eq!(freshness.check_decidable(), Ok(()), "the old cluster answers during a reload");
        assert_eq!(freshness.check_feedable(), Err(NotReady::Loading));
    }

    #[test]
    fn deciding_waits_for_what_was_reserved_before() {
        let freshness = Freshness::default();
        let fed = freshness.begin_restore();
        assert_eq!(freshness.check_decidable(), Err(NotReady::NeverFed));
        freshness.note_applied();
        assert!(*fed.borrow());
        assert_eq!(freshness.check_decidable(), Err(NotReady::Restoring));
        assert_eq!((freshness.check_feedable(), freshness.is_complete()), (Ok(()), false));
        assert_eq!(freshness.check_restored(), Err(NotReady::Restoring));
        freshness.end_restore();
        assert_eq!((freshness.check_decidable(), freshness.check_restored()), (Ok(()), Ok(())));
    }

    #[test]
    fn the_api_server_feeds_alone() {
        let freshness = Freshness::default();
        freshness.begin_load();
        freshness.begin_watch(Arc::new(Watches::new(Pace::default(), clock::now())));
        assert_eq!(freshness.check_feedable(), Err(NotReady::FedByApiServer));
        assert_eq!(freshness.check_decidable(), Err(NotReady::Listing));
        assert_eq!(freshness.staleness(), None);
        freshness.note_applied();
        assert_eq!(freshness.check_feedable(), Err(NotReady::FedByApiServer));
        assert_eq!(freshness.check_decidable(), Ok(()));
        assert!(freshness.staleness().is_some());
    }

    #[test]
    fn is_stale_only_after_a_feed_completed() {
        let freshness = Freshness::default();
        assert_eq!(freshness.staleness(), None);
        freshness.note_alive();
        assert!(!freshness.is_complete());
        assert_eq!(freshness.staleness(), None);
        freshness.note_applied();
        assert!(freshness.is_complete());
        assert!(freshness.staleness().is_some_and(|staleness| staleness < Duration::from_secs(60)));
    }
}
