//! Settings of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Settings with which a [`FakeApiServer`](crate::FakeApiServer) starts. [`Faults`](crate::Faults) can change later.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Interval of the bookmarks of a watch that requested them. The real server sends one a minute.
    pub bookmark_interval: Duration,
    /// Whether `sendInitialEvents` is supported. If not, the request is refused with 422 as by servers before 1.32, and
    /// a client has to fall back to list and watch.
    pub streaming_lists: bool,
    /// Number of events that are kept for each resource; a watch from an earlier version fails with 410 Expired.
    pub history: usize,
    /// Size of a watch's chunks in bytes. Waiting events share a chunk, and an event that does not fit spans two
    /// chunks. The recorded server uses 2,048.
    pub chunk_bytes: usize,
    /// Time that a list at a future version waits before it fails with 504. The real server waits 3 s.
    pub future_version_wait: Duration,
    /// Timeout of a watch without `timeoutSeconds`. The real server uses 30 to 60 minutes.
    pub watch_timeout: Duration,
    /// Factor of pods' grace periods; 0 removes deleted pods immediately
    /// ([`Store::set_auto_kubelet`](crate::Store::set_auto_kubelet)).
    pub grace_scale: f64,
    /// Whether an object can be created over HTTP only in an existing namespace, as in the real server (404 otherwise).
    pub namespaces_must_exist: bool,
    /// Whether a pod created over HTTP may name only existing priority classes, as in the real server (403 otherwise).
    pub priority_classes_must_exist: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            bookmark_interval: Duration::from_secs(1),
            streaming_lists: true,
            history: 200_000,
            chunk_bytes: 16 * 1024,
            future_version_wait: Duration::from_millis(50),
            watch_timeout: Duration::from_secs(1_800),
            grace_scale: 0.0,
            namespaces_must_exist: false,
            priority_classes_must_exist: false,
        }
    }
}
