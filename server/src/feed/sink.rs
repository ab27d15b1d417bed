//! Sink: the cluster that a feed writes to, with the feed's state for readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_engine::Cluster;

use super::Freshness;
use crate::critical_task::CriticalTasks;
use crate::telemetry::Metrics;

/// Target of a feed.
#[derive(Clone)]
pub(crate) struct FeedSink {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) freshness: Arc<Freshness>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) long_writes: LongWrites,
    pub(crate) critical_tasks: CriticalTasks,
}

/// Number of changes or pods from which on a batch is a long write: it leaves the reactor and is compiled on all cores.
pub(crate) const LONG_BATCH: usize = 64;

/// Long writes to the live cluster that are under way. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(crate) struct LongWrites(Arc<AtomicUsize>);

impl LongWrites {
    /// Marks a long write for as long as the guard lives.
    pub(crate) fn begin(&self) -> LongWrite {
        self.0.fetch_add(1, Ordering::Relaxed);
        LongWrite(self.0.clone())
    }

    /// Whether any is under way. A hint only: a write that starts just after it delays one answer, but never makes it
    /// wrong.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A long write under way.
pub(crate) struct LongWrite(Arc<AtomicUsize>);

impl Drop for LongWrite {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
