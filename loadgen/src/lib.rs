//! Load for a running Berth, through its public gRPC API only.
//!
//! ```text
//!   cluster ─┐                      ┌─ unary · batch · stream
//!   workload ┼─► client ── feed ──► │  load (arrival decides when)  ─► report: table · JSON · HTML
//!   trace ───┘                      └─ replay (one task at a time)  ─► recount, comparison
//! ```
//!
//! * [`cluster`] and [`workload`] make seeded synthetic clusters and pods to place;
//! * [`trace`] reads recorded production traces and replays them;
//! * [`client`] speaks `berth.v1`;
//! * [`arrival`] says when a request is due, [`load`] sends it and keeps the time;
//! * [`overload`] offers more than a server can take;
//! * [`soak`] does everything for a long time and recounts;
//! * [`report`] turns what was measured into text, JSON or a page.

pub mod arrival;
pub mod client;
pub mod cluster;
pub mod command;
pub mod load;
pub mod object;
pub mod overload;
pub mod report;
pub mod soak;
pub mod trace;
pub mod workload;
