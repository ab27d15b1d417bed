//! The API-server feed: against recordings of a real API server, against a small one that misbehaves, and its manifests.
#![cfg(test)]

#[path = "kube/change.rs"]
mod change;
#[path = "kube/compare.rs"]
mod compare;
#[path = "kube/faults.rs"]
mod faults;
#[path = "kube/feed.rs"]
mod feed;
#[path = "kube/kinds.rs"]
mod kinds;
#[path = "kube/observer.rs"]
mod observer;
#[path = "kube/rbac.rs"]
mod rbac;
#[path = "kube/recording.rs"]
mod recording;
#[path = "kube/recordings.rs"]
mod recordings;
#[path = "kube/replay.rs"]
mod replay;
#[path = "kube/world.rs"]
mod world;
