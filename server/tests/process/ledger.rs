//! The ledger: what every implementation promises, files that are none, and simulated lives that end in crashes.

mod contract;
mod disk;
mod file;
pub(crate) mod replay;
mod simulation;
pub(crate) mod workload;
