//! The API-server feed: against recordings of a real API server, against a small one that misbehaves, and its manifests.

mod change;
mod compare;
mod faults;
mod feed;
mod kinds;
mod observer;
mod rbac;
mod recording;
mod recordings;
mod replay;
mod world;
