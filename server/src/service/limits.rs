//! Limits on the requests of one caller.

use std::time::Duration;

use super::session_table::SessionLimits;
use crate::admission::LoadLimits;

/// Limits on the requests of one caller.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one received message.
    pub max_message_bytes: usize,
    /// Most pods of one `PlaceBatch` or `PlaceStream` request, replicas counted.
    pub max_pods_per_request: usize,
    /// Most objects of one `Sync` snapshot.
    pub max_snapshot_objects: usize,
    /// Time to live of an assumed pod if the request that assumes it names none; 0 means none.
    pub assume_ttl: Duration,
    /// Limits on what-if sessions, over all callers.
    pub sessions: SessionLimits,
    /// Limits on the calls under way.
    pub load: LoadLimits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_message_bytes: 64 << 20,
            max_pods_per_request: 100_000,
            max_snapshot_objects: 4_000_000,
            assume_ttl: Duration::from_secs(5 * 60),
            sessions: SessionLimits::default(),
            load: LoadLimits::default(),
        }
    }
}
