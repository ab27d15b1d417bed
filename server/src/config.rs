//! The service's configuration: what the operator decides with flags, `BERTH_*` variables and one file.
//!
//! Every option type lives with the room that reads it; this room fills them from the three sources.

pub mod audit;
pub mod auth;
pub mod expander;
pub mod extender;
pub mod file;
pub mod kube;
pub mod limits;
pub mod tls;
pub mod tracing;

pub use file::{Config, Overrides};
