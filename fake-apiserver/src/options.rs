//! What a server is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How a [`FakeApiServer`](crate::FakeApiServer) is set up; what may change later is in [`Faults`](crate::Faults).
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How often a watch that asked for bookmarks gets one. The real server sends one a minute.
    pub bookmark_interval: Duration,
    /// Whether `sendInitialEvents` is understood. Without it the request is refused as servers before 1.32 do (422),
    /// and a client has to fall back to list and watch.
    pub streaming_lists: bool,
    /// How many events of each resource are remembered; a watch from before them is 410 Expired.
    pub history: usize,
    /// The largest chunk of a watch in bytes. Events that wait share a chunk, and one that does not fit spans two, as
    /// the recorded server does at 2,048.
    pub chunk_bytes: usize,
    /// How long a list at a version from the future waits before its 504. The real server waits 3 s.
    pub future_version_wait: Duration,
    /// When a watch without `timeoutSeconds` ends. The real server takes 30 to 60 minutes.
    pub watch_timeout: Duration,
    /// Seconds a pod's grace period lasts for each second asked for; 0 removes it at once
    /// ([`Store::set_auto_kubelet`](crate::Store::set_auto_kubelet)).
    pub grace_scale: f64,
    /// Whether creating an object over HTTP in a namespace that is not there is 404, as it really is.
    pub namespaces_must_exist: bool,
    /// Whether a pod created over HTTP may name only priority classes that are there (403 otherwise, as it really is).
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
