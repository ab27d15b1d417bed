//! Berth's shell: everything that listens, waits, reads a clock or a file, around an engine that does none of it.
//!
//! ```text
//!  cli ──────► runtime ──► grpc  one service a file; handlers convert, call the engine, convert back
//!   │             ├──────► http  livez, readyz, healthz, metrics
//!   │             └──────► feed  files and streams become deltas; readiness and staleness
//!   └─► config: flags, BERTH_*, one YAML file, KubeSchedulerConfiguration → Policy
//! ```
//!
//! No rule of scheduling lives here: a decision is `berth_engine`'s, and this crate carries it.

pub mod runtime;
pub mod in_process;

pub mod grpc;
pub mod http;

pub mod feed;
pub mod apiserver;
pub mod extender;
pub mod scheduler;
pub mod expander;

pub mod ledger;

pub mod auth;
mod admission;
mod audit;

pub mod clock;
mod vital;
pub mod escape;
pub mod telemetry;

pub mod config;
pub mod lifecycle;
pub mod conformance;

pub mod cli;
