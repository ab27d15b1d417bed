//! The API-server feed with recordings of a real API server, with a fake one that misbehaves, and its RBAC manifests.

mod change;
mod compare;
mod faults;
mod feed;
mod kinds;
mod observer;
mod rbac;
mod recording;
mod recordings;
mod renewal;
mod replay;
mod world;
