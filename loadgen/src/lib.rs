//! Load for a running Berth, through its public gRPC API only.
//!
//! ```text
//!   berth_synthetic ┐                     ┌─ unary · batch · stream
//!                   ├─► berth_client ───► │  load (arrival decides when)  ─► report: table · JSON · HTML
//!   trace ──────────┘                     └─ replay (one task at a time)  ─► recount, comparison
//! ```
//!
//! * [`trace`] reads recorded production traces and replays them;
//! * [`arrival`] says when a request is due, [`load`] sends it and measures its time;
//! * [`overload`] sends several times the load that a server can take;
//! * [`soak`] mixes all kinds of calls for a long time and recounts the cluster;
//! * [`report`] shows the measurements as text, JSON or a page.
//!
//! The crate `berth-client` makes the calls; the crate `berth-synthetic` makes clusters and pods.

pub mod arrival;
pub mod command;
pub mod load;
pub mod overload;
pub mod report;
pub mod soak;
pub mod trace;
