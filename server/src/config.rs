//! Configuration of the service: flags, `BERTH_*` variables and one file.
//!
//! Every option type is declared in the room that uses it; this room fills the options from the three sources.

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
