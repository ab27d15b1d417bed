//! A small Kubernetes API server in memory: list, watch, bind, evict and lease over HTTP/1.1, and faults on demand.
//!
//! For the requests that Berth makes, responses equal those of a recorded kube-apiserver 1.36. Nothing else is
//! supported: JSON only, no authentication, no admission beyond defaults, no controllers, and a kubelet only on demand
//! ([`Store::set_auto_kubelet`]).
//!
//! ```text
//! connection → http → list · watch            → store (objects, versions, history)
//!                   → binding · eviction · …  →
//! ```
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use berth_fake_apiserver::{FakeApiServer, Options};
//! use serde_json::json;
//!
//! let server = FakeApiServer::start(Options::default()).await?;
//! server.store().create(json!({
//!     "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
//!     "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
//! }))?;
//! server.faults().cut_watches_after(1..=20);
//! println!("{}", server.url());
//! # Ok(())
//! # }
//! ```

mod server;
mod options;
mod store;
mod stored;
mod faults;
mod status;
mod resource;
mod target;
mod selector;
mod connection;
mod http;
mod call;
mod response;
mod discovery;
mod openapi;
mod protobuf;
mod validation;
mod table;
mod list;
mod watch;
mod write;
mod admission;
mod defaults;
mod condition;
mod patch;
mod binding;
mod deletion;
mod eviction;
mod event;
mod field;
mod clock;
mod micro_time;
mod kubelet;
mod overcommit;
pub mod cluster;

pub use faults::Faults;
pub use options::Options;
pub use server::FakeApiServer;
pub use status::{Cause, Details, Refusal};
pub use store::{Bound, Request, Store};
