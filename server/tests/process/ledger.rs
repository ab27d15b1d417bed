//! The ledger: the contract of every implementation, damaged files, and simulated lives that end in crashes.

mod contract;
mod disk;
mod file;
mod legacy;
pub(crate) mod replay;
mod simulation;
pub(crate) mod workload;
