//! Configuration of the service: flags, `BERTH_*` variables and one file.
//!
//! Every option type is declared in the room that uses it; this room fills the options from the three sources. A
//! setting has one entry, in the list of its section (`settings!`); settings without a section are in the list of
//! [`file`].

pub mod audit;
pub mod auth;
pub mod etcd;
pub mod expander;
pub mod extender;
pub mod file;
pub mod journal;
pub mod kube;
pub mod limits;
mod read;
mod settings;
pub mod tls;
pub mod tracing;
pub mod version;

pub use file::{Config, Overrides};
